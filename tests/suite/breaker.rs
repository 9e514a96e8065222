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
    ann.hear("sync");
    broker.wait_for_lines("A host's breaker closed: a tunnel stood there", 1);
    let (_bob, _) = stage.desktop(&Visit::office("bob"));
    let closed = ("host_breaker{host=\"rds1\",state=\"half-open\"}", 0.0);
    until(broker, &[closed, openings]);
    assert!(breaker(&stage.site).is_null());
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
