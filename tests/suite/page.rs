//! The page for administrators: what is served to everybody, and how little
//! that is. What it does in a browser is shown by `tests/real`.

use super::keys::create;
use crate::support::{Asker, Stage, Told};

fn header<'a>(told: &'a Told, name: &str) -> &'a str {
    let name = format!("{name}: ");
    let mut lines = told.head.lines();
    lines
        .find_map(|line| line.strip_prefix(&name))
        .unwrap_or_else(|| panic!("no {name}in {}", told.head))
}

/// The files that a text of the page names.
fn named(text: &str) -> Vec<String> {
    let absolute = text.split('"').filter(|part| part.starts_with("/page/"));
    let relative = text.split('"').filter_map(|part| {
        let name = part.strip_prefix("./")?;
        name.ends_with(".js").then(|| format!("/page/{name}"))
    });
    absolute.map(str::to_owned).chain(relative).collect()
}

#[test]
fn the_page_and_all_it_names_are_there_without_a_key() {
    let stage = Stage::one();
    let nobody = Asker::of(&stage.broker);
    let mut wanted = vec!["/".to_owned()];
    let mut seen = Vec::new();
    while let Some(path) = wanted.pop() {
        if seen.contains(&path) {
            continue;
        }
        let told = nobody.ask("GET", &path, "");
        assert_eq!(told.status, 200, "{path}");
        let kind = header(&told, "content-type");
        let expected = match path.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(kind, expected, "{path}");
        let policy = header(&told, "content-security-policy");
        for rule in [
            "default-src 'none';",
            "script-src 'self';",
            "connect-src 'self';",
            "frame-ancestors 'none';",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert_eq!(header(&told, "x-content-type-options"), "nosniff");
        assert_eq!(header(&told, "referrer-policy"), "no-referrer");
        assert_eq!(header(&told, "cache-control"), "no-store");
        assert!(!told.head.contains("set-cookie"), "{path}");
        wanted.extend(named(&told.body));
        seen.push(path);
    }
    assert!(seen.len() > 15, "{seen:?}");
}

#[test]
fn looking_at_the_page_is_no_failed_try_with_a_key() {
    let stage = Stage::one();
    let nobody = Asker::of(&stage.broker);
    // More than are allowed to fail.
    for _ in 0..40 {
        assert_eq!(nobody.ask("GET", "/", "").status, 200);
    }
    assert_eq!(nobody.ask("GET", "/api/v1/status", "").status, 401);
    // More than one address may ask at all.
    let mut asked = (0..6000).map(|_| nobody.ask("GET", "/page/icon.svg", ""));
    let refused = asked.find(|told| told.status != 200).unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
}

#[test]
fn beside_the_page_there_is_nothing() {
    let stage = Stage::one();
    let nobody = Asker::of(&stage.broker);
    for path in ["/page/nothing", "/page/", "/page/..%2fapi.rs", "/page/a/b"] {
        let told = nobody.ask("GET", path, "");
        assert!([401, 404].contains(&told.status), "{path}: {}", told.status);
        assert!(told.json()["error"].is_string(), "{path}");
    }
    let told = nobody.ask("POST", "/", "{}");
    assert_eq!(told.status, 405);
    assert_eq!(header(&told, "allow"), "get,head");
    assert_eq!(told.json()["error"], "this path answers GET only");
}

#[test]
fn a_key_is_told_what_it_may() {
    let stage = Stage::one();
    let nobody = Asker::of(&stage.broker);
    let me = |role: &[&str]| {
        let key = create(&stage.site, role);
        let told = nobody.with(&key).ask("GET", "/api/v1/whoami", "").json();
        let name = told["name"].as_str().unwrap();
        let id = name.strip_prefix("key ").unwrap();
        assert!(key.contains(id), "{name}");
        assert!(!told.to_string().contains(&key));
        (told["roles"].clone(), told["host"].clone())
    };
    assert_eq!(me(&["admin-read"]).0, serde_json::json!(["admin-read"]));
    let both = serde_json::json!(["admin-read", "admin-write"]);
    assert_eq!(me(&["admin-write"]).0, both);
    let (roles, host) = me(&["agent", "--host", "rds1"]);
    assert_eq!(roles, serde_json::json!(["agent"]));
    assert_eq!(host, "rds1");
}
