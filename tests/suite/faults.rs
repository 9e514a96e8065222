//! What goes wrong around the broker, one fault a test, with what must come of it in the test's
//! name. `tests/README.md` lists every fault with its test, here or elsewhere; `table` keeps both
//! in step.

mod agents;
mod database;
mod guacamole;
mod guacd;
mod hosts;
mod machine;
mod process;
pub(super) mod table;

use std::time::Duration;

use serde_json::Value;

use super::admin::get;
use crate::support::{
    Broker, FaultProxy, GuacdPeer, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, Visitor,
    eventually,
};

fn names() -> Names {
    Names::rdp("1.6.0")
}

fn polite() -> ScriptedGuacd {
    ScriptedGuacd::polite(names())
}

/// Bytes pass, both ways.
pub(super) fn assert_carries(visitor: &mut Visitor, peer: &mut GuacdPeer) {
    visitor.wire.send(b"3.key,5.65307,1.1;").unwrap();
    assert_eq!(peer.wire.exact(18).unwrap(), b"3.key,5.65307,1.1;");
    peer.wire.send(b"4.blob,1.1,4.AAAA;").unwrap();
    assert_eq!(visitor.wire.exact(18).unwrap(), b"4.blob,1.1,4.AAAA;");
}

/// A scene whose guacd is reached through a network that may fail.
fn behind_a_network(hosts: usize) -> (Stage, FaultProxy) {
    let guacd = polite();
    let network = FaultProxy::before(guacd.address());
    let address = network.address();
    let stage = Stage::adjusted(guacd, hosts, |mut site| {
        site.guacd = address;
        site
    });
    (stage, network)
}

/// A site with these hosts and settings of the broker.
fn site(guacd: &ScriptedGuacd, hosts: &[&ScriptedHost], settings: &str) -> Site {
    let addresses: Vec<_> = hosts.iter().map(|host| host.address()).collect();
    Stage::site(guacd.address(), &addresses).with(format!("[broker]\n{settings}"))
}

/// The user's leases: host and state of each.
pub(super) fn leases(site: &Site, user: &str) -> Vec<String> {
    let told = get(site, &format!("/api/v1/leases?user={user}"));
    let listed = told["leases"].as_array().unwrap().iter();
    let text = |lease: &Value, name: &str| lease[name].as_str().unwrap().to_owned();
    listed
        .map(|lease| format!("{} {}", text(lease, "host"), text(lease, "state")))
        .collect()
}

pub(super) fn wait_for_lease(site: &Site, user: &str, expected: &str) {
    eventually(expected, || {
        (leases(site, user) == [expected]).then_some(())
    });
}

/// As many descriptors as before, but for a probe or two that may be under way.
fn wait_for_descriptors(broker: &Broker, before: usize) {
    eventually("descriptors", || {
        (broker.descriptors() <= before + 3).then_some(())
    });
}

/// For what is over at once, on a machine under load.
const SOON: Duration = Duration::from_secs(8);

/// Somebody new is served, and by which host.
pub(super) fn serves(stage: &Stage, user: &str) -> String {
    // Where the desktop stands guacd may leave first: it is not dialled again.
    let (_visitor, peer) = stage.desktop(&Visit::office(user));
    stage.host_of(&peer)
}
