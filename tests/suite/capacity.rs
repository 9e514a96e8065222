//! How many users, logons and tunnels there may be.

use std::time::{Duration, Instant};

use super::faults::wait_for_lease;
use crate::support::{Names, ScriptedGuacd, Stage, Visit, eventually};

/// One host and settings of the broker.
fn stage(settings: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let toml = format!("[broker]\nslow_start = \"0s\"\n{settings}");
    Stage::adjusted(guacd, 1, |site| site.with(toml))
}

#[test]
fn a_full_host_turns_a_new_user_away_and_admits_one_who_returns() {
    let stage = stage("max_sessions = 1\n");
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    drop((visitor, peer));
    wait_for_lease(&stage.site, "ann", "rds1 lingering");
    let (_bob, _of_bob) = stage.desktop(&Visit::office("bob"));

    let refusal = Visit::office("carl").refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x201, "{}", refusal.text);
    assert!(stage.guacd.next().connect.is_empty());
    stage.desktop(&Visit::office("ann"));
    stage.broker.wait("Placed", |line| {
        line["user"] == "ann" && line["reason"] == "lease"
    });
}

#[test]
fn a_logon_behind_one_that_is_pending_waits_and_is_placed_once_that_stood() {
    let stage = stage("max_pending_logons = 1\n");
    let (_ann, mut of_ann) = stage.tunnel(&Visit::office("ann"));
    let mut bob = Visit::office("bob").at(&stage.broker);
    assert_eq!(bob.wire.within(Duration::from_millis(500)), b"");
    assert_eq!(stage.broker.lines("Placed").len(), 1);
    of_ann.stand();
    bob.ready();
    assert_eq!(stage.guacd.ready().value("username"), "bob");
    stage.broker.placed("bob");
}

#[test]
fn a_logon_behind_one_that_stays_pending_is_refused_within_its_budget() {
    let stage = stage("max_pending_logons = 1\nplacement_timeout = \"1s\"\n");
    let _pending = stage.tunnel(&Visit::office("ann"));
    let start = Instant::now();
    let refusal = Visit::office("bob").refused_at(&stage.broker);
    let waited = start.elapsed();
    assert_eq!(refusal.code, 0x202, "{}", refusal.text);
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    assert!(stage.guacd.next().connect.is_empty());
}

#[test]
fn a_user_with_all_the_tunnels_allowed_gets_another_once_one_has_ended() {
    let stage = stage("max_tunnels_per_user = 2\n");
    let ann = Visit::office("ann");
    let (first, _second) = (stage.desktop(&ann), stage.desktop(&ann));
    let refusal = ann.refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x31D, "{}", refusal.text);
    assert!(stage.guacd.next().connect.is_empty());
    stage.desktop(&Visit::office("bob"));

    drop(first);
    // The end is known a moment after the socket is gone.
    eventually("another tunnel", || {
        let mut visitor = ann.at(&stage.broker);
        visitor.ready();
        stage.guacd.next().outcome.is_ok().then_some(())
    });
}
