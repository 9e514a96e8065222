//! A host that comes and goes: nobody new until it has shown that it is well,
//! and everybody who asks is told why.

use super::admin::get;
use super::metrics::until;
use crate::support::{Broker, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit};

const OPENED: &str = "A host's breaker opened: nobody new is placed there";
const WHY: &str = "its probe came and went 4 times within minutes";

/// The only host goes down and returns, and the broker has seen both.
fn blink(broker: &Broker, host: &ScriptedHost, before: usize) {
    host.answer(false);
    broker.wait_for_lines("Host does not answer RDP", before + 1);
    host.answer(true);
    // The first word that it is there counts, too.
    broker.wait_for_lines("Host answers RDP", before + 2);
}

fn said(site: &Site, arguments: &[&str]) -> String {
    let output = Site::run(arguments, &site.folder().join("sessionguard.toml"));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_host_that_flaps_gets_one_tunnel_to_try_and_everybody_once_that_stood() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::before(guacd, 1);
    let (broker, host) = (&stage.broker, &stage.hosts[0]);
    broker.wait_for_lines("Host answers RDP", 1);
    // Once is an accident: it is taken back at once.
    blink(broker, host, 0);
    let breaker = |site: &Site| get(site, "/api/v1/hosts/rds1")["breaker"].clone();
    assert!(breaker(&stage.site).is_null(), "{}", breaker(&stage.site));
    assert_eq!(broker.lines(OPENED).len(), 0);
    blink(broker, host, 1);
    let opened = broker.wait(OPENED, |_| true);
    assert_eq!(
        [&opened["host"], &opened["cause"], &opened["why"]],
        ["rds1", "flapping", WHY]
    );
    assert_eq!(opened["seconds"], 5);
    let told = breaker(&stage.site);
    assert_eq!(told["cause"], "flapping", "{told}");
    assert!(told["said"].as_str().unwrap().ends_with(WHY), "{told}");

    // Its time passes; then one may try.
    let half_open = ("host_breaker{host=\"rds1\",state=\"half-open\"}", 1.0);
    let openings = (
        "breaker_openings_total{host=\"rds1\",cause=\"flapping\"}",
        1.0,
    );
    until(broker, &[half_open, openings]);
    let (mut ann, mut peer) = stage.tunnel(&Visit::office("ann"));
    let refused = Visit::office("bob").refused_at(broker);
    assert_eq!(refused.code, 0x208, "the page asks again by itself");
    // guacd saw him come, too.
    drop(stage.guacd.next());
    let explained = said(
        &stage.site,
        &["explain", "--user", "bob", "--resource", "office"],
    );
    assert!(explained.contains("out: breaker open"), "{explained}");
    let line = format!("rds1: breaker half open, one connection may try: {WHY}");
    assert!(explained.contains(&line), "{explained}");
    assert!(said(&stage.site, &["status"]).contains(&line));
    assert!(said(&stage.site, &["hosts"]).contains(&format!("out: {}", &line["rds1: ".len()..])));

    peer.stand();
    ann.hear_past_nops("sync");
    broker.wait_for_lines("A host's breaker closed: a tunnel stood there", 1);
    let (_bob, _) = stage.desktop(&Visit::office("bob"));
    let closed = ("host_breaker{host=\"rds1\",state=\"half-open\"}", 0.0);
    until(broker, &[closed, openings]);
    assert!(breaker(&stage.site).is_null());
}

/// The breaker of the only host.
fn breaker(stage: &Stage) -> serde_json::Value {
    get(&stage.site, "/api/v1/hosts/rds1")["breaker"].clone()
}

/// The same user, for the other resource.
fn sage(user: &str) -> Visit {
    Visit::rdp(user).answer("hostname", "sessionguard:resource=sage")
}

/// A click that the host answers and lets down.
fn let_down(stage: &Stage, visit: &Visit) {
    let (mut visitor, mut peer) = stage.tunnel(visit);
    peer.wire.send(b"5.error,1.x,3.519;").unwrap();
    peer.wire.finish();
    assert_eq!(visitor.farewell().0, 0x207);
}

#[test]
fn a_host_that_lets_two_users_of_two_resources_down_gets_nobody_new_until_a_tunnel_stands() {
    let stage = Stage::one();
    let (broker, site) = (&stage.broker, &stage.site);
    broker.wait_for_lines("Host answers RDP", 1);
    // One connection with a bad setting, or one user with a bad account, proves nothing.
    for user in ["ann", "ann", "bob", "carl"] {
        let_down(&stage, &Visit::office(user));
    }
    assert!(breaker(&stage).is_null(), "{}", breaker(&stage));
    assert!(broker.lines(OPENED).is_empty());
    let_down(&stage, &sage("dora"));
    let why = "connections of carl (office) and dora (sage) failed there";
    let opened = broker.wait(OPENED, |_| true);
    assert_eq!(
        [&opened["host"], &opened["cause"], &opened["why"]],
        ["rds1", "attempts", why]
    );
    assert_eq!(opened["seconds"], 5);
    let told = breaker(&stage);
    assert_eq!(told["cause"], "attempts", "{told}");
    assert!(told["said"].as_str().unwrap().ends_with(why), "{told}");
    for asked in ["status", "hosts"] {
        let told = said(site, &[asked]);
        assert!(told.contains(why), "{asked}: {told}");
    }

    // Its time passes; the one who tries is let down, too, and it opens for twice as long.
    let half_open = "host_breaker{host=\"rds1\",state=\"half-open\"}";
    let opened_by =
        |cause: &str| format!("breaker_openings_total{{host=\"rds1\",cause={cause:?}}}");
    until(broker, &[(half_open, 1.0), (&opened_by("attempts"), 1.0)]);
    let_down(&stage, &Visit::office("eve"));
    let again = broker.wait(OPENED, |line| line["cause"] == "trial");
    assert_eq!(again["seconds"], 10);
    let why = "then the connection of eve (office) failed there";
    assert_eq!(again["why"], why);
    let refused = Visit::office("finn").refused_at(broker);
    assert_eq!(refused.code, 0x208, "the page asks again by itself");
    // guacd saw him come, too, and was sent nowhere.
    assert!(stage.guacd.next().connect.is_empty());
    let explain = ["explain", "--user", "finn", "--resource", "office"];
    let explained = said(site, &explain);
    assert!(explained.contains("out: breaker open"), "{explained}");
    for told in [explained, said(site, &["status"])] {
        assert!(told.contains("rds1: breaker open for "), "{told}");
        assert!(told.contains(why), "{told}");
    }

    until(broker, &[(half_open, 1.0), (&opened_by("trial"), 1.0)]);
    let (_gus, _) = stage.desktop(&Visit::office("gus"));
    broker.wait_for_lines("A host's breaker closed: a tunnel stood there", 1);
    assert!(breaker(&stage).is_null());
    assert!(!said(site, &["status"]).contains("breaker"));
}

#[test]
fn a_tunnel_that_stood_in_between_forgives_what_failed_before() {
    let stage = Stage::one();
    stage.broker.wait_for_lines("Host answers RDP", 1);
    let_down(&stage, &Visit::office("ann"));
    let (visitor, peer) = stage.desktop(&Visit::office("bob"));
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("bob"));
    let_down(&stage, &sage("carl"));
    assert!(breaker(&stage).is_null(), "{}", breaker(&stage));
    // What failed since then counts.
    let_down(&stage, &Visit::office("dora"));
    let opened = stage.broker.wait(OPENED, |_| true);
    assert_eq!(
        opened["why"],
        "connections of carl (sage) and dora (office) failed there"
    );
}

#[test]
fn who_has_a_tunnel_on_a_host_that_flaps_gets_the_next_one_there() {
    let stage = Stage::one();
    let (broker, host) = (&stage.broker, &stage.hosts[0]);
    let (_ann, _) = stage.desktop(&Visit::office("ann"));
    broker.wait_for_lines("Host answers RDP", 1);
    blink(broker, host, 0);
    blink(broker, host, 1);
    broker.wait_for_lines(OPENED, 1);
    let (_again, peer) = stage.desktop(&Visit::office("ann"));
    assert_eq!(stage.host_of(&peer), "rds1");
    // That it stood is good for everybody.
    let (_bob, _) = stage.desktop(&Visit::office("bob"));
}
