//! The picture is published whole after every change, and counts what is there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::placement::{
    Decision, Farm, FarmId, FarmOverrides, Host, LeaseKey, LeaseRecord, Load, Mode, Outcome,
    ParameterValues, Placement, Reason, Report, ReportNumber, ResourceKind, Rules, Session,
    SessionState, Trust, UserKey, alarms,
};
use crate::store::{Version, Versioned};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

pub(super) fn fleet() -> Arc<Fleet> {
    let host = |id: &str| Host {
        id: id.into(),
        address: format!("{id}.example.com"),
        port: 3389,
        farm_ids: vec!["office".into()],
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    };
    let farm = Farm {
        id: "office".into(),
        name: "Office".to_owned(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    };
    let hosts = [host("a"), host("b")];
    Fleet::new(Arc::new(Directory::new(
        Rules::default(),
        hosts,
        [farm],
        [],
    )))
}

fn ann() -> (UserKey, LeaseKey) {
    let user = UserKey::new("ann", "").unwrap();
    let key = LeaseKey::of_user(&user);
    (user, key)
}

/// A record as the store gives it.
pub(super) fn stored(record: &LeaseRecord) -> Versioned {
    Versioned {
        version: Version::nth(1),
        record: record.clone(),
    }
}

pub(super) fn placed_on(host: &str) -> Decision {
    let (user, key) = ann();
    Decision {
        generation: 0,
        configuration: 0,
        resource: None,
        farm: Some("office".into()),
        user: Some(user),
        trust: Trust::Plain,
        key: Some(key),
        outcome: Outcome::Placed(Placement {
            host: host.into(),
            address: String::new(),
            port: 3389,
            kind: ResourceKind::Desktop,
            reason: Reason::Score,
        }),
        candidates: Vec::new(),
    }
}

fn load(fleet: &Fleet, host: &str) -> Load {
    fleet.snapshot().hosts[&HostId::from(host)].load(NOW)
}

#[test]
fn a_seat_counts_from_the_decision_until_it_is_dropped() {
    let fleet = fleet();
    let (_, seat) = fleet.seat(&"t1".into(), NOW, |_| placed_on("a"));
    assert_eq!(load(&fleet, "a").active, 1);
    assert_eq!(load(&fleet, "b").active, 0);
    let seat = seat.unwrap();
    seat.stood(NOW);
    let view = Arc::clone(&fleet.snapshot().hosts[&HostId::from("a")]);
    assert_eq!(view.tunnels[0].stood, Some(NOW));
    drop(seat);
    assert_eq!(load(&fleet, "a").active, 0);
}

#[test]
fn a_tunnel_that_is_believed_is_in_doubt_no_more() {
    let fleet = fleet();
    let doubted = |_: &Snapshot| Decision {
        trust: Trust::Doubtful,
        ..placed_on("a")
    };
    let (_, seat) = fleet.seat(&"t1".into(), NOW, doubted);
    let trust = || fleet.snapshot().hosts[&HostId::from("a")].tunnels[0].trust;
    assert_eq!(trust(), Trust::Doubtful);
    fleet.believe(&"a".into(), &"another".into());
    assert_eq!(trust(), Trust::Doubtful);
    fleet.believe(&"a".into(), &"t1".into());
    assert_eq!(trust(), Trust::Plain);
    drop(seat);
}

#[test]
fn a_refusal_takes_no_seat() {
    let fleet = fleet();
    let mut decision = placed_on("a");
    decision.outcome = Outcome::Unmatched;
    let (_, seat) = fleet.seat(&"t1".into(), NOW, |_| decision);
    assert!(seat.is_none());
}

#[test]
fn a_seat_that_moves_is_counted_once_and_not_by_whoever_moves_it() {
    let fleet = fleet();
    let (_, seat) = fleet.seat(&"t1".into(), NOW, |_| placed_on("a"));
    let mut seat = seat.unwrap();
    let counted = |snapshot: &Snapshot| -> Vec<usize> {
        let views = snapshot.hosts.values();
        views.map(|view| view.tunnels.len()).collect()
    };
    let before = fleet.snapshot();
    let (_, moved) = fleet.move_seat(&mut seat, &"t1".into(), NOW, |snapshot| {
        assert_eq!(counted(snapshot), [0, 0]);
        placed_on("b")
    });
    assert!(moved);
    let after = fleet.snapshot();
    assert_eq!(after.generation, before.generation + 1);
    assert_eq!(
        (counted(&before), counted(&after)),
        (vec![1, 0], vec![0, 1])
    );
    seat.stood(NOW);
    assert_eq!(load(&fleet, "b").active, 1);
    drop(seat);
    assert_eq!(counted(&fleet.snapshot()), [0, 0]);
}

#[test]
fn a_seat_stays_where_it_is_when_there_is_no_other() {
    let fleet = fleet();
    let (_, seat) = fleet.seat(&"t1".into(), NOW, |_| placed_on("a"));
    let mut seat = seat.unwrap();
    let before = fleet.snapshot();
    let (_, moved) = fleet.move_seat(&mut seat, &"t1".into(), NOW, |_| Decision {
        outcome: Outcome::Unmatched,
        ..placed_on("a")
    });
    assert!(!moved);
    let after = fleet.snapshot();
    assert_eq!(after.generation, before.generation);
    seat.stood(NOW);
    let view = Arc::clone(&fleet.snapshot().hosts[&HostId::from("a")]);
    assert_eq!(view.tunnels[0].stood, Some(NOW));
}

#[test]
fn every_change_is_a_new_generation_and_an_old_picture_stays_as_it_was() {
    let fleet = fleet();
    let before = fleet.snapshot();
    let (_, _seat) = fleet.seat(&"t1".into(), NOW, |_| placed_on("a"));
    let after = fleet.snapshot();
    assert!(after.generation > before.generation);
    assert!(before.hosts[&HostId::from("a")].tunnels.is_empty());
}

#[test]
fn probes_keep_the_moment_a_state_began() {
    let fleet = fleet();
    let a = HostId::from("a");
    let later = NOW + Duration::from_secs(10);
    let state = || fleet.snapshot().hosts[&a].probe;
    assert_eq!(fleet.note_probe(&a, true, NOW), Some(Duration::ZERO));
    assert_eq!(fleet.note_probe(&a, true, later), None);
    assert_eq!(state(), Probe::Answering { since: NOW });
    assert_eq!(
        fleet.note_probe(&a, false, later),
        Some(Duration::from_secs(10))
    );
    assert_eq!(state(), Probe::Failing { since: later });
    assert_eq!(
        fleet.note_probe(&a, false, later + Duration::from_secs(5)),
        None
    );
    assert_eq!(state(), Probe::Failing { since: later });
}

#[tokio::test]
async fn nobody_is_placed_before_every_host_was_probed() {
    let fleet = fleet();
    let waiting = tokio::spawn({
        let fleet = Arc::clone(&fleet);
        async move { fleet.probed().await }
    });
    fleet.note_probe(&"a".into(), true, NOW);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    fleet.note_probe(&"b".into(), false, NOW);
    waiting.await.unwrap();
}

#[test]
fn a_lingering_lease_counts_on_its_host_only_and_until_its_end() {
    let fleet = fleet();
    let (_, key) = ann();
    let lease = Duration::from_secs(900);
    let linger_on = |host: &str| {
        let (farm, host, tunnel) = (FarmId::from("office"), HostId::from(host), "t1".into());
        let mut record = LeaseRecord::default();
        assert!(record.claim(&farm, &host, &tunnel, Trust::Plain, NOW));
        record.stood(&tunnel, &ann().0, lease, NOW);
        record.end(&tunnel, lease, NOW);
        record
    };
    fleet.note_leases(&key, &stored(&linger_on("a")), NOW);
    assert_eq!(load(&fleet, "a").disconnected, 1);
    fleet.note_leases(&key, &stored(&linger_on("b")), NOW);
    assert_eq!(
        (
            load(&fleet, "a").disconnected,
            load(&fleet, "b").disconnected
        ),
        (0, 1)
    );
    fleet.expire_leases(NOW + lease);
    assert!(
        fleet.snapshot().hosts[&HostId::from("b")]
            .lingering
            .is_empty()
    );
    fleet.note_leases(&key, &stored(&LeaseRecord::default()), NOW);
}

#[test]
fn a_claim_alone_is_no_new_picture_and_what_it_lifts_is_one() {
    let fleet = fleet();
    let (user, key) = ann();
    let lease = Duration::from_secs(900);
    let (farm, host, tunnel) = (FarmId::from("office"), HostId::from("a"), "t1".into());
    let mut record = LeaseRecord::default();
    assert!(record.claim(&farm, &host, &tunnel, Trust::Plain, NOW));
    let pictures = |record: &LeaseRecord| {
        let before = fleet.snapshot().generation;
        fleet.note_leases(&key, &stored(record), NOW);
        fleet.snapshot().generation - before
    };
    assert_eq!(pictures(&record), 0);
    record.stood(&tunnel, &user, lease, NOW);
    record.end(&tunnel, lease, NOW);
    assert_eq!(pictures(&record), 1);
    assert_eq!(load(&fleet, "a").disconnected, 1);
    assert_eq!(pictures(&LeaseRecord::default()), 1);
    assert_eq!(load(&fleet, "a").disconnected, 0);
}

fn usable_since(fleet: &Fleet, host: &str) -> Option<Timestamp> {
    fleet.snapshot().hosts[&HostId::from(host)].usable_since
}

fn later(seconds: u64) -> Timestamp {
    NOW + Duration::from_secs(seconds)
}

#[test]
fn a_host_that_was_down_turns_usable_and_one_that_was_up_at_our_start_does_not() {
    let fleet = fleet();
    let (a, b) = (HostId::from("a"), HostId::from("b"));
    fleet.note_probe(&a, true, NOW);
    fleet.note_probe(&a, true, later(10));
    assert_eq!(usable_since(&fleet, "a"), None);
    // Down when we started: its return is news.
    fleet.note_probe(&b, false, NOW);
    assert_eq!(usable_since(&fleet, "b"), None);
    fleet.note_probe(&b, true, later(20));
    assert_eq!(usable_since(&fleet, "b"), Some(later(20)));
    // And again at each return.
    fleet.note_probe(&b, false, later(30));
    assert_eq!(usable_since(&fleet, "b"), Some(later(20)));
    fleet.note_probe(&b, true, later(40));
    assert_eq!(usable_since(&fleet, "b"), Some(later(40)));
}

#[test]
fn a_host_that_tunnels_proved_while_its_probe_failed_was_there_all_along() {
    let fleet = fleet();
    let a = HostId::from("a");
    fleet.note_probe(&a, true, NOW);
    fleet.note_probe(&a, false, later(10));
    let (_, seat) = fleet.seat(&"t1".into(), later(15), |_| placed_on("a"));
    let seat = seat.unwrap();
    seat.stood(later(20));
    fleet.note_probe(&a, true, later(60));
    assert_eq!(usable_since(&fleet, "a"), None);
    // A tunnel from before proves nothing.
    fleet.note_probe(&a, false, later(70));
    fleet.note_probe(&a, true, later(80));
    assert_eq!(usable_since(&fleet, "a"), Some(later(80)));
}

#[test]
fn a_seat_is_a_logon_under_way_from_the_moment_it_was_taken() {
    let fleet = fleet();
    let (_, _seat) = fleet.seat(&"t1".into(), later(5), |_| placed_on("a"));
    let snapshot = fleet.snapshot();
    let a = HostId::from("a");
    assert_eq!(snapshot.hosts[&a].tunnels[0].since, later(5));
    let caps = snapshot.directory.caps(&a).unwrap();
    let pending = |at| snapshot.hosts[&a].occupancy(caps, at).pending;
    assert_eq!((pending(later(64)), pending(later(65))), (1, 0));
}

#[tokio::test]
async fn who_waits_for_a_newer_picture_is_woken_by_any_change() {
    let fleet = fleet();
    let seen = fleet.snapshot().generation;
    let waiting = tokio::spawn({
        let fleet = Arc::clone(&fleet);
        async move { fleet.newer_than(seen).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let (_, seat) = fleet.seat(&"t1".into(), NOW, |_| placed_on("a"));
    waiting.await.unwrap();
    let seen = fleet.snapshot().generation;
    drop(seat);
    fleet.newer_than(seen).await;
    // What is older than the picture is not waited for.
    fleet.newer_than(0).await;
}

#[test]
fn names_of_users_who_stood_are_known_and_others_are_not() {
    let fleet = fleet();
    let known = |name: &str| {
        fleet
            .snapshot()
            .people
            .knows(&UserKey::new(name, "").unwrap())
    };
    let note = |name: &str, trust| {
        let user = UserKey::new(name, "").unwrap();
        let (farm, host, tunnel) = ("office".into(), "a".into(), "t1".into());
        let mut record = LeaseRecord::default();
        assert!(record.claim(&farm, &host, &tunnel, trust, NOW));
        fleet.note_leases(&LeaseKey::of_user(&user), &stored(&record), NOW);
        assert!(!known(name));
        record.stood(&tunnel, &user, Duration::from_secs(900), NOW);
        fleet.note_leases(&LeaseKey::of_user(&user), &stored(&record), NOW);
    };
    note("corp\\ann", Trust::Plain);
    assert!(known("CORP\\Ann"));
    note("corp\\bob", Trust::Doubtful);
    assert!(!known("corp\\bob"));
}

#[test]
fn to_note_somebody_known_copies_nobody() {
    let fleet = fleet();
    let user = UserKey::new("corp\\ann", "").unwrap();
    let key = LeaseKey::of_user(&user);
    let mut record = LeaseRecord::default();
    assert!(record.claim(
        &"office".into(),
        &"a".into(),
        &"t1".into(),
        Trust::Plain,
        NOW
    ));
    record.stood(&"t1".into(), &user, Duration::from_secs(900), NOW);
    fleet.note_leases(&key, &stored(&record), NOW);
    let before = Arc::clone(&fleet.snapshot().people);
    fleet.note_leases(&key, &stored(&record), NOW);
    assert!(Arc::ptr_eq(&before, &fleet.snapshot().people));
}

fn report(received: Timestamp) -> Report {
    Report {
        received,
        taken: received,
        health: 100,
        rdp_listener_ok: true,
        cpu_percent: None,
        memory_used_percent: None,
        sessions: Vec::new(),
        missing_remote_apps: Vec::new(),
        order: None,
        overclaims: false,
    }
}

#[test]
fn an_agent_heard_again_starts_its_host_slowly_unless_all_were_silent() {
    let (first, second) = (later(0), later(31));
    let heard = |fleet: &Fleet, host: &str, at| {
        assert!(fleet.note_report(&host.into(), report(at), at).is_some());
    };
    for (all_silent, expected) in [(false, Some(second)), (true, None)] {
        let fleet = fleet();
        for host in ["a", "b"] {
            fleet.note_probe(&host.into(), true, NOW);
            heard(&fleet, host, first);
            assert_eq!(usable_since(&fleet, host), None);
        }
        if !all_silent {
            heard(&fleet, "b", later(20));
        }
        heard(&fleet, "a", second);
        assert_eq!(usable_since(&fleet, "a"), expected);
    }
}

#[test]
fn a_report_that_is_not_news_changes_nothing() {
    let fleet = fleet();
    let ordered = |seq| Report {
        order: Some(ReportNumber { boot: 1, seq }),
        ..report(NOW)
    };
    assert!(fleet.note_report(&"a".into(), ordered(2), NOW).is_some());
    let before = fleet.snapshot().generation;
    assert!(fleet.note_report(&"a".into(), ordered(2), NOW).is_none());
    assert!(
        fleet
            .note_report(&"nobody".into(), ordered(3), NOW)
            .is_none()
    );
    assert_eq!(fleet.snapshot().generation, before);
}

#[test]
fn a_first_report_is_weighed_by_what_hosts_known_of_old_carry() {
    let crowd = |of: &str, count: usize, at| {
        let of_user = |nth| Session {
            user: UserKey::new(&format!("{of}{nth}"), "").unwrap(),
            state: SessionState::Active,
            latest: at,
            client_name: None,
        };
        Report {
            sessions: (0..count).map(of_user).collect(),
            ..report(at)
        }
    };
    let day = Duration::from_secs(24 * 3600);
    let (now, host) = (NOW + day, |id: &str| HostId::from(id));
    let sounding = |fleet: &Fleet| alarms(&fleet.snapshot(), now).len();
    let kept = |fleet: &Fleet, id: &str, count, since| {
        let found = fleet.note_kept_report(&host(id), crowd(id, count, now), since, now);
        assert!(found.is_some());
    };
    let comes = |fleet: &Fleet, id: &str, count| {
        let found = fleet.note_report(&host(id), crowd(id, count, now), now);
        assert!(found.is_some());
    };
    for (since, alarmed) in [(NOW, 1), (NOW + Duration::from_millis(1), 0)] {
        let fleet = fleet();
        kept(&fleet, "a", 12, since);
        comes(&fleet, "b", 25);
        assert_eq!(sounding(&fleet), alarmed);
    }
    let fleet = fleet();
    // Who was believed before this process was begun is believed still.
    kept(&fleet, "a", 12, NOW);
    kept(&fleet, "b", 25, NOW);
    assert_eq!(sounding(&fleet), 0);
    // A later report is no first one.
    comes(&fleet, "b", 25);
    assert_eq!(sounding(&fleet), 0);
}

#[test]
fn a_tunnel_of_ours_is_counted_once_whatever_its_record_says() {
    let fleet = fleet();
    fleet.shares_as("me".into());
    let (user, key) = ann();
    let (_, seat) = fleet.seat(&"t1".into(), NOW, |_| placed_on("a"));
    let mut record = LeaseRecord::default();
    for tunnel in ["t1", "t2"] {
        assert!(record.claim(
            &"office".into(),
            &"a".into(),
            &tunnel.into(),
            Trust::Plain,
            NOW
        ));
    }
    fleet.note_leases(&key, &stored(&record), NOW);
    let ids = || {
        let snapshot = fleet.snapshot();
        let tunnels = snapshot.hosts[&HostId::from("a")].tunnels.iter();
        tunnels
            .map(|t| (t.tunnel.to_string(), t.elsewhere))
            .collect::<Vec<_>>()
    };
    let both = [("t1".to_owned(), false), ("t2".to_owned(), true)];
    assert_eq!(ids(), both);
    assert_eq!(load(&fleet, "a").active, 1, "both are one user's");
    fleet.note_leases(&key, &stored(&record), NOW);
    assert_eq!(ids(), both);
    // What ends elsewhere is over here; what is over in time needs no word.
    let later = NOW + Duration::from_secs(44);
    assert!(fleet.expire_leases(later).is_empty());
    assert_eq!(fleet.expire_leases(later + Duration::from_secs(1)), [key]);
    assert_eq!(ids(), both[..1]);
    drop(seat);
    assert!(ids().is_empty());
    assert_eq!(fleet.replica(), Some("me".into()));
    drop(user);
}
