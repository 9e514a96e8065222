//! Rules broken on purpose: the shadow must notice each, and call it by its
//! name and no other.
//!
//! A saboteur decides rightly except where forgetting its one rule places
//! somebody who may not be placed so.

use std::sync::Arc;

use sessionguard::placement::{
    Decision, Directory, Host, HostView, Known, LeaseRecord, Mode, Outcome, Placement, Reason,
    Refusal, Request, Snapshot, Timestamp, UNSEEN, decide,
};

use super::day::Decide;
use super::replay::roll_all;
use super::verdict::Rule;
use super::{SEEDS, STEPS};

/// Days that must fail before one believes that it is no accident.
const ENOUGH: usize = 8;

fn is_noticed(rule: Rule, saboteur: Decide) {
    let (tally, failures) = roll_all(0..SEEDS, STEPS, ENOUGH, saboteur);
    let count = failures.len();
    assert!(
        count >= ENOUGH,
        "{count} days failed, {} did not",
        tally.days
    );
    for failure in failures {
        assert_eq!(failure.rule, rule, "{}", failure.story(saboteur));
    }
}

fn forgetful(
    right: Decision,
    wrong: Decision,
    is_wrong: impl FnOnce(&Placement) -> bool,
) -> Decision {
    match &wrong.outcome {
        Outcome::Placed(placement) if is_wrong(placement) => wrong,
        _ => right,
    }
}

/// The same picture with every host seen otherwise.
fn seen(snapshot: &Snapshot, change: impl Fn(&mut HostView)) -> Snapshot {
    let mut other = snapshot.clone();
    for view in other.hosts.values_mut() {
        let known: &mut Known = Arc::make_mut(view);
        change(known);
    }
    other
}

/// The same picture with the configuration read otherwise.
fn read(snapshot: &Snapshot, change: impl Fn(&mut Host)) -> Snapshot {
    let directory = &snapshot.directory;
    let mut hosts: Vec<_> = directory.hosts().cloned().collect();
    hosts.iter_mut().for_each(change);
    let (farms, resources) = (directory.farms().cloned(), directory.resources().cloned());
    let other = Directory::new(directory.rules().clone(), hosts, farms, resources);
    Snapshot {
        directory: Arc::new(other),
        ..snapshot.clone()
    }
}

fn forgets_mode(
    s: &Snapshot,
    r: &Request,
    l: &LeaseRecord,
    now: Timestamp,
    mode: Mode,
) -> Decision {
    let blind = seen(s, |view| {
        if view.mode(now) == mode {
            view.modes = Mode::Online.into();
        }
    });
    forgetful(
        decide(s, r, l, now),
        decide(&blind, r, l, now),
        |placement| s.hosts[&placement.host].mode(now) == mode,
    )
}

fn forgets_maintenance(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    forgets_mode(s, r, l, now, Mode::Maintenance)
}

fn forgets_drain(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    forgets_mode(s, r, l, now, Mode::Drain)
}

/// Every seat looks too old to be a logon under way.
fn forgets_pending(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    let blind = seen(s, |view| {
        // A breaker that is half open looks at them as well.
        if view.breaker(now).opening().is_some() {
            return;
        }
        for tunnel in &mut view.tunnels {
            Arc::make_mut(tunnel).since = now - UNSEEN;
        }
    });
    decide(&blind, r, l, now)
}

/// The user's own open tunnels are nobody's, and their leases linger at best.
fn forgets_tunnels(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    let right = decide(s, r, l, now);
    let blind = seen(s, |view| {
        for tunnel in &mut view.tunnels {
            let tunnel = Arc::make_mut(tunnel);
            tunnel.key = tunnel
                .key
                .take()
                .filter(|key| Some(key) != right.key.as_ref());
        }
    });
    let mut leases = l.clone();
    leases.orphan(now);
    let kept = match &right.outcome {
        Outcome::Placed(p) if p.reason == Reason::Tunnel => Some(p.host.clone()),
        Outcome::Refused(Refusal::HeldElsewhere(host)) => Some(host.clone()),
        _ => None,
    };
    forgetful(right, decide(&blind, r, &leases, now), |placement| {
        kept.is_some_and(|host| host != placement.host)
    })
}

/// Every host is in every farm.
fn forgets_farms(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    let all: Vec<_> = s.directory.farms().map(|farm| farm.id.clone()).collect();
    let blind = read(s, |host| host.farm_ids.extend(all.iter().cloned()));
    let right = decide(s, r, l, now);
    let farm = right.farm.clone();
    forgetful(right, decide(&blind, r, l, now), |placement| {
        farm.is_some_and(|farm| !s.directory.is_member(&farm, &placement.host))
    })
}

/// No breaker is ever open.
fn forgets_breakers(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    let blind = seen(s, HostView::reset_breaker);
    forgetful(
        decide(s, r, l, now),
        decide(&blind, r, l, now),
        |placement| {
            let barred = s.hosts[&placement.host].barred(now).is_some();
            placement.reason == Reason::Score && barred
        },
    )
}

/// No host is ever full.
fn forgets_bounds(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    let blind = read(s, |host| host.max_sessions = Some(u32::MAX));
    let right = decide(s, r, l, now);
    let busy = matches!(right.outcome, Outcome::Refused(Refusal::Busy(_)));
    forgetful(right, decide(&blind, r, l, now), |_| busy)
}

/// Now and then the answer depends on nothing anybody can see.
fn forgets_itself(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    use std::sync::atomic::{AtomicU64, Ordering};
    static CALLS: AtomicU64 = AtomicU64::new(0);
    Decision {
        generation: CALLS.fetch_add(1, Ordering::Relaxed),
        ..decide(s, r, l, now)
    }
}

/// Whoever is claimed anywhere was there through us before.
fn forgets_trust(s: &Snapshot, r: &Request, l: &LeaseRecord, now: Timestamp) -> Decision {
    let right = decide(s, r, l, now);
    let Some(user) = &right.user else {
        return right;
    };
    let mut blind = s.clone();
    let people = Arc::make_mut(&mut blind.people);
    for host in s.hosts.keys() {
        people.remember(user, host, now);
    }
    let wrong = decide(&blind, r, l, now);
    let aside: Vec<_> = right
        .candidates
        .iter()
        .filter(|c| c.session_set_aside.is_some())
        .map(|c| c.host.clone())
        .collect();
    forgetful(right, wrong, |placement| {
        matches!(placement.reason, Reason::Reconnect(_)) && aside.contains(&placement.host)
    })
}

#[test]
fn a_host_in_maintenance_that_is_chosen_is_noticed() {
    is_noticed(Rule::Maintenance, forgets_maintenance);
}

#[test]
fn somebody_new_on_a_draining_host_is_noticed() {
    is_noticed(Rule::Drain, forgets_drain);
}

#[test]
fn somebody_new_on_a_host_whose_breaker_is_open_is_noticed() {
    is_noticed(Rule::Breaker, forgets_breakers);
}

#[test]
fn pending_seats_that_are_not_seen_are_noticed() {
    is_noticed(Rule::PendingCap, forgets_pending);
}

#[test]
fn a_user_placed_beside_an_open_tunnel_is_noticed() {
    is_noticed(Rule::OneHost, forgets_tunnels);
}

#[test]
fn a_host_of_another_farm_is_noticed() {
    is_noticed(Rule::Boundary, forgets_farms);
}

#[test]
fn a_full_host_that_takes_one_more_is_noticed() {
    is_noticed(Rule::MaxSessions, forgets_bounds);
}

#[test]
fn a_session_that_is_not_to_be_believed_is_noticed() {
    is_noticed(Rule::Trust, forgets_trust);
}

#[test]
fn an_answer_that_changes_by_itself_is_noticed() {
    is_noticed(Rule::SameAnswer, forgets_itself);
}
