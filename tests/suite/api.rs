//! The API over TCP: who may, how often, and what noise, floods and slowness do
//! to it.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use serde_json::Value;

use super::keys::{create, keys};
use crate::support::tls::Authority;
use crate::support::{Asker, Names, ScriptedGuacd, Site, Stage, Told, Visit};

const STATUS: &str = "/api/v1/status";
const DOCUMENT: &str = "/api/v1/openapi.json";
const ENROLL: &str = "/api/v1/agents/enroll";

fn holder(stage: &Stage, role: &[&str]) -> Asker {
    Asker::of(&stage.broker).with(&create(&stage.site, role))
}

/// What is told apart from the number each answer has of its own.
fn without_number(told: &Told) -> (u16, String, String) {
    let mut body = told.json();
    body["ref"] = Value::Null;
    let lines = told.head.lines().filter(|line| !line.starts_with("date:"));
    (told.status, lines.collect(), body.to_string())
}

#[test]
fn each_endpoint_is_there_for_its_roles_and_for_nobody_else() {
    let stage = Stage::one();
    let roles = [
        &["broker"][..],
        &["admin-read"],
        &["admin-write"],
        &["agent", "--host", "rds1"],
    ];
    let holders: Vec<_> = roles
        .iter()
        .map(|role| (role[0], holder(&stage, role)))
        .collect();
    let token = create(&stage.site, &["enrollment", "--host", "rds1"]);
    let revoked = create(&stage.site, &["admin-write"]);
    assert_eq!(keys(&stage.site, &["revoke", &revoked]).0, 0);
    let nobody = Asker::of(&stage.broker);
    let strangers = [
        nobody.clone(),
        nobody.with("x"),
        nobody.with(&token),
        nobody.with(&revoked),
        nobody.with(&format!("{}0", create(&stage.site, &["admin-write"]))),
    ];
    let document = holders[0].1.ask("GET", DOCUMENT, "").json();
    let mut asked = 0;
    let mut refusals = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let to = path.replace("{id}", "nothing").replace("{key}", "nothing");
        for (method, operation) in item.as_object().unwrap() {
            let method = method.to_uppercase();
            if path == ENROLL {
                // Needs no key: see the tests of enrollment.
                assert_eq!(operation["security"], serde_json::json!([]));
                continue;
            }
            let may: &[&str] = match (method.as_str(), path.as_str()) {
                (_, DOCUMENT | "/api/v1/whoami") => {
                    &["broker", "agent", "admin-read", "admin-write"]
                }
                (_, "/api/v1/agents/heartbeat") => &["agent"],
                (_, path) if path.starts_with("/api/v1/broker/") => &["broker"],
                ("GET", _) | (_, "/api/v1/explain") => &["admin-read", "admin-write"],
                _ => &["admin-write"],
            };
            let said = operation["security"].as_array().unwrap().iter();
            let said: Vec<_> = said
                .flat_map(|scheme| scheme.as_object().unwrap().keys().map(String::as_str))
                .collect();
            assert_eq!(said, may, "{method} {path}");
            for (role, holder) in &holders {
                let status = holder.ask(&method, &to, "").status;
                let forbidden = status == 403;
                assert_eq!(forbidden, !may.contains(role), "{role}: {method} {path}");
                assert!(![401, 405, 429, 500].contains(&status), "{method} {path}");
            }
            // Each from its own address: nobody has failed there before.
            let stranger = &strangers[asked % strangers.len()];
            asked += 1;
            let stranger = stranger.at(u8::try_from(asked).unwrap());
            refusals.push(without_number(&stranger.ask(&method, &to, "")));
        }
    }
    assert!(asked > 20, "{asked}");
    // What is not there is nobody's business either.
    refusals.push(without_number(&nobody.at(200).ask("GET", "/nothing", "")));
    for refusal in &refusals {
        assert_eq!(refusal, &refusals[0]);
    }
    assert_eq!(refusals[0].0, 401);
    assert!(refusals[0].1.contains("www-authenticate: bearer realm"));
    let schemes = document["components"]["securitySchemes"]
        .as_object()
        .unwrap();
    assert_eq!(schemes.len(), 4);
}

#[test]
fn who_has_no_good_key_is_limited_harder_and_told_of_once() {
    const CANARY: &str = "Canary-of-a-wrong-key";
    let stage = Stage::one();
    let nobody = Asker::of(&stage.broker).with(CANARY);
    let told: Vec<_> = (0..40).map(|_| nobody.ask("GET", STATUS, "")).collect();
    let count = |status| told.iter().filter(|told| told.status == status).count();
    assert_eq!(told[0].status, 401);
    assert!(count(401) >= 10 && count(429) > 0, "{}", count(401));
    assert_eq!(count(401) + count(429), 40);
    let limited = told.iter().find(|told| told.status == 429).unwrap();
    let wait: u32 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=7).contains(&wait), "{wait}");
    assert!(
        limited.json()["error"]
            .as_str()
            .unwrap()
            .contains("too many")
    );
    // Others are others, and a good key is good.
    assert_eq!(nobody.at(2).ask("GET", STATUS, "").status, 401);
    let admin = holder(&stage, &["admin-read"]);
    assert_eq!(admin.ask("GET", STATUS, "").status, 200);
    let said = "Requests without an accepted key are turned away";
    let lines = stage.broker.wait_for_lines(said, 2);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["address"], "127.0.0.1");
    let log: String = stage.broker.said().iter().map(Value::to_string).collect();
    assert!(!log.contains(CANARY));
}

#[test]
fn a_key_that_asks_too_often_waits_and_others_do_not() {
    let stage = Stage::one();
    let (one, other) = (
        holder(&stage, &["admin-read"]),
        holder(&stage, &["admin-read"]).at(3),
    );
    let mut stream = one.connect();
    let request = one.request("GET", "/api/v1/farms/x", "x/y", "");
    let mut writing = stream.try_clone().unwrap();
    const COUNT: usize = 1500;
    let writer = thread::spawn(move || {
        for _ in 0..COUNT {
            writing.write_all(&request).unwrap();
        }
    });
    let mut limited = 0;
    for _ in 0..COUNT {
        let told = Told::read(&mut stream).expect("an answer to each, in order");
        assert!(matches!(told.status, 404 | 429), "{told:?}");
        if told.status == 429 {
            limited += 1;
            assert_eq!(told.header("retry-after"), Some("1"));
        }
    }
    writer.join().unwrap();
    assert!(limited > 0);
    assert_eq!(other.ask("GET", STATUS, "").status, 200);
}

#[test]
fn requests_in_one_write_are_answered_in_order() {
    let stage = Stage::one();
    let admin = holder(&stage, &["admin-write"]);
    let mut stream = admin.connect();
    let asked = [
        ("GET", "/api/v1/hosts/rds1", "", 200),
        ("POST", "/api/v1/explain", "{}", 400),
        ("GET", "/api/v1/hosts/x", "", 404),
        ("PUT", STATUS, "", 405),
        ("OPTIONS", STATUS, "", 405),
        ("GET", DOCUMENT, "", 200),
    ];
    let requests = asked.map(|(method, path, body, _)| admin.request(method, path, "x/y", body));
    stream.write_all(&requests.concat()).unwrap();
    for (method, path, _, status) in asked {
        let told = Told::read(&mut stream).unwrap();
        assert_eq!(told.status, status, "{method} {path}: {told:?}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            (
                "content-security-policy",
                "default-src 'none'; frame-ancestors 'none'",
            ),
        ] {
            assert_eq!(told.header(name), Some(value), "{method} {path}");
        }
        assert!(!told.head.contains("access-control"), "{told:?}");
    }
}

#[test]
fn noise_oversize_and_depth_are_refused() {
    let stage = Stage::one();
    let admin = holder(&stage, &["admin-read"]);
    let large = format!("{{\"username\": \"{}\"}}", "x".repeat(65 * 1024));
    let deep = format!("{{\"username\": {}", "[".repeat(20_000));
    for (body, status) in [(large, 413), (deep, 400)] {
        let told = admin.ask("POST", "/api/v1/explain", &body);
        assert_eq!(told.status, status, "{told:?}");
    }
    // The fields' values without their names are another question.
    let told = admin.ask("POST", "/api/v1/explain", " [\"ann\"]");
    assert_eq!(told.status, 400, "{told:?}");
    assert!(told.body.contains("an object is wanted"), "{told:?}");
    let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    for noise in [
        head.as_bytes(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"6.select,3.rdp;\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET /api/v1/status HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /api/v1/status HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nzz",
    ] {
        let mut stream = admin.connect();
        let _ = stream.write_all(noise);
        let mut told = Vec::new();
        // A reset behind the answer is as good.
        let _ = stream.read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told);
        let refused = told.is_empty() || told.starts_with("HTTP/1.1 4");
        assert!(refused, "{told}");
    }
    assert_eq!(admin.ask("GET", STATUS, "").status, 200);
}

#[test]
fn who_is_slow_or_many_takes_nobody_elses_place() {
    let stage = Stage::one();
    let admin = holder(&stage, &["admin-read"]);
    let many = admin.at(4);
    let mut idle: Vec<_> = (0..128).map(|_| many.connect()).collect();
    // Taken in order: the last of them is counted when this one comes.
    let mut one_more = many.connect();
    assert_eq!(one_more.read(&mut [0]).unwrap_or(0), 0);
    assert_eq!(admin.ask("GET", STATUS, "").status, 200);
    // A head, and a body, that never end.
    let mut slow_head = admin.connect();
    slow_head.write_all(b"GET / HTTP/1.1\r\nX: y\r\n").unwrap();
    let mut slow_body = admin.connect();
    let request = admin.request("POST", "/api/v1/explain", "application/json", "{}");
    slow_body.write_all(&request[..request.len() - 1]).unwrap();
    let told = Told::read(&mut slow_body).unwrap();
    assert_eq!(told.status, 408, "{told:?}");
    assert!(Told::read(&mut slow_head).is_none_or(|told| told.status == 408));
    // Whoever only waits is hung up on, and then there is room again.
    for stream in &mut idle {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    drop(idle);
    let served = (0..100).any(|_| {
        let mut stream = many.connect();
        let request = many.request("GET", STATUS, "x/y", "");
        let _ = stream.write_all(&request);
        Told::read(&mut stream).is_some_and(|told| told.status == 200)
    });
    assert!(served);
}

#[test]
fn a_flood_on_the_api_stops_no_tunnel() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let admin = holder(&stage, &["admin-read"]);
    let (flooding, answers) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let flooders: Vec<_> = (10..18)
        .map(|number| {
            let (flooder, flooding, answers) = (
                admin.at(number),
                Arc::clone(&flooding),
                Arc::clone(&answers),
            );
            thread::spawn(move || {
                let requests = flooder.request("GET", DOCUMENT, "x/y", "").repeat(20);
                while flooding.load(Ordering::SeqCst) {
                    let mut stream = flooder.connect();
                    stream.write_all(&requests).unwrap();
                    while Told::read(&mut stream).is_some() {
                        answers.fetch_add(1, Ordering::SeqCst);
                        if !flooding.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    let mut echoes = 0;
    // Until both had their share of the machine.
    while echoes < 100 || answers.load(Ordering::SeqCst) < 500 {
        visitor.wire.send(b"4.ping,1.1;").unwrap();
        assert_eq!(peer.wire.exact(11).unwrap(), b"4.ping,1.1;");
        peer.wire.send(b"4.pong,1.1;").unwrap();
        assert_eq!(visitor.wire.exact(11).unwrap(), b"4.pong,1.1;");
        echoes += 1;
    }
    flooding.store(false, Ordering::SeqCst);
    for flooder in flooders {
        flooder.join().unwrap();
    }
}

#[test]
fn an_address_that_will_not_do_is_said_at_the_start() {
    let stage = Stage::one();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for (setting, code, reason) in [
        (format!("\"{address}\""), 1, "set listen in [api]"),
        ("\"0.0.0.0:0\"".to_owned(), 78, "in plain text"),
        ("\"[::]:0\"".to_owned(), 78, "insecure = true"),
        ("\"on\"".to_owned(), 78, "[api]"),
    ] {
        let site = Site::new(stage.guacd.address());
        let site = site.with(format!("[api]\nlisten = {setting}\n"));
        let output = Site::run(&["serve"], &site.write());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    let site = Site::new(stage.guacd.address());
    let open = site.with("[api]\nlisten = \"0.0.0.0:0\"\ninsecure = true\n");
    let broker = open.start();
    broker.wait("API ready", |_| true);
    let site = Site::new(stage.guacd.address()).with("[api]\nlisten = \"off\"\n");
    let broker = site.start();
    assert!(Site::run(&["status"], &site.write()).status.success());
    assert_eq!(broker.lines("API ready").len(), 0);
}

/// What the command line says, with these variables.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessionguard"));
    command.args(arguments).envs(variables.iter().copied());
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn the_command_line_asks_over_tcp_as_well() {
    let stage = Stage::one();
    let (_visitor, _peer) = stage.desktop(&Visit::office("ann"));
    let server = format!("http://{}", Asker::of(&stage.broker).address());
    let file = |role: &str| {
        let path = stage.site.folder().join(format!("{role}.key"));
        fs::write(&path, create(&stage.site, &[role])).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (read, write, broker) = (file("admin-read"), file("admin-write"), file("broker"));
    let at = ["--server", &server, "--token-file"];
    for command in [
        &["status"][..],
        &["farms"],
        &["hosts"],
        &["resources"],
        &["sessions"],
        &["tunnels"],
        &["leases"],
        &["keys", "list"],
        &["explain", "--user", "ann", "--resource", "office"],
    ] {
        let (code, out, err) = run(&[command, &at, &[&read]].concat(), &[]);
        assert_eq!((code, err.as_str()), (0, ""), "{command:?}");
        assert!(!out.is_empty());
        let variables = [
            ("SESSIONGUARD_SERVER", server.as_str()),
            ("SESSIONGUARD_TOKEN_FILE", &read),
        ];
        assert_eq!(run(command, &variables).0, 0, "{command:?}");
    }
    let (code, out, err) = run(&[&["reload"], &at[..], &[&write]].concat(), &[]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("nothing has changed"), "{out}");
    let (code, out, _) = run(
        &[&["keys", "create", "--role", "broker"], &at[..], &[&write]].concat(),
        &[],
    );
    assert!(code == 0 && out.starts_with("sg_broker_"), "{out}");
    let made = stage.broker.wait("Key created", |line| {
        line["actor"].as_str().unwrap().starts_with("key ")
    });
    assert_eq!(made["role"], "broker");

    let wrong = stage.site.folder().join("wrong.key");
    fs::write(&wrong, "sg_admin-read_0123456789ab_x\n").unwrap();
    fs::set_permissions(&wrong, Permissions::from_mode(0o600)).unwrap();
    let wrong = wrong.to_str().unwrap();
    for (server, file, code, reason) in [
        (server.as_str(), wrong, 4, "needs a valid key"),
        (&server, &broker, 4, "needs the role admin-read"),
        (&server, "/nowhere", 2, "cannot be read from /nowhere"),
        (
            "http://127.0.0.1:1",
            &read,
            4,
            "cannot ask the broker at http://127.0.0.1:1",
        ),
        ("http://192.0.2.1:1", &read, 2, "--insecure"),
        ("https://127.0.0.1:1", &read, 2, "--ca-file"),
        ("127.0.0.1:1", &read, 2, "is a URL"),
    ] {
        let arguments = ["status", "--server", server, "--token-file", file];
        let (got, out, err) = run(&arguments, &[]);
        assert_eq!((got, out.as_str()), (code, ""), "{err}");
        assert!(err.contains(reason), "{err}");
    }
    let (code, _, err) = run(&["reload", at[0], at[1], at[2], &read], &[]);
    assert_eq!(code, 4, "{err}");
    let (code, _, err) = run(&["status", "--server", &server], &[]);
    assert!(code == 2 && err.contains("--token-file"), "{err}");
    // What is written out goes before a variable.
    let main = stage.site.folder().join("sessionguard.toml");
    let (code, _, err) = run(
        &["status", "--config", main.to_str().unwrap()],
        &[("SESSIONGUARD_SERVER", "http://127.0.0.1:1")],
    );
    assert_eq!(code, 0, "{err}");
}

#[test]
fn with_a_certificate_it_speaks_tls_and_nothing_else() {
    let authority = Authority::new("Test Authority");
    let own = authority.sign("127.0.0.1");
    let stage = Stage::adjusted(ScriptedGuacd::polite(Names::rdp("1.6.0")), 1, |site| {
        let (certificate, key) = own.write(site.folder(), "api");
        // Where others reach it: nobody reads a key on the way.
        site.with(format!(
            "[api]\nlisten = \"0.0.0.0:0\"\ntls_cert_file = {certificate:?}\ntls_key_file = {key:?}\n"
        ))
    });
    let ready = stage.broker.wait("API ready", |_| true);
    assert_eq!(ready["tls"], true);
    let port = Asker::of(&stage.broker).address().port();
    let folder = stage.site.folder();
    let (ca, key) = (folder.join("ca.crt"), folder.join("read.key"));
    fs::write(&ca, authority.pem()).unwrap();
    fs::write(&key, create(&stage.site, &["admin-read"])).unwrap();
    let other = folder.join("other.crt");
    fs::write(&other, Authority::new("Another").pem()).unwrap();
    let (ca, key, other) = (
        ca.to_str().unwrap(),
        key.to_str().unwrap(),
        other.to_str().unwrap(),
    );
    let (pin, wrong) = (own.fingerprint(), "00".repeat(32));
    // What it showed, ready to be compared and pasted.
    let named = format!("which --pin {pin} accepts");
    let secure = format!("https://127.0.0.1:{port}");
    let plain = format!("http://127.0.0.1:{port}");
    for (server, trust, code, reason) in [
        (&secure, &["--ca-file", ca][..], 0, ""),
        (&secure, &["--pin", &pin], 0, ""),
        (&secure, &["--pin", &wrong, "--pin", &pin], 0, ""),
        (&secure, &["--pin", &wrong], 4, named.as_str()),
        (&secure, &["--ca-file", other], 4, named.as_str()),
        (&plain, &[], 4, "cannot ask the broker"),
    ] {
        let at = ["status", "--server", server, "--token-file", key];
        let (got, out, err) = run(&[&at[..], trust].concat(), &[]);
        assert_eq!(got, code, "{trust:?}: {err}");
        assert!(err.contains(reason), "{err}");
        assert_eq!(out.contains("office"), code == 0, "{out}");
    }
}
