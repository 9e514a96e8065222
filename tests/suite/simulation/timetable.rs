//! The shadow's own account of a host's mode: it lives through the day from
//! change to change, where the product works the mode out of its orders.

use std::time::Duration;

use sessionguard::placement::{Actor, Mode, Order, Timestamp};

use super::dice::Dice;

/// A host's mode, lived through up to some moment.
#[derive(Clone, Default)]
pub(super) struct Timetable {
    stands: Mode,
    /// From, until, and the mode between.
    plans: Vec<(Timestamp, Timestamp, Mode)>,
    now: Timestamp,
    pub(super) mode: Mode,
    /// Since when it is online again.
    pub(super) turned_online: Option<Timestamp>,
}

/// An order: often one that stands, else one of some minutes, now or soon.
pub(super) fn order(mode: Mode, now: Timestamp, dice: &mut Dice) -> Order {
    let mut order = Order {
        mode,
        by: Actor::User {
            uid: Some(0),
            name: None,
        },
        reason: None,
        message: None,
        at: now,
        from: None,
        until: None,
        restart_when_drained: false,
        online_after_restart: false,
    };
    if dice.chance(40) {
        let millis = |dice: &mut Dice| Duration::from_millis(dice.between(1, 1_800_000));
        order.from = dice.chance(50).then(|| now + millis(dice));
        order.until = Some(order.from.unwrap_or(now) + millis(dice));
    }
    order
}

impl Timetable {
    pub(super) fn ordered(&mut self, order: &Order) {
        let (now, mode) = (order.at, order.mode);
        *self = self.at(now);
        let Some(until) = order.until else {
            self.stands = mode;
            self.plans
                .retain(|(from, ..)| *from > now && mode != Mode::Online);
            self.turn(now);
            return;
        };
        // What holds already does so whatever becomes of the clock.
        let from = order.from.unwrap_or_default();
        self.plans.retain_mut(|(begins, ends, _)| {
            if *ends <= from || until <= *begins {
                return true;
            }
            // What holds already gives way only when the other comes.
            *ends = from;
            *begins <= now && now < from
        });
        self.plans.push((from, until, mode));
        self.turn(now);
    }

    /// The same, lived on to this moment; or put back to it, as a clock is.
    pub(super) fn at(&self, now: Timestamp) -> Self {
        let mut lived = self.clone();
        lived.now = now;
        if now < self.now {
            lived.mode = self.holds(now);
            let online = lived.mode == Mode::Online;
            lived.turned_online = self.turned_online.filter(|at| online && *at <= now);
            return lived;
        }
        let edges = self.plans.iter().flat_map(|(from, until, _)| [from, until]);
        let mut edges: Vec<_> = edges.filter(|at| self.now < **at && **at <= now).collect();
        edges.sort_unstable();
        for edge in edges {
            lived.turn(*edge);
        }
        lived.plans.retain(|(_, until, _)| now < *until);
        lived
    }

    fn holds(&self, now: Timestamp) -> Mode {
        let mut plans = self.plans.iter();
        let plan = plans.find(|(from, until, _)| *from <= now && now < *until);
        plan.map_or(self.stands, |(.., mode)| *mode)
    }

    fn turn(&mut self, now: Timestamp) {
        let next = self.holds(now);
        if next == Mode::Online && self.mode != Mode::Online {
            self.turned_online = Some(now);
        } else if next != Mode::Online {
            self.turned_online = None;
        }
        self.mode = next;
    }
}
