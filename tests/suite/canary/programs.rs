//! What programs send to the API: keys that are good, and secrets where none belong.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::cast::{Cast, LABEL, USER};
use super::marks::percent;
use crate::support::{Asker, DEADLINE, ScriptedAgent, Told};

fn shown(told: &Told) -> Vec<u8> {
    format!("{}{}", told.head, told.body).into_bytes()
}

/// A key made over the API, which shows it this once.
fn make(cast: &mut Cast, admin: &Asker, role: &str, host: Option<&str>) -> String {
    let wanted = json!({ "role": role, "host": host, "label": LABEL }).to_string();
    let told = admin.ask("POST", "/api/v1/keys", &wanted);
    assert_eq!(told.status, 200, "{told:?}");
    let key = told.json()["key"].as_str().unwrap().to_owned();
    cast.made(&format!("a key of role {role}"), &key);
    key
}

/// What is answered to these bytes, whatever they are.
fn raw(asker: &Asker, bytes: &[u8]) -> Vec<u8> {
    let mut stream = asker.connect();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // It may be refused before all of it is read.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

pub(super) fn ask(cast: &mut Cast, admin_key: &str, broker_key: &str) {
    let api = cast.api();
    let (admin, broker) = (api.with(admin_key), api.with(broker_key));
    let agent_key = make(cast, &admin, "agent", Some("rds1"));
    let token = make(cast, &admin, "enrollment", Some("rds2"));
    let reader = make(cast, &admin, "admin-read", None);
    let told = broker.ask(
        "POST",
        "/api/v1/broker/resolve",
        &json!({ "username": USER, "resource_id": "office" }).to_string(),
    );
    assert_eq!(told.status, 200, "{told:?}");
    cast.saw("answers", shown(&told));

    // An agent's key, by its token.
    let enrolling = json!({ "enrollment_token": token, "name": LABEL, "machine_id": "0f" });
    let told = api
        .at(1)
        .ask("POST", "/api/v1/agents/enroll", &enrolling.to_string());
    assert_eq!(told.status, 200, "{told:?}");
    let enrolled = told.json()["token"].as_str().unwrap().to_owned();
    cast.made("an enrolled agent's key", &enrolled);
    let again = api
        .at(1)
        .ask("POST", "/api/v1/agents/enroll", &enrolling.to_string());
    assert_eq!(again.status, 401);
    cast.saw("answers", shown(&again));

    // Heartbeats, with what an agent should not tell.
    let secret = cast.secret("in a heartbeat");
    for (host, key) in [("rds1", &agent_key), ("rds2", &enrolled)] {
        let mut agent = ScriptedAgent::of(&cast.site, host);
        let mut body = agent.next(&[crate::support::session(USER, "Active", 5)]);
        body["environment"] = json!({ "PASSWORD": secret });
        body["sessions"][0]["password"] = json!(secret);
        body["health"]["checks"] = json!([{ "name": "profile", "ok": true, "token": secret }]);
        let told = api.with(key).report(host, &body.to_string());
        assert_eq!(told.status, 200, "{told:?}");
        cast.saw("answers", shown(&told));
        body["sessions"] = json!({ "password": secret });
        for wrong in [&body.to_string(), &format!("{{\"password\": \"{secret}")] {
            cast.saw("answers", shown(&api.with(key).report(host, wrong)));
        }
    }
    strangers(
        cast,
        &api,
        &[admin_key, broker_key, &agent_key, &token, &reader],
    );
    bodies(cast, &api, &admin, &broker);
}

/// Keys where they do not belong, and some that are none.
fn strangers(cast: &mut Cast, api: &Asker, keys: &[&str]) {
    let wrong = cast.key("a key that is none");
    let odd = cast.secret("in a request");
    let odd = String::from_utf8(percent(odd.as_bytes(), false)).unwrap();
    for (number, key) in (10..).zip(keys.iter().copied().chain([wrong.as_str()])) {
        let api = api.at(number);
        for head in [
            format!("GET /api/v1/status?key={key}&password={odd} HTTP/1.1\r\n"),
            format!("GET /api/v1/{odd}/{key} HTTP/1.1\r\n"),
            format!("GET /page/{key} HTTP/1.1\r\n"),
            format!("DELETE /api/v1/keys/{key} HTTP/1.1\r\n"),
            format!("GET /api/v1/status HTTP/1.1\r\nAuthorization: Basic {key}\r\n"),
            format!("GET /api/v1/status HTTP/1.1\r\nAuthorization: Bearer x{key}\r\n"),
            format!("GET /api/v1/status HTTP/1.1\r\nX-Api-Key: {key}\r\nCookie: k={key}\r\n"),
            format!("GET /api/v1/status HTTP/1.1\r\nAuthorization Bearer {key}\r\n"),
            format!("GET /api/v1/status HTTP/{key}\r\n"),
            format!("{key} / HTTP/1.1\r\n"),
        ] {
            let request = format!("{head}Host: x\r\nConnection: close\r\n\r\n");
            let answer = raw(&api, request.as_bytes());
            cast.saw("answers", answer);
        }
        // One that is good, on a path that is none.
        let told = api
            .with(key)
            .ask("GET", &format!("/api/v1/{key}?{odd}"), "");
        cast.saw("answers", shown(&told));
    }
    let health = cast.running.address("Health and metrics ready");
    for path in ["/metrics", "/livez", "/readyz", "/"] {
        let request = format!(
            "GET {path}?token={wrong} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {wrong}\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(&Asker::to(health), request.as_bytes());
        cast.saw("answers", answer);
    }
}

/// Secrets in bodies, in fields that are none, of the wrong type, and cut.
fn bodies(cast: &mut Cast, api: &Asker, admin: &Asker, broker: &Asker) {
    let secret = cast.secret("in a body");
    let enroll = "/api/v1/agents/enroll";
    for (asker, path, body) in [
        (
            admin,
            "/api/v1/keys",
            json!({ "role": "admin-read", "secret": secret }),
        ),
        (
            admin,
            "/api/v1/keys",
            json!({ "role": { "password": secret } }),
        ),
        (
            admin,
            "/api/v1/explain",
            json!({ "username": USER, "password": secret }),
        ),
        (
            admin,
            "/api/v1/hosts/rds1/commands",
            json!({ "type": "message", "password": secret }),
        ),
        (
            broker,
            "/api/v1/broker/resolve",
            json!({ "username": USER, "password": secret }),
        ),
        (
            broker,
            "/api/v1/broker/resolve",
            json!({ "username": { "password": secret } }),
        ),
        (&api.at(2), enroll, json!({ "enrollment_token": secret })),
        (&api.at(2), enroll, json!({ "enrollment_token": [secret] })),
        (
            &api.at(2),
            enroll,
            json!({ "enrollment_token": "x", "name": { "token": secret } }),
        ),
        (&api.at(2), enroll, json!({ "name": "x", "token": secret })),
    ] {
        let body: Value = body;
        let body = body.to_string();
        cast.saw("answers", shown(&asker.ask("POST", path, &body)));
        let cut = body.char_indices().nth(body.chars().count() - 6).unwrap().0;
        cast.saw("answers", shown(&asker.ask("POST", path, &body[..cut])));
    }
    let form = form_urlencoded::byte_serialize(secret.as_bytes()).collect::<String>();
    for form in [
        format!("username={USER}&resource_id=office&password={form}"),
        format!("{form}={form}&%{form}"),
        form,
    ] {
        cast.saw(
            "answers",
            shown(&broker.fill("/api/v1/broker/tokens", &form)),
        );
    }
}
