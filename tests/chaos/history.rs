//! What was observed in a run: every event with its moment, by whoever saw it. Compact, so that
//! half an hour of it fits into memory many times over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// A replica, host, farm or user by its number; `rds3` is the host with the number 2.
pub(super) type Replica = u8;
pub(super) type Host = u8;
pub(super) type Farm = u8;
pub(super) type User = u16;
/// A click on a connection.
pub(super) type Visit = u32;
/// A connection of a replica to guacd that was sent to a host.
pub(super) type Connection = u32;
/// An order for a host's mode.
pub(super) type OrderId = u32;

/// Microseconds since the epoch: the database's clock is the machine's, as ours is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Moment(pub(super) i64);

impl Moment {
    pub(super) const NEVER: Self = Self(i64::MAX);

    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self(since.as_micros().try_into().unwrap())
    }

    pub(super) fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    pub(super) fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }

    /// How long after an earlier moment it is; nothing where it is not.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }
}

fn micros(span: Duration) -> i64 {
    span.as_micros().try_into().unwrap_or(i64::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    Online,
    Drain,
    Maintenance,
}

impl Mode {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Drain => "drain",
            Self::Maintenance => "maintenance",
        }
    }
}

/// What is in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// The process stands still.
    Process,
    /// The database does not answer.
    Store,
}

/// Which hosts each farm has.
pub(super) type Members = BTreeMap<Farm, BTreeSet<Host>>;

/// What a lease record had of a host before somebody claimed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// A tunnel that never stood holds it.
    Claimed,
    /// A tunnel that stood holds it, or held it.
    Stood,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    // Guacamole's side.
    /// A user clicked.
    Clicked {
        visit: Visit,
        user: User,
        farm: Farm,
        replica: Replica,
    },
    Refused {
        visit: Visit,
        code: u16,
    },
    /// It was let down without a word: its replica is gone, or gave no answer in time.
    LetDown {
        visit: Visit,
    },
    /// The tunnel ended though its user stayed.
    Broken {
        visit: Visit,
    },
    // guacd's side: what is really so.
    /// guacd was sent to a host; `None`: to an address of none.
    Sent {
        connection: Connection,
        visit: Visit,
        replica: Replica,
        host: Option<Host>,
    },
    Stood {
        connection: Connection,
    },
    Closed {
        connection: Connection,
    },
    // The hosts' side.
    LoggedOn {
        host: Host,
        user: User,
    },
    LoggedOff {
        host: Host,
        user: User,
    },
    /// Its agent sent a report, and what became of it.
    Reported {
        host: Host,
        seq: u64,
        replica: Replica,
    },
    Answered {
        host: Host,
        seq: u64,
        taken: bool,
    },
    // What was done to the replicas.
    Up {
        replica: Replica,
    },
    Killed {
        replica: Replica,
    },
    /// It ended by itself.
    Died {
        replica: Replica,
        how: String,
    },
    /// It, or its way to the database, is in trouble; `None`: all of them.
    TroubleBegan {
        of: Trouble,
        replica: Option<Replica>,
    },
    TroubleEnded {
        of: Trouble,
        replica: Option<Replica>,
    },
    Ordered {
        order: OrderId,
        host: Host,
        mode: Mode,
        replica: Replica,
    },
    Acknowledged {
        order: OrderId,
    },
    /// A replica's files say this from now on.
    Written {
        replica: Replica,
        members: Arc<Members>,
    },
    /// What they say is in force.
    Applied {
        replica: Replica,
    },
    // What the database saw, in its order.
    Claimed {
        user: User,
        farm: Farm,
        host: Host,
        tunnel: Uuid,
        replica: Replica,
        until: Moment,
        before: Before,
    },
    Renewed {
        tunnel: Uuid,
        host: Host,
        until: Moment,
    },
    /// A tunnel left a lease; until when that lingers.
    Left {
        tunnel: Uuid,
        host: Host,
        lingers: Option<Moment>,
    },
    /// A host's last report was written.
    Kept {
        host: Host,
        boot: u64,
        seq: u64,
        replica: Replica,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) at: Moment,
    pub(super) what: What,
}

/// Where everybody writes down what they see.
#[derive(Debug, Default)]
pub(super) struct History {
    events: Mutex<Vec<Event>>,
}

impl History {
    pub(super) fn note(&self, what: What) {
        self.note_at(Moment::now(), what);
    }

    pub(super) fn note_at(&self, at: Moment, what: What) {
        self.events.lock().unwrap().push(Event { at, what });
    }

    /// All of it, in order of time; what one source saw stays in that source's order.
    pub(super) fn take(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock().unwrap());
        events.sort_by_key(|event| event.at);
        events
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_microsecond(self.0);
        match at {
            Ok(at) => write!(f, "{}", at.strftime("%H:%M:%S%.6f")),
            Err(_) => write!(f, "never"),
        }
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {:?}", self.at, self.what)
    }
}
