//! The API's own document: nothing in it that does not answer, nothing that
//! answers and is not in it, and answers as it says.

use std::collections::BTreeSet;

use serde_json::Value;

use super::admin::{answered, get, request, socket};
use crate::support::{Stage, Visit};

const ENDPOINTS: &[&str] = &[
    "DELETE /api/v1/keys/{id}",
    "DELETE /api/v1/leases/{key}",
    "DELETE /api/v1/tunnels",
    "DELETE /api/v1/tunnels/{id}",
    "GET /api/v1/decisions",
    "GET /api/v1/decisions/{id}",
    "GET /api/v1/farms",
    "GET /api/v1/farms/{id}",
    "GET /api/v1/hosts",
    "GET /api/v1/hosts/{id}",
    "GET /api/v1/hosts/{id}/commands",
    "GET /api/v1/keys",
    "GET /api/v1/leases",
    "GET /api/v1/leases/{key}",
    "GET /api/v1/openapi.json",
    "GET /api/v1/resources",
    "GET /api/v1/resources/{id}",
    "GET /api/v1/sessions",
    "GET /api/v1/status",
    "GET /api/v1/tunnels",
    "GET /api/v1/tunnels/{id}",
    "GET /api/v1/whoami",
    "PATCH /api/v1/farms/{id}",
    "PATCH /api/v1/hosts/{id}",
    "POST /api/v1/agents/enroll",
    "POST /api/v1/agents/heartbeat",
    "POST /api/v1/broker/resolve",
    "POST /api/v1/broker/tokens",
    "POST /api/v1/explain",
    "POST /api/v1/hosts/{id}/commands",
    "POST /api/v1/keys",
    "POST /api/v1/keys/{id}/approve",
    "POST /api/v1/reload",
];

fn document(stage: &Stage) -> Value {
    get(&stage.site, "/api/v1/openapi.json")
}

/// Method, path and operation of every endpoint.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            found.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    found
}

/// Every `$ref` below a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                match inner.as_str().filter(|_| key == "$ref") {
                    Some(to) => drop(found.insert(to.to_owned())),
                    None => references(inner, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

#[test]
fn every_endpoint_is_in_the_document_and_answers() {
    let stage = Stage::one();
    let document = document(&stage);
    assert_eq!(document["info"]["title"], "sessionguard");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
    assert_eq!(document["info"]["contact"], Value::Null, "nobody else's");
    let listed = operations(&document);
    let mut names: Vec<_> = listed
        .iter()
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    names.sort();
    assert_eq!(names, ENDPOINTS);
    for (method, path, operation) in listed {
        let asked = path.replace("{id}", "nothing").replace("{key}", "nothing");
        let (status, told) = answered(&socket(&stage.site), &request(&method, &asked, ""));
        assert_ne!(status, 405, "{method} {path}");
        // One that is not there is another matter than a path that is none.
        let nowhere = told["error"] == "there is nothing at this path";
        assert!(!nowhere, "{method} {path}");
        let said = operation["description"].as_str().unwrap();
        let role = match (method.as_str(), path.as_str()) {
            (_, "/api/v1/openapi.json" | "/api/v1/whoami") => "Needs a key of any role.",
            (_, "/api/v1/agents/enroll") => "Needs no key: the token is in the body.",
            (_, "/api/v1/agents/heartbeat") => "Needs the role agent.",
            (_, path) if path.starts_with("/api/v1/broker/") => "Needs the role broker.",
            ("GET", _) | (_, "/api/v1/explain") => "Needs the role admin-read.",
            _ => "Needs the role admin-write.",
        };
        assert!(said.ends_with(role), "{method} {path}: {said}");
        assert!(operation["summary"].is_string(), "{method} {path}");
        let failed = &operation["responses"]["default"]["content"]["application/json"];
        assert_eq!(failed["schema"]["$ref"], "#/components/schemas/Error");
    }
}

#[test]
fn every_schema_is_there_and_used() {
    let stage = Stage::one();
    let document = document(&stage);
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let known = schemas
        .keys()
        .map(|name| format!("#/components/schemas/{name}"));
    assert_eq!(known.collect::<BTreeSet<_>>(), used);
    assert!(used.len() > 15, "{used:?}");
}

/// What a schema says of an object: every property, and those always there.
fn properties(document: &Value, schema: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut always) = (BTreeSet::new(), BTreeSet::new());
    let mut parts = vec![schema];
    while let Some(part) = parts.pop() {
        if let Some(to) = part["$ref"].as_str() {
            let to = document.pointer(&to[1..]);
            parts.push(to.expect("a schema that is there"));
        }
        parts.extend(part["allOf"].as_array().into_iter().flatten());
        let keys = part["properties"].as_object().into_iter().flatten();
        all.extend(keys.map(|(key, _)| key.clone()));
        let required = part["required"].as_array().into_iter().flatten();
        always.extend(required.map(|key| key.as_str().unwrap().to_owned()));
    }
    (all, always)
}

/// Holds an answer against its schema, and what is in its lists as well.
fn hold_against(document: &Value, schema: &Value, told: &Value, at: &str) {
    let Some(object) = told.as_object() else {
        return;
    };
    let (all, always) = properties(document, schema);
    if all.is_empty() {
        // Described as an object of any form.
        return;
    }
    let keys: BTreeSet<_> = object.keys().cloned().collect();
    let strange: Vec<_> = keys.difference(&all).collect();
    assert!(strange.is_empty(), "{at} tells {strange:?}");
    let missing: Vec<_> = always.difference(&keys).collect();
    assert!(missing.is_empty(), "{at} lacks {missing:?}");
    let mut parts = vec![schema];
    while let Some(part) = parts.pop() {
        if let Some(to) = part["$ref"].as_str() {
            parts.push(document.pointer(&to[1..]).unwrap());
        }
        parts.extend(part["allOf"].as_array().into_iter().flatten());
        for (key, inner) in part["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}.{key}");
            match &told[key] {
                Value::Array(list) => {
                    for one in list {
                        hold_against(document, &inner["items"], one, &at);
                    }
                }
                one => hold_against(document, inner, one, &at),
            }
        }
    }
}

#[test]
fn answers_look_as_the_document_says() {
    let stage = Stage::of(2);
    let (_visitor, peer) = stage.desktop(&Visit::office("corp\\ann"));
    let host = stage.host_of(&peer);
    let elsewhere = Visit::rdp("carl").answer("hostname", "old.example.test");
    let mut elsewhere = elsewhere.at(&stage.broker);
    elsewhere.ready();
    let document = document(&stage);
    let tunnels = get(&stage.site, "/api/v1/tunnels");
    let tunnel = tunnels["tunnels"][0]["id"].as_str().unwrap();
    let decisions = get(&stage.site, "/api/v1/decisions");
    let decision = decisions["decisions"][0]["id"].as_str().unwrap();
    for (path, asked) in [
        ("/status", "/status".to_owned()),
        ("/farms", "/farms".to_owned()),
        ("/farms/{id}", "/farms/office".to_owned()),
        ("/hosts", "/hosts".to_owned()),
        ("/hosts/{id}", format!("/hosts/{host}")),
        ("/resources", "/resources".to_owned()),
        ("/resources/{id}", "/resources/sage".to_owned()),
        ("/sessions", "/sessions".to_owned()),
        ("/sessions", "/sessions?user=ann".to_owned()),
        ("/tunnels", "/tunnels".to_owned()),
        ("/tunnels/{id}", format!("/tunnels/{tunnel}")),
        ("/leases", "/leases".to_owned()),
        ("/leases/{key}", "/leases/corp%5Cann".to_owned()),
        ("/decisions", "/decisions".to_owned()),
        ("/decisions/{id}", format!("/decisions/{decision}")),
    ] {
        let told = get(&stage.site, &format!("/api/v1{asked}"));
        let operation = &document["paths"][format!("/api/v1{path}")]["get"];
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{path}");
        assert!(!properties(&document, schema).0.is_empty(), "{path}");
        hold_against(&document, schema, &told, path);
    }
}

/// A number's format says how far it goes, too: programs stay within both.
#[test]
fn no_number_goes_beyond_its_format() {
    let stage = Stage::one();
    let mut open = vec![document(&stage)];
    let mut numbers = 0;
    while let Some(value) = open.pop() {
        if value["format"] == "int32" {
            numbers += 1;
            let most = value["maximum"].as_i64().unwrap_or_default();
            assert!(most <= i64::from(i32::MAX), "{value}");
        }
        match value {
            Value::Object(fields) => open.extend(fields.into_values()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    assert!(numbers > 3, "{numbers} numbers of 32 bits");
}
