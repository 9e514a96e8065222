//! The machine under the broker: its clock and its disk.

use std::fs;
use std::time::Instant;

use super::*;
use crate::support::{ScriptedAgent, WallClock, session, skipped};

const DAY: i64 = 86_400;

/// A scene with a wall clock of its own, and an agent on each host.
fn scene(hosts: usize) -> (Stage, WallClock, Vec<ScriptedAgent>) {
    let mut clock = None;
    let stage = Stage::adjusted(polite(), hosts, |site| {
        let (site, its) = WallClock::of(site.with("[broker]\noffline_after_seconds = 600\n"));
        clock = Some(its);
        site
    });
    let ids = (1..=hosts).map(|nth| format!("rds{nth}"));
    let agents = ids.map(|id| ScriptedAgent::of(&stage.site, &id)).collect();
    (stage, clock.unwrap(), agents)
}

/// How far the wall clock by which a line was written is off, in seconds.
fn written_off_by(line: &Value) -> i64 {
    let at: jiff::Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
    at.as_second() - jiff::Timestamp::now().as_second()
}

#[test]
fn a_wall_clock_that_jumps_a_day_either_way_moves_no_lease_no_report_and_no_user() {
    let (stage, clock, mut agents) = scene(2);
    agents[0].reports(&[]);
    agents[1].reports(&[session("bob", "Disconnected", 60)]);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    let (left, of_left) = stage.desktop(&Visit::office("carl"));
    let where_carl_was = stage.host_of(&of_left);
    drop((left, of_left));
    wait_for_lease(&stage.site, "carl", &format!("{where_carl_was} lingering"));
    for (nth, off) in [DAY, -DAY, 0].into_iter().enumerate() {
        clock.is_off_by(off);
        let user = format!("newcomer{nth}");
        serves(&stage, &user);
        let seen = written_off_by(&stage.broker.placed(&user));
        assert!((seen - off).abs() < 60, "the broker's own clock: {seen}");
        assert_carries(&mut visitor, &mut peer);
        assert_eq!(leases(&stage.site, "ann"), [format!("{host} live")]);
        assert_eq!(
            leases(&stage.site, "carl"),
            [format!("{where_carl_was} lingering")]
        );
        assert_eq!(serves(&stage, "bob"), "rds2", "{off}");
        let told = get(&stage.site, "/api/v1/hosts/rds2");
        assert!(told["report_age_seconds"].as_u64().unwrap() < 60, "{told}");
        for agent in &mut agents {
            let sessions = [session("bob", "Disconnected", 60)];
            agent.reports(if agent.host == "rds2" { &sessions } else { &[] });
        }
    }
}

/// Ann's lease lingers, bob's session is reported, and the next process starts by a wall clock
/// that is so far off. Where ann was comes with it.
fn restarted_off_by(off: i64) -> (Stage, Vec<ScriptedAgent>, String) {
    let (stage, clock, mut agents) = scene(2);
    agents[0].reports(&[]);
    agents[1].reports(&[session("bob", "Disconnected", 60)]);
    stage.broker.wait_until_stored("\"user\":\"bob\"");
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    drop((visitor, peer));
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
    clock.is_off_by(off);
    let stage = stage.restarted(|broker| {
        broker.signal("TERM");
        assert!(broker.exit().success());
    });
    (stage, agents, host)
}

/// What comes now is newer than what came before, whatever the clock says.
fn assert_news_is_taken(stage: &Stage, agents: &mut [ScriptedAgent]) {
    assert_eq!(serves(stage, "bob"), "rds2", "as known last");
    agents[0].reports(&[session("dora", "Disconnected", 5)]);
    agents[1].reports(&[]);
    assert_eq!(serves(stage, "dora"), "rds1");
    for agent in agents {
        let told = get(&stage.site, &format!("/api/v1/hosts/{}", agent.host));
        assert!(told["report_age_seconds"].as_u64().unwrap() < 60, "{told}");
    }
}

#[test]
fn a_wall_clock_set_back_a_day_over_a_restart_loses_no_lease_and_no_news() {
    let (stage, mut agents, host) = restarted_off_by(-DAY);
    assert_eq!(leases(&stage.site, "ann"), [format!("{host} lingering")]);
    assert_eq!(serves(&stage, "ann"), host);
    assert_news_is_taken(&stage, &mut agents);
}

#[test]
fn a_wall_clock_set_forth_a_day_over_a_restart_ends_leases_and_loses_no_session() {
    let (stage, mut agents, _) = restarted_off_by(DAY);
    assert_eq!(leases(&stage.site, "ann"), [""; 0]);
    assert_news_is_taken(&stage, &mut agents);
    serves(&stage, "ann");
}

/// A store on a disk of its own, which is small; `None` without root.
fn small_disk() -> Option<Stage> {
    let may = std::process::Command::new("unshare")
        .args(["--mount", "true"])
        .status();
    if !may.is_ok_and(|status| status.success()) {
        skipped("root and a mount namespace");
        return None;
    }
    Some(Stage::adjusted(polite(), 2, |mut site| {
        let disk = site.folder().join("disk");
        fs::create_dir(&disk).unwrap();
        site.mounting = Some(format!(
            "mount -t tmpfs -o size=16m tmpfs {};",
            disk.display()
        ));
        let socket = site.store().with_extension("sock");
        site.with(format!(
            "[store]\npath = {:?}\n[api]\nsocket = {socket:?}\n[probe]\ninterval = \"5s\"\ntimeout = \"5s\"\n",
            disk.join("store.redb")
        ))
    }))
}

#[test]
fn a_full_disk_turns_newcomers_away_in_time_keeps_tunnels_and_is_over_once_there_is_room() {
    let Some(stage) = small_disk() else { return };
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    // Its disk, as it sees it.
    let disk = format!(
        "/proc/{}/root{}",
        stage.broker.id(),
        stage.site.folder().join("disk").display()
    );
    let filler = format!("{disk}/filler");
    let full = fs::write(&filler, vec![1; 32 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    // There may be room in its own file for one and not for the next: each is placed or told so.
    let (code, text) = eventually("somebody who is turned away", || {
        let start = Instant::now();
        let mut newcomer = Visit::office("newcomer").at(&stage.broker);
        newcomer.ready();
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        let mut peer = stage.guacd.next();
        if peer.outcome.is_err() {
            return Some(newcomer.farewell());
        }
        // A guacd that leaves before the desktop stands would be dialled again.
        peer.stand();
        newcomer.hear_past_nops("sync");
        None
    });
    assert_eq!(code, 0x208, "{text}");
    assert!(text.contains("store"), "{text}");
    assert_eq!(stage.broker.health("/livez").0, 200);
    assert_carries(&mut visitor, &mut peer);
    fs::remove_file(&filler).unwrap();
    eventually("a store that is well", || {
        let mut newcomer = Visit::office("newcomer").at(&stage.broker);
        newcomer.ready();
        let mut peer = stage.guacd.next();
        if peer.outcome.is_err() {
            return None;
        }
        peer.stand();
        newcomer.hear_past_nops("sync");
        let (_, text) = stage.broker.health("/readyz?verbose");
        text.contains("store: ok").then_some(())
    });
    for nth in 0..5 {
        serves(&stage, &format!("somebody{nth}"));
    }
    assert_carries(&mut visitor, &mut peer);
    drop((visitor, peer));
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
}
