//! Who may be placed on a host: the mode it is configured with, and the orders
//! of administrators, which win over it.
//!
//! An order stands until the next one, or holds for a time. A mode is worked
//! out from the orders and the moment asked about, so that it comes and goes on
//! time without anything being awake, across restarts too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// Orders of a time that one host may have at most.
pub const MOST_TIMED: usize = 16;

/// Who may be placed on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everybody.
    #[default]
    Online,
    /// Returning users only; running tunnels untouched.
    Drain,
    /// Nobody; running tunnels untouched.
    Maintenance,
}

/// Who did something to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Actor {
    /// A user of the machine we run on.
    User {
        /// As the system knows the user; `None` where it could not tell.
        uid: Option<u32>,
        /// As people do; `None` for a user without a name.
        name: Option<String>,
    },
    /// The holder of a key.
    Key {
        /// The key's id, which is public.
        id: String,
    },
}

impl Actor {
    /// The number of a user of this machine, where it is one that is known.
    pub fn uid(&self) -> Option<u32> {
        match self {
            Self::User { uid, .. } => *uid,
            Self::Key { .. } => None,
        }
    }

    /// The name of a user of this machine, where there is one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::User { name, .. } => name.as_deref(),
            Self::Key { .. } => None,
        }
    }
}

/// What an administrator wants a host's mode to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The mode.
    pub mode: Mode,
    /// Who gave the order.
    pub by: Actor,
    /// Why, for administrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What users may be told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was given.
    pub at: Timestamp,
    /// When it begins to hold; `None`: when it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// When it holds no more; `None`: it does until another one ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the host is to be restarted once nobody is on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart_when_drained: bool,
    /// Whether it is to be online after that restart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub online_after_restart: bool,
}

/// The orders given for one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Orders {
    /// The one that holds where none of a time does.
    standing: Option<Arc<Order>>,
    // INVARIANT: no two hold at one moment; in the order they begin in.
    timed: Vec<Arc<Order>>,
    /// When the last order was given. What is over by then is forgotten, so
    /// that what was before cannot be worked out any more.
    given: Timestamp,
    /// Since when it was online by then, after it was not.
    turned_online: Option<Timestamp>,
}

/// What became of earlier orders when another was given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// Held for a time and hold no more.
    pub ended: Vec<Arc<Order>>,
    /// Held for a time, and end where the new one begins.
    pub shortened: Vec<Arc<Order>>,
    /// Were announced and will not come.
    pub cancelled: Vec<Arc<Order>>,
    /// Are announced still.
    pub kept: Vec<Arc<Order>>,
}

/// A host's mode, whenever it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Modes {
    /// What the configuration says.
    pub configured: Mode,
    /// What was ordered.
    pub orders: Arc<Orders>,
}

impl Order {
    /// Whether it holds for a time, or from some time on.
    pub fn is_timed(&self) -> bool {
        self.from.is_some() || self.until.is_some()
    }

    /// Whether it is still to come.
    pub fn is_announced(&self, now: Timestamp) -> bool {
        self.from.is_some_and(|from| now < from)
    }

    /// Who gave it, and why where that was said: for a log line or a table.
    pub fn who_and_why(&self) -> String {
        let said = self.reason.as_ref().or(self.message.as_ref());
        let why = said.map(|said| format!(": {said}"));
        format!("by {}{}", self.by, why.unwrap_or_default())
    }

    /// Its end is no part of it, so that one may begin where another ends.
    fn holds(&self, now: Timestamp) -> bool {
        !self.is_announced(now) && !self.is_over(now)
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Whether both would hold at some moment. One without a beginning holds
    /// even where the clock was set back behind the moment it was given at.
    fn meets(&self, other: &Self) -> bool {
        let ends_before =
            |one: &Self, other: &Self| other.from.is_some_and(|from| one.is_over(from));
        !ends_before(self, other) && !ends_before(other, self)
    }
}

impl Orders {
    /// The order that holds at a moment.
    pub fn at(&self, now: Timestamp) -> Option<&Arc<Order>> {
        let timed = self.timed.iter().find(|order| order.holds(now));
        timed.or(self.standing.as_ref())
    }

    /// The orders that are still to come, soonest first.
    pub fn announced(&self, now: Timestamp) -> impl Iterator<Item = &Arc<Order>> {
        let timed = self.timed.iter();
        timed.filter(move |order| order.is_announced(now))
    }

    /// How many orders there are that hold for a time or are announced.
    pub fn timed(&self) -> usize {
        self.timed.len()
    }

    /// The moments at which time alone changes what holds.
    fn edges(&self) -> impl Iterator<Item = Timestamp> {
        let timed = self.timed.iter();
        timed.flat_map(|order| [order.from, order.until]).flatten()
    }

    /// Gives another order, at the moment it says, and tells what became of the
    /// earlier ones.
    ///
    /// One without a time replaces the standing one and ends what holds at that
    /// moment; it leaves announced ones alone unless it says `online`. One of a
    /// time takes the place of those it meets; of one that holds already it
    /// leaves what is before its own beginning.
    #[must_use]
    pub fn give(&self, configured: Mode, order: Order) -> (Self, Effect) {
        let now = order.at;
        let mut effect = Effect::default();
        let mut timed = Vec::new();
        for known in self.timed.iter().filter(|known| !known.is_over(now)) {
            let announced = known.is_announced(now);
            let stays = match order.is_timed() {
                true => !known.meets(&order),
                false => announced && order.mode != Mode::Online,
            };
            if stays && announced {
                effect.kept.push(Arc::clone(known));
                timed.push(Arc::clone(known));
            } else if stays {
                timed.push(Arc::clone(known));
            } else if announced {
                effect.cancelled.push(Arc::clone(known));
            } else if order.is_announced(now) {
                let shorter = Arc::new(Order {
                    until: order.from,
                    ..Order::clone(known)
                });
                effect.shortened.push(Arc::clone(&shorter));
                timed.push(shorter);
            } else {
                effect.ended.push(Arc::clone(known));
            }
        }
        let mut standing = self.standing.clone();
        if order.is_timed() {
            timed.push(Arc::new(order));
            timed.sort_by_key(|order| order.from);
        } else {
            standing = Some(Arc::new(order));
        }
        let mut next = Self {
            standing,
            timed,
            given: now,
            turned_online: None,
        };
        if next.mode(configured, now) == Mode::Online {
            next.turned_online = match self.mode(configured, now) {
                Mode::Online => self.online_since(configured, now),
                Mode::Drain | Mode::Maintenance => Some(now),
            };
        }
        (next, effect)
    }

    fn mode(&self, configured: Mode, now: Timestamp) -> Mode {
        self.at(now).map_or(configured, |order| order.mode)
    }

    fn online_since(&self, configured: Mode, now: Timestamp) -> Option<Timestamp> {
        let online = |at| self.mode(configured, at) == Mode::Online;
        if !online(now) {
            return None;
        }
        let turned = |edge: &Timestamp| {
            let before = *edge - Duration::from_millis(1);
            self.given < *edge && *edge <= now && online(*edge) && !online(before)
        };
        // The clock may have been set back since it was written.
        let given = self.turned_online.filter(|at| *at <= now);
        self.edges().filter(turned).max().max(given)
    }
}

impl Modes {
    /// The mode at a moment.
    pub fn at(&self, now: Timestamp) -> Mode {
        self.orders.mode(self.configured, now)
    }

    /// Since when the host has been online after it was not, by order or by the
    /// passing of time; `None` where it is not, or has been all along.
    pub fn online_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.orders.online_since(self.configured, now)
    }

    /// The moments after `now` at which the mode may change by itself.
    pub fn changes_after(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.orders.edges().filter(move |edge| now < *edge)
    }
}

impl From<Mode> for Modes {
    fn from(configured: Mode) -> Self {
        Self {
            configured,
            orders: Arc::default(),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Online => "online",
            Self::Drain => "drain",
            Self::Maintenance => "maintenance",
        })
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User {
                name: Some(name), ..
            } => f.write_str(name),
            Self::User { uid: Some(uid), .. } => write!(f, "uid {uid}"),
            Self::User { .. } => f.write_str("unknown"),
            Self::Key { id } => write!(f, "key {id}"),
        }
    }
}
