//! Agents that lie, and what comes of it: whom we know goes on as if nothing
//! had been said, and somebody is told.

use serde_json::{Value, json};

use super::admin::get;
use super::asking::asked;
use super::heartbeats::staffed;
use super::metrics::until;
use super::reported::{agent_of, goes_to, leases, was_there};
use crate::support::{Broker, ScriptedAgent, ScriptedHost, Stage, Visit, eventually, session};

const STRANGERS: &str = "names many users at once whom we never took there";
const OVERCLAIMS: &str = "names more users than it has sessions";
const TWO_HOSTS: &str = "have sessions on two of its hosts at once";

/// What the status has to say of alarms, in words and as figures.
fn alarmed(stage: &Stage, said: &[&str]) {
    let (code, shown, _) = asked(&stage.site, &["status"]);
    assert_eq!(code, 0);
    let alarms: Vec<_> = shown.lines().filter(|l| l.starts_with("alarm")).collect();
    assert_eq!(alarms.len(), said.len(), "{alarms:?}");
    for wanted in said {
        assert!(shown.contains(wanted), "{wanted} is not in {alarms:?}");
    }
    let figures = [
        ("agent-claims-strangers", STRANGERS),
        ("agent-overclaims", OVERCLAIMS),
        ("users-on-two-hosts", TWO_HOSTS),
    ];
    for (kind, words) in figures {
        let sounds = said.iter().any(|said| said.contains(words));
        let series = format!("alarms{{alarm=\"{kind}\"}}");
        until(&stage.broker, &[(&series, f64::from(u8::from(sounds)))]);
    }
}

fn crowd(count: usize) -> Vec<Value> {
    let names = (0..count).map(|nth| format!("nobody{nth}"));
    names.map(|who| session(&who, "Active", 60)).collect()
}

/// Two hosts, both empty, then ann on one of them: that one and the other.
fn ann_is_on_one(toml: &str) -> (Stage, Vec<ScriptedAgent>, String, &'static str) {
    let (stage, mut agents) = staffed(2, toml);
    for agent in &mut agents {
        agent.reports(&[]);
    }
    let hers = was_there(&stage, "ann");
    agent_of(&mut agents, &hers).reports(&[session("ann", "Disconnected", 60)]);
    let other = if hers == "rds1" { "rds2" } else { "rds1" };
    (stage, agents, hers, other)
}

/// Where a user goes who was not here before, and why.
fn placed(stage: &Stage, user: &str) -> (String, Value) {
    let host = goes_to(stage, &Visit::office(user));
    (host, stage.broker.placed(user)["reason"].clone())
}

#[test]
fn a_host_that_claims_everybodys_session_gets_nobody_we_know() {
    let (stage, mut agents, hers, other) = ann_is_on_one("agent_trust_threshold = 5\n");
    let (_carl, carls) = stage.desktop(&Visit::office("carl"));
    let carls = stage.host_of(&carls);
    let liar = agent_of(&mut agents, other);
    let mut everybody = crowd(30);
    for who in ["ann", "bob", "carl"] {
        everybody.push(session(who, "Active", 0));
    }
    liar.reports(&everybody);
    let said = format!("host {other} {STRANGERS}");
    alarmed(&stage, &[&said, TWO_HOSTS]);
    assert_eq!(goes_to(&stage, &Visit::office("ann")), hers);
    assert_eq!(goes_to(&stage, &Visit::office("carl")), carls);
    assert_eq!(leases(&stage, "ann"), [format!("{hers} lingering")]);
    // Of a host with thirty users nobody new is drawn by a session either.
    assert_eq!(placed(&stage, "bob"), (hers.clone(), json!("best score")));
    let (code, shown, _) = asked(
        &stage.site,
        &["explain", "--user", "nobody7", "--resource", "office"],
    );
    assert_eq!(code, 0, "{shown}");
    assert!(
        shown.contains(&format!(
            "{other}: a session of the user is reported, not believed: the host {STRANGERS}"
        )),
        "{shown}"
    );
    // Whoever says nothing but the truth again is believed again.
    liar.reports(&[]);
    alarmed(&stage, &[]);
    liar.reports(&[session("eve", "Disconnected", 60)]);
    assert_eq!(
        placed(&stage, "eve"),
        (other.to_owned(), json!("disconnected session there"))
    );
}

#[test]
fn a_user_we_know_on_another_host_follows_no_single_claim() {
    let (stage, mut agents, hers, other) = ann_is_on_one("");
    let liar = agent_of(&mut agents, other);
    liar.reports(&[session("ann", "Active", 0), session("bob", "Active", 0)]);
    alarmed(&stage, &[TWO_HOSTS]);
    assert_eq!(goes_to(&stage, &Visit::office("ann")), hers);
    // Whom nobody else names may be there.
    assert_eq!(
        placed(&stage, "bob"),
        (other.to_owned(), json!("active session there"))
    );
    // Of a user we know from neither host the better session counts.
    let both = |agents: &mut [ScriptedAgent], state: &str, host: &str| {
        let theirs = session("dora", state, 60);
        agent_of(agents, host).reports(&[theirs]);
    };
    both(&mut agents, "Disconnected", other);
    both(&mut agents, "Active", &hers);
    alarmed(&stage, &[TWO_HOSTS]);
    assert_eq!(
        placed(&stage, "dora"),
        (hers, json!("active session there"))
    );
}

#[test]
fn more_users_than_sessions_are_believed_of_nobody_we_do_not_know() {
    let (stage, mut agents, hers, other) = ann_is_on_one("");
    let named = |who: &str| {
        let mut session = session(who, "Active", 0);
        session["id"] = json!(7);
        session
    };
    let liar = agent_of(&mut agents, other);
    liar.reports(&[named("bob"), named("ann"), named("dora")]);
    let said = format!("the agent of host {other} {OVERCLAIMS}");
    alarmed(&stage, &[&said, TWO_HOSTS]);
    assert_eq!(goes_to(&stage, &Visit::office("ann")), hers);
    assert_eq!(placed(&stage, "bob"), (hers.clone(), json!("best score")));
    // Its own users are there, whatever else it says.
    let agent = agent_of(&mut agents, &hers);
    agent.reports(&[named("eve"), named("ann")]);
    assert_eq!(goes_to(&stage, &Visit::office("ann")), hers);
}

#[test]
fn lies_about_load_and_time_move_nobody() {
    let (stage, mut agents, hers, other) = ann_is_on_one("");
    agent_of(&mut agents, other).reports(&[session("bob", "Disconnected", 60)]);
    let at = |seconds: i64| {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        json!(at.to_string())
    };
    let server = |cpu: Value, total: Value, available: Value| {
        json!({
            "hostname": "X", "cpu_percent": cpu,
            "memory_total": total, "memory_available": available,
        })
    };
    let figures =
        |server: Value, score: Value| json!({ "server": server, "health": { "score": score } });
    let time = |time: Value| json!({ "time": time });
    // What is said, and the health that comes of it.
    let lies = [
        (
            figures(server(json!(-5), json!(1000), json!(5000)), json!(1000)),
            100,
        ),
        (
            figures(server(json!("NaN"), json!("NaN"), json!(-1)), json!("NaN")),
            100,
        ),
        (
            figures(server(json!(1e308), json!(0), json!(1)), json!(-3)),
            0,
        ),
        (time(at(86_400)), 100),
        (time(at(-86_400)), 100),
        (time(at(0)), 100),
        (time(at(30 * 86_400)), 100),
        (time(json!("the day before yesterday")), 100),
    ];
    let kept = [format!("{hers} lingering")];
    for (lie, health) in lies {
        // Either host lies, each in turn: the one she is on, and the other.
        for (host, who) in [(hers.as_str(), "ann"), (other, "bob")] {
            let agent = agent_of(&mut agents, host);
            agent.differs = lie.clone();
            agent.reports(&[session(who, "Disconnected", 60)]);
            let said = get(&stage.site, &format!("/api/v1/hosts/{host}"));
            assert_eq!(said["health"], health, "{lie}: {said}");
            let age = said["report_age_seconds"].as_u64().unwrap();
            assert!(age < 600, "{lie}: {said}");
            // A figure that is none is written as null.
            assert!(said["newcomer"][0]["score"].is_number(), "{lie}: {said}");
            for (who, whose) in [("ann", hers.as_str()), ("bob", other)] {
                assert_eq!(goes_to(&stage, &Visit::office(who)), whose, "{lie}");
            }
            eventually("a lease that lingers", || {
                (leases(&stage, "ann") == kept).then_some(())
            });
        }
    }
    alarmed(&stage, &[]);
}

#[test]
fn a_first_report_of_more_than_a_host_is_meant_for_is_believed_by_no_process() {
    // Twenty strangers may come to any host.
    let (mut stage, mut agents) = staffed(2, "max_sessions = 25\n");
    agents[0].reports(&crowd(20));
    agents[1].reports(&[vec![session("ann", "Active", 0)], crowd(25)].concat());
    let said = format!("host rds2 {STRANGERS}");
    alarmed(&stage, &[&said, TWO_HOSTS]);
    let by_score = ("rds1".to_owned(), json!("best score"));
    assert_eq!(placed(&stage, "ann"), by_score);
    stage.broker.wait_until_stored("\"user\":\"ann\"");
    stage = stage.restarted(Broker::kill);
    alarmed(&stage, &[&said, TWO_HOSTS]);
    agents[1].reports(&[]);
    alarmed(&stage, &[]);
    assert_eq!(
        placed(&stage, "nobody19"),
        ("rds1".to_owned(), json!("active session there")),
        "who was on the other was found before and is found still"
    );
}

/// The farm's configuration with hosts that are meant for 25 users.
fn meant_for_25(stage: &Stage) -> String {
    let addresses: Vec<_> = stage.hosts.iter().map(ScriptedHost::address).collect();
    let mode = "mode = \"online\"\n";
    Stage::farm(&addresses, &[]).replace(mode, &format!("{mode}max_sessions = 25\n"))
}

#[test]
fn whoever_was_found_before_a_restart_is_found_after_it() {
    let (mut stage, mut agents) = staffed(2, "");
    agents[0].reports(&[]);
    agents[1].reports(&crowd(30));
    stage.broker.wait_until_stored("\"user\":\"nobody29\"");
    let changed = meant_for_25(&stage);
    stage.site.change_first(changed);
    stage = stage.restarted(Broker::kill);
    alarmed(&stage, &[]);
    let found = ("rds2".to_owned(), json!("active session there"));
    assert_eq!(placed(&stage, "nobody7"), found);
    agents[1].reports(&crowd(30));
    alarmed(&stage, &[]);
    assert_eq!(placed(&stage, "nobody8"), found);
}

#[test]
fn what_was_said_before_a_host_was_configured_is_a_first_report() {
    let (mut stage, mut agents) = staffed(1, "");
    agents[0].reports(&[]);
    let mut liar = ScriptedAgent::of(&stage.site, "rds2");
    liar.reports(&crowd(30));
    alarmed(&stage, &[]);
    stage.hosts.push(ScriptedHost::up());
    let changed = meant_for_25(&stage);
    stage.site.change_first(changed);
    stage.site.write();
    stage
        .broker
        .wait("What a host said last counts until it is heard", |line| {
            line["host"] == "rds2"
        });
    alarmed(&stage, &[&format!("host rds2 {STRANGERS}")]);
    let by_score = ("rds1".to_owned(), json!("best score"));
    assert_eq!(placed(&stage, "nobody7"), by_score);
}
