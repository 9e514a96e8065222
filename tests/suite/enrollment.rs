//! How a host gets its key, and what the key lets its agent say.

use serde_json::json;

use super::admin::get;
use super::heartbeats::staffed;
use super::keys::{create, keys};
use crate::support::{Asker, Stage, Told, session};

fn enroll(asker: &Asker, token: &str) -> Told {
    let body =
        json!({ "enrollment_token": token, "name": "RDS1", "machine_id": "0f9f", "later": 1 });
    asker.ask("POST", "/api/v1/agents/enroll", &body.to_string())
}

/// The key that a token is exchanged for.
fn key_of(asker: &Asker, token: &str, host: &str) -> String {
    let told = enroll(asker, token);
    assert_eq!(told.status, 200, "{told:?}");
    let told = told.json();
    assert_eq!(told["agent_id"], host);
    told["token"].as_str().unwrap().to_owned()
}

fn id_of(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

#[test]
fn a_token_becomes_the_key_of_its_host_once_and_the_key_reports_for_it_alone() {
    let (stage, mut agents) = staffed(2, "");
    let nobody = Asker::of(&stage.broker);
    let token = create(&stage.site, &["enrollment", "--host", "rds1"]);
    let key = key_of(&nobody, &token, "rds1");
    stage.broker.wait("Host enrolled", |line| {
        line["host"] == "rds1" && line["name"] == "RDS1"
    });
    assert_eq!(enroll(&nobody, &token).status, 401, "it is spent");
    assert_eq!(enroll(&nobody, "sg_enrollment_000000000000_x").status, 401);
    assert_eq!(enroll(&nobody, &key).status, 401, "a key is no token");

    let agent = nobody.with(&key);
    let body = agents[0].next(&[session("ann", "Active", 1)]).to_string();
    let told = agent.report("rds1", &body);
    assert_eq!((told.status, &told.json()["taken"]), (200, &json!(true)));
    let other = agents[1].next(&[session("bob", "Active", 1)]).to_string();
    for (host, body) in [("rds2", &other), ("rds1", &other), ("rds2", &body)] {
        assert_eq!(agent.report(host, body).status, 403, "{host}");
    }
    let listed = get(&stage.site, "/api/v1/sessions");
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);

    assert_eq!(keys(&stage.site, &["revoke", id_of(&key)]).0, 0);
    let body = agents[0].next(&[]).to_string();
    assert_eq!(agent.report("rds1", &body).status, 401);
    assert_eq!(get(&stage.site, "/api/v1/sessions"), listed);
    let broker = nobody.with(&create(&stage.site, &["broker"]));
    assert_eq!(broker.report("rds1", &body).status, 403);
}

#[test]
fn a_host_that_is_alive_is_replaced_by_nobody_with_a_token() {
    let (stage, mut agents) = staffed(1, "");
    let nobody = Asker::of(&stage.broker);
    let token = || create(&stage.site, &["enrollment", "--host", "rds1"]);
    let first = key_of(&nobody, &token(), "rds1");
    // Never heard: an agent whose answer was lost enrolls again.
    let second = key_of(&nobody, &token(), "rds1");
    let agent = nobody.with(&second);
    let mut report = |agent: &Asker| {
        agent
            .report("rds1", &agents[0].next(&[]).to_string())
            .status
    };
    assert_eq!(report(&agent), 200);
    assert_eq!(
        report(&nobody.with(&first)),
        200,
        "for a while, so that none is turned away"
    );
    let third = token();
    for _ in 0..2 {
        let told = enroll(&nobody, &third);
        assert_eq!(
            (told.status, &told.json()["code"]),
            (409, &json!("approval_required"))
        );
        let said = told.json()["error"].as_str().unwrap().to_owned();
        let command = format!("sessionguard keys approve {}", id_of(&third));
        assert!(said.contains(&command), "{said}");
    }
    assert_eq!(report(&agent), 200, "nothing has changed for it");
    let waits = stage
        .broker
        .wait_for_lines("An enrollment waits for approval", 1);
    assert_eq!(waits.len(), 1, "said once: {waits:?}");
    assert!(
        waits[0]["host"] == "rds1" && waits[0]["who"] == "RDS1",
        "{waits:?}"
    );
    let (_, listed, _) = keys(&stage.site, &["list"]);
    let row = listed.lines().find(|line| line.starts_with(id_of(&third)));
    assert!(row.unwrap().contains(" waiting "), "{listed}");
    for (id, reason) in [
        (id_of(&first), "no enrollment token that is good"),
        ("000000000000", "there is no key"),
    ] {
        let (code, _, said) = keys(&stage.site, &["approve", id]);
        assert!(code == 1 && said.contains(reason), "{said}");
    }

    assert_eq!(keys(&stage.site, &["revoke", id_of(&first)]).0, 0);
    for _ in 0..2 {
        let (code, said, err) = keys(&stage.site, &["approve", id_of(&third)]);
        assert!(
            code == 0 && said.contains("of rds1) is approved"),
            "{said}{err}"
        );
    }
    assert_eq!(stage.broker.lines("Enrollment approved").len(), 1);
    let spent = third;
    let third = key_of(&nobody, &spent, "rds1");
    assert_eq!(report(&nobody.with(&third)), 200);
    assert_eq!(
        report(&agent),
        200,
        "for a while, so that none is turned away"
    );
    assert_eq!(
        enroll(&nobody, &spent).status,
        401,
        "good once, all the same"
    );
    assert_eq!(keys(&stage.site, &["approve", id_of(&spent)]).0, 1);
    // An approval is of one token.
    assert_eq!(enroll(&nobody, &token()).status, 409);
    // Without a key of its own the host has no place to be taken.
    let fourth = token();
    for key in [id_of(&second), id_of(&third)] {
        assert_eq!(keys(&stage.site, &["revoke", key]).0, 0);
    }
    let fourth = key_of(&nobody, &fourth, "rds1");
    assert_eq!(report(&nobody.with(&fourth)), 200);
}

#[test]
fn an_unmatched_host_is_listed_with_where_it_was_heard_from() {
    let stage = Stage::one();
    let nobody = Asker::of(&stage.broker);
    let key = create(&stage.site, &["agent", "--host", "rds7"]);
    let mut agent = crate::support::ScriptedAgent::of(&stage.site, "rds7");
    let body = agent.next(&[]).to_string();
    assert_eq!(nobody.with(&key).report("rds7", &body).status, 200);
    let unmatched = &get(&stage.site, "/api/v1/hosts")["unmatched"][0];
    assert_eq!(
        (&unmatched["id"], &unmatched["from"]),
        (&json!("rds7"), &json!("127.0.0.1"))
    );
}

#[test]
fn tokens_are_guessed_at_no_faster_than_keys() {
    let stage = Stage::one();
    let nobody = Asker::of(&stage.broker);
    let statuses: Vec<_> = (0..40).map(|_| enroll(&nobody, "x").status).collect();
    assert!(statuses.starts_with(&[401, 401]), "{statuses:?}");
    assert!(statuses.ends_with(&[429]), "{statuses:?}");
    let elsewhere = nobody.at(9);
    let token = create(&stage.site, &["enrollment", "--host", "rds1"]);
    key_of(&elsewhere, &token, "rds1");
}
