//! The documented shape of a heartbeat: which fields, of which kind.

use serde_json::Value;

/// What stands at a place of a report.
enum Kind {
    Text,
    /// RFC 3339 in UTC.
    Moment,
    Count,
    Percent,
    Yes,
    Fields(&'static [(&'static str, bool, Kind)]),
    List(&'static [(&'static str, bool, Kind)]),
}

use Kind::{Count, Fields, List, Moment, Percent, Text, Yes};

/// Name, whether every report has it, and kind; in the order documented.
const HEARTBEAT: &[(&str, bool, Kind)] = &[
    ("protocol_version", true, Count),
    ("agent_id", true, Text),
    ("boot_id", false, Text),
    ("seq", false, Count),
    (
        "server",
        true,
        Fields(&[
            ("hostname", true, Text),
            ("os", true, Text),
            ("uptime_seconds", false, Count),
            ("memory_total", false, Count),
            ("memory_available", false, Count),
            ("cpu_percent", false, Percent),
            ("disk_total", false, Count),
            ("disk_free", false, Count),
        ]),
    ),
    (
        "health",
        true,
        Fields(&[
            ("score", true, Percent),
            ("rdp_listener_ok", true, Yes),
            ("profile_store_ok", true, Yes),
            (
                "checks",
                true,
                List(&[
                    ("name", true, Text),
                    ("ok", true, Yes),
                    ("message", true, Text),
                ]),
            ),
        ]),
    ),
    (
        "sessions",
        true,
        List(&[
            ("id", true, Count),
            ("state", true, Text),
            ("user", true, Text),
            ("domain", false, Text),
            ("logon_at", true, Moment),
            ("connect_at", false, Moment),
            ("disconnected_since", false, Moment),
            ("idle_seconds", false, Count),
            ("client_name", false, Text),
        ]),
    ),
    (
        "remote_apps",
        false,
        List(&[
            ("alias", true, Text),
            ("published", true, Yes),
            ("path_exists", true, Yes),
            ("in_sync", true, Yes),
        ]),
    ),
    (
        "command_results",
        true,
        List(&[
            ("id", true, Text),
            ("type", true, Text),
            ("ok", true, Yes),
            ("message", true, Text),
            ("finished_at", true, Moment),
        ]),
    ),
    ("time", true, Moment),
];

const STATES: &[&str] = &[
    "Active",
    "Connected",
    "ConnectQuery",
    "Shadow",
    "Disconnected",
    "Idle",
    "Listen",
    "Reset",
    "Down",
    "Init",
];

/// What is wrong with a report; nothing where it is as documented.
pub(crate) fn faults(report: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    fields(report, HEARTBEAT, "", &mut faults);
    if report["protocol_version"] != 4 {
        faults.push("protocol_version is not 4".into());
    }
    for session in report["sessions"].as_array().into_iter().flatten() {
        if !session["state"]
            .as_str()
            .is_some_and(|state| STATES.contains(&state))
        {
            faults.push(format!("no state of Windows: {session}"));
        }
        if session["user"] == "" {
            faults.push(format!("a session without a user: {session}"));
        }
    }
    faults
}

/// Every field there is, with the names of those around it.
pub(crate) fn names() -> Vec<&'static str> {
    fn of(shape: &'static [(&'static str, bool, Kind)], into: &mut Vec<&'static str>) {
        for (name, _, kind) in shape {
            into.push(name);
            if let Fields(inner) | List(inner) = kind {
                of(inner, into);
            }
        }
    }
    let mut names = Vec::new();
    of(HEARTBEAT, &mut names);
    names
}

fn fields(value: &Value, shape: &[(&str, bool, Kind)], place: &str, faults: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        faults.push(format!("{place} is no object"));
        return;
    };
    for name in object.keys() {
        if !shape.iter().any(|(known, ..)| known == name) {
            faults.push(format!("{place}.{name} is not documented"));
        }
    }
    for (name, needed, kind) in shape {
        match object.get(*name) {
            Some(value) => one(value, kind, &format!("{place}.{name}"), faults),
            None if *needed => faults.push(format!("{place}.{name} is missing")),
            None => {}
        }
    }
}

fn one(value: &Value, kind: &Kind, place: &str, faults: &mut Vec<String>) {
    let fits = match kind {
        Text => value.is_string(),
        Moment => value.as_str().is_some_and(is_moment),
        Count => value.is_u64(),
        Percent => value
            .as_f64()
            .is_some_and(|number| (0.0..=100.0).contains(&number)),
        Yes => value.is_boolean(),
        Fields(shape) => {
            fields(value, shape, place, faults);
            true
        }
        List(shape) => {
            let items = value.as_array();
            for (at, item) in items.into_iter().flatten().enumerate() {
                fields(item, shape, &format!("{place}[{at}]"), faults);
            }
            items.is_some()
        }
    };
    if !fits {
        faults.push(format!("{place} is {value}"));
    }
}

fn is_moment(text: &str) -> bool {
    let pattern = "0000-00-00T00:00:00.000Z";
    let like = |(c, p): (char, char)| if p == '0' { c.is_ascii_digit() } else { c == p };
    text.len() == pattern.len() && text.chars().zip(pattern.chars()).all(like)
}
