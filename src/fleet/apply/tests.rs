//! What a reload leaves as it was, what it changes, and what it must not lose.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fleet::Seat;
use crate::fleet::tests::stored;
use crate::placement::{
    Decision, Farm, FarmId, FarmOverrides, LeaseKey, LeaseRecord, Mode, Outcome, ParameterValues,
    Placement, Reason, ResourceKind, Rules, Timestamp, Trust, TunnelId, UserKey,
};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// A host of the farm, on a port of its own.
fn host(id: &str, port: u16, mode: Mode) -> Host {
    Host {
        id: id.into(),
        address: format!("{id}.example.com"),
        port,
        farm_ids: vec!["office".into()],
        tags: BTreeMap::new(),
        mode,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    }
}

fn directory(hosts: impl IntoIterator<Item = Host>) -> Arc<Directory> {
    let farm = Farm {
        id: "office".into(),
        name: "Office".to_owned(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    };
    Arc::new(Directory::new(Rules::default(), hosts, [farm], []))
}

fn of(ids: &[&str]) -> Arc<Directory> {
    directory(ids.iter().map(|id| host(id, 3389, Mode::Online)))
}

/// A fleet of these, all of which answer.
fn fleet(ids: &[&str]) -> Arc<Fleet> {
    let fleet = Fleet::new(of(ids));
    for id in ids {
        fleet.note_probe(&HostId::from(*id), true, NOW);
    }
    fleet
}

fn sit(fleet: &Arc<Fleet>, tunnel: &str, on: &str) -> Seat {
    let user = UserKey::new("ann", "").unwrap();
    let decision = Decision {
        generation: 0,
        configuration: 0,
        resource: None,
        farm: Some("office".into()),
        key: Some(LeaseKey::of_user(&user)),
        user: Some(user),
        trust: Trust::Plain,
        outcome: Outcome::Placed(Placement {
            host: on.into(),
            address: String::new(),
            port: 3389,
            kind: ResourceKind::Desktop,
            reason: Reason::Score,
        }),
        candidates: Vec::new(),
    };
    fleet.seat(&tunnel.into(), NOW, |_| decision).1.unwrap()
}

fn view(fleet: &Fleet, id: &str) -> Option<HostView> {
    let snapshot = fleet.snapshot();
    snapshot
        .hosts
        .get(&HostId::from(id))
        .map(|view| HostView::clone(view))
}

#[test]
fn a_reload_is_one_generation_of_both_kinds() {
    let fleet = fleet(&["a"]);
    let before = fleet.snapshot();
    assert_eq!(fleet.apply(of(&["a", "b"]), NOW), before.configuration + 1);
    let after = fleet.snapshot();
    assert_eq!(after.generation, before.generation + 1);
    assert_eq!(after.configuration, before.configuration + 1);
    assert_eq!(before.directory.hosts().count(), 1);
}

#[test]
fn a_host_that_stays_keeps_all_that_is_known_of_it() {
    let fleet = fleet(&["a", "b"]);
    fleet.note_probe(&"a".into(), false, NOW);
    fleet.note_probe(&"a".into(), true, NOW + Duration::from_secs(1));
    let seat = sit(&fleet, "t1", "a");
    seat.stood(NOW);
    let before = view(&fleet, "a").unwrap();
    fleet.apply(of(&["a", "c"]), NOW);
    let after = view(&fleet, "a").unwrap();
    assert_eq!(after.tunnels, before.tunnels);
    assert_eq!(
        (after.probe, after.usable_since),
        (before.probe, before.usable_since)
    );
    drop(seat);
    assert!(view(&fleet, "a").unwrap().tunnels.is_empty());
}

#[test]
fn a_new_host_starts_unknown_in_its_configured_mode() {
    let fleet = fleet(&["a"]);
    let hosts = [host("a", 3389, Mode::Online), host("b", 3389, Mode::Drain)];
    fleet.apply(directory(hosts), NOW);
    let new = view(&fleet, "b").unwrap();
    assert_eq!((new.mode(NOW), new.probe), (Mode::Drain, Probe::Unknown));
}

#[test]
fn a_host_that_moved_is_probed_anew_and_an_answer_from_the_old_place_is_void() {
    let fleet = fleet(&["a"]);
    let old = host("a", 3389, Mode::Online);
    let seat = sit(&fleet, "t1", "a");
    fleet.apply(directory([host("a", 3390, Mode::Online)]), NOW);
    assert_eq!(view(&fleet, "a").unwrap().probe, Probe::Unknown);
    assert_eq!(fleet.note_answer(&old, true, NOW), None);
    assert_eq!(view(&fleet, "a").unwrap().probe, Probe::Unknown);
    assert!(
        fleet
            .note_answer(&host("a", 3390, Mode::Online), true, NOW)
            .is_some()
    );
    assert_eq!(view(&fleet, "a").unwrap().tunnels.len(), 1);
    drop(seat);
}

#[test]
fn a_host_that_moved_or_got_another_mode_begins_with_a_closed_breaker() {
    let is_open = |fleet: &Fleet| {
        let view = view(fleet, "a").unwrap();
        view.breaker(NOW).opening().is_some()
    };
    for (change, stays) in [
        (host("a", 3389, Mode::Online), true),
        (host("a", 3390, Mode::Online), false),
        (host("a", 3389, Mode::Drain), false),
    ] {
        let fleet = fleet(&["a"]);
        for (who, resource) in [("ann", "erp"), ("bob", "desktop")] {
            let decision = Decision {
                user: UserKey::new(who, ""),
                resource: Some(resource.into()),
                ..crate::fleet::tests::placed_on("a")
            };
            let (_, seat) = fleet.seat(&who.into(), NOW, |_| decision);
            seat.unwrap().failed(NOW);
        }
        assert!(is_open(&fleet));
        fleet.apply(directory([change]), NOW);
        assert_eq!(is_open(&fleet), stays);
    }
}

#[test]
fn a_mode_follows_the_files_until_one_is_ordered() {
    let fleet = fleet(&["a"]);
    fleet.apply(directory([host("a", 3389, Mode::Maintenance)]), NOW);
    assert_eq!(view(&fleet, "a").unwrap().mode(NOW), Mode::Maintenance);
    assert_eq!(view(&fleet, "a").unwrap().turned_usable(NOW), None);
    let later = NOW + Duration::from_secs(5);
    fleet.apply(of(&["a"]), later);
    assert_eq!(view(&fleet, "a").unwrap().mode(NOW), Mode::Online);
    // It is filled slowly, as every host that returns.
    let usable = view(&fleet, "a").unwrap().turned_usable(later);
    assert_eq!(usable, Some(later));
}

#[test]
fn a_host_taken_out_is_counted_until_its_last_tunnel_ends() {
    let fleet = fleet(&["a", "b"]);
    let (first, second) = (sit(&fleet, "t1", "a"), sit(&fleet, "t2", "a"));
    fleet.apply(of(&["b"]), NOW);
    let snapshot = fleet.snapshot();
    assert!(!snapshot.directory.is_member(&"office".into(), &"a".into()));
    assert_eq!(view(&fleet, "a").unwrap().tunnels.len(), 2);
    first.stood(NOW);
    drop(first);
    assert_eq!(view(&fleet, "a").unwrap().tunnels.len(), 1);
    drop(second);
    assert!(view(&fleet, "a").is_none());
}

#[test]
fn a_host_put_back_is_counted_as_before_and_probed_anew() {
    let fleet = fleet(&["a", "b"]);
    let seat = sit(&fleet, "t1", "a");
    fleet.apply(of(&["b"]), NOW);
    fleet.apply(of(&["a", "b"]), NOW);
    let back = view(&fleet, "a").unwrap();
    assert_eq!((back.tunnels.len(), back.probe), (1, Probe::Unknown));
    drop(seat);
    assert!(view(&fleet, "a").unwrap().tunnels.is_empty());
}

#[test]
fn a_seat_on_a_host_that_nobody_knows_any_more_is_given_back_in_peace() {
    let fleet = fleet(&["a", "b"]);
    fleet.apply(of(&["b"]), NOW);
    // Decided on the picture before, seated on the one after.
    let seat = sit(&fleet, "t1", "a");
    seat.stood(NOW);
    drop(seat);
    assert!(view(&fleet, "a").is_none());
}

#[test]
fn lingering_leases_keep_a_host_until_they_run_out() {
    let fleet = fleet(&["a", "b"]);
    let user = UserKey::new("ann", "").unwrap();
    let (key, lease) = (LeaseKey::of_user(&user), Duration::from_secs(900));
    let mut record = LeaseRecord::default();
    let (farm, host, tunnel) = (FarmId::from("office"), "a".into(), TunnelId::from("t1"));
    assert!(record.claim(&farm, &host, &tunnel, Trust::Plain, NOW));
    record.stood(&tunnel, &user, lease, NOW);
    record.end(&tunnel, lease, NOW);
    fleet.note_leases(&key, &stored(&record), NOW);
    fleet.apply(of(&["b"]), NOW);
    assert_eq!(view(&fleet, "a").unwrap().lingering.len(), 1);
    fleet.expire_leases(NOW + lease);
    assert!(view(&fleet, "a").is_none());
}

#[test]
fn a_host_that_a_reload_brings_or_moves_starts_slowly_and_one_at_our_start_does_not() {
    let later = NOW + Duration::from_secs(5);
    let fleet = fleet(&["a"]);
    assert_eq!(view(&fleet, "a").unwrap().usable_since, None);
    let moved = host("a", 3390, Mode::Online);
    fleet.apply(
        directory([moved.clone(), host("b", 3389, Mode::Online)]),
        NOW,
    );
    for id in ["a", "b"] {
        fleet.note_probe(&id.into(), true, later);
        assert_eq!(view(&fleet, id).unwrap().usable_since, Some(later), "{id}");
    }
    // One that does not answer yet is not usable yet.
    fleet.apply(of(&["a", "b", "c"]), later);
    fleet.note_probe(&"c".into(), false, later);
    assert_eq!(view(&fleet, "c").unwrap().usable_since, None);
}

#[tokio::test]
async fn nobody_waits_for_a_host_that_was_taken_out() {
    let fleet = Fleet::new(of(&["a", "b"]));
    fleet.note_probe(&"a".into(), true, NOW);
    let waiting = tokio::spawn({
        let fleet = Arc::clone(&fleet);
        async move { fleet.probed().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    fleet.apply(of(&["a"]), NOW);
    waiting.await.unwrap();
}

#[tokio::test]
async fn once_all_were_probed_a_new_host_keeps_nobody_waiting() {
    let fleet = fleet(&["a"]);
    fleet.probed().await;
    fleet.apply(of(&["a", "b"]), NOW);
    fleet.probed().await;
}

#[tokio::test]
async fn a_farm_without_a_host_waits_for_nobody() {
    let fleet = Fleet::new(of(&[]));
    fleet.probed().await;
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    Reload(Vec<u8>),
    Sit(u8),
    /// The oldest, the second oldest...
    Leave(usize),
    Probe(u8, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        proptest::collection::vec(0..4_u8, 0..4).prop_map(Event::Reload),
        (0..4_u8).prop_map(Event::Sit),
        (0..4_usize).prop_map(Event::Leave),
        (0..4_u8, any::<bool>()).prop_map(|(host, answers)| Event::Probe(host, answers)),
    ]
}

proptest! {
    /// Whatever the order, every open tunnel on a host that was known when it
    /// came is counted exactly once, and what is neither configured nor in use
    /// is not kept.
    #[test]
    fn no_order_of_events_loses_a_tunnel_or_keeps_a_ghost(
        events in proptest::collection::vec(event(), 0..60)
    ) {
        let name = |host: u8| format!("h{host}");
        let named = |hosts: &[u8]| {
            let hosts = hosts.iter().map(|n| host(&name(*n), 3389, Mode::Online));
            directory(hosts.collect::<Vec<_>>())
        };
        let fleet = Fleet::new(named(&[0, 1]));
        let mut seats = Vec::new();
        for (nth, event) in events.into_iter().enumerate() {
            match event {
                Event::Reload(hosts) => {
                    fleet.apply(named(&hosts), NOW);
                }
                Event::Sit(host) => {
                    let known = view(&fleet, &name(host)).is_some();
                    let seat = sit(&fleet, &format!("t{nth}"), &name(host));
                    if known {
                        seats.push((host, seat));
                    }
                }
                Event::Leave(which) => {
                    if which < seats.len() {
                        seats.remove(which);
                    }
                }
                Event::Probe(host, answers) => {
                    fleet.note_probe(&HostId::from(name(host)), answers, NOW);
                }
            }
            let snapshot = fleet.snapshot();
            for host in 0..4 {
                let open = seats.iter().filter(|(on, _)| *on == host).count();
                let view = snapshot.hosts.get(&HostId::from(name(host)));
                prop_assert_eq!(view.map_or(0, |view| view.tunnels.len()), open);
                let configured = snapshot.directory.host(&HostId::from(name(host))).is_some();
                prop_assert_eq!(view.is_some(), configured || open > 0);
            }
        }
    }
}
