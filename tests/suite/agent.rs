//! `sessionguard agent`: the real binary between a scripted host and a scripted
//! API whose expectations are the documented ones.

mod api;
mod https;
mod shape;
mod system;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::eventually;
use api::{Asked, ScriptedApi};
use system::{BOOT, System, data};

const TOKEN: &str = "sg_agent_4f1c0ffee4f1c0ffee";
/// Users that every Linux has.
const DAEMON: u32 = 1;
const BIN: u32 = 2;

struct Agent {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Agent {
    fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessionguard"));
        command.arg("agent").arg("--config").arg(config);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (stderr, heard) = (child.stderr.take().unwrap(), Arc::clone(&said));
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                heard.lock().unwrap().push(line);
            }
        });
        Self { child, said }
    }

    fn wait(&self, message: &str) -> Value {
        eventually(message, || {
            let said = self.said.lock().unwrap();
            let lines = said
                .iter()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.into_iter().find(|line| line["message"] == message)
        })
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Gone already where a test ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said = self.said.lock().unwrap();
        let told = said.iter().any(|line| line.contains(TOKEN));
        assert!(!told || thread::panicking(), "the key is in the log");
    }
}

/// A host with a key, its agent, and the API it reports to.
fn reporting(more: &str) -> (System, ScriptedApi, Agent) {
    let (system, api) = (enrolled(), ScriptedApi::up());
    let agent = Agent::start(&system.agent_toml(&[api.url()], more));
    (system, api, agent)
}

fn enrolled() -> System {
    let system = System::new();
    system.put(
        "agent.key",
        &json!({"agent_id": "rds-a", "token": TOKEN}).to_string(),
    );
    fs::set_permissions(system.path("agent.key"), PermissionsExt::from_mode(0o600)).unwrap();
    system
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessionguard"));
    command.arg("agent").args(arguments).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn shows(user: &str, state: &str) -> impl Fn(&Asked) -> bool {
    let wanted = (user.to_owned(), state.to_owned());
    move |asked| asked.sessions().contains(&wanted)
}

fn has_result(id: &str) -> impl Fn(&Asked) -> bool {
    let id = id.to_owned();
    move |asked| result(asked, &id).is_some()
}

fn result(asked: &Asked, id: &str) -> Option<Value> {
    let results = asked.body["command_results"].as_array()?;
    results.iter().find(|result| result["id"] == id).cloned()
}

#[test]
fn a_report_is_as_documented_and_comes_with_the_host_s_key() {
    let (system, api, _agent) = reporting("interval = \"1s\"");
    let first = api.wait("a report", |_| true);
    assert_eq!(first.line, "POST /api/v1/agents/heartbeat HTTP/1.1");
    assert_eq!(first.header("x-agent-id"), "rds-a");
    assert_eq!(first.header("authorization"), format!("Bearer {TOKEN}"));
    assert_eq!(first.header("content-type"), "application/json");
    let report = &first.body;
    assert_eq!(
        (&report["agent_id"], &report["boot_id"]),
        (&json!("rds-a"), &json!(BOOT))
    );
    assert_eq!(
        report["seq"], 1_171_752,
        "hundredths of a second since the start"
    );
    assert_eq!(report["server"]["hostname"], "rds-a");
    assert_eq!(report["server"]["memory_total"], 1_024_000);
    assert_eq!(report["server"]["memory_available"], 614_400);
    // How full the disk is is this machine's own.
    let checks = report["health"]["checks"].as_array().unwrap();
    let is_full = checks
        .iter()
        .any(|check| check["name"] == "disk" && check["ok"] == false);
    let score = if is_full { 70 } else { 100 };
    assert_eq!(report["health"]["score"], score, "{report}");
    assert_eq!(report["sessions"], json!([]));

    // The load lies between two reports.
    system.put(
        "proc/stat",
        "cpu  200 0 50 900 50 0 0 0 0 0\nbtime 1796013320\n",
    );
    system.log_on(10, DAEMON);
    let later = api.wait("a session", shows("daemon", "Active"));
    assert_eq!(later.body["server"]["cpu_percent"], 50.0);
    let session = &later.body["sessions"][0];
    assert_eq!(session["id"], 10);
    // Ticks after the start of the system, as recorded.
    assert_eq!(session["logon_at"], "2026-11-30T07:48:40.230Z");
    assert_eq!(
        session["connect_at"], session["logon_at"],
        "one process a connection, and its start"
    );
    api.wait_after(api.asked().len(), "another, in time", |_| true);
    let mut before = 0;
    for asked in api.asked() {
        assert_eq!(shape::faults(&asked.body), [""; 0], "{}", asked.body);
        let seq = asked.body["seq"].as_u64().unwrap();
        assert!(seq > before, "{seq} after {before}");
        before = seq;
    }
}

#[test]
fn every_change_is_told_at_once_and_its_time_outlives_the_agent() {
    let (system, api, agent) = reporting("interval = \"300s\"");
    api.wait("the first report", |_| true);
    system.log_on(10, DAEMON);
    api.wait("the logon", shows("daemon", "Active"));
    system.log_on(11, BIN);
    api.wait("another", |asked| asked.sessions().len() == 2);
    system.log_off(11);
    let count = api.asked().len();
    api.wait_after(count, "its logoff", |asked| asked.sessions().len() == 1);
    system.disconnect(10);
    let left = api.wait_after(count, "the disconnection", shows("daemon", "Disconnected"));
    let since = left.body["sessions"][0]["disconnected_since"].clone();
    assert!(since.as_str().unwrap() > "2026", "{since}");

    agent.kill();
    system.runs_for("11800.00");
    let before = api.asked().len();
    let agent = Agent::start(&system.path("agent.toml"));
    let again = api.wait_after(before, "a report of the next agent", |_| true);
    assert_eq!(again.sessions(), [("daemon".into(), "Disconnected".into())]);
    assert_eq!(again.body["sessions"][0]["disconnected_since"], since);
    assert_eq!(
        again.body["seq"], 1_180_000,
        "grows over a restart of the agent"
    );

    let count = api.asked().len();
    system.connect(10, 52_978);
    let back = api.wait_after(count, "the reconnection", shows("daemon", "Active"));
    assert!(back.body["sessions"][0]["disconnected_since"].is_null());
    system.log_off(10);
    api.wait_after(count, "the logoff", |asked| asked.sessions().is_empty());
    drop(agent);
}

#[test]
fn the_connecting_machine_s_name_is_told_as_far_as_xrdp_tells_it() {
    let (system, api, _agent) = reporting("interval = \"300s\"");
    let recorded = data("agent/xrdp-0.9.21/xrdp.log");
    system.put("xrdp.log", &recorded.replace("Guacamole RDP", "sg-7f3a9b"));
    system.log_on(10, DAEMON);
    let unnamed = api.wait("the logon", shows("daemon", "Active"));
    assert!(
        unnamed.body["sessions"][0]["client_name"].is_null(),
        "no line is of its port"
    );
    system.disconnect(10);
    api.wait("the disconnection", shows("daemon", "Disconnected"));
    let count = api.asked().len();
    system.connect(10, 52_978);
    let named = |asked: &Asked| asked.body["sessions"][0]["client_name"] == "sg-7f3a9b";
    api.wait_after(count, "the name", named);
}

#[test]
fn a_command_is_carried_out_once_if_it_is_allowed_and_in_time() {
    let more = |system: &System| {
        let script = format!("echo restarted >> {}", system.path("restarts").display());
        format!(
            "interval = \"1s\"\ncommands = [\"restart_server\", \"message\"]\nrestart_command = [\"sh\", \"-c\", {script:?}]"
        )
    };
    let (system, api) = (enrolled(), ScriptedApi::up());
    let in_time = "2026-11-30T08:05:00Z";
    let commands = json!({"server_time": "2026-11-30T08:00:00Z", "commands": [
        {"id": "c-late", "type": "restart_server", "expires_at": "2026-11-30T07:59:59Z"},
        {"id": "c-forbidden", "type": "logoff", "all": true, "expires_at": in_time},
        "rubbish",
        {"id": "c-nobody", "type": "message", "user": "ann", "message": "hello", "expires_at": in_time},
        {"id": "c-restart", "type": "restart_server", "expires_at": in_time},
    ]});
    // Again and again, as a broker does until it has the results.
    for _ in 0..4 {
        api.answer(200, commands.clone());
    }
    let agent = Agent::start(&system.agent_toml(&[api.url()], &more(&system)));
    for (id, ok, says) in [
        ("c-late", false, "after its time"),
        ("c-forbidden", false, "not among the commands"),
        ("c-nobody", false, "no such session"),
        ("c-restart", true, "the host restarts"),
    ] {
        let told = result(&api.wait(id, has_result(id)), id).unwrap();
        assert_eq!(told["ok"], ok, "{told}");
        assert!(told["message"].as_str().unwrap().contains(says), "{told}");
    }
    // The results were acknowledged, so they are told no more.
    api.wait_after(6, "a report without results", |asked| {
        asked.body["command_results"] == json!([])
    });
    agent.kill();

    // Another agent on this host knows what was done.
    let before = api.asked().len();
    api.answer(200, commands.clone());
    api.answer(
        200,
        json!({"server_time": "2026-11-30T08:00:00Z", "commands": [
            {"id": 99, "type": "restart_server", "expires_at": in_time},
        ]}),
    );
    let _agent = Agent::start(&system.path("agent.toml"));
    api.wait_after(before, "the next command's result", has_result("99"));
    let restarts = fs::read_to_string(system.path("restarts")).unwrap();
    assert_eq!(restarts, "restarted\nrestarted\n", "once for each id");
}

#[test]
fn results_wait_for_a_broker_that_takes_them() {
    let (system, api) = (enrolled(), ScriptedApi::up());
    let restart = json!({"server_time": "2026-11-30T08:00:00Z", "commands": [
        {"id": "c-1", "type": "restart_server", "expires_at": "2026-11-30T08:05:00Z"},
    ]});
    api.answer(200, restart);
    api.answer(503, json!({"error": "starting"}));
    let more = "interval = \"1s\"\ncommands = [\"restart_server\"]\nrestart_command = [\"false\"]";
    let agent = Agent::start(&system.agent_toml(&[api.url()], more));
    let told = api.wait_after(2, "the result, after a refusal", has_result("c-1"));
    let told = result(&told, "c-1").unwrap();
    assert_eq!(told["ok"], false, "the program failed: {told}");
    let failed = agent.wait("Heartbeat failed");
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .ends_with("answers 503: starting"),
        "{failed}"
    );
}

#[test]
fn a_key_that_is_not_accepted_is_told_with_what_to_do_and_tried_again_slowly() {
    let (system, api) = (enrolled(), ScriptedApi::up());
    api.answer(401, json!({"error": "unauthorised"}));
    let agent = Agent::start(&system.agent_toml(&[api.url()], "interval = \"1s\""));
    let said = agent.wait("The broker does not accept this host's key: enrol the host again with `sessionguard agent enroll`");
    assert_eq!(said["level"], "ERROR");
    assert_eq!(said["agent_id"], "rds-a");
    let wait = said["retry_in"].as_str().unwrap().trim_end_matches('s');
    assert!(
        (40.0..=60.0).contains(&wait.parse::<f64>().unwrap()),
        "{said}"
    );
    assert_eq!(api.asked().len(), 1);
}

#[test]
fn a_broker_that_comes_up_late_or_beside_another_is_found() {
    let system = enrolled();
    // Two ports where nobody is.
    let nobody = || {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let (first, second) = (nobody(), nobody());
    let urls = [format!("http://{first}"), format!("http://{second}")];
    let agent = Agent::start(&system.agent_toml(&urls, "interval = \"1s\""));
    let failed = agent.wait("Heartbeat failed");
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains(&first.to_string()),
        "{failed}"
    );
    let api = ScriptedApi::at(second);
    api.wait("a report at the second", |_| true);
    let accepted = agent.wait("Heartbeat accepted");
    assert_eq!(accepted["server"], urls[1]);
}

#[test]
fn sigterm_ends_it_well() {
    let (_system, api, mut agent) = reporting("");
    api.wait("a report", |_| true);
    let kill = format!("kill -TERM {}", agent.child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
    let status = eventually("the agent's end", || agent.child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    agent.wait("Agent stopped");
}

#[test]
fn what_keeps_an_agent_from_starting_is_said_with_what_to_do() {
    let system = enrolled();
    let config = system.path("agent.toml");
    let start = |code: i32, says: &str| {
        let output = run(&["--config", config.to_str().unwrap()]);
        assert!(
            told(&output).contains(says),
            "{:?} without {says:?}",
            told(&output)
        );
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    };
    start(78, "agent.toml: No such file");
    system.agent_toml(&["http://192.0.2.1:9822".into()], "");
    start(78, "insecure = true");
    let secure = ["https://192.0.2.1:9822".to_owned()];
    system.agent_toml(&secure, "");
    start(78, "who may vouch for the broker with ca_file");
    system.agent_toml(&secure, "pin_sha256 = [\"ab:cd\"]");
    start(78, "agent.toml: pin_sha256: \"ab:cd\" is no SHA-256");
    system.agent_toml(&secure, "ca_file = \"/nowhere/ca.pem\"");
    start(78, "ca_file /nowhere/ca.pem: cannot be read");
    system.agent_toml(
        &["http://127.0.0.1:9".into()],
        "ca_file = \"/nowhere/ca.pem\"",
    );
    start(78, "are for https");
    system.agent_toml(&[], "");
    start(78, "server is empty");
    let here = ["http://127.0.0.1:9".to_owned()];
    system.agent_toml(&here, "comands = []");
    start(78, "agent.toml:6:1: unknown field `comands`");
    system.agent_toml(&here, "commands = [\"reboot\"]");
    start(78, "`restart_server`");
    system.agent_toml(&here, "interval = \"0s\"");
    start(78, "interval is 0ns: it must be from 1s to 300s");
    system.agent_toml(&here, "restart_command = []");
    start(78, "restart_command is empty");
    system.agent_toml(&here, "agent_id = \"rds-b\"");
    start(1, "but the key in");
    system.agent_toml(&here, "");
    fs::set_permissions(system.path("agent.key"), PermissionsExt::from_mode(0o644)).unwrap();
    start(1, "can be read by others (mode 644)");
    fs::remove_file(system.path("agent.key")).unwrap();
    start(1, "`sessionguard agent enroll` makes it");
}

#[test]
fn enrolment_makes_a_key_that_only_its_owner_reads() {
    let (system, api) = (System::new(), ScriptedApi::up());
    let (token, key) = (system.path("token"), system.path("new/agent.key"));
    system.put("token", "one-time-token\n");
    let url = api.url();
    let enroll = || {
        run(&[
            "enroll",
            "--server",
            &url,
            "--token-file",
            token.to_str().unwrap(),
            "--key-file",
            key.to_str().unwrap(),
            "--name",
            "rds-a.example",
        ])
    };
    let open = enroll();
    assert_eq!(open.status.code(), Some(1));
    assert!(
        told(&open).contains("can be read by others"),
        "{}",
        told(&open)
    );
    fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();

    api.answer(401, json!({"error": "unauthorised"}));
    let refused = enroll();
    assert_eq!(refused.status.code(), Some(4));
    assert!(
        told(&refused).contains("answers 401: unauthorised; a token serves one host once"),
        "{}",
        told(&refused)
    );
    assert!(!told(&refused).contains("one-time-token"));
    assert!(!key.exists());

    api.answer(200, json!({"agent_id": "rds-a", "token": TOKEN}));
    let done = enroll();
    assert!(done.status.success(), "{}", told(&done));
    assert!(
        String::from_utf8_lossy(&done.stdout).starts_with("this host is rds-a; its key is in ")
    );
    assert_eq!(
        fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let asked = api.asked().pop().unwrap();
    assert_eq!(asked.line, "POST /api/v1/agents/enroll HTTP/1.1");
    assert_eq!(asked.header("authorization"), "");
    assert_eq!(asked.body["enrollment_token"], "one-time-token");
    assert_eq!(asked.body["name"], "rds-a.example");
    assert!(asked.body["machine_id"].is_string());
    assert_eq!(asked.body.as_object().unwrap().len(), 3);

    let config = system.agent_toml(std::slice::from_ref(&url), "");
    fs::rename(&key, system.path("agent.key")).unwrap();
    let _agent = Agent::start(&config);
    let report = api.wait("a report with the new key", |asked| {
        asked.line.contains("heartbeat")
    });
    assert_eq!(report.header("authorization"), format!("Bearer {TOKEN}"));
}

#[test]
fn kept_reports_are_as_documented_and_a_stray_field_would_be_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/heartbeats");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(shape::faults(&report), [""; 0], "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 3, "only {count} reports");
    let mut report: Value = serde_json::from_str(&data("heartbeats/windows-by-hand.json")).unwrap();
    report["sessions"][0]["User"] = json!("ann");
    report["server"]["cpu_percent"] = json!(101);
    report["health"].as_object_mut().unwrap().remove("score");
    assert_eq!(
        shape::faults(&report).len(),
        3,
        "{:?}",
        shape::faults(&report)
    );
}

#[test]
fn the_windows_agent_writes_every_documented_field_and_the_reports_have_them() {
    let script = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/windows/sessionguard-agent.ps1"),
    )
    .unwrap();
    let writes = |name: &str| {
        let assigned = |line: &str| {
            line.split([';', '{']).any(|part| {
                part.split_once('=')
                    .is_some_and(|(left, _)| left.trim() == name)
            })
        };
        script.lines().any(assigned)
    };
    for name in shape::names() {
        assert!(writes(name), "the script never writes {name}");
    }
    assert!(!writes("rubbish"));
    assert!(script.contains("'/api/v1/agents/heartbeat'") && script.contains("'X-Agent-ID'"));
    let report = data("heartbeats/windows-by-hand.json");
    for name in shape::names() {
        assert!(
            report.contains(&format!("\"{name}\"")),
            "the report kept lacks {name}"
        );
    }
}
