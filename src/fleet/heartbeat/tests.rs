use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::clock::read_rfc3339;

fn read(value: &Value) -> Result<Heartbeat, HeartbeatError> {
    Heartbeat::read(value.to_string().as_bytes())
}

fn whole() -> Value {
    json!({
        "protocol_version": 4, "agent_id": "rds-1", "boot_id": "b1", "seq": 17,
        "server": { "hostname": "RDS-1", "os": "Windows Server 2022", "uptime_seconds": 5,
                    "memory_total": 1000, "memory_available": 250, "cpu_percent": 12.5,
                    "disk_total": 10, "disk_free": 5 },
        "health": { "score": 87.6, "rdp_listener_ok": true, "profile_store_ok": false,
                    "checks": [{ "name": "profiles", "ok": false, "message": "share is gone" },
                               { "name": "rdp", "ok": true, "message": "" }] },
        "sessions": [
            { "id": 3, "state": "Active", "user": "ann", "domain": "CORP",
              "logon_at": "2026-03-01T07:00:00Z", "connect_at": "2026-03-01T09:59:00+02:00",
              "idle_seconds": 4, "client_name": "LAPTOP" },
            { "id": "65536", "state": "Listen", "user": "" }],
        "remote_apps": [{ "alias": "Sage", "published": false },
                        { "alias": "||Word", "published": true, "path_exists": false },
                        { "alias": "||Excel", "published": true, "path_exists": true, "in_sync": false }],
        "command_results": [{ "id": 7, "ok": true }],
        "time": "2026-03-01T08:00:00Z",
        "processes": [{ "of": ["a", "later", "release"] }],
    })
}

#[test]
fn a_whole_heartbeat_is_read() {
    let read = read(&whole()).unwrap();
    let hour = Duration::from_secs(3600);
    assert_eq!(
        read,
        Heartbeat {
            agent_id: "rds-1".into(),
            hostname: "RDS-1".into(),
            boot_id: Some("b1".into()),
            seq: Some(17),
            health: Some(88),
            rdp_listener_ok: true,
            failed_checks: vec!["profiles: share is gone".into()],
            cpu_percent: Some(12.5),
            memory_used_percent: Some(75.0),
            sessions: Some(vec![
                ReportedSession {
                    id: "3".into(),
                    user: "ann".into(),
                    domain: "CORP".into(),
                    state: "Active".into(),
                    logged_on: Some(hour),
                    latest: Some(Duration::from_secs(60)),
                    client_name: Some("LAPTOP".into()),
                },
                ReportedSession {
                    id: "65536".into(),
                    state: "Listen".into(),
                    ..ReportedSession::default()
                },
            ]),
            missing_remote_apps: vec!["||Sage".into(), "||Word".into()],
            results: vec![CommandResult {
                id: "7".into(),
                ok: true,
                message: String::new(),
            }],
            time: read_rfc3339("2026-03-01T08:00:00Z"),
        }
    );
}

#[test]
fn the_smallest_heartbeat_knows_nothing_and_claims_nothing() {
    let read = read(&json!({ "protocol_version": 4, "agent_id": "rds-1" })).unwrap();
    let expected = Heartbeat {
        agent_id: "rds-1".into(),
        rdp_listener_ok: true,
        ..Heartbeat::default()
    };
    assert_eq!(read, expected);
    assert_eq!(read.sessions, None, "unknown is not empty");
}

#[test]
fn figures_that_make_no_sense_are_clamped_or_unknown() {
    let cases = [
        (
            json!(250),
            json!(-3),
            json!(10),
            json!(20),
            Some(100),
            Some(0.0),
            Some(0.0),
        ),
        (
            json!(-1),
            json!(1e300),
            json!(0),
            json!(0),
            Some(0),
            Some(100.0),
            None,
        ),
        (
            json!("88"),
            json!("12"),
            json!(null),
            json!(1),
            None,
            None,
            None,
        ),
        (
            json!([1]),
            json!({"a": 1}),
            json!(100),
            json!(-100),
            None,
            None,
            Some(100.0),
        ),
        (
            json!(true),
            json!(null),
            json!(1u64 << 60),
            json!(0),
            None,
            None,
            Some(100.0),
        ),
    ];
    for (score, cpu, total, available, health, cpu_percent, memory) in cases {
        let mut heartbeat = whole();
        heartbeat["health"]["score"] = score;
        heartbeat["server"]["cpu_percent"] = cpu;
        heartbeat["server"]["memory_total"] = total;
        heartbeat["server"]["memory_available"] = available;
        let read = read(&heartbeat).unwrap();
        let figures = (read.health, read.cpu_percent, read.memory_used_percent);
        assert_eq!(figures, (health, cpu_percent, memory), "{heartbeat}");
    }
}

#[test]
fn a_clock_that_is_wrong_by_a_day_changes_no_age() {
    let mut heartbeat = whole();
    heartbeat["time"] = json!("2026-03-02T08:00:00Z");
    for moment in ["logon_at", "connect_at"] {
        heartbeat["sessions"][0][moment] = json!("2026-03-02T07:30:00Z");
    }
    let sessions = read(&heartbeat).unwrap().sessions.unwrap();
    let half = Some(Duration::from_secs(1800));
    assert_eq!((sessions[0].logged_on, sessions[0].latest), (half, half));

    // A moment ahead of the agent's own clock, and one that is none.
    heartbeat["sessions"][0]["logon_at"] = json!("2026-04-01T00:00:00Z");
    heartbeat["sessions"][0]["connect_at"] = json!("yesterday");
    let sessions = read(&heartbeat).unwrap().sessions.unwrap();
    let now = Some(Duration::ZERO);
    assert_eq!((sessions[0].logged_on, sessions[0].latest), (now, now));

    heartbeat["time"] = json!(null);
    let sessions = read(&heartbeat).unwrap().sessions.unwrap();
    assert_eq!((sessions[0].logged_on, sessions[0].latest), (None, None));
}

#[test]
fn what_is_no_heartbeat_is_refused_with_the_reason() {
    let mut old = whole();
    old["protocol_version"] = json!(3);
    let mut crowd = whole();
    crowd["sessions"] = json!(vec![json!({ "state": "Active", "user": "a" }); 10_001]);
    let mut long = whole();
    long["sessions"][0]["user"] = json!("a".repeat(257));
    let mut shape = whole();
    shape["sessions"] = json!({ "ann": "Active" });
    let mut stateless = whole();
    stateless["sessions"][0]["state"] = json!(null);
    for (heartbeat, said) in [
        (old, "protocol 3"),
        (crowd, "10001 sessions"),
        (long, "a user name of 257 characters"),
        (shape, "expected a sequence"),
        (stateless, "expected a string"),
        (json!([]), "the heartbeat"),
        (json!({ "agent_id": "a" }), "protocol_version"),
    ] {
        let error = read(&heartbeat).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_deep_value_harms_nobody() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = |field: &str| format!(r#"{{"protocol_version":4,"agent_id":"a",{field}}}"#);
    let skipped = Heartbeat::read(text(&format!(r#""x":{deep}"#)).as_bytes());
    assert_eq!(skipped.unwrap().agent_id, "a");
    let figure = text(&format!(r#""server":{{"cpu_percent":{deep}}}"#));
    assert_eq!(
        Heartbeat::read(figure.as_bytes()).unwrap().cpu_percent,
        None
    );
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Heartbeat::read(&bytes);
    }

    #[test]
    fn figures_stay_within_their_bounds(score in any::<f64>(), cpu in any::<f64>(),
                                        total in any::<i64>(), available in any::<i64>()) {
        let mut heartbeat = whole();
        heartbeat["health"]["score"] = json!(score);
        heartbeat["server"]["cpu_percent"] = json!(cpu);
        heartbeat["server"]["memory_total"] = json!(total);
        heartbeat["server"]["memory_available"] = json!(available);
        let read = read(&heartbeat).unwrap();
        let hundred = |figure: Option<f64>| figure.is_none_or(|f| (0.0..=100.0).contains(&f));
        prop_assert!(read.health.is_none_or(|health| health <= 100));
        prop_assert!(hundred(read.cpu_percent) && hundred(read.memory_used_percent));
    }
}

#[test]
fn a_list_in_the_place_of_an_object_is_refused() {
    let listed = |path: &str, list: Value| {
        let mut told = whole();
        *told.pointer_mut(path).unwrap() = list;
        let error = read(&told).unwrap_err().to_string();
        assert!(error.contains("expected an object"), "{path}: {error}");
    };
    listed("/server", json!([null, null]));
    listed("/health", json!([]));
    listed("/health/checks/0", json!(["profiles", true, null]));
    listed("/sessions/0", json!(["3", "Active"]));
    listed("/remote_apps/0", json!(["Sage", false, null]));
    listed("/command_results/0", json!(["7", true, ""]));
    listed("", json!([4, "rds-1"]));
}

#[test]
fn a_flood_of_failed_checks_is_cut_and_no_reason_to_refuse_the_rest() {
    let mut told = whole();
    let check = json!({ "name": "\u{fc}".repeat(400_000), "ok": false, "message": "gone" });
    told["health"]["checks"] = Value::from_iter((0..100).map(|nth| match nth {
        0 => check.clone(),
        nth => json!({ "name": format!("check {nth}"), "ok": false }),
    }));
    let read = read(&told).unwrap();
    assert_eq!(read.failed_checks.len(), 32);
    assert_eq!(read.failed_checks[0], "\u{fc}".repeat(256));
    assert_eq!(read.failed_checks[31], "check 31");
}
