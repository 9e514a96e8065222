//! RDP hosts, what is known of them, and their names.

use std::net::Ipv4Addr;
use std::time::Instant;

use super::*;
use crate::suite::heartbeats::staffed;
use crate::support::{BlackHole, ClosedPort, Dns, Way, session, skipped};

const DOWN: &str = "Host does not answer RDP";
const UP: &str = "Host answers RDP";

#[test]
fn all_down_in_four_ways_newcomers_hear_so_in_time_and_one_that_starts_serves_them() {
    let (closed, hole) = (ClosedPort::new(), BlackHole::new());
    let (silent, other) = (ScriptedHost::silent(), ScriptedHost::ssh());
    let guacd = polite();
    let at = [
        closed.address(),
        hole.address(),
        silent.address(),
        other.address(),
    ];
    let broker = Stage::site(guacd.address(), &at).start();
    let start = Instant::now();
    let refusal = Visit::office("ann").refused_at(&broker);
    assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    assert!(
        start.elapsed() < Duration::from_secs(13),
        "{:?}",
        start.elapsed()
    );
    assert!(guacd.next().connect.is_empty());
    let started = closed.listen();
    broker.wait(UP, |line| line["host"] == "rds1");
    let mut visitor = Visit::office("ann").at(&broker);
    visitor.ready();
    let port = started.address().port().to_string();
    assert_eq!(guacd.ready().value("port"), port);
}

#[test]
fn all_in_maintenance_newcomers_and_those_who_return_hear_that_it_is_busy() {
    let stage = Stage::of(2);
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    drop((visitor, peer));
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
    let both = [("rds1", "maintenance"), ("rds2", "maintenance")];
    let stage = stage.restarted_with(&both);
    for user in ["ann", "bob"] {
        let start = Instant::now();
        let refusal = Visit::office(user).refused_at(&stage.broker);
        assert_eq!(refusal.code, 0x201, "{}", refusal.text);
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        assert!(stage.guacd.next().connect.is_empty());
    }
}

#[test]
fn all_full_newcomers_hear_that_it_is_busy_and_the_next_seat_is_taken() {
    let (one, two, guacd) = (ScriptedHost::up(), ScriptedHost::up(), polite());
    let site = site(
        &guacd,
        &[&one, &two],
        "max_sessions = 1\nslow_start = \"0s\"\n",
    );
    let stage = Stage {
        broker: site.start(),
        hosts: vec![one, two],
        guacd,
        site,
    };
    let (ann, of_ann) = stage.desktop(&Visit::office("ann"));
    let seat = stage.host_of(&of_ann);
    let _bob = stage.desktop(&Visit::office("bob"));
    let start = Instant::now();
    let refusal = Visit::office("carl").refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x201, "{}", refusal.text);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(stage.guacd.next().connect.is_empty());
    drop((ann, of_ann));
    stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(serves(&stage, "carl"), seat);
}

#[test]
fn flapping_it_gets_nobody_while_it_is_down_and_loses_no_tunnel() {
    let (steady, flapping, guacd) = (ScriptedHost::up(), ScriptedHost::up(), polite());
    let network = FaultProxy::before(flapping.address());
    let site = Stage::site(guacd.address(), &[steady.address(), network.address()])
        .with("[probe]\ninterval = \"1s\"\ntimeout = \"300ms\"\n");
    let broker = site.start();
    let port = network.address().port().to_string();
    let is_rds2 = |line: &Value| line["host"] == "rds2";
    broker.wait(UP, is_rds2);
    let mut there = None;
    for nth in 0..4 {
        let mut visitor = Visit::office(&format!("first{nth}")).at(&broker);
        visitor.ready();
        let mut peer = guacd.ready();
        peer.stand();
        visitor.hear_past_nops("sync");
        if peer.value("port") == port {
            there = Some((visitor, peer));
            break;
        }
    }
    let (mut visitor, mut peer) = there.expect("two hosts share four users");
    let count = |message: &str| broker.lines(message).into_iter().filter(is_rds2).count();
    for turn in 1..=2 {
        network.stall(Way::Back);
        eventually("a host that is down", || {
            (count(DOWN) == turn).then_some(())
        });
        for nth in 0..3 {
            let mut newcomer = Visit::office(&format!("user{turn}-{nth}")).at(&broker);
            newcomer.ready();
            assert_ne!(guacd.ready().value("port"), port);
        }
        assert_carries(&mut visitor, &mut peer);
        network.flow();
        eventually("a host that is back", || {
            (count(UP) == turn + 1).then_some(())
        });
    }
    assert_carries(&mut visitor, &mut peer);
}

#[test]
fn a_session_gone_since_the_heartbeat_still_leads_there_and_the_lease_stays_with_the_tunnel() {
    let (stage, mut agents) = staffed(2, "");
    agents[0].reports(&[]);
    agents[1].reports(&[session("ann", "Disconnected", 600)]);
    // She has signed out since; nobody has said so yet.
    let (visitor, mut peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(stage.host_of(&peer), "rds2");
    assert_eq!(
        stage.broker.placed("ann")["reason"],
        "disconnected session there"
    );
    agents[1].reports(&[]);
    peer.stand();
    wait_for_lease(&stage.site, "ann", "rds2 live");
    // A second page goes where the first one is, though no host reports her.
    assert_eq!(serves(&stage, "ann"), "rds2");
    agents[1].reports(&[session("ann", "Active", 0)]);
    drop((visitor, peer));
    wait_for_lease(&stage.site, "ann", "rds2 lingering");
    eventually("a lease that is released", || {
        agents[1].reports(&[]);
        leases(&stage.site, "ann").is_empty().then_some(())
    });
}

/// Hosts by the names `a.test` and `b.test`, asked for at a name server of the test's.
fn named(dns: &Dns, guacd: &ScriptedGuacd, ports: [u16; 2]) -> Site {
    let text = |id: &str, name: &str, port: u16| {
        format!(
            "[[hosts]]\nid = \"{id}\"\naddress = \"{name}\"\nport = {port}\nfarm_ids = [\"office\"]\n"
        )
    };
    let farm = Stage::farm(&[], &[]);
    let hosts = text("rds1", "a.test", ports[0]) + &text("rds2", "b.test", ports[1]);
    let mut site = Site::new(guacd.address()).with(farm + &hosts);
    let file = dns.resolv_conf(site.folder());
    site.mounting = Some(format!("mount --bind {} /etc/resolv.conf;", file.display()));
    site
}

/// A name server; none without root.
fn dns() -> Option<Dns> {
    let dns = Dns::start();
    if dns.is_none() {
        skipped("root, a mount namespace and port 53 of a loopback address");
    }
    dns
}

/// The host's name as guacd is told it; the tunnel is over afterwards.
fn named_host(broker: &Broker, guacd: &ScriptedGuacd, user: &str) -> String {
    let mut visitor = Visit::office(user).at(broker);
    visitor.ready();
    guacd.ready().value("hostname").to_owned()
}

#[test]
fn with_dns_slow_for_one_host_the_others_serve_in_time() {
    let Some(dns) = dns() else { return };
    let (one, two, guacd) = (ScriptedHost::up(), ScriptedHost::up(), polite());
    dns.says("a.test", Ipv4Addr::LOCALHOST, Duration::from_secs(20));
    dns.says("b.test", Ipv4Addr::LOCALHOST, Duration::ZERO);
    let ports = [one.address().port(), two.address().port()];
    let broker = named(&dns, &guacd, ports).start();
    let start = Instant::now();
    for user in ["ann", "bob", "carl"] {
        assert_eq!(named_host(&broker, &guacd, user), "b.test");
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let line = broker.wait(DOWN, |line| line["host"] == "rds1");
    assert!(
        line["error"].as_str().unwrap().contains("no answer"),
        "{line}"
    );
    // Once it is told in time the host is back by itself.
    dns.says("a.test", Ipv4Addr::LOCALHOST, Duration::ZERO);
    broker.wait(UP, |line| line["host"] == "rds1");
    assert_eq!((one.asked() > 0, dns.asked("a.test") > 1), (true, true));
}

#[test]
fn with_dns_slow_for_six_hundred_hosts_newcomers_and_a_reload_are_served_in_time() {
    let Some(dns) = dns() else { return };
    let (up, guacd) = (ScriptedHost::up(), polite());
    let mut text = Stage::farm(&[up.address()], &[]);
    for nth in 0..600 {
        let name = format!("x{nth}.test");
        dns.says(&name, Ipv4Addr::LOCALHOST, Duration::from_secs(25));
        text +=
            &format!("[[hosts]]\nid = \"x{nth}\"\naddress = \"{name}\"\nfarm_ids = [\"office\"]\n");
    }
    let mut site = Site::new(guacd.address()).with(text.clone());
    let file = dns.resolv_conf(site.folder());
    site.mounting = Some(format!("mount --bind {} /etc/resolv.conf;", file.display()));
    let broker = site.start();
    let threads = || {
        let tasks = format!("/proc/{}/task", broker.id());
        std::fs::read_dir(tasks).unwrap().count()
    };
    eventually("many that wait", || (threads() > 200).then_some(()));
    Visit::office("ann").at(&broker).ready();
    assert_eq!(broker.placed("ann")["host"], "rds1");
    let edited = text + "[broker]\nlease_seconds = 901\n";
    std::fs::write(site.folder().join("conf.d/00.toml"), edited).unwrap();
    broker.wait("Configuration applied", |_| true);
    assert!(threads() < 400, "{}", threads());
}

#[test]
fn with_dns_changed_the_new_address_is_probed_and_the_old_one_no_more() {
    let Some(dns) = dns() else { return };
    let guacd = polite();
    // The same port at two addresses: nobody listens at the second one yet.
    let (old, other) = (ScriptedHost::up(), ScriptedHost::up());
    let port = old.address().port();
    dns.says("a.test", Ipv4Addr::LOCALHOST, Duration::ZERO);
    dns.says("b.test", Ipv4Addr::LOCALHOST, Duration::ZERO);
    let site = named(&dns, &guacd, [port, other.address().port()]);
    let broker = site.start();
    broker.wait(UP, |line| line["host"] == "rds1");
    let elsewhere = Ipv4Addr::new(127, 0, 0, 2);
    dns.says("a.test", elsewhere, Duration::ZERO);
    broker.wait(DOWN, |line| line["host"] == "rds1");
    for user in ["ann", "bob"] {
        assert_eq!(named_host(&broker, &guacd, user), "b.test");
    }
    let asked = old.asked();
    let moved = ScriptedHost::at((elsewhere, port).into());
    eventually("a host that is back", || {
        let lines = broker.lines(UP);
        let count = lines.iter().filter(|line| line["host"] == "rds1").count();
        (count == 2).then_some(())
    });
    assert!(moved.asked() > 0);
    assert_eq!(old.asked(), asked);
    // A name that is no more says nothing good of its host.
    dns.says("a.test", Ipv4Addr::new(127, 0, 0, 3), Duration::ZERO);
    eventually("a host that is down again", || {
        let lines = broker.lines(DOWN);
        let count = lines.iter().filter(|line| line["host"] == "rds1").count();
        (count == 2).then_some(())
    });
}
