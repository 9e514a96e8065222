//! What administrators type and write down: keys by the command line, files that are good and
//! files that are not, and everything the command line can be asked.

use std::fs;

use super::cast::{Cast, LABEL, USER};
use crate::suite::admin::{request, socket};
use crate::support::BINARY;

/// Keys of every role: the administrator's, and the broker's.
pub(super) fn make_keys(cast: &mut Cast) -> (String, String) {
    let mut made = Vec::new();
    for role in [
        &["admin-write"][..],
        &["broker"],
        &["admin-read"],
        &["agent", "--host", "rds2"],
        &["enrollment", "--host", "rds1"],
    ] {
        let arguments = [&["keys", "create", "--label", LABEL, "--role"], role].concat();
        let (code, key) = cast.runs_secretly(&arguments);
        assert_eq!(code, 0, "{role:?}");
        let key = key.trim().to_owned();
        cast.made(&format!("the {} key", role[0]), &key);
        made.push(key);
    }
    // A whole key says which one is meant, and one that is none is said to be none.
    for key in [made[2].clone(), cast.key("what is no key")] {
        cast.runs(&["keys", "revoke", &key]);
        cast.runs(&["keys", "approve", &key]);
        cast.runs(&["keys", "create", "--role", "broker", "--expires", &key]);
    }
    (made.swap_remove(0), made.swap_remove(1))
}

/// The broker asked over its API, with keys from files.
pub(super) fn ask_remotely(cast: &mut Cast, admin_key: &str) {
    let api = cast.running.address("API ready");
    let server = format!("http://{api}");
    let wrong = cast.key("in a file, and no key");
    let (good, bad) = (
        cast.file("admin.token", admin_key),
        cast.file("bad.token", &wrong),
    );
    let torn = cast.file("torn.token", &format!("{wrong} {wrong}"));
    for (file, code) in [(&good, 0), (&bad, 4), (&torn, 2)] {
        let arguments = ["status", "--server", &server, "--token-file", file];
        assert_eq!(cast.runs(&arguments).0, code);
    }
    let url = format!("http://{wrong}:{wrong}@{api}/?token={wrong}");
    let arguments = ["status", "--server", &url, "--token-file", &good];
    assert_eq!(cast.runs(&arguments).0, 2);
    let key_file = cast.vault.path().join("enrolled.key");
    let key_file = key_file.to_str().unwrap();
    let token = cast
        .runs_secretly(&["keys", "create", "--role", "enrollment", "--host", "rds3"])
        .1;
    cast.made("a token for an agent", token.trim());
    let token = cast.file("enrollment.token", token.trim());
    for token in [&bad, &torn, &token, &token] {
        cast.runs(&[
            "agent",
            "enroll",
            "--server",
            &server,
            "--token-file",
            token,
            "--key-file",
            key_file,
        ]);
    }
    let key = fs::read_to_string(key_file).expect("an enrolled agent");
    let key: serde_json::Value = serde_json::from_str(&key).unwrap();
    cast.made(
        "the key of an agent that enrolled",
        key["token"].as_str().unwrap(),
    );
}

/// Files and variables with secrets where none belong: nothing of them is in force, and nothing is
/// shown.
pub(super) fn write_wrongly(cast: &mut Cast) {
    let secret = cast.secret("in a file that is wrong");
    let toml = serde_json::to_string(&secret).unwrap();
    let more = cast.site.folder().join("conf.d");
    for (nth, (name, text)) in [
        ("90.toml", format!("[api]\nbroker_key = {toml}\n")),
        ("90.toml", format!("[store]\npassword = {toml}\n")),
        ("90.toml", format!("[store]\npasword = {toml}\n")),
        ("90.toml", format!("[store]\npasswort = {toml}\nport = {toml}\n")),
        ("90.toml", format!("[store]\nshibboleth = {toml}\n")),
        ("90.toml", format!("[store]\nuser = \"x\"\npasword = {}\n", &toml[..toml.len() - 1])),
        ("90.toml", format!("[api]\nadmin_key_file = {toml}\n")),
        ("90.toml", format!("[[hosts]]\nid = \"x\"\naddress = \"a\"\nparameters = {{ password = {toml}\n")),
        ("90.toml", format!("[[hosts]]\nid = \"x\"\naddress = \"a\"\nparameters = {{ password = {toml} }}\n")),
        ("90.toml", format!("[[hosts]]\nid = \"x\"\naddress = \"a\"\nparamters = {{ domain = {toml} }}\n")),
        ("90.toml", format!("[[resources]]\nid = \"r\"\nkind = \"desktop\"\n[resources.parameters]\ngateway-password = {toml}\ngateway-password = {toml}\n")),
        ("90.json", format!("{{\"id\": \"h\", \"address\": \"x\", \"parameters\": {{\"password\": {toml}")),
        ("90.json", format!("{{\"id\": \"h\", \"address\": \"x\", \"credentials\": [{toml}, {toml}]}}")),
        ("90.json", format!("{{\"database_password\": {toml}}}")),
    ]
    .into_iter()
    .enumerate()
    {
        let path = more.join(name);
        fs::write(&path, text).unwrap();
        let (code, said) = cast.runs(&["reload"]);
        assert_eq!(code, 1, "{nth}: {said}");
        let (code, _) = cast.runs(&["check"]);
        assert_eq!(code, 78, "{nth}");
        for arguments in [&["status"][..], &["serve"], &["config", "show", "--origin"]] {
            cast.runs(arguments);
        }
        fs::remove_file(&path).unwrap();
    }
    let (code, said) = cast.runs(&["reload"]);
    assert_eq!(code, 0, "{said}");
    let main = cast.main_file();
    for (name, value) in [
        ("SESSIONGUARD_API__BROKER_KEY", secret.as_str()),
        ("SESSIONGUARD_STORE__PASSWORD", &secret),
        ("SESSIONGUARD_BROKER_API_KEY", &secret),
        ("SESSIONGUARD_ADMIN_API_KEY", &secret[..10]),
    ] {
        let mut command = std::process::Command::new(BINARY);
        let command = command
            .args(["check", "--config"])
            .arg(&main)
            .env(name, value);
        let output = command.output().unwrap();
        cast.saw("output of check", [output.stdout, output.stderr].concat());
    }
}

/// Secrets in files that are exchanged for what is no good.
pub(super) fn exchange_wrongly(cast: &mut Cast, key_of_tls: Option<&str>) {
    let secret = cast.secret("in a file exchanged for what is no good");
    let broker_key = cast.vault.path().join("broker.key");
    let kept = fs::read_to_string(&broker_key).unwrap();
    for text in [&secret, "ChangeMe-9fK2", &format!("{kept}{secret}")] {
        fs::write(&broker_key, text).unwrap();
        let (code, said) = cast.runs(&["reload"]);
        assert_eq!(code, 1, "{said}");
        cast.runs(&["status"]);
    }
    fs::write(&broker_key, kept).unwrap();
    if let Some(path) = key_of_tls {
        let kept = fs::read_to_string(path).unwrap();
        let (head, _) = kept.split_once('\n').unwrap();
        for text in [
            format!("{head}\n{secret}\n-----END PRIVATE KEY-----\n"),
            secret.clone(),
            kept[..kept.len() / 2].to_owned(),
        ] {
            fs::write(path, text).unwrap();
            let (code, said) = cast.runs(&["reload"]);
            assert_eq!(code, 1, "{said}");
            for arguments in [&["status"][..], &["check"]] {
                cast.runs(arguments);
            }
        }
        fs::write(path, kept).unwrap();
    }
    let (code, said) = cast.runs(&["reload"]);
    assert_eq!(code, 0, "{said}");
}

/// Everything that can be asked, of the broker and of its files.
pub(super) fn look(cast: &mut Cast) {
    let get = |path: &str| {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(socket(&cast.site)).unwrap();
        stream.write_all(&request("GET", path, "")).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        body.to_owned()
    };
    let list = |path: &str, field: &str| -> Vec<String> {
        let body: serde_json::Value =
            serde_json::from_str(&get(&format!("/api/v1/{path}"))).unwrap();
        let listed = body[path].as_array().unwrap().iter();
        listed
            .map(|one| one[field].as_str().unwrap().to_owned())
            .collect()
    };
    let document: serde_json::Value = serde_json::from_str(&get("/api/v1/openapi.json")).unwrap();
    let mut paths = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        if item.get("get").is_none() {
            continue;
        }
        let Some((before, behind)) = path.split_once('{') else {
            paths.push(path.clone());
            continue;
        };
        let (_, behind) = behind.split_once('}').unwrap();
        let kind = before.trim_end_matches('/').rsplit('/').next().unwrap();
        let field = if kind == "leases" { "key" } else { "id" };
        let ids = list(kind, field);
        assert!(!ids.is_empty(), "{kind}");
        for id in ids {
            let id = String::from_utf8(super::marks::percent(id.as_bytes(), false)).unwrap();
            paths.push(format!("{before}{id}{behind}"));
        }
    }
    assert!(paths.len() > 25, "{paths:?}");
    let user = format!("/api/v1/sessions?user={USER}");
    let told: Vec<_> = paths
        .iter()
        .chain([&user])
        .map(|path| (path, get(path)))
        .collect();
    let decisions = list("decisions", "id");
    for (path, body) in told {
        cast.saw(&format!("answer to {path}"), body);
    }
    for arguments in [
        &["status"][..],
        &["status", "-o", "json"],
        &["farms"],
        &["hosts"],
        &["resources"],
        &["sessions", "--user", USER],
        &["tunnels"],
        &["leases"],
        &["explain", "--user", USER, "--resource", "vault"],
        &[
            "explain",
            "--user",
            USER,
            "--resource",
            "office",
            "-o",
            "json",
        ],
        &["keys", "list"],
        &["keys", "list", "-o", "json"],
        &["check"],
        &["config", "show"],
        &["config", "show", "--origin"],
    ] {
        let (code, _) = cast.runs(arguments);
        assert_eq!(code, 0, "{arguments:?}");
    }
    for id in decisions.iter().take(5) {
        // 3: it was a refusal.
        assert!([0, 3].contains(&cast.runs(&["explain", "--decision", id]).0));
    }
    for path in ["/metrics", "/readyz?verbose"] {
        let health = crate::support::Asker::to(cast.running.address("Health and metrics ready"));
        let told = health.ask("GET", path, "");
        cast.saw(&format!("health {path}"), told.body);
    }
    let page = cast.api().ask("GET", "/", "");
    cast.saw("page", page.body);
    for name in ["cmdline", "environ"] {
        let path = format!("/proc/{}/{name}", cast.running.id());
        let Ok(bytes) = fs::read(path) else {
            crate::support::skipped(
                "root, to read the variables of a broker that lets nobody else",
            );
            continue;
        };
        let proof = if name == "environ" {
            "TMPDIR="
        } else {
            "serve"
        };
        let shown = String::from_utf8_lossy(&bytes);
        assert!(shown.contains(proof), "the search in {name} works: {shown}");
        // Variables in which a secret was given are whose set the broker up.
        let given = bytes.split(|byte| *byte == 0).filter(|one| {
            !one.starts_with(b"SESSIONGUARD_ADMIN_API_KEY=")
                && !one.starts_with(b"SESSIONGUARD_DATABASE_PASSWORD=")
        });
        cast.saw(name, given.collect::<Vec<_>>().join(&0));
    }
}
