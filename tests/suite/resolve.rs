//! Placements of users whose connections do not come through the broker.

use std::fs;

use serde_json::{Value, json};

use super::admin::get;
use super::asking::list;
use super::keys::create;
use crate::support::{Asker, Broker, Names, ScriptedGuacd, Stage, Told, Visit, eventually};

const RESOLVE: &str = "/api/v1/broker/resolve";
const TOKENS: &str = "/api/v1/broker/tokens";

fn asker(stage: &Stage) -> Asker {
    Asker::of(&stage.broker).with(&create(&stage.site, &["broker"]))
}

fn resolve(asker: &Asker, wish: &Value) -> Told {
    asker.ask("POST", RESOLVE, &wish.to_string())
}

/// The answer to one who is placed.
fn placed(asker: &Asker, user: &str) -> Value {
    let told = resolve(asker, &json!({ "username": user, "resource_id": "office" }));
    assert_eq!(told.status, 200, "{told:?}");
    told.json()
}

fn adjusted(hosts: usize, more: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, hosts, |site| site.with(more))
}

#[test]
fn who_resolves_and_then_clicks_lands_on_the_same_host() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let stage = adjusted(4, &format!("[log]\naudit = {trail:?}\n"));
    let asker = asker(&stage);
    let first = placed(&asker, "CORP\\Ann");
    let host = first["agent_id"].as_str().unwrap();
    let configured = get(&stage.site, &format!("/api/v1/hosts/{host}"));
    let address = configured["address"].as_str().unwrap();
    assert!(address.starts_with(first["hostname"].as_str().unwrap()));
    for (name, value) in [
        ("farm_id", json!("office")),
        ("resource_id", json!("office")),
        ("reconnect", json!(false)),
        ("reason", json!("best score")),
        ("health_score", json!(100)),
    ] {
        assert_eq!(first[name], value, "{name} in {first}");
    }
    assert_eq!(first["tokens"]["SESSIONGUARD_HOST"], first["hostname"]);
    // A logon under way, whom a tunnel would make no second one of.
    let there = || get(&stage.site, &format!("/api/v1/hosts/{host}"));
    assert_eq!(there()["occupancy"]["pending"], 1);
    let leases = list(&stage, "leases?user=ann");
    assert_eq!((leases.len(), &leases[0]["host"]), (1, &json!(host)));
    assert_eq!(leases[0]["state"], "lingering");

    let again = placed(&asker, "ann@corp");
    assert_eq!(
        (&again["agent_id"], &again["reconnect"]),
        (&json!(host), &json!(true))
    );
    assert!(again["lease_expires"].as_str() >= first["lease_expires"].as_str());
    assert_eq!(there()["occupancy"]["pending"], 1);
    // Every other host scores higher now.
    let (_visitor, peer) = stage.desktop(&Visit::office("corp\\ann"));
    assert_eq!(stage.host_of(&peer), host);
    assert_eq!(there()["occupancy"]["users"], 1);

    // It can be asked why, and stands in the trail, as any decision.
    let id = first["decision_id"].as_str().unwrap();
    let decision = get(&stage.site, &format!("/api/v1/decisions/{id}"));
    assert_eq!(
        (&decision["outcome"], &decision["host"]),
        (&json!("placed"), &json!(host))
    );
    assert_eq!(decision["asked"]["username"], "CORP\\Ann");
    let line = stage
        .broker
        .wait("Resolved", |line| line["decision_id"] == id);
    assert_eq!(
        (&line["user"], &line["host"]),
        (&json!("corp\\ann"), &json!(host))
    );
    assert!(line["actor"].as_str().unwrap().starts_with("key "));
    eventually("the decision in the trail", || {
        fs::read_to_string(&trail).ok()?.contains(id).then_some(())
    });
}

#[test]
fn who_has_a_tunnel_is_resolved_to_its_host_whatever_the_score() {
    let stage = Stage::of(3);
    let asker = asker(&stage);
    let (_visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    let _burden = stage.burden(&host);
    let answer = placed(&asker, "ann");
    assert_eq!(answer["agent_id"], json!(host));
    assert_eq!(answer["reason"], "tunnel already open there");
    assert_eq!(answer["reconnect"], true);
}

#[test]
fn what_was_answered_outlives_a_crash_and_opens_a_host_in_drain() {
    let stage = Stage::of(2);
    let first = placed(&asker(&stage), "ann");
    let host = first["agent_id"].as_str().unwrap().to_owned();
    let stage = stage.restarted(Broker::kill);
    assert_eq!(placed(&asker(&stage), "ann")["agent_id"], json!(host));
    let stage = stage.restarted_with(&[("rds1", "drain"), ("rds2", "drain")]);
    let asker = asker(&stage);
    assert_eq!(placed(&asker, "ann")["agent_id"], json!(host));
    let newcomer = resolve(
        &asker,
        &json!({ "username": "bob", "resource_id": "office" }),
    );
    assert_eq!(newcomer.status, 503, "{newcomer:?}");
    let reason = newcomer.json();
    assert_eq!(
        reason["error"],
        "no host of farm office takes new sessions now"
    );
    // The number in the answer is the decision's.
    let id = reason["ref"].as_str().unwrap();
    let decision = get(&stage.site, &format!("/api/v1/decisions/{id}"));
    assert_eq!(decision["outcome"], "refused");
    let filled = asker.fill(TOKENS, "username=bob&resource_id=office");
    assert_eq!(filled.status, 503);
}

#[test]
fn tokens_are_answered_as_forms_and_what_is_not_ours_is_empty() {
    let stage = Stage::one();
    let asker = asker(&stage);
    let filled = asker.fill(
        TOKENS,
        "username=CORP%5Cann&connection_id=43&connection_name=x",
    );
    assert_eq!(filled.status, 200, "{filled:?}");
    assert_eq!(
        filled.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    let address = stage.hosts[0].address().ip();
    let mut pairs: Vec<_> = filled.body.split('&').collect();
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [
            "SESSIONGUARD_AGENT_ID=rds1",
            &format!("SESSIONGUARD_HOST={address}"),
            "SESSIONGUARD_REMOTE_APP=%7C%7CSage",
            "SESSIONGUARD_REMOTE_APP_ARGS=%2Fquiet",
            "SESSIONGUARD_REMOTE_APP_DIR=C%3A%5CSage",
            "SESSIONGUARD_RESOURCE_ID=sage",
        ]
    );
    let unmapped = asker.fill(
        TOKENS,
        "username=ann&connection_id=99&connection_name=Other",
    );
    assert_eq!((unmapped.status, unmapped.body.as_str()), (200, ""));
    let decisions = get(&stage.site, "/api/v1/decisions?user=ann");
    assert_eq!(decisions["decisions"][0]["outcome"], "unmatched");
    let long = format!("username={}&connection_id=42", "u".repeat(513));
    for (form, status) in [
        (long.as_str(), 400),
        ("connection_id=42", 400),
        ("username=&connection_id=42", 400),
        ("username=%20&connection_id=42", 400),
        ("username=ann", 400),
        ("username=ann&connection_id=42&more=1", 400),
        ("username=ann&username=bob&connection_id=42", 400),
        ("username=%ff&connection_id=42", 400),
        ("username=ann&resource_id=none", 404),
        ("username=ann&farm_id=office", 409),
    ] {
        let told = asker.fill(TOKENS, form);
        assert_eq!(told.status, status, "{form}: {told:?}");
        assert!(told.json()["error"].is_string());
    }
    let wrong = asker.ask("POST", TOKENS, "{}");
    assert_eq!(wrong.status, 415, "{wrong:?}");
}

#[test]
fn a_refusal_says_what_kind_it_is() {
    let more = "[broker]\nallow_farm_selector = true\n\
         [[farms]]\nid = \"closed\"\nenabled = false\n[[farms]]\nid = \"empty\"\n\
         [[resources]]\nid = \"off\"\nname = \"Off\"\nkind = \"desktop\"\nfarm_id = \"office\"\n\
         enabled = false\nguacamole_connection_name = \"Off\"\n";
    let stage = adjusted(1, more);
    let asker = asker(&stage);
    for (what, value, status, reason) in [
        ("resource_id", "none", 404, "unknown resource"),
        ("connection_id", "99", 404, "nothing published"),
        ("connection_name", "Off", 409, "resource off is disabled"),
        ("farm_id", "none", 404, "farm none is not configured"),
        ("farm_id", "closed", 409, "farm closed is disabled"),
        ("farm_id", "empty", 503, "farm empty has no host"),
    ] {
        let told = resolve(&asker, &json!({ "username": "ann", what: value }));
        assert_eq!(told.status, status, "{what} {value}: {told:?}");
        let error = told.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(reason), "{error}");
    }
    let farm = resolve(&asker, &json!({ "username": "ann", "farm_id": "office" }));
    assert_eq!(farm.status, 200, "{farm:?}");
    assert_eq!(farm.json()["resource_id"], Value::Null);
    let unknown = resolve(&asker, &json!({ "username": "ann", "hostname": "x" }));
    assert_eq!(unknown.status, 400);
}

#[test]
fn who_only_watches_places_nobody() {
    let stage = adjusted(1, "[broker]\nmode = \"observe\"\n");
    let asker = asker(&stage);
    let told = resolve(&asker, &json!({ "username": "ann", "connection_id": "42" }));
    assert_eq!(told.status, 409, "{told:?}");
    let filled = asker.fill(TOKENS, "username=ann&connection_id=42");
    assert_eq!((filled.status, filled.body.as_str()), (200, ""));
    assert_eq!(list(&stage, "leases").len(), 0);
    let id = told.json()["ref"].as_str().unwrap().to_owned();
    let decision = get(&stage.site, &format!("/api/v1/decisions/{id}"));
    assert_eq!(
        (&decision["act"], &decision["host"]),
        (&json!("observation"), &json!("rds1"))
    );
}

#[test]
fn a_user_at_the_most_of_their_tunnels_may_still_ask_again() {
    let stage = adjusted(2, "[broker]\nmax_tunnels_per_user = 1\n");
    let asker = asker(&stage);
    let first = placed(&asker, "ann");
    assert_eq!(placed(&asker, "ann")["agent_id"], first["agent_id"]);
}
