//! A host that turned usable is filled slowly: its cap rises, its score stays.

use proptest::prelude::*;

use super::build::*;
use crate::placement::Reason::{Reconnect, Score};
use crate::placement::*;

/// The cap of a host that turned usable so long ago.
fn cap(seconds: u64) -> u32 {
    farm("office")
        .with(since(host("a").reporting(), seconds))
        .candidate("a")
        .occupancy
        .pending_cap
}

fn since(words: HostWords, seconds: u64) -> HostWords {
    words.view(|view| view.usable_since = Some(ago(seconds)))
}

#[test]
fn the_cap_rises_evenly_from_one_to_the_whole() {
    for (seconds, expected) in [
        (0, 1),
        (6, 1),
        (7, 2),
        (30, 5),
        (59, 9),
        (60, 10),
        (3600, 10),
    ] {
        assert_eq!(cap(seconds), expected, "{seconds}");
    }
}

#[test]
fn a_host_that_was_there_all_along_starts_at_the_whole() {
    let world = farm("office").with(host("a").reporting());
    assert_eq!(world.candidate("a").occupancy.pending_cap, 10);
}

#[test]
fn slow_start_can_be_off_or_another_for_one_farm() {
    let cap = |global, own: Option<u64>| {
        let world = farm("office")
            .rules(|r| r.slow_start = secs(global))
            .whose_farm(|f| f.overrides.slow_start = own.map(secs))
            .with(since(host("a").reporting(), 30));
        world.candidate("a").occupancy.pending_cap
    };
    assert_eq!(cap(60, None), 5);
    assert_eq!(cap(0, None), 10);
    assert_eq!(cap(60, Some(0)), 10);
    assert_eq!(cap(0, Some(60)), 5);
    assert_eq!(cap(60, Some(300)), 1);
}

#[test]
fn the_score_is_untouched() {
    let world = farm("office")
        .with(since(host("a").reporting(), 0))
        .with(host("b").reporting().cpu(1.0));
    let (a, b) = (world.candidate("a"), world.candidate("b"));
    assert!(a.score.total > b.score.total);
    assert_eq!(world.ask("ann"), on("a", Score));
}

#[test]
fn a_fresh_host_among_loaded_ones_does_not_take_everybody() {
    let loaded = |id| {
        let host = host(id).reporting().cpu(60.0);
        (0..30).fold(host, |h, n| {
            h.session(&format!("{id}{n}"), SessionState::Active)
        })
    };
    let mut fresh = since(host("fresh").reporting(), 0);
    let mut taken = 0;
    for n in 0..20 {
        let world = farm("office")
            .with(fresh.clone())
            .with(loaded("b"))
            .with(loaded("c"));
        let who = format!("user{n}");
        if world.ask(&who) == on("fresh", Score) {
            fresh = fresh.pending(&who);
            taken += 1;
        }
    }
    assert_eq!(taken, 1);
}

#[test]
fn who_comes_back_to_a_fresh_host_waits_for_its_slow_start_too() {
    let a = since(host("a").reporting(), 0).session("ann", SessionState::Disconnected);
    let world = |a: HostWords| farm("office").with(a).with(host("b").reporting());
    let back = on("a", Reconnect(SessionState::Disconnected));
    assert_eq!(world(a.clone()).ask("ann"), back);
    let waits = Err(Refusal::LogonsPending("office".into()));
    assert_eq!(world(a.pending("u")).ask("ann"), waits);
}

proptest! {
    #[test]
    fn the_cap_only_rises_and_stays_between_one_and_the_whole(
        full in prop_oneof![1..50_u32, any::<u32>()],
        span in prop_oneof![0..120_000_u64, any::<u64>()],
        mut moments in proptest::collection::vec(prop_oneof![0..200_000_u64, any::<u64>()], 2..20),
    ) {
        let caps = Caps {
            max_sessions: None,
            max_pending_logons: full,
            slow_start: std::time::Duration::from_millis(span),
        };
        let view = HostView { usable_since: Some(Timestamp::from_millis(0)), ..HostView::default() };
        let cap = |at| view.occupancy(caps, Timestamp::from_millis(at)).pending_cap;
        moments.sort_unstable();
        let rising: Vec<_> = moments.iter().map(|&at| cap(at)).collect();
        prop_assert!(rising.is_sorted(), "{:?}", rising);
        prop_assert!(rising.iter().all(|cap| (1..=full).contains(cap)), "{:?}", rising);
        prop_assert_eq!(cap(span), full);
        if span > 0 {
            prop_assert_eq!(cap(0), 1);
        }
    }
}
