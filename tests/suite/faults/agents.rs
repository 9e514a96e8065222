//! Agents that are late, wrong, or not who they say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use super::*;
use crate::suite::heartbeats::staffed;
use crate::suite::keys::{create, keys};
use crate::support::{Asker, ScriptedAgent, session};

fn host(stage: &Stage, id: &str) -> Value {
    get(&stage.site, &format!("/api/v1/hosts/{id}"))
}

/// Why newcomers are kept off the host, if they are.
fn out(stage: &Stage, id: &str) -> Option<String> {
    let newcomer = &host(stage, id)["newcomer"][0];
    newcomer["exclusion"].as_str().map(str::to_owned)
}

#[test]
fn one_that_is_late_takes_its_host_out_for_newcomers_until_it_is_heard() {
    let stage = Stage::adjusted(polite(), 2, |site| {
        site.with("[broker]\noffline_after_seconds = 2\nslow_start = \"0s\"\n")
    });
    let [mut late, mut other] = ["rds1", "rds2"].map(|id| ScriptedAgent::of(&stage.site, id));
    late.reports(&[]);
    other.reports(&[]);
    let (mut visitor, mut peer) = stage.burden("rds1");
    peer.stand();
    visitor.hear_past_nops("sync");
    eventually("a host that is out", || {
        other.reports(&[]);
        out(&stage, "rds1").map(drop)
    });
    assert_eq!(serves(&stage, "bob"), "rds2");
    assert_carries(&mut visitor, &mut peer);
    // However late: it counts from the moment it comes.
    late.reports(&[session("ann", "Active", 0)]);
    assert_eq!(out(&stage, "rds1"), None);
}

/// A report of a session, by a clock that is so many seconds off.
fn off_by(agent: &mut ScriptedAgent, seconds: i64, user: &str, left: i64) {
    let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let at = now - jiff::SignedDuration::from_secs(left);
    agent.differs = json!({ "time": now.to_string() });
    agent.reports(&[json!({
        "id": "7", "state": "Disconnected", "user": user, "domain": "",
        "logon_at": at.to_string(), "disconnected_since": at.to_string(),
    })]);
}

#[test]
fn a_clock_off_by_a_day_either_way_changes_no_placement_and_no_age() {
    const DAY: i64 = 86_400;
    let (stage, mut agents) = staffed(2, "");
    for off in [DAY, -DAY] {
        let user = format!("ann{off}").replace('-', "b");
        // The session that was left last is the one she means.
        off_by(&mut agents[0], off, &user, 300);
        off_by(&mut agents[1], 0, &user, 30);
        assert_eq!(serves(&stage, &user), "rds2", "{off}");
        for id in ["rds1", "rds2"] {
            let age = host(&stage, id)["report_age_seconds"].as_u64().unwrap();
            assert!(age < 60, "{id}: {age}");
        }
        off_by(&mut agents[0], off, &format!("{user}-2"), 30);
        off_by(&mut agents[1], 0, &format!("{user}-2"), 300);
        assert_eq!(serves(&stage, &format!("{user}-2")), "rds1", "{off}");
    }
}

#[test]
fn figures_that_no_host_has_make_it_no_better_than_an_idle_one() {
    let (stage, mut agents) = staffed(2, "");
    agents[1].differs = json!({ "server": {
        "hostname": "RDS2", "cpu_percent": 0.0, "memory_total": 1000, "memory_available": 1000,
    }, "health": { "score": 100 } });
    agents[1].reports(&[]);
    let score = |id: &str| host(&stage, id)["newcomer"][0]["score"].as_f64().unwrap();
    let idle = score("rds2");
    for (cpu, total, available, health) in [
        (json!(-1e9), json!(1000), json!(1000), json!(100)),
        (json!(0), json!(1), json!(1u64 << 62), json!(1e300)),
        (json!(0), json!(-1000), json!(1000), json!(101)),
        (json!("none"), json!("much"), json!(null), json!("best")),
        (json!(-0.0), json!(0), json!(0), json!(1_000_000)),
    ] {
        agents[0].differs = json!({ "server": {
            "hostname": "RDS1", "cpu_percent": cpu, "memory_total": total, "memory_available": available,
        }, "health": { "score": health } });
        let body = agents[0].next(&[]).to_string();
        let (status, told) = agents[0].send(&body);
        assert!(matches!(status, 200 | 400), "{status} {told}");
        let lied = score("rds1");
        assert!(
            lied.is_finite() && lied <= idle,
            "{lied} beside {idle}: {body}"
        );
    }
}

#[test]
fn one_that_claims_everybody_s_session_gets_none_of_them_and_an_alarm() {
    let (stage, mut agents) = staffed(2, "");
    for agent in &mut agents {
        agent.reports(&[]);
    }
    let everybody: Vec<_> = (0..60)
        .map(|nth| session(&format!("user{nth}"), "Active", 1))
        .collect();
    agents[1].reports(&everybody);
    for user in ["user0", "user30", "user59"] {
        assert_eq!(serves(&stage, user), "rds1");
        assert_ne!(stage.broker.placed(user)["reason"], "active session there");
    }
    let alarm = |line: &Value| {
        let message = line["message"].as_str().unwrap_or_default();
        line["level"] == "WARN"
            && line.to_string().contains("rds2")
            && message.contains("never took there")
    };
    eventually("an alarm", || stage.broker.said().into_iter().find(alarm));
}

#[test]
fn a_wrong_or_revoked_key_is_turned_away_and_what_was_known_stays() {
    let (stage, mut agents) = staffed(2, "");
    let key = create(&stage.site, &["agent", "--host", "rds1"]);
    let of_rds2 = create(&stage.site, &["agent", "--host", "rds2"]);
    let asker = Asker::of(&stage.broker);
    let good = agents[0]
        .next(&[session("ann", "Disconnected", 60)])
        .to_string();
    assert_eq!(asker.with(&key).report("rds1", &good).status, 200);
    agents[1].reports(&[]);
    let liar = agents[0].next(&[session("bob", "Active", 60)]).to_string();
    let mut wrong = key.clone();
    let last = if wrong.ends_with('a') { "b" } else { "a" };
    wrong.replace_range(wrong.len() - 1.., last);
    assert_eq!(asker.with(&wrong).report("rds1", &liar).status, 401);
    assert_eq!(asker.report("rds1", &liar).status, 401);
    assert_eq!(asker.with(&of_rds2).report("rds1", &liar).status, 403);
    let id = key.split('_').nth(2).unwrap();
    assert_eq!(keys(&stage.site, &["revoke", id]).0, 0);
    assert_eq!(asker.with(&key).report("rds1", &liar).status, 401);
    let listed = get(&stage.site, "/api/v1/sessions");
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["sessions"][0]["user"], "ann");
    assert_eq!(serves(&stage, "ann"), "rds1");
}

#[test]
fn a_key_is_exchanged_without_one_rejected_heartbeat() {
    let (stage, mut agents) = staffed(1, "");
    let asker = Asker::of(&stage.broker);
    let old = create(&stage.site, &["agent", "--host", "rds1"]);
    let over = AtomicBool::new(false);
    let mut agent = agents.pop().unwrap();
    let mut report = |key: &str| {
        let body = agent.next(&[]).to_string();
        let told = asker.with(key).report("rds1", &body);
        assert_eq!(told.status, 200, "{told:?}");
    };
    report(&old);
    let new = thread::scope(|scope| {
        // It reports on and on while an administrator makes the next key.
        let reporting = scope.spawn(|| {
            let mut count = 0;
            while !over.load(Ordering::SeqCst) {
                report(&old);
                count += 1;
                // A key may not ask without end.
                thread::sleep(Duration::from_millis(50));
            }
            count
        });
        let new = create(&stage.site, &["agent", "--host", "rds1"]);
        over.store(true, Ordering::SeqCst);
        assert!(reporting.join().unwrap() > 0);
        new
    });
    // Not every one is out with the new key at once.
    for key in [&new, &old, &new, &old, &new] {
        report(key);
    }
    let id = old.split('_').nth(2).unwrap();
    assert_eq!(keys(&stage.site, &["revoke", id]).0, 0);
    report(&new);
    let body = agent.next(&[]).to_string();
    assert_eq!(asker.with(&old).report("rds1", &body).status, 401);
}
