//! When a host is believed that somebody has a session there, and when it is
//! not.

use std::sync::Arc;

use super::build::*;
use crate::placement::Reason::{Lease, Reconnect, Score};
use crate::placement::SessionState::*;
use crate::placement::*;

/// So many users nobody heard of.
fn strangers(count: u64) -> Vec<String> {
    (0..count).map(|nth| format!("stranger{nth}")).collect()
}

/// The `seq`th report of a start of the host, of these users, as of so many
/// seconds ago.
fn reported(boot: u64, seq: u64, users: &[String], age: u64) -> Report {
    let session = |who: &String| Session {
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
    host.answering().view(|view| {
        for report in reports {
            assert!(view.hear(report, None, |_| false));
        }
    })
}

/// A host that had nobody and then all of these within ten seconds.
fn rushed(id: &str, users: &[String]) -> HostWords {
    let reports = vec![reported(1, 1, &[], 10), reported(1, 2, users, 0)];
    hears(host(id), reports)
}

/// A host that names more users than it has sessions.
fn liar(id: &str) -> HostWords {
    host(id).reporting().cpu(99.0).view(|view| {
        let report = Arc::make_mut(view.report.as_mut().unwrap());
        report.overclaims = true;
    })
}

/// What is said of that host to ann, who asks.
fn set_aside(world: &World, host: &str) -> Option<Mistrust> {
    let candidates = world.decide(by_resource("office"), "ann").candidates;
    let of_host = candidates.iter().find(|c| c.host.as_str() == host);
    of_host.unwrap().session_set_aside
}

fn sounding(world: &World) -> Vec<Alarm> {
    alarms(&world.snapshot(), NOW).into_iter().collect()
}

#[test]
fn a_session_nobody_knows_of_is_believed() {
    let world = farm("office")
        .with(host("a").reporting().cpu(99.0).session("ann", Disconnected))
        .with(host("b").reporting());
    assert_eq!(world.ask("ann"), on("a", Reconnect(Disconnected)));
    assert_eq!(set_aside(&world, "a"), None);
    assert_eq!(sounding(&world), []);
}

#[test]
fn a_host_that_names_more_users_than_sessions_is_believed_where_we_know_better() {
    let world = || {
        farm("office")
            .with(liar("a").session("ann", Active))
            .with(host("b").reporting())
    };
    assert_eq!(world().ask("ann"), on("b", Score));
    assert_eq!(set_aside(&world(), "a"), Some(Mistrust::Overclaims));
    assert_eq!(sounding(&world()), [Alarm::AgentOverclaims("a".into())]);
    let took = world().took("ann", "a");
    assert_eq!(took.ask("ann"), on("a", Reconnect(Active)));
    assert_eq!(set_aside(&took, "a"), None);
    // Having been elsewhere through us says nothing of that host.
    assert_eq!(world().took("ann", "b").ask("ann"), on("b", Score));
    let left = farm("office")
        .with(liar("a").session("ann", Active).lease_of("ann", 100))
        .with(host("b").reporting());
    assert_eq!(left.ask("ann"), on("a", Reconnect(Active)));
}

#[test]
fn with_history_alone_only_what_we_know_is_believed() {
    let world = || {
        farm("office")
            .rules(|r| r.trust_agents = TrustAgents::History)
            .with(host("a").reporting().cpu(99.0).session("ann", Active))
            .with(host("b").reporting())
    };
    assert_eq!(world().ask("ann"), on("b", Score));
    assert_eq!(set_aside(&world(), "a"), Some(Mistrust::NotInHistory));
    assert_eq!(sounding(&world()), []);
    assert_eq!(
        world().took("ann", "a").ask("ann"),
        on("a", Reconnect(Active))
    );
    // A lease is ours, not the host's word.
    let lease = world().lingers("office", "b", 100);
    assert_eq!(lease.ask("ann"), on("b", Lease));
}

#[test]
fn of_two_hosts_that_name_one_user_the_one_we_know_them_from_is_believed() {
    let a = || host("a").reporting().session("ann", Active);
    let b = || host("b").reporting().session("ann", Disconnected);
    let world = || farm("office").with(a()).with(b());
    let alarm = [Alarm::UsersOnTwoHosts("office".into())];
    // Nobody knows better, or both are known: the better session.
    for world in [world(), world().took("ann", "a").took("ann", "b")] {
        assert_eq!(world.ask("ann"), on("a", Reconnect(Active)));
        assert_eq!(sounding(&world), alarm);
    }
    let known = world().took("ann", "b");
    assert_eq!(known.ask("ann"), on("b", Reconnect(Disconnected)));
    assert_eq!(set_aside(&known, "a"), Some(Mistrust::Contradicted));
    assert_eq!(set_aside(&known, "b"), None);
    assert_eq!(sounding(&known), alarm);
}

#[test]
fn only_a_fresh_report_of_a_common_farm_speaks_against_another() {
    let a = || host("a").reporting().session("ann", Active);
    let b = || host("b").answering().session("ann", Disconnected);
    let goes_to_a = |world: World, who: &str| {
        let world = world.took(who, "b");
        assert_eq!(world.ask_for("office", who), on("a", Reconnect(Active)));
        assert_eq!(sounding(&world), []);
    };
    goes_to_a(farm("office").with(a()).with(b().silent(31)), "ann");
    goes_to_a(farm("office").with(a()).farm("lab").with(b()), "ann");
    // A session a resource may be in two places.
    let several = |r: &mut Rules| r.single_session_per_user = false;
    goes_to_a(farm("office").rules(several).with(a()).with(b()), "ann");
    // Others of that name, of whom a bare name is none.
    let bare = || host("b").reporting().session("ann", Disconnected);
    let world = farm("office").with(a()).with(bare()).took("corp\\ann", "b");
    let world = world.took("other\\ann", "b");
    assert_eq!(world.ask("ann"), on("a", Reconnect(Active)));
    let other = host("b").reporting().session("other\\ann", Active);
    let world = farm("office").with(host("a").reporting().session("corp\\ann", Active));
    goes_to_a(world.with(other), "corp\\ann");
}

#[test]
fn more_strangers_at_once_than_the_threshold_and_the_host_is_mistrusted() {
    let mut users = strangers(19);
    users.push("ann".into());
    let world = |users: &[String]| {
        farm("office")
            .with(rushed("a", users))
            .with(host("b").reporting().cpu(50.0))
    };
    assert_eq!(world(&users).ask("ann"), on("a", Reconnect(Disconnected)));
    assert_eq!(sounding(&world(&users)), []);
    users.push("one more".into());
    assert_eq!(set_aside(&world(&users), "a"), Some(Mistrust::Strangers));
    assert_eq!(
        sounding(&world(&users)),
        [Alarm::AgentClaimsStrangers("a".into())]
    );
    assert_eq!(
        world(&users).took("ann", "a").ask("ann"),
        on("a", Reconnect(Disconnected))
    );
    let more = world(&users).rules(|r| r.agent_trust_threshold = 21);
    assert_eq!(more.ask("ann"), on("a", Reconnect(Disconnected)));
    // What it reports counts as its load all the same.
    assert_eq!(world(&users).candidate("a").occupancy.users, 21);
}

/// The most strangers who came together, by these reports.
fn most(reports: Vec<Report>, taken_there: impl Fn(&UserKey) -> bool) -> u32 {
    let mut view = HostView::default();
    for report in reports {
        assert!(view.hear(report, None, &taken_there));
    }
    view.strangers.most()
}

#[test]
fn strangers_are_those_who_come_while_we_watch_and_whom_we_did_not_take_there() {
    let all = strangers(30);
    let (few, many) = (&all[..3], &all[..]);
    let nobody = |_: &UserKey| false;
    for (reports, expected, what) in [
        (vec![reported(1, 1, many, 0)], 0, "there before"),
        (
            vec![reported(1, 1, few, 9), reported(1, 2, many, 0)],
            27,
            "at once",
        ),
        (
            vec![reported(1, 1, many, 9), reported(2, 1, many, 0)],
            30,
            "after a restart nobody was there before",
        ),
        (
            vec![
                reported(1, 1, &[], 20),
                reported(1, 2, many, 10),
                reported(1, 3, many, 0),
            ],
            30,
            "for as long as they stay",
        ),
        (
            vec![
                reported(1, 1, &[], 20),
                reported(1, 2, many, 10),
                reported(1, 3, few, 0),
            ],
            3,
            "and no longer",
        ),
        (
            vec![
                reported(1, 1, &[], 90),
                reported(1, 2, few, 60),
                reported(1, 3, many, 0),
            ],
            27,
            "a minute apart is not at once",
        ),
        (
            vec![
                reported(1, 1, &[], 69),
                reported(1, 2, few, 59),
                reported(1, 3, many, 0),
            ],
            30,
            "less is",
        ),
        (
            vec![reported(1, 1, &[], 600), reported(1, 2, many, 0)],
            3,
            "over a gap they came evenly",
        ),
    ] {
        assert_eq!(most(reports, nobody), expected, "{what}");
    }
    let qualified: Vec<_> = many.iter().map(|who| format!("corp\\{who}")).collect();
    let read_otherwise = vec![reported(1, 1, many, 9), reported(1, 2, &qualified, 0)];
    assert_eq!(
        most(read_otherwise, nobody),
        0,
        "a reload knows their domain"
    );
    let rush = || vec![reported(1, 1, &[], 9), reported(1, 2, many, 0)];
    let ours = |who: &UserKey| who.user() == "stranger7";
    assert_eq!(most(rush(), ours), 29);
}

#[test]
fn whom_a_tunnel_or_a_lease_of_ours_explains_is_no_stranger() {
    let users: Vec<_> = ["ann", "bob", "eve"].map(str::to_owned).into();
    let words = host("a")
        .stood("ann", 5)
        .lease_of("bob", 100)
        .pending_in_doubt("eve");
    let words = hears(
        words,
        vec![reported(1, 1, &[], 9), reported(1, 2, &users, 0)],
    );
    words.view(|view| assert_eq!(view.strangers.most(), 1, "eve may be anybody"));
}

#[test]
fn a_lease_does_not_follow_to_where_a_mistrusted_host_names_its_user() {
    let a = || {
        let gone = vec![reported(1, 1, &["ann".into()], 50), reported(1, 2, &[], 0)];
        hears(host("a").lease_of("ann", 800), gone)
    };
    let found = |b: HostWords| {
        findings(
            &farm("office").with(a()).with(b).snapshot(),
            &"a".into(),
            NOW,
        )
    };
    let moved = |found: &[Finding]| found.iter().any(|f| matches!(f, Finding::Moved { .. }));
    assert!(moved(&found(host("b").session("ann", Active))));
    assert!(!moved(&found(liar("b").session("ann", Active))));
}

#[test]
fn whom_a_mistrusted_host_does_not_name_may_be_there_all_the_same() {
    let reports = |overclaims| {
        let last = Report {
            overclaims,
            ..reported(1, 2, &[], 0)
        };
        vec![reported(1, 1, &["ann".into()], 50), last]
    };
    let found = |overclaims| {
        let a = hears(host("a").lease_of("ann", 800), reports(overclaims));
        findings(&farm("office").with(a).snapshot(), &"a".into(), NOW)
    };
    assert_eq!(found(false).len(), 1);
    assert_eq!(found(true), []);
}

#[test]
fn a_mistrusted_host_does_not_tell_whose_a_tunnel_is() {
    let words = |words: HostWords| {
        words.stood("", 5).view(|view| {
            let tag = view.tunnels[0].tunnel.tag();
            let report = view.report.get_or_insert_with(|| Arc::new(report()));
            let report = Arc::make_mut(report);
            report.sessions.push(Session {
                user: user("ann"),
                state: Active,
                latest: NOW,
                client_name: Some(tag),
            });
        })
    };
    let found = |world: World| findings(&world.snapshot(), &"a".into(), NOW).len();
    let honest = || farm("office").with(words(host("a")));
    assert_eq!(found(honest()), 1);
    let history = |r: &mut Rules| r.trust_agents = TrustAgents::History;
    assert_eq!(found(honest().rules(history)), 0);
    assert_eq!(found(honest().rules(history).took("ann", "a")), 1);
    assert_eq!(found(farm("office").with(words(liar("a")))), 0);
    // Another host's word is nothing against a tunnel of ours.
    let b = host("b").session("ann", Active);
    assert_eq!(found(honest().with(b).took("ann", "b")), 1);
}

#[test]
fn a_mistrusted_host_does_not_confirm_a_login_in_doubt() {
    let words = |words: HostWords| {
        let words = words.session_from("ann", Active, NOW).stood("ann", 5);
        words.view(|view| Arc::make_mut(&mut view.tunnels[0]).trust = Trust::Doubtful)
    };
    let found =
        |words: HostWords| findings(&farm("office").with(words).snapshot(), &"a".into(), NOW);
    assert_eq!(found(words(host("a"))).len(), 1);
    assert_eq!(found(words(liar("a"))), []);
}

#[test]
fn alarms_name_no_user() {
    for (alarm, names) in [
        (Alarm::UsersOnTwoHosts("office".into()), "office"),
        (Alarm::AgentOverclaims("rds1".into()), "rds1"),
        (Alarm::AgentClaimsStrangers("rds1".into()), "rds1"),
    ] {
        assert!(alarm.to_string().contains(names), "{alarm}");
    }
    let world = farm("office")
        .with(host("a").session("corp\\ann", Active))
        .with(host("b").session("ann", Active));
    let found = on_two_hosts(&world.snapshot(), NOW);
    let hosts = &found[&"office".into()][&user("corp\\ann")];
    assert_eq!(hosts, &["a".into(), "b".into()].into());
    assert_eq!((found.len(), found[&"office".into()].len()), (1, 1));
}
