//! A host in figures, counted anew from what was reported and from the
//! shadow's own seats.

use std::collections::BTreeSet;
use std::time::Duration;

use sessionguard::placement::{
    HostId, HostView, Mode, Probe, Session, SessionState, Timestamp, UserKey, Weights,
};

use super::ask::Who;
use super::breaker::Gate;
use super::model::{Model, Seat};
use super::scene::Scene;

const MINUTE: Duration = Duration::from_secs(60);

/// One host, at one moment.
pub(super) struct Figures<'a> {
    pub(super) view: &'a HostView,
    seats: Vec<&'a Seat>,
    model: &'a Model,
    host: &'a HostId,
    pub(super) mode: Mode,
    turned_online: Option<Timestamp>,
    now: Timestamp,
}

/// Whether new sessions reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Good,
    /// Nothing new is heard of it, and that is not its fault.
    LastKnown,
    NeverHeard,
    Silent,
    Dead,
}

/// Domain and user of a reported session.
pub(super) fn name(user: &UserKey) -> Who {
    let domain = user.domain().unwrap_or_default();
    (domain.to_owned(), user.user().to_owned())
}

/// Whether a reported session is this user's: a session without a domain
/// goes by the user alone.
pub(super) fn is_of(who: &Who, session: &Session) -> bool {
    let (domain, user) = who;
    session.user.user() == user && session.user.domain().is_none_or(|d| d == domain)
}

impl<'a> Figures<'a> {
    pub(super) fn of(
        model: &'a Model,
        host: &'a HostId,
        view: &'a HostView,
        now: Timestamp,
    ) -> Self {
        let (mode, turned_online) = model.mode(host, now);
        Self {
            mode,
            turned_online,
            view,
            seats: model.open_on(host),
            model,
            host,
            now,
        }
    }

    pub(super) fn sessions(&self) -> &'a [Session] {
        self.view.report.as_ref().map_or(&[], |r| &r.sessions)
    }

    /// How long probes have failed, unless a tunnel that stood meanwhile tells
    /// that only their way is blocked.
    fn dead_for(&self) -> Option<Duration> {
        let Probe::Failing { since } = self.view.probe else {
            return None;
        };
        let proof = self
            .seats
            .iter()
            .any(|s| s.stood.is_some_and(|at| at >= since));
        (!proof).then(|| self.now.since(since))
    }

    /// `excused`: an agent that is not heard proves nothing.
    pub(super) fn signal(&self, scene: &Scene, excused: bool) -> Signal {
        if self.dead_for().is_some() {
            return Signal::Dead;
        }
        match &self.view.report {
            Some(r) if self.now.since(r.received) <= scene.rules.offline_after => Signal::Good,
            Some(_) if excused && self.view.probe != Probe::Unknown => Signal::LastKnown,
            Some(_) => Signal::Silent,
            None if self.view.probe == Probe::Unknown => Signal::NeverHeard,
            None => Signal::Good,
        }
    }

    /// Whether its breaker keeps newcomers out: it is open, or somebody tries
    /// already.
    pub(super) fn barred(&self) -> bool {
        let tries = |seat: &&'a Seat| seat.stood.is_none() && self.now.since(seat.since) < MINUTE;
        match self.model.gate(self.host, self.now) {
            Gate::Closed => false,
            Gate::Half => self.seats.iter().any(tries),
            Gate::Open => true,
        }
    }

    /// Whether its agent is heard.
    pub(super) fn is_heard(&self, scene: &Scene) -> bool {
        let report = self.view.report.as_ref();
        report.is_some_and(|r| self.now.since(r.received) <= scene.rules.offline_after)
    }

    /// Whether somebody who belongs here is still sent here.
    pub(super) fn takes_back(&self, scene: &Scene) -> bool {
        self.dead_for()
            .is_none_or(|span| span < scene.rules.reconnect_failover)
    }

    fn shows(&self, who: &Who) -> bool {
        self.sessions().iter().any(|session| is_of(who, session))
    }

    /// Users on it, each once.
    pub(super) fn users(&self) -> usize {
        let mut names: BTreeSet<Who> = self.sessions().iter().map(|s| name(&s.user)).collect();
        let unseen = self
            .seats
            .iter()
            .filter_map(|s| s.who())
            .filter(|who| !self.shows(who));
        names.extend(unseen.cloned());
        names.len() + self.seats.iter().filter(|s| s.who().is_none()).count()
    }

    /// Logons under way, as far as one can tell, one user's together being one.
    pub(super) fn pending(&self) -> u32 {
        let pending = self.seats.iter().filter(|seat| {
            let arrived = match self.view.report {
                Some(_) => seat.who().is_some_and(|who| self.shows(who)),
                None => seat.stood.is_some(),
            };
            !arrived && self.now.since(seat.since) < MINUTE
        });
        let (named, unnamed): (Vec<_>, Vec<_>) =
            pending.map(|seat| seat.who()).partition(Option::is_some);
        let users: BTreeSet<_> = named.into_iter().collect();
        u32::try_from(users.len() + unnamed.len()).unwrap()
    }

    /// How many logons may be under way now.
    pub(super) fn pending_cap(&self, most: u32, slow_start: Duration) -> u32 {
        let since = self.view.usable_since.max(self.turned_online);
        let passed = since.map(|since| self.now.since(since));
        match passed {
            Some(passed) if passed < slow_start => {
                let grown = u128::from(most.saturating_sub(1)) * passed.as_millis();
                let grown = grown / slow_start.as_millis();
                u32::try_from(grown + 1).unwrap().min(most)
            }
            _ => most,
        }
    }

    pub(super) fn cpu(&self) -> Option<f64> {
        sane(self.view.report.as_ref()?.cpu_percent)
    }

    pub(super) fn memory(&self) -> Option<f64> {
        sane(self.view.report.as_ref()?.memory_used_percent)
    }

    pub(super) fn health(&self) -> u8 {
        self.view.report.as_ref().map_or(100, |r| r.health.min(100))
    }

    /// Active and disconnected sessions, as the score counts them.
    pub(super) fn load(&self) -> (i64, i64) {
        let disconnected = |s: &&Session| s.state == SessionState::Disconnected;
        let left = self.sessions().iter().filter(disconnected).count();
        let in_use = self.sessions().len() - left;
        let left_behind = match self.view.report {
            Some(_) => 0,
            None => self.model.left_behind(self.host, self.now),
        };
        let (mut active, mut left) = (whole(in_use), whole(left + left_behind));
        let mut counted = BTreeSet::new();
        for seat in &self.seats {
            let had_its_time = seat.stood.is_some_and(|at| self.now.since(at) >= MINUTE);
            if self.view.report.is_some() && had_its_time {
                continue;
            }
            let Some(who) = seat.who() else {
                active += 1;
                continue;
            };
            if !counted.insert(who) {
                continue;
            }
            let theirs: Vec<_> = self.sessions().iter().filter(|s| is_of(who, s)).collect();
            if theirs.iter().all(disconnected) {
                active += 1;
                // Back to a session that was left.
                left -= i64::from(!theirs.is_empty()).min(left);
            }
        }
        (active, left)
    }

    /// The score of that load; an unknown figure is the mean of the known.
    pub(super) fn score(
        &self,
        (active, left): (i64, i64),
        weights: &Weights,
        (cpu, memory): (f64, f64),
    ) -> f64 {
        let load = active * i64::from(weights.active) + left * i64::from(weights.disconnected);
        let health = i64::from(self.health()) * i64::from(weights.health);
        f64::from(i32::try_from(health - load).unwrap())
            - self.cpu().unwrap_or(cpu) * f64::from(weights.cpu)
            - self.memory().unwrap_or(memory) * f64::from(weights.memory)
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}

/// A percentage that means something.
fn sane(percent: Option<f64>) -> Option<f64> {
    let number = percent.filter(|p| p.is_finite());
    number.map(|p| p.clamp(0.0, 100.0))
}

/// The mean of what is known; zero where nothing is.
pub(super) fn mean(known: impl Iterator<Item = f64>) -> f64 {
    let known: Vec<_> = known.collect();
    if known.is_empty() {
        return 0.0;
    }
    known.iter().sum::<f64>() / f64::from(u32::try_from(known.len()).unwrap())
}
