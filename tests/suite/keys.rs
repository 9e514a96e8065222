//! Keys at the command line of a running broker, and that no secret is ever
//! anywhere but where it was asked for.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Barrier};
use std::thread;

use serde_json::Value;

use crate::support::{Asker, Broker, Names, ScriptedGuacd, Site, Stage, eventually, ourselves};

/// A good secret that is found again wherever it is.
const FROM_FILE: &str = "Canary-1-7fK2qLx9Zt4RbW8mVnYc3GdHs6Jp";
const FROM_VARIABLE: &str = "Canary-2-Xe5TuP0aQw7Ns1ChVk9Rj4LbMz8D";
/// What is no secret, and must be found.
const LABEL: &str = "Canary-label";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What the command line answers: exit code, output, errors.
pub(super) fn keys(site: &Site, arguments: &[&str]) -> (i32, String, String) {
    let main = site.folder().join("sessionguard.toml");
    let output = Site::run(&[&["keys"], arguments].concat(), &main);
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}

/// A new key, as a script would take it.
pub(super) fn create(site: &Site, arguments: &[&str]) -> String {
    let (code, out, err) = keys(site, &[&["create", "--role"], arguments].concat());
    assert_eq!(code, 0, "{err}");
    let key = out.strip_suffix('\n').unwrap();
    assert!(key.starts_with("sg_") && !key.contains(char::is_whitespace));
    assert!(!err.contains(secret_of(key)), "{err}");
    key.to_owned()
}

fn id_of(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

fn secret_of(key: &str) -> &str {
    key.split('_').nth(3).unwrap()
}

fn list(site: &Site) -> Vec<Value> {
    let (code, out, err) = keys(site, &["list", "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    answer["keys"].as_array().unwrap().clone()
}

/// The states of these keys.
fn states(site: &Site, keys: &[&str]) -> Vec<String> {
    let listed = list(site);
    let state = |key: &&str| {
        let found = listed.iter().find(|one| one["id"] == id_of(key));
        found.unwrap()["state"].as_str().unwrap().to_owned()
    };
    keys.iter().map(state).collect()
}

#[test]
fn a_key_is_made_listed_and_revoked() {
    let stage = Stage::one();
    let site = &stage.site;
    assert_eq!(list(site), Vec::<Value>::new());
    let agent = [
        "agent",
        "--host",
        "rds1",
        "--label",
        "first of rds1",
        "--expires",
        "30d",
    ];
    let agent = create(site, &agent);
    let token = create(site, &["enrollment", "--host", "rds1"]);
    let admin = create(site, &["admin-write"]);
    let listed = list(site);
    let find = |key: &str| listed.iter().find(|one| one["id"] == id_of(key)).unwrap();
    let one = find(&agent);
    for (name, value) in [
        ("role", "agent"),
        ("host", "rds1"),
        ("label", "first of rds1"),
        ("state", "valid"),
    ] {
        assert_eq!(one[name], value, "{one}");
    }
    let (name, _) = ourselves();
    assert_eq!(one["created_by"], name.as_str(), "{one}");
    assert!(one["expires_at"].is_string() && find(&token)["expires_at"].is_string());
    assert!(find(&admin)["expires_at"].is_null());

    let (code, out, _) = keys(site, &["revoke", id_of(&agent)]);
    assert_eq!(
        (code, out),
        (
            0,
            format!("key {} (agent of rds1) is revoked\n", id_of(&agent))
        )
    );
    // The whole key does as well; what of it is secret goes nowhere.
    let (code, out, _) = keys(site, &["revoke", &admin]);
    assert_eq!(
        (code, out),
        (
            0,
            format!("key {} (admin-write) is revoked\n", id_of(&admin))
        )
    );
    assert_eq!(
        states(site, &[&agent, &token, &admin]),
        ["revoked", "valid", "revoked"]
    );
    let (_, table, _) = keys(site, &["list"]);
    let row = table
        .lines()
        .find(|line| line.starts_with(id_of(&agent)))
        .unwrap();
    assert!(
        row.contains("agent") && row.contains("first of rds1") && row.contains("revoked"),
        "{table}"
    );
    for line in stage.broker.wait_for_lines("Key created", 3) {
        assert_eq!(line["actor"], name.as_str(), "{line}");
    }
    let revoked = stage.broker.wait_for_lines("Key revoked", 2);
    assert_eq!(revoked[0]["key"], id_of(&agent));
    assert_eq!(revoked[0]["role"], "agent of rds1");
}

#[test]
fn what_is_asked_wrongly_says_what_to_do() {
    let stage = Stage::one();
    let site = &stage.site;
    for (arguments, expected, reason) in [
        (
            &["create", "--role", "root"][..],
            2,
            "possible values: broker",
        ),
        (
            &["create", "--role", "agent"],
            2,
            "belongs to a host: name it",
        ),
        (
            &["create", "--role", "broker", "--host", "rds1"],
            2,
            "belongs to no host",
        ),
        (
            &["create", "--role", "broker", "--expires", "2020-01-01"],
            2,
            "lies in the past",
        ),
        (
            &["create", "--role", "broker", "--expires", "0d"],
            2,
            "lies in the past",
        ),
        (
            &["create", "--role", "broker", "--expires", "1 month"],
            2,
            "write when it expires as 30d",
        ),
        (&["revoke", "../status"], 2, "twelve of 0-9 and a-f"),
        (&["revoke", "abc"], 2, "twelve of 0-9 and a-f"),
        (
            &["revoke", "0123456789ab"],
            1,
            "there is no key 0123456789ab; see: sessionguard keys list",
        ),
    ] {
        let (code, out, err) = keys(site, arguments);
        assert_eq!((code, out.as_str()), (expected, ""), "{arguments:?}: {err}");
        assert!(err.contains(reason), "{arguments:?}: {err}");
    }
    assert_eq!(list(site), Vec::<Value>::new());
    // For a host that may come later there is a key, and a word about it.
    let (code, out, err) = keys(site, &["create", "--role", "agent", "--host", "rds2"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("warning: no host rds2 is configured") && err.contains("did you mean rds1?"),
        "{err}"
    );
    let id = id_of(out.trim());
    let slip = format!("{}{}", &id[..11], if id.ends_with('0') { '1' } else { '0' });
    let (code, _, err) = keys(site, &["revoke", &slip]);
    assert_eq!(code, 1);
    assert!(err.contains(&format!("did you mean {id}?")), "{err}");
}

#[test]
fn keys_survive_a_restart_and_a_kill() {
    let stage = Stage::one();
    let kept = create(&stage.site, &["broker"]);
    let revoked = create(&stage.site, &["broker"]);
    assert_eq!(keys(&stage.site, &["revoke", id_of(&revoked)]).0, 0);
    // What was answered is on disk: the answer was the last word before the kill.
    let stage = stage.restarted(Broker::kill);
    assert_eq!(
        states(&stage.site, &[&kept, &revoked]),
        ["valid", "revoked"]
    );
    let later = create(&stage.site, &["admin-read"]);
    assert_eq!(keys(&stage.site, &["revoke", id_of(&kept)]).0, 0);
    let before = list(&stage.site);
    let stage = stage.restarted(Broker::kill);
    assert_eq!(states(&stage.site, &[&kept, &later]), ["revoked", "valid"]);
    let stage = stage.restarted(|broker| {
        broker.signal("TERM");
        assert!(broker.exit().success());
    });
    assert_eq!(list(&stage.site), before);
}

#[test]
fn a_host_never_gets_a_third_key_however_many_ask_at_once() {
    let stage = Stage::one();
    let count = 8;
    let start = Arc::new(Barrier::new(count));
    let main = stage.site.folder().join("sessionguard.toml");
    let asking: Vec<_> = (0..count)
        .map(|_| {
            let (start, main) = (Arc::clone(&start), main.clone());
            thread::spawn(move || {
                start.wait();
                Site::run(
                    &["keys", "create", "--role", "agent", "--host", "rds1"],
                    &main,
                )
            })
        })
        .collect();
    let mut made = 0;
    for output in asking.into_iter().map(|thread| thread.join().unwrap()) {
        if output.status.success() {
            made += 1;
        } else {
            assert_eq!(output.status.code(), Some(1));
            let err = text(&output.stderr);
            assert!(err.contains("agent of rds1 has two keys already"), "{err}");
        }
    }
    assert_eq!(made, 2);
    assert_eq!(list(&stage.site).len(), 2);
}

/// A file that only its owner may read.
fn secret_file(folder: &Path, text: &str) -> String {
    let path = folder.join("broker.key");
    fs::write(&path, format!("{text}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn no_secret_is_anywhere_but_where_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit.jsonl");
    let file = secret_file(folder.path(), FROM_FILE);
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |mut site| {
        site.level = "debug";
        site.with(format!(
            "[log]\naudit = {audit:?}\n[api]\nbroker_key_file = {file:?}\n"
        ))
        .knowing("SESSIONGUARD_ADMIN_API_KEY", FROM_VARIABLE)
    });
    let site = &stage.site;
    let mut made = Vec::new();
    for role in [
        &["broker"][..],
        &["admin-read"],
        &["admin-write"],
        &["agent", "--host", "rds1"],
        &["enrollment", "--host", "rds1"],
    ] {
        made.push(create(site, &[role, &["--label", LABEL]].concat()));
    }
    let mut told = Vec::new();
    let mut ask = |arguments: &[&str]| {
        let (_, out, err) = keys(site, arguments);
        told.push(out);
        told.push(err);
    };
    ask(&["revoke", id_of(&made[0])]);
    ask(&["revoke", &made[1]]);
    ask(&["revoke", "configured-admin"]);
    ask(&["revoke", FROM_VARIABLE]);
    ask(&["create", "--role", "broker", "--expires", FROM_FILE]);
    ask(&["list"]);
    ask(&["list", "-o", "json"]);
    let listed = told.concat();
    for configured in [
        "configured-broker",
        "configured-admin",
        &file,
        "SESSIONGUARD_ADMIN_API_KEY",
    ] {
        assert!(listed.contains(configured), "{configured} in {listed}");
    }
    assert!(
        listed.contains("configured-admin comes from the configuration"),
        "{listed}"
    );
    let main = site.folder().join("sessionguard.toml");
    for arguments in [
        &["config", "show", "--origin"][..],
        &["check"],
        &["status", "-o", "json"],
        &["reload"],
    ] {
        let Output { stdout, stderr, .. } = Site::run(arguments, &main);
        told.extend([text(&stdout), text(&stderr)]);
    }
    let lines = eventually("the lines of the trail", || {
        let text = fs::read_to_string(&audit).ok()?;
        (text.matches("key-created").count() == 5 && text.matches("key-revoked").count() == 2)
            .then_some(text)
    });
    stage.broker.wait_for_lines("Key revoked", 2);
    let store = site.store();
    let Stage { broker, site, .. } = stage;
    broker.signal("TERM");
    broker.wait("Stopped", |_| true);
    let log: String = broker.said().iter().map(Value::to_string).collect();
    assert!(broker.exit().success());
    let store = String::from_utf8_lossy(&fs::read(store).unwrap()).into_owned();
    drop(site);

    // What is no secret is found: the search works.
    for (place, text) in [
        ("log", &log),
        ("trail", &lines),
        ("list", &listed),
        ("store", &store),
    ] {
        assert!(
            text.contains(LABEL) && text.contains(id_of(&made[4])),
            "{place}: {text}"
        );
    }
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    for (name, value) in [
        ("event.action", "key-created"),
        ("sessionguard.role", "broker"),
        ("sessionguard.key", id_of(&made[0])),
    ] {
        assert_eq!(first[name], value, "{first}");
    }
    assert_eq!(first["sessionguard.actor"], ourselves().0.as_str());
    let everything = [log, lines, store, told.concat()];
    let secrets = made
        .iter()
        .map(|key| secret_of(key))
        .chain([FROM_FILE, FROM_VARIABLE]);
    for secret in secrets {
        assert!(
            everything.iter().all(|text| !text.contains(secret)),
            "{secret}"
        );
    }
}

#[test]
fn a_bad_secret_keeps_the_broker_from_starting_and_is_not_shown() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = Site::new(guacd.address());
    let file = secret_file(site.folder(), "ChangeMe-hunter2");
    let site = site.with(format!("[api]\nbroker_key_file = {file:?}\n"));
    let main = site.write();
    let output = Site::run(&["serve"], &main);
    assert_eq!(output.status.code(), Some(78));
    let err = text(&output.stderr);
    assert!(
        err.contains("00.toml:2:19: fault: the broker key in"),
        "{err}"
    );
    assert!(
        err.contains("this is a placeholder") && err.contains("openssl rand -hex 32"),
        "{err}"
    );
    assert!(!err.contains("hunter2"), "{err}");

    secret_file(site.folder(), FROM_FILE);
    let check = |value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessionguard"));
        command.arg("check").arg("--config").arg(&main);
        let output = command
            .env("SESSIONGUARD_ADMIN_API_KEY", value)
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let (code, told) = check(FROM_FILE);
    assert_eq!(code, 78, "{told}");
    assert!(
        told.contains(
            "SESSIONGUARD_ADMIN_API_KEY: fault: the admin key is the same secret as the broker key"
        ),
        "{told}"
    );
    assert!(!told.contains("Canary"), "{told}");
    assert_eq!(check("hunter2").0, 78);
    assert_eq!(check(FROM_VARIABLE).0, 0);
}

#[test]
fn an_exchanged_key_file_is_taken_over_and_one_that_is_no_good_is_not() {
    const LATER: &str = "Canary-3-Uq8ZrT1mWc5XpB0yKe7VnL2sJd4F";
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let keys = tempfile::tempdir().unwrap();
    let file = secret_file(keys.path(), FROM_FILE);
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.with(format!("[api]\nbroker_key_file = {file:?}\n"))
            .knowing("SESSIONGUARD_ADMIN_API_KEY", FROM_VARIABLE)
    });
    let main = stage.site.folder().join("sessionguard.toml");
    let reload = || {
        let output = Site::run(&["reload"], &main);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains("Canary"), "{said}");
        (output.status.code().unwrap(), said)
    };
    let good = |key: &str| {
        let told = Asker::of(&stage.broker)
            .with(key)
            .ask("GET", "/api/v1/whoami", "");
        told.status == 200
    };
    assert!(good(FROM_FILE) && !good(LATER));
    let (code, said) = reload();
    assert!(code == 0 && said.contains("nothing has changed"), "{said}");

    // As at the start: a placeholder, one that is short, the admin's, none at all.
    for (bad, reason) in [
        ("ChangeMe-hunter2", "placeholder"),
        ("x7Kq2", "short"),
        (FROM_VARIABLE, "the same secret as"),
        ("", "broker.key"),
    ] {
        secret_file(keys.path(), bad);
        let (code, said) = reload();
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains(reason) && said.contains("stays in force"),
            "{said}"
        );
        assert!(good(FROM_FILE));
    }

    // Noticed without anybody's asking.
    secret_file(keys.path(), LATER);
    let line = stage.broker.wait("Configured keys exchanged", |_| true);
    assert_eq!(line["exchanged"], "configured-broker");
    assert!(good(LATER) && !good(FROM_FILE) && good(FROM_VARIABLE));
    let (code, said) = reload();
    assert!(code == 0 && said.contains("nothing has changed"), "{said}");

    // In another file, which the configuration names.
    let other = keys.path().join("other.key");
    fs::write(&other, FROM_FILE).unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
    let named = format!("[api]\nbroker_key_file = {other:?}\n");
    fs::write(stage.site.folder().join("conf.d/01.toml"), named).unwrap();
    stage.broker.wait_for_lines("Configured keys exchanged", 2);
    assert!(good(FROM_FILE) && !good(LATER));
    assert!(
        stage
            .broker
            .told()
            .iter()
            .all(|line| !line.contains("Canary"))
    );
}
