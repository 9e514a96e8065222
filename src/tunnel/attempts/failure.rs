//! What points at the host, and what has failed so far.

use std::collections::BTreeSet;
use std::fmt;

use guac_protocol::Status;

use crate::broker::Unexplained;
use crate::placement::HostId;

/// Whether this end of an attempt, before the RDP connection stood, points at
/// the host: what guacd says where it cannot reach it or loses it, or no word
/// at all, which is how a quick failure may come. Never a wrong password or a
/// locked account: tried on the next host they lock the user out.
pub(in crate::tunnel) fn blames(status: Option<u16>) -> bool {
    match status.map(Status::from_code) {
        None => true,
        Some(status) => matches!(
            status,
            Some(
                Status::UpstreamTimeout
                    | Status::UpstreamError
                    | Status::UpstreamNotFound
                    | Status::UpstreamUnavailable
            )
        ),
    }
}

/// How a host failed an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It did not answer our question, asked before guacd was sent there.
    NotThere(String),
    /// guacd said `error` or `disconnect`.
    Ended(Option<u16>),
    /// guacd was gone before it said either: a quick failure may come so, and
    /// so does the end of guacd itself.
    Lost,
    /// guacd said nothing for long, and the host answers our question no more.
    Died(String),
}

impl Failure {
    /// Whether guacd left the reason open. A host that answers may have been
    /// let down by what the user said, a password among it.
    pub(super) fn is_errorless(&self) -> bool {
        matches!(self, Self::Ended(None) | Self::Lost)
    }

    /// The number of guacd's `error`.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Ended(status) => *status,
            Self::NotThere(_) | Self::Lost | Self::Died(_) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(why) => write!(f, "does not answer: {why}"),
            Self::Ended(Some(status)) => match Status::from_code(*status) {
                Some(name) => write!(f, "error {status} {name}"),
                None => write!(f, "error {status}"),
            },
            Self::Ended(None) => f.write_str("ended without an error"),
            Self::Lost => f.write_str("ended without a word"),
            Self::Died(why) => write!(f, "silent, and does not answer: {why}"),
        }
    }
}

/// What a tunnel has behind it.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// The hosts that failed it.
    pub(super) hosts: BTreeSet<HostId>,
    /// Those of them that guacd was sent to.
    visited: BTreeSet<HostId>,
    /// The last of them.
    last: Option<HostId>,
    /// What guacd said of it.
    status: Option<u16>,
    /// The attempt that ended without a word, until guacd is heard again: one
    /// that dies takes its attempts along, whatever host they were for.
    unexplained: Option<Unexplained>,
    /// Attempts that ended without an error though their host answered.
    errorless: u32,
}

/// Most attempts that may end without an error at hosts that answer: a wrong
/// password that is tried more often locks its account.
const ERRORLESS: u32 = 2;

impl Tried {
    pub(super) fn add(&mut self, host: &HostId, failure: &Failure) {
        self.hosts.insert(host.clone());
        if !matches!(failure, Failure::NotThere(_)) {
            self.visited.insert(host.clone());
        }
        self.last = Some(host.clone());
        self.status = failure.status();
    }

    /// Holds this attempt against its host once guacd is heard again.
    pub(super) fn suspect(&mut self, attempt: Option<Unexplained>) {
        self.unexplained = attempt;
    }

    /// guacd is well: what ended without a word was not its fault.
    pub(super) fn guacd_is_well(&mut self) {
        if let Some(attempt) = self.unexplained.take() {
            attempt.failed();
        }
    }

    /// The attempt ended without an error; `answers`: its host answers still.
    pub(super) fn ended_without_an_error(&mut self, answers: bool) {
        self.errorless += u32::from(answers);
    }

    /// Whether what the user said may be why nothing stands, so that it is not
    /// said once more.
    pub(super) fn may_be_the_user(&self) -> bool {
        self.errorless >= ERRORLESS
    }

    pub(super) fn is_first(&self) -> bool {
        self.hosts.is_empty()
    }

    /// How many hosts guacd was sent to: one that only our question found dead
    /// cost the user a moment and nobody anything else.
    pub(super) fn visits(&self) -> usize {
        self.visited.len()
    }

    /// Whether this host failed the tunnel already.
    pub(super) fn has(&self, host: &HostId) -> bool {
        self.hosts.contains(host)
    }

    /// What guacd said of the last host.
    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    /// Their names, the last one at the end.
    pub(super) fn names(&self) -> String {
        let last = self.last.iter();
        let others = self
            .hosts
            .iter()
            .filter(|host| Some(*host) != self.last.as_ref());
        let names: Vec<_> = others.chain(last).map(HostId::as_str).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_speaks_of_the_host_blames_it() {
        let blaming = |code| blames(Some(code));
        let all: Vec<_> = (0..0x400).filter(|code| blaming(*code)).collect();
        assert_eq!(all, [0x202, 0x203, 0x207, 0x208]);
        assert!(blames(None));
    }

    #[test]
    fn the_last_host_is_named_last_and_its_word_counts() {
        let mut tried = Tried::default();
        assert!(tried.is_first());
        tried.add(&"b".into(), &Failure::Ended(Some(519)));
        tried.add(&"a".into(), &Failure::Ended(None));
        tried.add(&"b".into(), &Failure::Ended(Some(515)));
        assert_eq!(
            (tried.names().as_str(), tried.status()),
            ("a, b", Some(515))
        );
        assert!(tried.has(&"a".into()) && !tried.has(&"c".into()));
        tried.add(&"a".into(), &Failure::NotThere("refused".to_owned()));
        assert_eq!((tried.names().as_str(), tried.status()), ("b, a", None));
        assert_eq!(tried.visits(), 2);
    }

    #[test]
    fn a_second_end_without_an_error_is_the_last_where_hosts_answer() {
        assert!(Failure::Ended(None).is_errorless() && Failure::Lost.is_errorless());
        assert!(!Failure::Ended(Some(519)).is_errorless());
        let mut tried = Tried::default();
        for (answers, is_over) in [(false, false), (true, false), (false, false), (true, true)] {
            tried.ended_without_an_error(answers);
            assert_eq!(tried.may_be_the_user(), is_over);
        }
    }

    #[test]
    fn who_was_only_asked_is_no_visit() {
        let mut tried = Tried::default();
        tried.add(&"a".into(), &Failure::NotThere("refused".to_owned()));
        assert!(tried.has(&"a".into()));
        assert_eq!(tried.visits(), 0);
        tried.add(&"b".into(), &Failure::Died("no answer".to_owned()));
        tried.add(&"b".into(), &Failure::Ended(None));
        assert_eq!(tried.visits(), 1);
    }
}
