//! The admin socket: who may ask, what is asked wrongly, and what the socket's
//! file goes through.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Barrier};
use std::thread;

use serde_json::Value;

use crate::support::{
    Broker, DEADLINE, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, eventually,
};

pub(super) fn socket(site: &Site) -> PathBuf {
    site.store().with_extension("sock")
}

/// What is answered to the bytes of a request: status and body.
pub(super) fn answered(path: &Path, request: &[u8]) -> (u16, Value) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A request that is refused unread ends with a reset behind the answer.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

pub(super) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(super) fn get(site: &Site, path: &str) -> Value {
    let (status, body) = answered(&socket(site), &request("GET", path, ""));
    assert_eq!(status, 200, "{body}");
    body
}

#[test]
fn what_is_asked_wrongly_gets_the_right_status_and_a_reason() {
    let stage = Stage::one();
    let path = socket(&stage.site);
    let deep = format!("{{\"username\": {}", "[".repeat(20_000));
    let large = format!("{{\"username\": \"{}\"}}", "x".repeat(65 * 1024));
    let explain = "/api/v1/explain";
    for (method, to, body, status, reason) in [
        ("GET", "/", "", 404, "nothing at this path"),
        ("GET", "/api/v1/nothing", "", 404, "nothing at this path"),
        ("GET", "/api/v2/status", "", 404, "nothing at this path"),
        ("GET", "/api/v1/hosts/", "", 404, "nothing at this path"),
        ("GET", "/api/v1/hosts/a/b", "", 404, "nothing at this path"),
        ("GET", explain, "", 405, "answers POST only"),
        ("POST", "/api/v1/status", "", 405, "answers GET only"),
        ("DELETE", "/api/v1/decisions/x", "", 405, "answers GET only"),
        ("PUT", "/api/v1/hosts", "", 405, "answers GET only"),
        (
            "POST",
            "/api/v1/tunnels/x",
            "",
            405,
            "answers GET and DELETE only",
        ),
        ("POST", "/api/v1/leases/x", "", 405, "DELETE"),
        ("GET", "/api/v1/hosts/rsd1", "", 404, "did you mean rds1?"),
        ("GET", "/api/v1/hosts/%ff", "", 400, "escape"),
        ("GET", "/api/v1/hosts?farm=offic", "", 404, "mean office?"),
        ("GET", "/api/v1/hosts?host=rds1", "", 400, "unknown field"),
        (
            "GET",
            "/api/v1/farms/ofice",
            "",
            404,
            "did you mean office?",
        ),
        ("GET", "/api/v1/farms?x=1", "", 400, "unknown field"),
        (
            "GET",
            "/api/v1/resources/sgae",
            "",
            404,
            "did you mean sage?",
        ),
        (
            "GET",
            "/api/v1/resources/zzz",
            "",
            404,
            "no resource \"zzz\"",
        ),
        ("GET", "/api/v1/sessions?user=", "", 400, "user is blank"),
        ("GET", "/api/v1/sessions?host=rds7", "", 404, "mean rds1?"),
        ("GET", "/api/v1/tunnels?limit=1001", "", 400, "1 to 1000"),
        (
            "GET",
            "/api/v1/tunnels?limit=1&limit=2",
            "",
            400,
            "duplicate",
        ),
        ("GET", "/api/v1/tunnels?user=%20", "", 400, "user is blank"),
        (
            "GET",
            "/api/v1/tunnels/x",
            "",
            404,
            "no tunnel \"x\" is open",
        ),
        (
            "DELETE",
            "/api/v1/tunnels/x",
            "",
            404,
            "no tunnel \"x\" is open",
        ),
        ("DELETE", "/api/v1/tunnels", "", 400, "missing field `host`"),
        ("DELETE", "/api/v1/tunnels?host=", "", 400, "host is blank"),
        ("DELETE", "/api/v1/tunnels?host=x", "", 404, "no host \"x\""),
        (
            "GET",
            "/api/v1/leases?limit=many",
            "",
            400,
            "from 1 to 1000",
        ),
        ("GET", "/api/v1/leases/zoe", "", 404, "zoe has no lease"),
        ("DELETE", "/api/v1/leases/zoe", "", 404, "zoe has no lease"),
        (
            "DELETE",
            "/api/v1/leases/zoe?host=x",
            "",
            400,
            "unknown field",
        ),
        ("GET", "/api/v1/status?verbose", "", 400, "unknown field"),
        ("GET", "/api/v1/decisions/x", "", 400, "is a UUID"),
        ("GET", "/api/v1/decisions?limit=0", "", 400, "from 1 to 500"),
        ("GET", "/api/v1/decisions?user=", "", 400, "blank"),
        ("GET", "/api/v1/decisions?user=%ff", "", 400, "escape"),
        (
            "GET",
            "/api/v1/decisions?farm=office",
            "",
            400,
            "unknown field `farm`",
        ),
        ("PUT", "/api/v1/keys", "", 405, "answers GET and POST only"),
        ("GET", "/api/v1/keys/x", "", 405, "answers DELETE only"),
        ("DELETE", "/api/v1/keys/x", "", 400, "twelve of 0-9"),
        ("DELETE", "/api/v1/keys/%2e%2e", "", 400, "twelve of 0-9"),
        ("POST", "/api/v1/keys", "{}", 400, "missing field `role`"),
        (
            "POST",
            "/api/v1/keys",
            "{\"role\":\"x\"}",
            400,
            "a role is one of broker, agent",
        ),
        ("POST", explain, "", 400, "the body: EOF"),
        ("POST", explain, "{\"username\"", 400, "the body: EOF"),
        ("POST", explain, "[1, 2]", 400, "an object is wanted"),
        ("POST", explain, &deep, 400, "the body:"),
        (
            "POST",
            explain,
            "{\"username\":\"a\",\"x\":1}",
            400,
            "unknown field `x`",
        ),
        (
            "POST",
            explain,
            "{\"resource_id\":\"office\"}",
            400,
            "missing field `username`",
        ),
        (
            "POST",
            explain,
            "{\"username\":\"a\"}",
            400,
            "say what is asked for",
        ),
        ("PATCH", "/api/v1/hosts/rds1", "{}", 400, "field `mode`"),
        (
            "PATCH",
            "/api/v1/hosts/rds1",
            r#"{"mode":"asleep"}"#,
            400,
            "variant `asleep`",
        ),
        (
            "PATCH",
            "/api/v1/hosts/rds1",
            r#"{"mode":"drain","until":"22:00"}"#,
            400,
            "until is no moment as RFC 3339",
        ),
        (
            "PATCH",
            "/api/v1/hosts/rds1",
            r#"{"mode":"drain"}"#,
            409,
            "no usable host",
        ),
        (
            "PATCH",
            "/api/v1/hosts/%ff",
            r#"{"mode":"drain"}"#,
            400,
            "escape",
        ),
        (
            "PATCH",
            "/api/v1/farms/none",
            r#"{"mode":"drain"}"#,
            404,
            "farm none is not configured",
        ),
        ("POST", explain, &large, 413, "larger than 65536 bytes"),
    ] {
        let (got, told) = answered(&path, &request(method, to, body));
        assert_eq!(got, status, "{method} {to} {body:.40}: {told}");
        assert!(told["error"].as_str().unwrap().contains(reason), "{told}");
        assert_eq!(told["ref"].as_str().unwrap().len(), 36);
    }
    // After all that it answers as before.
    let status = get(&stage.site, "/api/v1/status");
    assert_eq!(status["hosts"][0]["id"], "rds1");
}

#[test]
fn noise_and_silence_on_the_socket_disturb_nobody() {
    let stage = Stage::one();
    let _silent: Vec<_> = (0..8)
        .map(|_| UnixStream::connect(socket(&stage.site)).unwrap())
        .collect();
    let mut noisy = UnixStream::connect(socket(&stage.site)).unwrap();
    noisy.write_all(&[0xff; 4096]).unwrap();
    for garbage in [
        &b"GET\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: nonsense\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let mut stream = UnixStream::connect(socket(&stage.site)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    drop(stage.tunnel(&Visit::office("ann")));
    assert_eq!(
        get(&stage.site, "/api/v1/status")["version"],
        env!("CARGO_PKG_VERSION")
    );
}

#[test]
fn many_may_ask_at_once() {
    let stage = Stage::of(2);
    let (count, path) = (12, socket(&stage.site));
    let start = Arc::new(Barrier::new(count));
    let asking: Vec<_> = (0..count)
        .map(|_| {
            let (start, path) = (Arc::clone(&start), path.clone());
            thread::spawn(move || {
                let question = r#"{"username":"ann","resource_id":"office"}"#;
                start.wait();
                answered(&path, &request("POST", "/api/v1/explain", question))
            })
        })
        .collect();
    let mut hosts: Vec<_> = asking
        .into_iter()
        .map(|thread| {
            let (status, told) = thread.join().unwrap();
            assert_eq!(status, 200);
            told["host"].to_string()
        })
        .collect();
    hosts.dedup();
    assert_eq!(hosts.len(), 1, "{hosts:?}");
}

#[test]
fn decisions_are_listed_newest_first_and_by_user() {
    let stage = Stage::one();
    let users = ["ann", "CORP\\ann", "bob", "ann"];
    for user in users {
        drop(stage.tunnel(&Visit::office(user)));
    }
    let list = |query: &str| {
        let told = get(&stage.site, &format!("/api/v1/decisions{query}"));
        let decisions = told["decisions"].as_array().unwrap().clone();
        let user = |d: &Value| d["asked"]["username"].as_str().unwrap().to_owned();
        decisions.iter().map(user).collect::<Vec<_>>()
    };
    let all = ["ann", "bob", "CORP\\ann", "ann"];
    assert_eq!(list(""), all);
    assert_eq!(list("?limit=2"), all[..2]);
    assert_eq!(list("?user=Bob"), ["bob"]);
    // A bare name finds every domain's.
    assert_eq!(list("?user=ANN"), ["ann", "CORP\\ann", "ann"]);
    assert_eq!(list("?user=corp%5Cann&limit=1").len(), 1);
    let before = get(&stage.site, "/api/v1/decisions");
    // Which hosts were compared is told of one alone.
    let listed = &before["decisions"][1];
    assert_eq!(
        (&listed["candidates"], &listed["user"]),
        (&1.into(), &"bob".into())
    );
    let one = format!("/api/v1/decisions/{}", listed["id"].as_str().unwrap());
    let one = get(&stage.site, &one);
    assert_eq!(one["decision"]["candidates"][0]["host"], "rds1");
    for same in ["id", "time", "outcome", "reason", "host", "tunnel", "asked"] {
        assert!(
            !one[same].is_null() && one[same] == listed[same],
            "{same}: {one}"
        );
    }
    let stage = stage.restarted(|broker| {
        broker.signal("TERM");
        assert!(broker.exit().success());
    });
    assert_eq!(get(&stage.site, "/api/v1/decisions"), before);
    let told = get(&stage.site, "/api/v1/decisions?user=ann");
    assert_eq!(told["decisions"].as_array().unwrap().len(), 3);
}

#[test]
fn status_and_reload_answer_at_the_command_line() {
    let mut stage = Stage::of(2);
    let (_visitor, _peer) = stage.tunnel(&Visit::office("ann"));
    let main = stage.site.folder().join("sessionguard.toml");
    let run = |arguments: &[&str]| {
        let output = Site::run(arguments, &main);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, out, _) = run(&["status"]);
    assert_eq!(code, Some(0));
    assert!(
        out.contains("tunnels        1") && out.contains("office  2 of 2"),
        "{out}"
    );
    let (_, out, _) = run(&["status", "-o", "json"]);
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status["configuration"], 1);
    let hosts = status["hosts"].as_array().unwrap();
    assert!(
        hosts.iter().all(|host| host["probe"] == "answering"),
        "{status}"
    );

    assert_eq!(run(&["reload"]).0, Some(0));
    let addresses: Vec<_> = stage.hosts.iter().map(|host| host.address()).collect();
    stage
        .site
        .change_first(Stage::farm(&addresses, &[("rds1", "drain")]));
    stage.site.write();
    let (code, out, err) = run(&["reload"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "configuration 2 is in force\n"),
        "{err}"
    );
    stage.site.change_first("nonsense".to_owned());
    stage.site.write();
    // By its socket, since the configuration file is no good.
    let socket = socket(&stage.site);
    let output = told_by(&["reload", "--socket", socket.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.contains("00.toml") && err.contains("configuration 2 stays in force"),
        "{err}"
    );
    // By the broken files, too, as long as where the socket is can still be read in them.
    let (code, _, err) = run(&["reload"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("goes on with what it read before"), "{err}");
    let (code, out, _) = run(&["status"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("refused") && out.contains("00.toml"), "{out}");
    fs::write(&main, "nonsense").unwrap();
    assert_eq!(run(&["status"]).0, Some(78));
}

/// The command line without a configuration.
pub(super) fn told_by(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessionguard"));
    command.args(arguments).output().unwrap()
}

#[test]
fn the_sockets_file_is_the_owners_and_goes_with_the_broker() {
    let stage = Stage::one();
    let path = socket(&stage.site);
    let there = fs::symlink_metadata(&path).unwrap();
    assert!(there.file_type().is_socket());
    assert_eq!(there.permissions().mode() & 0o777, 0o600);
    let Stage { site, broker, .. } = stage;
    broker.signal("TERM");
    assert!(broker.exit().success());
    assert!(!path.exists(), "removed at the end");
    let output = Site::run(&["status"], &site.folder().join("sessionguard.toml"));
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot ask the broker at"));
}

#[test]
fn a_dead_brokers_socket_is_replaced_and_a_living_ones_is_not() {
    let stage = Stage::one().restarted(Broker::kill);
    let path = socket(&stage.site);
    assert_eq!(get(&stage.site, "/api/v1/status")["configuration"], 1);

    let second = Site::new(stage.guacd.address()).with(format!("[api]\nsocket = {path:?}\n"));
    let output = Site::run(&["serve"], &second.write());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("is another running broker's"), "{said}");
    assert_eq!(get(&stage.site, "/api/v1/status")["configuration"], 1);
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let stage = Stage::one();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "shopping list").unwrap();
    let site = Site::new(stage.guacd.address()).with(format!("[api]\nsocket = {file:?}\n"));
    let output = Site::run(&["serve"], &site.write());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), "shopping list");

    let off = Site::new(stage.guacd.address()).with("[api]\nsocket = \"off\"\n");
    let _broker = off.start();
    assert!(!socket(&off).exists());
    let output = Site::run(&["status"], &off.folder().join("sessionguard.toml"));
    assert_eq!(output.status.code(), Some(4));
}

/// Runs a program as somebody else; `None` where that cannot be done here.
fn as_nobody(program: &Path, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let output = command.arg(program).args(arguments).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    (!said.contains("setpriv:")).then_some(output)
}

#[test]
fn somebody_else_is_turned_away() {
    let everybodys = tempfile::tempdir().unwrap();
    fs::set_permissions(everybodys.path(), Permissions::from_mode(0o755)).unwrap();
    let program = everybodys.path().join("sessionguard");
    fs::copy(env!("CARGO_BIN_EXE_sessionguard"), &program).unwrap();
    if as_nobody(&program, &["version"]).is_none_or(|output| !output.status.success()) {
        eprintln!("SKIPPED: needs root and setpriv");
        return;
    }
    let path = everybodys.path().join("admin.sock");
    let setting = format!("[api]\nsocket = {path:?}\n");
    let guacd = crate::support::ScriptedGuacd::polite(crate::support::Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| site.with(setting));
    let shown = path.to_str().unwrap();
    assert_eq!(
        told_by(&["status", "--socket", shown]).status.code(),
        Some(0)
    );
    let status = |program| as_nobody(program, &["status", "--socket", shown]).unwrap();
    let output = status(&program);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ermission denied"));

    // The mode is not all there is.
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let output = status(&program);
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("only root and the user"));
    let line = stage
        .broker
        .wait("A stranger was turned away from the admin socket", |_| true);
    assert_eq!(line["uid"], 65534);
}

#[test]
fn an_endless_answer_of_a_false_broker_does_not_hold_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("false.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"SSH-2.0-nothing\r\n");
        }
    });
    let output = told_by(&["status", "--socket", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn the_status_of_two_hundred_hosts_is_one_screen_and_names_those_in_trouble() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let hosts = (1..=200).map(|number| match number {
        172 => ScriptedHost::ssh(),
        _ => ScriptedHost::up(),
    });
    let hosts: Vec<_> = hosts.collect();
    let addresses: Vec<_> = hosts.iter().map(ScriptedHost::address).collect();
    let out: Vec<_> = (1..=150).map(|number| format!("rds{number}")).collect();
    let modes: Vec<_> = out.iter().map(|id| (id.as_str(), "drain")).collect();
    let mut site = Stage::site(guacd.address(), &addresses);
    let broker = site.start();
    let main = site.folder().join("sessionguard.toml");
    let shown = || String::from_utf8(Site::run(&["status"], &main).stdout).unwrap();
    eventually("all but one answer, and that one is named alone", || {
        let shown = shown();
        let table = shown.split("\n\n").last().unwrap();
        let named: Vec<_> = table.lines().skip(1).collect();
        let alone = matches!(named[..], [one] if one.starts_with("rds172 "));
        (alone && shown.contains("199 of 200")).then_some(())
    });

    site.change_first(Stage::farm(&addresses, &modes));
    site.write();
    broker.wait_for_lines("Configuration applied", 1);
    let shown = eventually("the orders hold", || {
        let shown = shown();
        shown.contains("49 of 200").then_some(shown)
    });
    assert!(shown.lines().count() <= 40, "{shown}");
    assert!(
        shown.contains("and 141 more: sessionguard hosts\n"),
        "{shown}"
    );
    let first = shown.split("\n\n").last().unwrap().lines().nth(1).unwrap();
    assert!(
        first.starts_with("rds172 "),
        "the worst comes first: {shown}"
    );
    let all = String::from_utf8(Site::run(&["hosts"], &main).stdout).unwrap();
    assert_eq!(
        all.lines().filter(|line| line.starts_with("rds")).count(),
        200
    );
}
