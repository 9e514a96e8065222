//! Whether users may be sent to us, and what of it all is not as it should be.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::Health;
use crate::placement::{HostId, Reach, reach};

/// How our parts are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found(Vec<(&'static str, State)>);

/// How one part is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Well,
    /// Well, and what there is to know besides.
    Busy(String),
    /// Not well, and no reason to send users elsewhere.
    Degraded(String),
    /// Users are better sent elsewhere.
    Unready(&'static str),
}

impl Health {
    /// How everything is at this moment. Names neither users nor addresses:
    /// whoever reaches the port may read it.
    pub(super) fn look(&self) -> Found {
        Found(vec![
            ("listeners", self.listeners()),
            ("configuration", self.configuration()),
            ("store", self.store()),
            ("guacd", self.guacd()),
            ("limits", self.limits()),
            ("hosts", self.hosts()),
            ("certificates", self.certificates()),
        ])
    }

    fn listeners(&self) -> State {
        if self.stop.is_cancelled() {
            State::Unready("shutting down")
        } else if !self.listening.load(Ordering::Relaxed) {
            State::Unready("not started yet")
        } else {
            State::Well
        }
    }

    fn configuration(&self) -> State {
        let state = self.reload.as_ref().map(|reload| reload.state());
        match state.filter(|state| !state.is_ok()) {
            None => State::Well,
            Some(state) => State::Degraded(format!(
                "the files have faults; generation {} stays in force",
                state.generation
            )),
        }
    }

    fn guacd(&self) -> State {
        let standings = self.pool.standings(&self.config.get().guacd);
        let aside = standings.iter().filter(|it| it.aside.is_some()).count();
        match self.metrics.is_guacd_up() {
            true if aside > 0 => State::Degraded(format!(
                "{aside} of {} could not be dialled and are put aside",
                standings.len()
            )),
            true => State::Well,
            false => State::Degraded("it could not be reached when last dialled".to_owned()),
        }
    }

    fn limits(&self) -> State {
        let strains = self.limits.load().strains();
        match strains.is_empty() {
            true => State::Well,
            false => State::Degraded(strains.join("; ")),
        }
    }

    fn hosts(&self) -> State {
        let (snapshot, now) = (self.fleet.snapshot(), self.clock.now());
        let all = snapshot.directory.hosts().count();
        let mut hosts = snapshot.directory.hosts();
        // As placements see them: the silence of a whole farm is no host's fault.
        let is_reached = |id: &HostId| reach(&snapshot, id, now).is_some_and(Reach::is_good);
        match all == 0 || hosts.any(|host| is_reached(&host.id)) {
            true => State::Well,
            false => State::Degraded(format!("none of {all} can be reached")),
        }
    }
}

impl Health {
    fn certificates(&self) -> State {
        let (standings, now) = (self.certificates.standings(), self.clock.now());
        if standings.iter().any(|it| it.not_after <= now) {
            State::Degraded("one has run out".to_owned())
        } else if standings.iter().any(|it| it.last_error.is_some()) {
            State::Degraded("a file cannot be used; the one before stays in force".to_owned())
        } else {
            State::Well
        }
    }
}

impl Found {
    /// Whether users may be sent here.
    pub(super) fn is_ready(&self) -> bool {
        let mut states = self.0.iter();
        !states.any(|(_, state)| matches!(state, State::Unready(_)))
    }

    /// In a line; `verbose`: in a line for each part, as well.
    pub(super) fn tell(&self, verbose: bool) -> String {
        let mut text = String::new();
        if verbose {
            for (part, state) in &self.0 {
                let told = match state {
                    State::Well => writeln!(text, "{part}: ok"),
                    State::Busy(facts) => writeln!(text, "{part}: ok: {facts}"),
                    State::Degraded(why) => writeln!(text, "{part}: degraded: {why}"),
                    State::Unready(why) => writeln!(text, "{part}: not ready: {why}"),
                };
                // Text takes whatever is written.
                let _ = told;
            }
        }
        text.push_str(&self.summary());
        text.push('\n');
        text
    }

    fn summary(&self) -> String {
        let mut states = self.0.iter();
        let unready = states.find_map(|(_, state)| match state {
            State::Unready(why) => Some(*why),
            State::Well | State::Busy(_) | State::Degraded(_) => None,
        });
        let degraded = self.0.iter();
        let degraded = degraded.filter(|(_, state)| matches!(state, State::Degraded(_)));
        let degraded: Vec<_> = degraded.map(|(part, _)| *part).collect();
        match (unready, degraded.is_empty()) {
            (Some(why), _) => format!("not ready: {why}"),
            (None, true) => "ready".to_owned(),
            (None, false) => format!("ready, degraded: {}", degraded.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_degraded_is_named_and_only_what_is_unready_turns_users_away() {
        let degraded = || State::Degraded("it fails".to_owned());
        let found = Found(vec![("listeners", State::Well), ("store", degraded())]);
        assert!(found.is_ready());
        assert_eq!(found.tell(false), "ready, degraded: store\n");
        assert_eq!(
            found.tell(true),
            "listeners: ok\nstore: degraded: it fails\nready, degraded: store\n"
        );
        let stopping = State::Unready("shutting down");
        let found = Found(vec![("store", degraded()), ("listeners", stopping)]);
        assert!(!found.is_ready());
        assert_eq!(found.tell(false), "not ready: shutting down\n");
        let found = Found(vec![("store", State::Well)]);
        assert_eq!(found.tell(false), "ready\n");
    }
}
