//! Hosts that failed a connection: no new session of its user is opened there,
//! and who comes back is tried there again.

use std::collections::BTreeSet;

use proptest::collection::btree_set;
use proptest::prelude::*;

use super::build::*;
use super::cases::case;
use crate::placement::Reason::{Lease, Reconnect, Score};
use crate::placement::SessionState::*;
use crate::placement::*;

fn unreachable() -> Went {
    Err(Refusal::Unreachable("office".into()))
}

#[test]
fn a_new_session_goes_to_the_next_best_host_that_was_not_tried() {
    let world = farm("office")
        .with(host("a").reporting())
        .with(host("b").reporting().cpu(10.0))
        .with(host("c").reporting().cpu(20.0));
    assert_eq!(world.ask("ann"), on("a", Score));
    let world = world.tried("a");
    assert_eq!(world.ask("ann"), on("b", Score));
    assert_eq!(world.candidate("a").exclusion, Some(Exclusion::Tried));
    assert_eq!(world.tried("b").ask("ann"), on("c", Score));
}

#[test]
fn who_comes_back_is_tried_there_again() {
    let two = |a| farm("office").with(a).with(host("b").reporting());
    let a = || host("a").reporting().cpu(90.0);
    let session = two(a().session("ann", Disconnected)).tried("a");
    assert_eq!(session.ask("ann"), on("a", Reconnect(Disconnected)));
    let lease = two(a()).lingers("office", "a", 60).tried("a");
    assert_eq!(lease.ask("ann"), on("a", Lease));
    let another = two(a().pending("ann"))
        .claimed("office", "a")
        .tried("a")
        .ask("ann");
    assert_eq!(another, on("a", Reason::Tunnel));
}

#[test]
fn who_comes_back_is_moved_once_our_own_probe_has_failed_long_enough() {
    for (failing, expected) in [(29, on("a", Lease)), (30, on("b", Score))] {
        let world = farm("office")
            .with(host("a").reporting().failing(failing))
            .with(host("b").reporting())
            .lingers("office", "a", 60)
            .tried("a");
        assert_eq!(world.ask("ann"), expected, "{failing}");
    }
}

/// A report of a start of the host, of so many seconds ago.
fn of_boot(boot: u64, users: &[&str], age: u64) -> Report {
    let session = |who: &&str| Session {
        user: user(who),
        state: Disconnected,
        latest: ago(age),
        client_name: None,
    };
    Report {
        taken: ago(age),
        order: Some(ReportNumber {
            boot,
            seq: 1000 - age,
        }),
        sessions: users.iter().map(session).collect(),
        ..report()
    }
}

#[test]
fn who_comes_back_is_moved_once_the_host_started_anew_without_the_session() {
    // The lease was left a hundred seconds ago.
    let ask = |reports: &[Report], tried| {
        let mut a = host("a").answering();
        for report in reports {
            a = a.view(|view| assert!(view.hear(report.clone(), None, |_| true)));
        }
        let world = farm("office")
            .with(a)
            .with(host("b").reporting())
            .lingers("office", "a", 800);
        match tried {
            true => world.tried("a").ask("ann"),
            false => world.ask("ann"),
        }
    };
    let gone = [of_boot(1, &["ann"], 200), of_boot(2, &[], 50)];
    assert_eq!(ask(&gone, true), on("b", Score));
    assert_eq!(ask(&gone, false), on("a", Lease), "it did not fail her");
    let same_start = [of_boot(1, &["ann"], 200), of_boot(1, &[], 50)];
    assert_eq!(ask(&same_start, true), on("a", Lease));
    let before_she_left = [of_boot(1, &["ann"], 200), of_boot(2, &[], 150)];
    assert_eq!(ask(&before_she_left, true), on("a", Lease));
    let back = [of_boot(1, &[], 200), of_boot(2, &["ann"], 50)];
    assert_eq!(ask(&back, true), on("a", Reconnect(Disconnected)));
    let untold = [of_boot(2, &[], 50)];
    assert_eq!(
        ask(&untold, true),
        on("a", Lease),
        "nothing to compare with"
    );
    let mut liar = gone.clone();
    liar[1].overclaims = true;
    assert_eq!(ask(&liar, true), on("a", Lease), "a liar's word");
    // Later reports of that start say the same of the lease.
    let later = [gone[0].clone(), gone[1].clone(), of_boot(2, &[], 10)];
    assert_eq!(ask(&later, true), on("b", Score));
}

#[test]
fn where_every_host_that_could_take_the_user_was_tried_it_is_unreachable() {
    let tried = || farm("office").with(host("a").reporting()).tried("a");
    assert_eq!(tried().ask("ann"), unreachable());
    let beside = |b: HostWords| tried().with(b).ask("ann");
    for b in [
        host("b").reporting().mode(Mode::Drain),
        host("b").reporting().health(0),
        host("b").failing(60),
        host("b"),
    ] {
        assert_eq!(beside(b), unreachable());
    }
    let full = host("b").reporting().session("bob", Active);
    let full = full.configured(|host| host.max_sessions = Some(1));
    assert_eq!(beside(full), Err(Refusal::Busy("office".into())));
    let pending = host("b").reporting().pending("bob");
    let pending = pending.configured(|host| host.max_pending_logons = Some(1));
    let waits = Err(Refusal::LogonsPending("office".into()));
    assert_eq!(beside(pending.clone()), waits);
    // One that was tried is not waited for.
    assert_eq!(
        farm("office").with(pending).tried("b").ask("ann"),
        unreachable()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_tried_host_is_never_chosen_by_score_and_nothing_else_changes(
        case in case(),
        tried in btree_set(prop::sample::select(vec!["a", "b", "c", "d", "gone"]), 0..5),
    ) {
        let before = case.decide();
        let mut again = case;
        again.tried = tried.into_iter().map(HostId::from).collect::<BTreeSet<_>>();
        let after = again.decide();
        let by_score = |decision: &Decision| match &decision.outcome {
            Outcome::Placed(placement) if placement.reason == Score => Some(placement.host.clone()),
            _ => None,
        };
        if let Some(host) = by_score(&after) {
            prop_assert!(!again.tried.contains(&host));
        }
        match (&before.outcome, by_score(&before)) {
            (_, Some(host)) if again.tried.contains(&host) => {}
            // Why nobody can be placed may be otherwise, and only that.
            (Outcome::Refused(_), _) => {
                prop_assert!(matches!(after.outcome, Outcome::Refused(_)));
            }
            _ => prop_assert_eq!(&after.outcome, &before.outcome),
        }
        if again.tried.is_empty() {
            prop_assert_eq!(after.outcome, before.outcome);
        }
    }
}
