//! What happened in all, so that nobody takes an empty simulation for a clean
//! one.

use std::collections::BTreeMap;
use std::fmt;

/// Counts over one day or many.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) days: usize,
    pub(super) steps: usize,
    pub(super) decisions: usize,
    pub(super) outcomes: BTreeMap<&'static str, usize>,
    pub(super) reports: usize,
    pub(super) stood: usize,
    pub(super) never_stood: usize,
    pub(super) troubles: usize,
    pub(super) restarts: usize,
}

impl Tally {
    pub(super) fn decided(&mut self, outcome: &'static str) {
        self.decisions += 1;
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    pub(super) fn happened(&mut self, what: &'static str) {
        *self.outcomes.entry(what).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.days += 1;
        self.steps += other.steps;
        self.decisions += other.decisions;
        self.reports += other.reports;
        self.stood += other.stood;
        self.never_stood += other.never_stood;
        self.troubles += other.troubles;
        self.restarts += other.restarts;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            days,
            steps,
            decisions,
            reports,
            stood,
            never_stood,
            troubles,
            restarts,
            outcomes,
        } = self;
        writeln!(
            f,
            "{days} days, {steps} steps, {decisions} decisions, {reports} reports"
        )?;
        writeln!(
            f,
            "{stood} tunnels stood, {never_stood} did not; {troubles} troubles, {restarts} restarts among them"
        )?;
        for (outcome, count) in outcomes {
            writeln!(f, "{count:>9} {outcome}")?;
        }
        Ok(())
    }
}
