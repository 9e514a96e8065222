//! The fixed words that stand in labels.

use super::Label;
use crate::placement::{Outcome, Refusal};

/// A phase of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// From Guacamole's first byte to its whole `select`.
    Select,
    /// Dialling guacd, and its `args`.
    Args,
    /// Guacamole's time to its whole `connect`.
    Connect,
    /// What guacd will be told: the placement, if it is one.
    Placement,
    /// guacd's time to `ready`: the connection to the host is being opened.
    Ready,
}

impl Phase {
    pub(super) const ALL: [Self; 5] = [
        Self::Select,
        Self::Args,
        Self::Connect,
        Self::Placement,
        Self::Ready,
    ];

    pub(super) fn label(self) -> Label {
        let word = match self {
            Self::Select => "select",
            Self::Args => "args",
            Self::Connect => "connect",
            Self::Placement => "placement",
            Self::Ready => "ready",
        };
        ("phase", word)
    }
}

/// What came of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed {
    /// RDP answered.
    Answered,
    /// It did not, or not in time.
    Failed,
    /// This machine lacked what it takes to ask.
    NotAsked,
}

impl Probed {
    pub(super) const ALL: [Self; 3] = [Self::Answered, Self::Failed, Self::NotAsked];

    pub(super) fn label(self) -> Label {
        let word = match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::NotAsked => "not-asked",
        };
        ("result", word)
    }
}

/// What came of one attempt at a desktop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempted {
    /// The RDP connection stood.
    Stood,
    /// Not known when the page was given over to guacd: nobody was to be tried
    /// after this one, or guacd's own word counted.
    Released,
    /// The host did not answer our question before guacd was sent there.
    NotThere,
    /// guacd could not reach the host, or lost it.
    Failed,
    /// Silence, and then no answer to our question any more.
    Died,
    /// The placement did not hold any more when guacd was to be told.
    Void,
    /// Guacamole left, guacd failed, or it was told to end.
    Stopped,
}

impl Attempted {
    pub(super) const ALL: [Self; 7] = [
        Self::Stood,
        Self::Released,
        Self::NotThere,
        Self::Failed,
        Self::Died,
        Self::Void,
        Self::Stopped,
    ];

    pub(super) fn label(self) -> Label {
        ("result", self.word())
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stood => "stood",
            Self::Released => "released",
            Self::NotThere => "not-there",
            Self::Failed => "failed",
            Self::Died => "died",
            Self::Void => "void",
            Self::Stopped => "stopped",
        }
    }
}

/// A call of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A lease record is read.
    Read,
    /// A lease record is written, where nobody wrote in between.
    Replace,
    /// Some lease records are listed.
    List,
    /// Decisions are written.
    KeepDecisions,
    /// One decision is read.
    ReadDecision,
    /// Some decisions are listed.
    ListDecisions,
    /// Old decisions are removed.
    PruneDecisions,
    /// One document is read.
    ReadDocument,
    /// The documents of a kind are listed.
    ListDocuments,
    /// Documents are written, where nobody wrote in between.
    EditDocuments,
    /// What others changed is read.
    Changes,
}

impl Operation {
    pub(super) const ALL: [Self; 11] = [
        Self::Read,
        Self::Replace,
        Self::List,
        Self::KeepDecisions,
        Self::ReadDecision,
        Self::ListDecisions,
        Self::PruneDecisions,
        Self::ReadDocument,
        Self::ListDocuments,
        Self::EditDocuments,
        Self::Changes,
    ];

    pub(super) fn label(self) -> Label {
        let word = match self {
            Self::Read => "read",
            Self::Replace => "replace",
            Self::List => "list",
            Self::KeepDecisions => "keep-decisions",
            Self::ReadDecision => "read-decision",
            Self::ListDecisions => "list-decisions",
            Self::PruneDecisions => "prune-decisions",
            Self::ReadDocument => "read-document",
            Self::ListDocuments => "list-documents",
            Self::EditDocuments => "edit-documents",
            Self::Changes => "changes",
        };
        ("operation", word)
    }

    pub(super) fn is_write(self) -> bool {
        matches!(
            self,
            Self::Replace | Self::KeepDecisions | Self::PruneDecisions | Self::EditDocuments
        )
    }

    pub(super) fn is_poll(self) -> bool {
        matches!(self, Self::Changes)
    }

    /// What may come of it.
    pub(super) fn results(self) -> &'static [Stored] {
        match self {
            Self::Replace | Self::EditDocuments => {
                &[Stored::Done, Stored::Conflict, Stored::Failed]
            }
            _ => &[Stored::Done, Stored::Failed],
        }
    }
}

/// What came of a call of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It was done.
    Done,
    /// Somebody wrote in between.
    Conflict,
    /// The store failed.
    Failed,
}

impl Stored {
    pub(super) fn label(self) -> Label {
        let word = match self {
            Self::Done => "done",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
        };
        ("result", word)
    }
}

/// Why a placement came to nothing, whatever was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It took longer than its budget.
    TimedOut,
    /// The store cannot be asked.
    Store,
    /// guacd lacks a parameter that must be set.
    MissingParameter,
}

/// What came of a decision.
pub(super) fn result(outcome: Option<&Outcome>, cause: Option<Cause>, acted: bool) -> &'static str {
    match (outcome, cause, acted) {
        // It waited for room until its time was up.
        (Some(Outcome::Refused(_)), Some(Cause::TimedOut), true) => "refused",
        (None, _, true) | (_, Some(_), true) => "failed",
        (Some(Outcome::Placed(_)), None, true) => "placed",
        (Some(Outcome::Refused(_)), None, true) => "refused",
        (Some(Outcome::Unmatched), None, true) => "passed-through",
        (None, _, false) | (_, Some(_), false) => "would-fail",
        (Some(Outcome::Placed(_)), None, false) => "would-place",
        (Some(Outcome::Refused(_)), None, false) => "would-refuse",
        (Some(Outcome::Unmatched), None, false) => "would-pass-through",
    }
}

/// Why a user went nowhere; `None` where they did not.
pub(super) fn reason(outcome: Option<&Outcome>, cause: Option<Cause>) -> Option<&'static str> {
    Some(match (cause, outcome) {
        (None | Some(Cause::TimedOut), Some(Outcome::Refused(refusal))) => refused(refusal),
        (Some(Cause::TimedOut), _) => "timed-out",
        (Some(Cause::Store), _) => "store",
        (Some(Cause::MissingParameter), _) => "missing-parameter",
        (None, Some(Outcome::Placed(_) | Outcome::Unmatched) | None) => return None,
    })
}

/// A refusal in a word.
pub fn refused(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::BadSelector(_) => "bad-selector",
        Refusal::FarmSelectorNotAllowed => "farm-selector-not-allowed",
        Refusal::UnknownResource => "unknown-resource",
        Refusal::CarriersDisagree => "carriers-disagree",
        Refusal::AmbiguousResource(..) => "ambiguous-resource",
        Refusal::ResourceDisabled(_) => "resource-disabled",
        Refusal::NoFarm => "no-farm",
        Refusal::UnknownFarm(_) => "unknown-farm",
        Refusal::FarmDisabled(_) => "farm-disabled",
        Refusal::EmptyFarm(_) => "empty-farm",
        Refusal::HeldElsewhere(_) => "held-elsewhere",
        Refusal::Unmatched => "unmatched",
        Refusal::LoginMismatch => "login-mismatch",
        Refusal::TooManyTunnels => "too-many-tunnels",
        Refusal::LogonsPending(_) => "logons-pending",
        Refusal::Busy(_) => "busy",
        Refusal::Unreachable(_) => "unreachable",
    }
}
