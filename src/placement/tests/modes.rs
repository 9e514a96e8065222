//! Modes by order: what holds at which moment, and what becomes of the orders
//! before.

use std::sync::Arc;

use proptest::prelude::*;

use super::build::*;
use crate::placement::*;

use Mode::{Drain, Maintenance, Online};

fn order(mode: Mode, at: u64) -> Order {
    Order {
        mode,
        by: Actor::User {
            uid: Some(0),
            name: None,
        },
        reason: None,
        message: None,
        at: t(at),
        from: None,
        until: None,
        restart_when_drained: false,
        online_after_restart: false,
    }
}

fn timed(mode: Mode, at: u64, from: Option<u64>, until: Option<u64>) -> Order {
    Order {
        from: from.map(t),
        until: until.map(t),
        ..order(mode, at)
    }
}

fn t(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Modes after these orders, and what became of earlier ones at the last.
fn after(orders: &[Order]) -> (Modes, Effect) {
    let mut modes = Modes::default();
    let mut effect = Effect::default();
    for order in orders {
        let (next, became) = modes.orders.give(modes.configured, order.clone());
        (modes.orders, effect) = (Arc::new(next), became);
    }
    (modes, effect)
}

fn modes_at(orders: &[Order], moments: &[u64]) -> Vec<Mode> {
    let (modes, _) = after(orders);
    moments.iter().map(|at| modes.at(t(*at))).collect()
}

fn spans(orders: &[Arc<Order>]) -> Vec<(Option<u64>, Option<u64>)> {
    let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
    let spans = orders.iter();
    spans.map(|o| (millis(o.from), millis(o.until))).collect()
}

#[test]
fn without_an_order_the_configuration_rules_and_with_one_the_order_does() {
    let mut modes = Modes::from(Drain);
    assert_eq!(modes.at(t(5)), Drain);
    modes.orders = Arc::new(modes.orders.give(Drain, order(Online, 10)).0);
    assert_eq!(modes.at(t(10)), Online);
    // A later edit of the files does not undo it.
    modes.configured = Maintenance;
    assert_eq!(modes.at(t(99)), Online);
}

#[test]
fn an_announced_order_begins_and_ends_to_the_millisecond() {
    let night = timed(Maintenance, 10, Some(2200), Some(2600));
    let moments = [10, 2199, 2200, 2599, 2600, 9999];
    let expected = [Online, Online, Maintenance, Maintenance, Online, Online];
    assert_eq!(modes_at(std::slice::from_ref(&night), &moments), expected);
    // Behind it stands what stood before, or was ordered meanwhile.
    let expected = [Drain, Drain, Maintenance, Maintenance, Drain, Drain];
    let drain = order(Drain, 5);
    assert_eq!(
        modes_at(&[drain.clone(), night.clone()], &moments),
        expected
    );
    let drain = order(Drain, 10);
    assert_eq!(modes_at(&[night, drain], &moments), expected);
}

#[test]
fn an_order_with_an_end_alone_holds_at_once_whenever_it_is_looked_at() {
    let hour = timed(Drain, 10, None, Some(100));
    // Also for a decision whose moment was taken just before.
    assert_eq!(
        modes_at(&[hour], &[9, 10, 99, 100]),
        [Drain, Drain, Drain, Online]
    );
}

#[test]
fn an_order_with_a_beginning_alone_holds_until_another_ends_it() {
    let from = timed(Drain, 10, Some(100), None);
    let online = order(Online, 300);
    assert_eq!(
        modes_at(std::slice::from_ref(&from), &[99, 100, 999]),
        [Online, Drain, Drain]
    );
    assert_eq!(modes_at(&[from, online], &[300]), [Online]);
}

#[test]
fn a_standing_order_ends_what_holds_and_keeps_what_is_announced() {
    let holds = timed(Maintenance, 10, None, Some(200));
    let night = timed(Maintenance, 11, Some(500), Some(600));
    let orders = [holds, night, order(Drain, 100)];
    assert_eq!(
        modes_at(&orders, &[100, 200, 500, 600]),
        [Drain, Drain, Maintenance, Drain]
    );
    let (_, effect) = after(&orders);
    assert_eq!(spans(&effect.ended), [(None, Some(200))]);
    assert_eq!(spans(&effect.kept), [(Some(500), Some(600))]);
}

#[test]
fn online_cancels_what_is_announced_unless_it_is_announced_itself() {
    let night = timed(Maintenance, 10, Some(500), Some(600));
    let (modes, effect) = after(&[night.clone(), order(Online, 100)]);
    assert_eq!(spans(&effect.cancelled), [(Some(500), Some(600))]);
    assert_eq!(modes.at(t(550)), Online);
    let orders = [order(Drain, 1), night, timed(Online, 100, None, Some(200))];
    assert_eq!(
        modes_at(&orders, &[100, 200, 550, 600]),
        [Online, Drain, Maintenance, Drain]
    );
}

#[test]
fn an_announcement_that_is_made_again_takes_the_first_ones_place() {
    let night = timed(Maintenance, 10, Some(500), Some(600));
    let later = timed(Maintenance, 20, Some(550), Some(700));
    let (modes, effect) = after(&[night, later]);
    assert_eq!(spans(&effect.cancelled), [(Some(500), Some(600))]);
    assert_eq!(
        [520, 560, 699].map(|at| modes.at(t(at))),
        [Online, Maintenance, Maintenance]
    );
}

#[test]
fn an_announcement_shortens_what_holds_already_and_leaves_no_gap() {
    let holds = timed(Drain, 10, None, Some(600));
    let night = timed(Maintenance, 20, Some(500), Some(700));
    let (modes, effect) = after(&[holds, night]);
    assert_eq!(spans(&effect.shortened), [(None, Some(500))]);
    assert_eq!(
        [499, 500, 699, 700].map(|at| modes.at(t(at))),
        [Drain, Maintenance, Maintenance, Online]
    );
}

#[test]
fn orders_that_only_touch_leave_each_other_alone() {
    let first = timed(Drain, 10, Some(100), Some(200));
    let second = timed(Maintenance, 20, Some(200), Some(300));
    let (modes, effect) = after(&[first, second]);
    assert_eq!(spans(&effect.kept), [(Some(100), Some(200))]);
    assert_eq!([199, 200].map(|at| modes.at(t(at))), [Drain, Maintenance]);
}

#[test]
fn a_host_is_new_again_whenever_its_mode_comes_back() {
    let since = |orders: &[Order], at| after(orders).0.online_since(t(at));
    let night = timed(Maintenance, 10, Some(500), Some(600));
    // All along, then not at all, then since the end of the night.
    for (at, expected) in [
        (499, None),
        (550, None),
        (600, Some(t(600))),
        (900, Some(t(600))),
    ] {
        assert_eq!(since(std::slice::from_ref(&night), at), expected, "{at}");
    }
    let drained = [order(Drain, 5), order(Online, 50)];
    assert_eq!(since(&drained, 60), Some(t(50)));
    // What changes nothing begins nothing.
    assert_eq!(since(&[order(Online, 50)], 60), None);
    let again = [order(Drain, 5), order(Online, 50), order(Online, 55)];
    assert_eq!(since(&again, 60), Some(t(50)));
    let announced = [
        order(Drain, 5),
        order(Online, 50),
        timed(Drain, 55, Some(90), None),
    ];
    assert_eq!(since(&announced, 60), Some(t(50)));
    // Long after the end of what it was online by before, which is forgotten.
    let (mut modes, handed_over) = (
        Modes::from(Drain),
        [
            timed(Online, 50, None, Some(90)),
            timed(Online, 60, Some(90), None),
            timed(Maintenance, 95, Some(500), None),
        ],
    );
    for order in handed_over {
        modes.orders = Arc::new(modes.orders.give(Drain, order).0);
    }
    assert_eq!(modes.online_since(t(99)), Some(t(50)));
    // Straight from one into the other there was no online between.
    let straight = [night, timed(Drain, 11, Some(600), Some(700))];
    assert_eq!(since(&straight, 800), Some(t(700)));
}

#[test]
fn a_clock_set_back_undoes_no_order_and_starts_no_host_anew() {
    let (hour, minute) = (
        timed(Drain, 500, None, Some(900)),
        timed(Maintenance, 100, None, Some(200)),
    );
    let (modes, effect) = after(&[hour.clone(), minute]);
    assert_eq!(spans(&effect.ended), [(None, Some(900))]);
    assert_eq!([100, 200].map(|at| modes.at(t(at))), [Maintenance, Online]);
    assert_eq!(
        modes_at(&[hour, order(Online, 100)], &[100, 600]),
        [Online, Online]
    );
    let (modes, _) = after(&[order(Drain, 5), order(Online, 500)]);
    assert_eq!(
        [100, 500].map(|at| modes.online_since(t(at))),
        [None, Some(t(500))]
    );
}

#[test]
fn a_host_back_from_maintenance_is_filled_slowly() {
    let modes = |until| {
        let order = timed(Maintenance, 1, None, Some(until));
        let orders = Arc::new(Orders::default().give(Online, order).0);
        Modes {
            configured: Online,
            orders,
        }
    };
    let cap = |seconds| {
        let until = ago(seconds).as_millis();
        let back = host("a").reporting().view(|view| view.modes = modes(until));
        farm("office")
            .with(back)
            .candidate("a")
            .occupancy
            .pending_cap
    };
    assert_eq!([0, 30, 60].map(cap), [1, 5, 10]);
}

#[test]
fn a_candidate_kept_out_by_an_order_names_it() {
    let reason = Some("disks".to_owned());
    let given = Order {
        reason: reason.clone(),
        ..order(Maintenance, 1)
    };
    let (modes, _) = after(&[given]);
    let ordered = host("a").reporting().view(|view| view.modes = modes);
    let configured = host("b").reporting().mode(Drain);
    let world = farm("office").with(ordered).with(configured);
    let named = world.candidate("a").order.unwrap();
    assert_eq!(
        (named.reason.clone(), named.who_and_why()),
        (reason, "by uid 0: disks".to_owned())
    );
    assert_eq!(world.candidate("b").order, None);
}

#[test]
fn what_is_stored_is_read_back_as_it_was() {
    let named = Order {
        by: Actor::User {
            uid: Some(1000),
            name: Some("ann".to_owned()),
        },
        reason: Some("patches".to_owned()),
        message: Some("back at two".to_owned()),
        restart_when_drained: true,
        online_after_restart: true,
        ..order(Drain, 7)
    };
    let orders = [
        named,
        timed(Maintenance, 9, Some(500), Some(600)),
        order(Online, 8),
    ];
    let (modes, _) = after(&orders);
    let text = serde_json::to_string(&*modes.orders).unwrap();
    let read: Orders = serde_json::from_str(&text).unwrap();
    assert_eq!(read, *modes.orders);
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Online), Just(Drain), Just(Maintenance)]
}

prop_compose! {
    /// How long after the last one, what, from when (after it), and for how long.
    fn step()(
        pause in 0..20_u64,
        mode in mode(),
        from in proptest::option::of(1..40_u64),
        span in proptest::option::of(1..40_u64),
    ) -> (u64, Mode, Option<u64>, Option<u64>) {
        (pause, mode, from, span)
    }
}

proptest! {
    /// A mode lived through moment by moment is the mode worked out: nothing
    /// that is given later changes what was, and every return to online is
    /// known to the millisecond.
    #[test]
    fn a_life_lived_through_is_the_life_worked_out(
        configured in mode(),
        steps in proptest::collection::vec(step(), 1..12),
    ) {
        let mut now = 100;
        let mut modes = Modes::from(configured);
        let mut last = configured;
        let mut turned = None;
        let live = |modes: &Modes, last: &mut Mode, turned: &mut Option<Timestamp>, at| {
            let mode = modes.at(t(at));
            match (*last, mode) {
                (Online, Online) => {}
                (_, Online) => *turned = Some(t(at)),
                _ => *turned = None,
            }
            *last = mode;
            prop_assert_eq!(modes.online_since(t(at)), *turned, "at {}", at);
            Ok(())
        };
        for (pause, mode, from, span) in steps {
            // The moment of the order too, before it and after it.
            for at in now..=now + pause {
                live(&modes, &mut last, &mut turned, at)?;
            }
            now += pause;
            let from = from.map(|from| now + from);
            let given = timed(mode, now, from, span.map(|span| from.unwrap_or(now) + span));
            let (next, _) = modes.orders.give(configured, given.clone());
            // What was promised before the new one begins is kept, unless it
            // says what shall be from now on.
            if let Some(from) = from.filter(|_| modes.orders.announced(t(now)).next().is_none()) {
                for at in now..from {
                    let after = next.at(t(at)).map_or(configured, |o| o.mode);
                    prop_assert_eq!(after, modes.at(t(at)));
                }
            }
            modes.orders = Arc::new(next);
            let begins = given.from.unwrap_or(given.at);
            prop_assert_eq!(modes.at(begins), mode);
        }
        for at in now..now + 100 {
            live(&modes, &mut last, &mut turned, at)?;
        }
    }
}
