//! What a report means for tunnels and for leases left behind.

use std::sync::Arc;

use super::build::*;
use crate::placement::SessionState::*;
use crate::placement::*;

/// The `seq`th report of a start of the host, of these users, as of so many
/// seconds ago.
fn report_of(boot: u64, seq: u64, users: &[&str], age: u64) -> Report {
    let session = |who: &&str| Session {
        user: user(who),
        state: Disconnected,
        latest: ago(600),
        client_name: None,
    };
    Report {
        received: ago(age),
        taken: ago(age),
        order: Some(ReportNumber { boot, seq }),
        sessions: users.iter().map(session).collect(),
        ..report()
    }
}

fn hears(host: HostWords, reports: Vec<Report>) -> HostWords {
    host.view(|view| {
        for report in reports {
            view.hear(report, None, |_| false);
        }
    })
}

/// Host `a`, on which ann's lease was left a hundred seconds ago, and what it
/// reported.
fn left(reports: Vec<Report>) -> HostWords {
    hears(host("a").answering().lease_of("ann", 800), reports)
}

fn found(world: &World) -> Vec<Finding> {
    findings(&world.snapshot(), &"a".into(), NOW)
}

fn found_on(a: HostWords) -> Vec<Finding> {
    found(&farm("office").with(a))
}

fn signed_out() -> Vec<Finding> {
    let key = LeaseKey::of_user(&user("ann"));
    vec![Finding::SignedOut { key, taken: NOW }]
}

#[test]
fn who_was_there_and_is_there_no_more_has_signed_out() {
    let seen = report_of(1, 1, &["ann", "bob"], 50);
    assert_eq!(
        found_on(left(vec![seen, report_of(1, 2, &["bob"], 0)])),
        signed_out()
    );
}

#[test]
fn it_is_said_again_for_as_long_as_it_is_so() {
    let reports = vec![
        report_of(1, 1, &["ann"], 50),
        report_of(1, 2, &[], 40),
        report_of(1, 3, &[], 0),
    ];
    assert_eq!(found_on(left(reports)), signed_out());
}

#[test]
fn nobody_has_signed_out_who_may_still_be_there() {
    let seen = || report_of(1, 1, &["ann"], 50);
    let gone = || report_of(1, 2, &[], 0);
    let pending = hears(
        host("a").lease_of("ann", 800).pending("ann"),
        vec![seen(), gone()],
    );
    let live = hears(
        host("a").lease_of("ann", 800).stood("ann", 50),
        vec![seen(), gone()],
    );
    let without_order = Report {
        order: None,
        ..gone()
    };
    let of_before = Report {
        taken: ago(101),
        ..gone()
    };
    for (what, a) in [
        (
            "still there",
            left(vec![seen(), report_of(1, 2, &["ann"], 0)]),
        ),
        ("there without a domain", {
            let ann = host("a").lease_of("corp\\ann", 800);
            hears(ann, vec![seen(), report_of(1, 2, &["ann"], 0)])
        }),
        ("never seen there", left(vec![gone()])),
        (
            "seen before a restart",
            left(vec![seen(), report_of(2, 1, &[], 0)]),
        ),
        ("a tunnel pending", pending),
        ("a tunnel stands", live),
        (
            "reports that are not counted",
            left(vec![seen(), without_order]),
        ),
        (
            "a report that speaks of before",
            left(vec![seen(), of_before]),
        ),
        ("back again", {
            left(vec![
                seen(),
                report_of(1, 2, &[], 20),
                report_of(1, 3, &["ann"], 0),
            ])
        }),
    ] {
        assert_eq!(found_on(a), [], "{what}");
    }
}

#[test]
fn an_older_report_never_wins() {
    let known = report_of(2, 5, &["ann"], 10);
    let mut view = HostView::default();
    assert!(view.hear(known.clone(), None, |_| false));
    for (boot, seq) in [(2, 5), (2, 4), (1, 99)] {
        assert!(
            !view.hear(report_of(boot, seq, &[], 0), None, |_| false),
            "{boot} {seq}"
        );
        assert_eq!(view.report.as_deref(), Some(&known));
    }
    for (boot, seq) in [(2, 6), (3, 1)] {
        assert!(
            view.hear(report_of(boot, seq, &[], 0), None, |_| false),
            "{boot} {seq}"
        );
    }
    // Where the agent does not count, by arrival.
    assert!(view.hear(report(), None, |_| false));
}

#[test]
fn who_is_elsewhere_takes_the_lease_along() {
    let moved = |a: Vec<Report>, b: HostWords| {
        let world = farm("office").with(left(a)).with(b);
        found(&world)
    };
    let key = LeaseKey::of_user(&user("ann"));
    let to_b = Finding::Moved {
        key,
        to: "b".into(),
        taken: NOW,
    };
    let on_b = || host("b").reporting().session("ann", Active);
    let gone = || report_of(1, 2, &[], 0);
    assert_eq!(moved(vec![gone()], on_b()), vec![to_b.clone()]);
    // Seen here before, too: the lease that cannot follow is released.
    let mut both = vec![to_b];
    both.extend(signed_out());
    assert_eq!(
        moved(vec![report_of(1, 1, &["ann"], 9), gone()], on_b()),
        both
    );
    // Here as well, or the other report is old.
    assert_eq!(moved(vec![report_of(1, 1, &["ann"], 0)], on_b()), []);
    assert_eq!(moved(vec![gone()], on_b().silent(31)), []);
}

#[test]
fn a_logon_in_doubt_is_shown_by_a_session_that_began_after_it() {
    let doubted = |stood: Option<Timestamp>| {
        host("a").answering().pending_in_doubt("ann").view(|view| {
            Arc::make_mut(&mut view.tunnels[0]).since = ago(20);
            Arc::make_mut(&mut view.tunnels[0]).stood = stood;
        })
    };
    let shown = [Finding::Shown("a 0".into())];
    let seen = |a: HostWords, latest| found_on(a.session_from("ann", Active, latest));
    assert_eq!(seen(doubted(Some(ago(19))), ago(20)), shown);
    assert_eq!(seen(doubted(Some(ago(19))), ago(18)), shown);
    assert_eq!(seen(doubted(Some(ago(19))), ago(21)), []);
    assert_eq!(seen(doubted(None), ago(18)), []);
    assert_eq!(found_on(doubted(Some(ago(19))).reporting()), []);
    // Her own tunnel explains the session.
    assert_eq!(seen(doubted(Some(ago(19))).stood("ann", 18), ago(18)), []);
}

fn tagged(tags: &[(&str, &str)]) -> HostWords {
    let a = host("a")
        .reporting()
        .stood("", 20)
        .stood("", 20)
        .view(|view| {
            Arc::make_mut(&mut view.tunnels[0]).tunnel =
                "0190b5e4-7d2c-7c11-8a3f-0123456789ab".into();
        });
    tags.iter().fold(a, |a, (who, name)| {
        a.session(who, Active).view(|view| {
            let report = Arc::make_mut(view.report.as_mut().unwrap());
            report.sessions.last_mut().unwrap().client_name = Some((*name).to_owned());
        })
    })
}

#[test]
fn a_tunnel_of_nobodys_is_the_users_whose_session_has_its_mark() {
    let mark = "SG-0123456789ab";
    let tunnel = TunnelId::from("0190b5e4-7d2c-7c11-8a3f-0123456789ab");
    assert_eq!(found_on(tagged(&[("bob", "desk-7"), ("bob", "sg-")])), []);
    assert_eq!(found_on(tagged(&[("ann", mark), ("bob", mark)])), []);
    let bound = |who: &str, key| Finding::Tagged {
        tunnel: tunnel.clone(),
        user: user(who),
        key,
        farm: "office".into(),
    };
    let of_ann = LeaseKey::of_user(&user("ann"));
    assert_eq!(found_on(tagged(&[("ann", mark)])), [bound("ann", of_ann)]);
    // A bare name is whom it is known for.
    let known = farm("office")
        .with(tagged(&[("ann", mark)]))
        .knows("corp\\ann");
    let key = LeaseKey::of_user(&user("corp\\ann"));
    assert_eq!(found(&known), [bound("corp\\ann", key)]);
    // A key a resource names the resource.
    let narrow = farm("office")
        .with(
            tagged(&[("ann", mark)])
                .view(|v| Arc::make_mut(&mut v.tunnels[0]).resource = Some("sage".into())),
        )
        .rules(|rules| rules.single_session_per_user = false);
    let key = LeaseKey::of_resource(&user("ann"), &"office".into(), Some(&"sage".into()));
    assert_eq!(found(&narrow), [bound("ann", key)]);
}

#[test]
fn a_key_tells_whose_it_is() {
    for who in [
        "ann",
        "corp\\ann",
        "corp\\jo|hn",
        "c%7corp\\a\\b%25",
        "J\u{fc}rgen",
    ] {
        let user = user(who);
        assert_eq!(LeaseKey::of_user(&user).user(), user);
        let narrow = LeaseKey::of_resource(&user, &"f|1".into(), Some(&"r\\2".into()));
        assert_eq!(narrow.user(), user);
    }
}

fn sign_out(life: Life, taken: u64) -> Life {
    let taken = NOW + secs(taken);
    life.act(|record, now| _ = record.sign_out(&"a".into(), taken, secs(LEASE), now))
}

#[test]
fn a_lease_left_before_is_released_and_its_history_kept() {
    let life = sign_out(life().left("a").wait(50), 0);
    assert_eq!(life.view_in("office"), None);
    assert!(life.record.last(&"office".into(), life.now()).is_some());
}

#[test]
fn no_other_lease_is_released() {
    let other_host = life().left("b").wait(50);
    sign_out(other_host, 50).is("b", LeaseState::Lingering, 850);
    let left_later = life().wait(10).left("a").wait(5);
    sign_out(left_later, 9).is("a", LeaseState::Lingering, 895);
    let pending = life().left("a").claim("t", "a");
    sign_out(pending, 50).is("a", LeaseState::Lingering, 900);
    let live = life().claim("t", "a").stood("t");
    sign_out(live, 50).is("a", LeaseState::Live, 900);
}

#[test]
fn what_was_released_is_not_put_back_by_a_claim_that_fails() {
    sign_out(life().left("a").claim("t", "b"), 50)
        .end("t")
        .gone();
}

fn follow(life: Life, farm: &str, taken: u64) -> Life {
    let (from, to) = ("a".into(), "b".into());
    let taken = NOW + secs(taken);
    life.act(|record, now| {
        let in_farm = |known: &FarmId| known.as_str() == farm;
        _ = record.follow((&from, &to), in_farm, taken, secs(LEASE), now);
    })
}

#[test]
fn a_lease_follows_its_user_and_keeps_its_time() {
    let moved = follow(life().left("a").wait(50), "office", 50);
    let last = moved.record.last(&"office".into(), moved.now());
    assert_eq!(last.map(|past| past.host.as_str()), Some("b"));
    moved.is("b", LeaseState::Lingering, 850);
}

#[test]
fn a_lease_follows_nowhere_else_and_never_from_under_a_tunnel() {
    follow(life().left("a"), "erp", 50).is("a", LeaseState::Lingering, 900);
    follow(life().wait(10).left("a"), "office", 9).is("a", LeaseState::Lingering, 900);
    let live = life().claim("t", "a").stood("t");
    follow(live, "office", 50).is("a", LeaseState::Live, 900);
    let pending = life().left("a").claim("t", "a");
    follow(pending, "office", 50).is("a", LeaseState::Lingering, 900);
}
