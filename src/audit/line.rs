//! What a line of the trail is put together from: the field names of the Elastic
//! Common Schema; what it has no name for stands under `sessionguard`.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::clock::rfc3339;
use crate::placement::{Actor, HostId, Timestamp};

/// The schema's version.
const SCHEMA: &str = "8.11.0";

/// One line of the trail.
#[derive(Debug, Clone)]
pub struct Line(Map<String, Value>);

/// What kind of thing happened, in the schema's words.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// `event` or `alert`.
    pub kind: &'a str,
    /// Which of its fields it belongs to.
    pub category: &'a [&'a str],
    /// What it did there.
    pub change: &'a str,
    /// Our own name for it.
    pub action: &'a str,
    /// `success`, `failure` or `unknown`.
    pub outcome: &'a str,
}

impl Line {
    /// A line about something that happened then.
    pub fn of(at: Timestamp, event: Event<'_>) -> Self {
        let mut line = Self(Map::new());
        line.put("@timestamp", rfc3339(at));
        line.put("ecs.version", SCHEMA);
        line.put("event.kind", event.kind);
        line.put("event.category", event.category);
        line.put("event.type", [event.change]);
        line.put("event.action", event.action);
        line.put("event.outcome", event.outcome);
        line
    }

    /// Adds a field, or puts another value in its place; nothing where there is
    /// no value.
    pub fn put(&mut self, name: &str, value: impl Serialize) {
        match serde_json::to_value(value) {
            Ok(Value::Null) => {}
            Ok(value) => drop(self.0.insert(name.to_owned(), value)),
            // Said in place of the value: the rest of the line is worth having.
            Err(error) => drop(self.0.insert(name.to_owned(), error.to_string().into())),
        }
    }

    /// Who did it.
    pub fn by(&mut self, actor: &Actor) {
        self.put("user.id", actor.uid().map(|uid| uid.to_string()));
        self.put("user.name", actor.name());
        self.put("sessionguard.actor", actor.to_string());
    }

    /// The host it is about.
    pub fn on(&mut self, host: Option<&HostId>) {
        self.put("host.id", host);
        self.put("host.name", host);
    }
}

/// As JSON, in one line.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_value_is_left_out_and_a_line_is_one_line() {
        let event = Event {
            kind: "event",
            category: &["session"],
            change: "info",
            action: "placement",
            outcome: "success",
        };
        let mut line = Line::of(Timestamp::from_millis(0), event);
        line.put("user.name", None::<&str>);
        line.put("message", "two\nlines");
        line.on(Some(&HostId::from("rds1")));
        let text = line.to_string();
        assert!(
            !text.contains('\n') && !text.contains("user.name"),
            "{text}"
        );
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["host.id"], "rds1");
        assert_eq!(read["event.type"], serde_json::json!(["info"]));
    }
}
