//! Judges a history: which events contradict which invariant. It knows what was observed and what
//! must hold, and nothing of how the broker works.
//!
//! guacd's side is the truth about who was where: a connection to guacd lasts until guacd saw it
//! close, or until its replica was killed, whose sockets died with it. The database's side says in
//! which order claims were written. Where an invariant speaks of what a replica may know, it is
//! held to it only while nothing kept it from knowing.

mod admission;
mod leases;
mod one_host;
mod picture;
mod reports;
mod tests;
mod words;

use std::fmt;
use std::time::Duration;

use super::history::Event;
use picture::Picture;

/// What the configuration says that is judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Most users on one host, for new sessions.
    pub(super) max_sessions: usize,
    /// How long a lease lingers.
    pub(super) lease: Duration,
}

/// An invariant, and the events that contradict it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Violation {
    pub(super) invariant: &'static str,
    pub(super) says: String,
    pub(super) events: Vec<Event>,
}

/// Everything in a history that must not have happened.
pub(super) fn judge(events: &[Event], rules: &Rules) -> Vec<Violation> {
    let picture = Picture::of(events);
    let mut found = one_host::judge(&picture);
    found.extend(admission::judge(&picture, rules));
    found.extend(leases::judge(&picture, rules));
    found.extend(reports::judge(&picture));
    found.extend(words::judge(&picture));
    found
}

impl Violation {
    fn of(invariant: &'static str, says: impl Into<String>) -> Self {
        Self {
            invariant,
            says: says.into(),
            events: Vec::new(),
        }
    }

    fn with<'a>(mut self, events: impl IntoIterator<Item = &'a Event>) -> Self {
        self.events.extend(events.into_iter().cloned());
        self.events.sort_by_key(|event| event.at);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.invariant, self.says)?;
        for event in &self.events {
            writeln!(f, "    {event}")?;
        }
        Ok(())
    }
}
