//! Reported sessions drive placement: where users go back to, what becomes of
//! leases, and what silence means.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::admin::get;
use super::heartbeats::staffed;
use crate::support::{ScriptedAgent, Stage, Visit, eventually, session};

/// The user's leases: host and state of each.
pub(super) fn leases(stage: &Stage, user: &str) -> Vec<String> {
    let told = get(&stage.site, &format!("/api/v1/leases?user={user}"));
    let listed = told["leases"].as_array().unwrap().iter();
    let text = |lease: &Value, name: &str| lease[name].as_str().unwrap().to_owned();
    listed
        .map(|lease| format!("{} {}", text(lease, "host"), text(lease, "state")))
        .collect()
}

fn host(stage: &Stage, id: &str) -> Value {
    get(&stage.site, &format!("/api/v1/hosts/{id}"))
}

/// Where a visit goes; it is over afterwards.
pub(super) fn goes_to(stage: &Stage, visit: &Visit) -> String {
    let (_visitor, peer) = stage.tunnel(visit);
    stage.host_of(&peer)
}

/// A user's tunnel came and went; its lease lingers on the host that is given.
pub(super) fn was_there(stage: &Stage, user: &str) -> String {
    let (visitor, peer) = stage.desktop(&Visit::office(user));
    let id = stage.host_of(&peer);
    let live = format!("{id} live");
    eventually("a lease", || {
        (leases(stage, user) == [live.as_str()]).then_some(())
    });
    drop((visitor, peer));
    let left = format!("{id} lingering");
    eventually("a lease that lingers", || {
        (leases(stage, user) == [left.as_str()]).then_some(())
    });
    id
}

pub(super) fn agent_of<'a>(agents: &'a mut [ScriptedAgent], id: &str) -> &'a mut ScriptedAgent {
    agents.iter_mut().find(|agent| agent.host == id).unwrap()
}

#[test]
fn users_go_back_to_sessions_opened_anywhere_whatever_the_score() {
    let (stage, mut agents) = staffed(2, "");
    let busy = json!({ "hostname": "RDS2", "cpu_percent": 99.0, "memory_total": 100, "memory_available": 1 });
    agents[1].differs = json!({ "server": busy, "health": { "score": 1 } });
    agents[0].reports(&[]);
    agents[1].reports(&[
        session("ann", "Disconnected", 86_400),
        session("CORP\\bob", "Active", 60),
        session("", "Listen", 60),
    ]);
    assert_eq!(goes_to(&stage, &Visit::office("stranger")), "rds1");
    assert_eq!(goes_to(&stage, &Visit::office("ANN")), "rds2");
    assert_eq!(goes_to(&stage, &Visit::office("bob@corp")), "rds2");
    for (user, reason) in [
        ("ann", "disconnected session there"),
        ("corp\\bob", "active session there"),
    ] {
        assert_eq!(stage.broker.placed(user)["reason"], reason);
    }
}

#[test]
fn a_session_left_behind_keeps_the_lease_and_a_logoff_releases_it() {
    let (stage, mut agents) = staffed(2, "");
    for agent in &mut agents {
        agent.reports(&[]);
    }
    let id = was_there(&stage, "ann");
    let left = [format!("{id} lingering")];
    let agent = agent_of(&mut agents, &id);
    agent.reports(&[session("ann", "Active", 5)]);
    agent.reports(&[session("ann", "Disconnected", 0)]);
    assert_eq!(leases(&stage, "ann"), left);
    eventually("a lease that is released", || {
        agent.reports(&[]);
        leases(&stage, "ann").is_empty().then_some(())
    });
    stage
        .broker
        .wait("A lease is released: its user has signed out", |line| {
            line["host"] == id.as_str()
        });
}

#[test]
fn a_lease_follows_only_where_its_own_host_lacks_the_user() {
    let (stage, mut agents) = staffed(2, "");
    for agent in &mut agents {
        agent.reports(&[]);
    }
    let a = was_there(&stage, "ann");
    let b = if a == "rds1" { "rds2" } else { "rds1" };
    agent_of(&mut agents, &a).reports(&[session("ann", "Disconnected", 60)]);
    agent_of(&mut agents, b).reports(&[session("ann", "Disconnected", 30)]);
    agent_of(&mut agents, &a).reports(&[session("ann", "Disconnected", 60)]);
    assert_eq!(
        leases(&stage, "ann"),
        [format!("{a} lingering")],
        "both say so"
    );
    let followed = [format!("{b} lingering")];
    eventually("a lease that follows", || {
        agent_of(&mut agents, &a).reports(&[]);
        (leases(&stage, "ann") == followed).then_some(())
    });
    assert_eq!(goes_to(&stage, &Visit::office("ann")), b);
}

#[test]
fn a_tunnel_of_nobodys_is_bound_by_its_tag() {
    let (stage, mut agents) = staffed(1, "");
    let agent = &mut agents[0];
    agent.reports(&[]);
    let (_visitor, peer) = stage.desktop(&Visit::office("").login(None));
    let tag = peer.value("client-name").to_owned();
    assert!(!tag.is_empty() && tag.len() <= 15, "{tag}");
    let of_ann = |client: &str| {
        let mut ann = session("CORP\\ann", "Active", 0);
        ann["client_name"] = json!(client);
        ann
    };
    agent.reports(&[of_ann("somebody else's")]);
    assert_eq!(leases(&stage, "ann"), [""; 0]);
    agent.reports(&[of_ann(&tag.to_uppercase())]);
    stage
        .broker
        .wait("A tunnel's user is known by its host's report", |line| {
            line["user"] == "corp\\ann"
        });
    eventually("a lease", || {
        (leases(&stage, "ann") == ["rds1 live"]).then_some(())
    });
}

#[test]
fn a_logon_is_pending_until_it_is_seen() {
    let (stage, mut agents) = staffed(1, "");
    let agent = &mut agents[0];
    agent.reports(&[]);
    let pending = |stage: &Stage| host(stage, "rds1")["occupancy"]["pending"].clone();
    let (_visitor, peer) = stage.desktop(&Visit::office("ann"));
    assert_eq!(stage.host_of(&peer), "rds1");
    eventually("a lease that stood", || {
        (leases(&stage, "ann") == ["rds1 live"]).then_some(())
    });
    agent.reports(&[session("bob", "Active", 60)]);
    assert_eq!(pending(&stage), 1, "it stood, and was not seen");
    assert_eq!(host(&stage, "rds1")["active"], 2);
    agent.reports(&[session("bob", "Active", 60), session("ann", "Active", 0)]);
    assert_eq!(pending(&stage), 0);
    assert_eq!(host(&stage, "rds1")["active"], 2, "counted once");
}

/// Reports again and again until it is dropped.
struct Diligent {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Diligent {
    fn new(mut agent: ScriptedAgent) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                agent.reports(&[]);
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Diligent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let joined = self.thread.take().unwrap().join();
        assert!(joined.is_ok() || thread::panicking());
    }
}

#[test]
fn one_silent_agent_takes_its_host_out_and_all_of_them_nobody() {
    let guacd = crate::support::ScriptedGuacd::polite(crate::support::Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 2, |site| {
        site.with("[broker]\noffline_after_seconds = 3\n")
    });
    let mut silent = ScriptedAgent::of(&stage.site, "rds1");
    silent.reports(&[session("ann", "Disconnected", 60)]);
    let others = ScriptedAgent::of(&stage.site, "rds2");
    let diligent = Diligent::new(others);
    let out = |id: &str| {
        let newcomer = &host(&stage, id)["newcomer"][0];
        newcomer["exclusion"].as_str().map(str::to_owned)
    };
    eventually("a host that is out", || out("rds1").map(drop));
    assert_eq!(out("rds2"), None);
    for user in ["u1", "u2", "u3"] {
        assert_eq!(goes_to(&stage, &Visit::office(user)), "rds2");
    }
    // With the last one silent it is their way to us that is broken.
    drop(diligent);
    let said =
        "no agent of farm office is heard while its hosts answer: placing on what was known last";
    stage.broker.wait(said, |line| line["level"] == "WARN");
    eventually("hosts that are back", || {
        (out("rds1").is_none() && out("rds2").is_none()).then_some(())
    });
    let (_, ready) = stage.broker.health("/readyz?verbose");
    assert!(ready.contains("hosts: ok"), "they take everybody: {ready}");
    assert_eq!(
        goes_to(&stage, &Visit::office("ann")),
        "rds1",
        "as known last"
    );
    silent.reports(&[]);
    stage.broker.wait(&format!("Over: {said}"), |_| true);
}

#[test]
fn a_host_without_the_remote_app_is_passed_over_for_it() {
    let (stage, mut agents) = staffed(2, "");
    let lacks = json!([{ "alias": "SAGE", "published": false, "path_exists": true }]);
    agents[0].differs = json!({ "remote_apps": lacks });
    let crowd: Vec<_> = (0..5)
        .map(|nth| session(&format!("user{nth}"), "Active", 60))
        .collect();
    agents[0].reports(&[]);
    agents[1].reports(&crowd);
    let sage = |user| Visit::rdp(user).answer("hostname", "sessionguard:resource=sage");
    assert_eq!(goes_to(&stage, &sage("ann")), "rds2");
    assert_eq!(goes_to(&stage, &Visit::office("bob")), "rds1");
    agents[0].differs = json!({});
    agents[0].reports(&[]);
    assert_eq!(goes_to(&stage, &sage("carl")), "rds1");
}
