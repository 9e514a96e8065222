//! Several guacd: new tunnels go where the fewest are, one that cannot be used is passed over and
//! tried again, and a join finds the one that has the connection.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::admin::get;
use crate::support::tls::Identity;
use crate::support::{
    BlackHole, ClosedPort, Dns, GuacdPeer, Names, ScriptedGuacd, Site, Stage, Visit, Visitor,
    eventually, skipped,
};

/// A page waits 15 s; this is well before.
const SOON: Duration = Duration::from_secs(9);

const ASIDE: &str = "Guacd put aside for a while";

fn polite() -> ScriptedGuacd {
    ScriptedGuacd::polite(Names::rdp("1.6.0"))
}

fn listed(addresses: &[SocketAddr]) -> String {
    let list: Vec<_> = addresses.iter().map(|it| format!("\"{it}\"")).collect();
    format!("[guacd]\naddress = [{}]\n", list.join(", "))
}

/// A stage before the last of these, the others before it in the list.
fn stage(others: &[SocketAddr], last: ScriptedGuacd) -> Stage {
    let mut addresses = others.to_vec();
    addresses.push(last.address());
    Stage::adjusted(last, 1, |site| site.with(listed(&addresses)))
}

/// The next connection whose handshake is whole, and which guacd has it. On a slow machine one may
/// have been given up before.
fn next(guacds: &[&ScriptedGuacd]) -> (GuacdPeer, usize) {
    eventually("a connection to one of the guacds", || {
        let within = Duration::from_millis(10);
        let mut all = guacds.iter().enumerate();
        let (at, peer) = all.find_map(|(at, guacd)| Some((at, guacd.within(within)?)))?;
        peer.outcome.is_ok().then_some((peer, at))
    })
}

/// A tunnel, its guacd connection, and which guacd has it.
fn tunnel(stage: &Stage, guacds: &[&ScriptedGuacd], visit: &Visit) -> (Visitor, GuacdPeer, usize) {
    let mut visitor = visit.at(&stage.broker);
    visitor.ready();
    let (peer, at) = next(guacds);
    (visitor, peer, at)
}

fn guacds(site: &Site) -> Vec<Value> {
    let status = get(site, "/api/v1/status");
    status["guacd"].as_array().unwrap().clone()
}

fn of<'a>(guacds: &'a [Value], address: &SocketAddr) -> &'a Value {
    let mut all = guacds.iter();
    all.find(|guacd| guacd["address"] == address.to_string().as_str())
        .unwrap_or_else(|| panic!("{address} in {guacds:?}"))
}

#[test]
fn each_new_tunnel_goes_where_the_fewest_are() {
    let (one, two) = (polite(), polite());
    let stage = stage(&[one.address(), two.address()], polite());
    let all = [&one, &two, &stage.guacd];
    let mut open: Vec<_> = (0..6)
        .map(|nth| tunnel(&stage, &all, &Visit::office(&format!("user{nth}"))))
        .collect();
    let count = |open: &[(Visitor, GuacdPeer, usize)], guacd: usize| {
        open.iter().filter(|(_, _, at)| *at == guacd).count()
    };
    assert_eq!([0, 1, 2].map(|guacd| count(&open, guacd)), [2, 2, 2]);
    let shown = guacds(&stage.site);
    assert_eq!(shown.len(), 3);
    assert!(shown.iter().all(|guacd| guacd["tunnels"] == 2), "{shown:?}");
    let (_, page) = stage.broker.health("/metrics");
    for place in 1..=3 {
        let line = format!("sessionguard_guacd_tunnels{{guacd=\"{place}\"}} 2");
        assert!(
            page.lines().any(|said| said.starts_with(&line)),
            "{line} in {page}"
        );
    }
    // All tunnels of the second end; it gets the next two.
    open.retain(|(_, _, at)| *at != 1);
    eventually("their end", || {
        let shown = guacds(&stage.site);
        (of(&shown, &two.address())["tunnels"] == 0).then_some(())
    });
    for nth in 6..8 {
        let next = tunnel(&stage, &all, &Visit::office(&format!("user{nth}")));
        assert_eq!(next.2, 1);
        open.push(next);
    }
}

#[test]
fn those_that_refuse_swallow_or_say_nothing_are_passed_over_and_put_aside() {
    let (closed, hole, mute) = (ClosedPort::new(), BlackHole::new(), ScriptedGuacd::mute());
    let dead = [closed.address(), hole.address(), mute.address()];
    let stage = stage(&dead, polite());
    let begun = Instant::now();
    let mut open = vec![stage.tunnel(&Visit::office("user0"))];
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // Each is met at the latest when the good one has more.
    for nth in 1..4 {
        open.push(stage.tunnel(&Visit::office(&format!("user{nth}"))));
    }
    let aside = stage.broker.wait_for_lines(ASIDE, 3);
    assert_eq!(aside.len(), 3, "each once: {aside:?}");
    // From now on nobody waits for them.
    let asked = mute.accepted();
    assert_eq!(asked, 1);
    for nth in 4..8 {
        open.push(stage.tunnel(&Visit::office(&format!("user{nth}"))));
    }
    // Unless this machine is so slow that their time is over.
    if begun.elapsed() < Duration::from_secs(10) {
        assert_eq!(mute.accepted(), asked);
    }
    let shown = guacds(&stage.site);
    for address in &dead {
        let guacd = of(&shown, address);
        assert!(
            guacd["failure"].is_string() && guacd["tunnels"] == 0,
            "{guacd}"
        );
    }
    assert_eq!(of(&shown, &stage.guacd.address())["failure"], Value::Null);
    let (_, ready) = stage.broker.health("/readyz?verbose");
    assert!(ready.contains("guacd: degraded: 3 of 4"), "{ready}");
    // It is never a host's fault.
    assert!(
        stage
            .broker
            .lines("Host failed before the desktop stood")
            .is_empty()
    );
    assert_eq!(stage.broker.lines("Placed").len(), 8);
}

#[test]
fn one_that_listens_again_is_used_again_after_a_while() {
    let last = polite();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let stage = stage(&[address], last);
    let mut open = vec![
        stage.tunnel(&Visit::office("user0")),
        stage.tunnel(&Visit::office("user1")),
    ];
    stage
        .broker
        .wait(ASIDE, |line| line["guacd"] == address.to_string().as_str());
    let back = ScriptedGuacd::at(address, Names::rdp("1.6.0"));
    let mut nth = 2;
    // Only after a while; each that comes before is served by the other.
    eventually("the guacd that is back", || {
        let visit = Visit::office(&format!("user{nth}"));
        let (mut visitor, mut peer, at) = tunnel(&stage, &[&back, &stage.guacd], &visit);
        nth += 1;
        // A host takes only so many logons at a time.
        peer.stand();
        visitor.hear_past_nops("sync");
        open.push((visitor, peer));
        std::thread::sleep(Duration::from_millis(500));
        (at == 0).then_some(())
    });
    stage.broker.wait("Guacd answers again", |_| true);
    assert_eq!(of(&guacds(&stage.site), &address)["failure"], Value::Null);
}

#[test]
fn where_all_fail_the_page_is_told_and_any_that_listens_serves_at_once() {
    let ports = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let addresses = ports.map(|port| port.local_addr().unwrap());
    let site = Stage::adjusted(polite(), 1, |site| site.with(listed(&addresses)));
    for user in ["ann", "bob"] {
        let refusal = Visit::office(user).refused_at(&site.broker);
        assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    }
    let back = ScriptedGuacd::at(addresses[1], Names::rdp("1.6.0"));
    let mut visitor = Visit::office("carl").at(&site.broker);
    visitor.ready();
    assert_eq!(back.ready().value("username"), "carl");
}

#[test]
fn one_with_another_certificate_gets_nobody() {
    let (known, strange) = (
        Identity::self_signed("guacd"),
        Identity::self_signed("guacd"),
    );
    let secured =
        |shown: &Identity| ScriptedGuacd::secured(shown.server(None), Names::rdp("1.6.0"));
    let (stranger, good) = (secured(&strange), secured(&known));
    let addresses = [stranger.address(), good.address()];
    let stage = Stage::adjusted(good, 1, |site| {
        let mut text = listed(&addresses);
        write!(
            text,
            "tls = true\npin_sha256 = [\"{}\"]\n",
            known.fingerprint()
        )
        .unwrap();
        site.with(text)
    });
    let mut open = Vec::new();
    for nth in 0..3 {
        open.push(stage.tunnel(&Visit::office(&format!("user{nth}"))));
    }
    let shown = guacds(&stage.site);
    let failure = of(&shown, &addresses[0])["failure"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(failure.contains("pin_sha256"), "{failure}");
    assert_eq!(of(&shown, &addresses[1])["tunnels"], 3);
}

#[test]
fn a_join_reaches_the_guacd_that_has_the_connection() {
    let (one, two) = (polite(), polite());
    let stage = stage(&[one.address(), two.address()], polite());
    let all = [&one, &two, &stage.guacd];
    let mut owners = Vec::new();
    for nth in 0..3 {
        let mut visitor = Visit::office(&format!("user{nth}")).at(&stage.broker);
        let id = visitor.ready();
        let (mut peer, at) = next(&all);
        peer.stand();
        visitor.hear_past_nops("sync");
        owners.push((visitor, id, peer, at));
    }
    let mut guacds: Vec<_> = owners.iter().map(|(_, _, _, at)| *at).collect();
    guacds.sort_unstable();
    assert_eq!(guacds, [0, 1, 2]);
    for (_, id, peer, at) in &owners {
        let mut joiner = Visit::join(id).at(&stage.broker);
        assert_eq!(joiner.ready(), *id);
        assert_eq!(all[*at].ready().select, peer.id);
    }
}

#[test]
fn who_is_taken_to_another_host_may_come_by_another_guacd_and_is_joined_there() {
    let other = polite();
    let addresses = [other.address()];
    let last = polite();
    let all = [addresses[0], last.address()];
    let stage = Stage::adjusted(last, 2, |site| site.with(listed(&all)));
    let both = [&other, &stage.guacd];
    let mut owner = Visit::office("ann").at(&stage.broker);
    let id = owner.ready();
    let (mut first, _) = next(&both);
    first.wire.send(b"5.error,1.x,3.519;").unwrap();
    first.wire.finish();
    let (mut second, at) = next(&both);
    second.stand();
    owner.hear_past_nops("sync");
    let mut joiner = Visit::join(&id).at(&stage.broker);
    joiner.ready();
    let (of_joiner, joined_at) = next(&both);
    assert_eq!((joined_at, of_joiner.select), (at, second.id));
}

#[test]
fn each_address_of_a_name_is_a_guacd_and_names_are_looked_up_at_every_dial() {
    let Some(dns) = Dns::start() else {
        skipped("root, a mount namespace and port 53 of a loopback address");
        return;
    };
    let ips = [2, 3, 4].map(|last| Ipv4Addr::new(127, 0, 77, last));
    let first = TcpListener::bind((ips[0], 0)).unwrap();
    let port = first.local_addr().unwrap().port();
    drop(first);
    let [one, two, three] = ips.map(|ip| ScriptedGuacd::at((ip, port).into(), Names::rdp("1.6.0")));
    let all = [&one, &two, &three];
    dns.says_all("guacd.test", &ips[..2], Duration::ZERO);
    let stage = Stage::adjusted(polite(), 1, |mut site| {
        let file = dns.resolv_conf(site.folder());
        site.mounting = Some(format!("mount --bind {} /etc/resolv.conf;", file.display()));
        site.with(format!("[guacd]\naddress = \"guacd.test:{port}\"\n"))
    });
    let mut open = Vec::new();
    for nth in 0..4 {
        open.push(tunnel(&stage, &all, &Visit::office(&format!("user{nth}"))));
    }
    let counts = || all.map(ScriptedGuacd::accepted);
    assert_eq!(counts(), [2, 2, 0]);
    // One pod goes and another one comes.
    dns.says_all("guacd.test", &[ips[0], ips[2]], Duration::ZERO);
    for nth in 4..6 {
        open.push(tunnel(&stage, &all, &Visit::office(&format!("user{nth}"))));
    }
    assert_eq!(counts(), [2, 2, 2]);
    let (_, page) = stage.broker.health("/metrics");
    let line = "sessionguard_guacd_tunnels{guacd=\"1\"} 6";
    assert!(page.contains(line), "{page}");
    assert!(!page.contains("127.0.77."), "no address in a label: {page}");
    // Nobody answers for the name: those that were known go on being used.
    dns.says_all("guacd.test", &[ips[0], ips[2]], Duration::from_secs(20));
    let begun = Instant::now();
    open.push(tunnel(&stage, &all, &Visit::office("late")));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}
