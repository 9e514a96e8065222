//! Orders reach the picture in one step, and wait for hosts that are not there.

use super::*;
use crate::placement::{
    Actor, Directory, Host, HostView, Mode, Order, ParameterValues, Rules, Timestamp,
};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn of(ids: &[&str]) -> Arc<Directory> {
    let host = |id: &&str| Host {
        id: (*id).into(),
        address: "127.0.0.1".to_owned(),
        port: 3389,
        farm_ids: Vec::new(),
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    };
    let hosts = ids.iter().map(host);
    Arc::new(Directory::new(Rules::default(), hosts, [], []))
}

fn ordered(ids: &[&str], mode: Mode) -> BTreeMap<HostId, Arc<Orders>> {
    let order = Order {
        mode,
        by: Actor::User {
            uid: Some(0),
            name: None,
        },
        reason: None,
        message: None,
        at: NOW,
        from: None,
        until: None,
        restart_when_drained: false,
        online_after_restart: false,
    };
    let orders = Arc::new(Orders::default().give(Mode::Online, order).0);
    let orders = ids.iter().map(|id| ((*id).into(), Arc::clone(&orders)));
    orders.collect()
}

fn mode(fleet: &Fleet, id: &str) -> Mode {
    let snapshot = fleet.snapshot();
    let view: &HostView = &snapshot.hosts[&HostId::from(id)];
    view.mode(NOW)
}

#[test]
fn many_orders_are_one_step() {
    let fleet = Fleet::new(of(&["a", "b", "c"]));
    let before = fleet.snapshot();
    fleet.note_orders(&ordered(&["a", "b"], Mode::Maintenance));
    assert_eq!(fleet.snapshot().generation, before.generation + 1);
    let modes = ["a", "b", "c"].map(|id| mode(&fleet, id));
    assert_eq!(modes, [Mode::Maintenance, Mode::Maintenance, Mode::Online]);
}

#[test]
fn an_order_outlives_every_reload_and_its_hosts_absence() {
    let fleet = Fleet::new(of(&["a", "b"]));
    fleet.note_orders(&ordered(&["a", "gone"], Mode::Drain));
    fleet.apply(of(&["a", "b", "c"]), NOW);
    assert_eq!(mode(&fleet, "a"), Mode::Drain);
    fleet.apply(of(&["b"]), NOW);
    assert!(!fleet.snapshot().hosts.contains_key(&HostId::from("a")));
    fleet.apply(of(&["a", "b", "gone"]), NOW);
    assert_eq!(mode(&fleet, "a"), Mode::Drain);
    assert_eq!(mode(&fleet, "gone"), Mode::Drain);
}
