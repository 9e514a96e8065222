//! What was counted before is what would be counted now.

use proptest::prelude::*;

use super::build::*;
use super::cases::view;
use crate::placement::*;

fn moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => (0..200_u64).prop_map(ago),
        4 => (0..400_000_u64).prop_map(|millis| ago(200) + std::time::Duration::from_millis(millis)),
        1 => Just(NOW),
        1 => any::<u64>().prop_map(Timestamp::from_millis),
    ]
}

const CAPS: Caps = Caps {
    max_sessions: None,
    max_pending_logons: 10,
    slow_start: std::time::Duration::from_secs(60),
};

/// Every moment at which a count may change, and those beside it.
fn edges(view: &HostView) -> Vec<Timestamp> {
    let tunnels = view.tunnels.iter();
    let unseen = tunnels.flat_map(|t| [Some(t.since), t.stood]).flatten();
    let unseen = unseen.map(|at| at + UNSEEN);
    let all = unseen.chain(view.lingering.iter().map(|(_, until)| until));
    let millisecond = std::time::Duration::from_millis(1);
    all.flat_map(|at| [at - millisecond, at, at + millisecond])
        .collect()
}

fn is_right(known: &Known, now: Timestamp) -> Result<(), TestCaseError> {
    let view: &HostView = known;
    prop_assert_eq!(known.load(now), view.load(now));
    prop_assert_eq!(known.occupancy(CAPS, now), view.occupancy(CAPS, now));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn at_every_moment_in_any_order(view in view(), moments in prop::collection::vec(moment(), 1..12)) {
        let known = Known::from(view.clone());
        for now in moments.into_iter().chain(edges(&view)) {
            is_right(&known, now)?;
        }
    }

    #[test]
    fn after_every_change(one in view(), other in view(), now in moment()) {
        let mut known = Known::from(one);
        is_right(&known, now)?;
        known.tunnels = other.tunnels;
        is_right(&known, now)?;
        known.report = other.report;
        is_right(&known, now)?;
        let mut copy = known.clone();
        is_right(&copy, now)?;
        copy.lingering = other.lingering;
        is_right(&copy, now)?;
        is_right(&known, now)?;
    }
}
