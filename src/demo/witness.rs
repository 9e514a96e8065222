//! Hears what the broker itself logs, so that the demo can show the broker's
//! own words about a decision and hold them against what arrived.
//!
//! A listener for the thread it was made on, not for the process: two demos, or
//! a demo and a test, do not hear each other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// Some lines follow a connection's close, which may take a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// One line of the broker's log.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pub(super) message: String,
    fields: BTreeMap<&'static str, String>,
    /// A warning or worse.
    pub(super) serious: bool,
}

/// The listener; it hears until it is dropped.
pub(super) struct Witness {
    heard: Arc<Heard>,
    _listening: DefaultGuard,
}

#[derive(Debug, Default)]
struct Heard {
    lines: Mutex<Vec<Line>>,
    more: Notify,
}

struct Ear(Arc<Heard>);

impl Witness {
    pub(super) fn listen() -> Self {
        let heard = Arc::<Heard>::default();
        let ear = Ear(Arc::clone(&heard));
        Self {
            heard,
            _listening: tracing::subscriber::set_default(ear),
        }
    }

    /// How many lines were heard: a mark to look behind.
    pub(super) fn mark(&self) -> usize {
        self.heard.lock().len()
    }

    /// The first line behind `mark` that fits; waits for it a little. `None`:
    /// it was never said.
    pub(super) async fn hear(&self, mark: usize, fits: impl Fn(&Line) -> bool) -> Option<Line> {
        let heard = async {
            loop {
                // Made before the look, so that no line falls in between.
                let more = self.heard.more.notified();
                let found = self
                    .heard
                    .lock()
                    .iter()
                    .skip(mark)
                    .find(|l| fits(l))
                    .cloned();
                match found {
                    Some(line) => return line,
                    None => more.await,
                }
            }
        };
        timeout(PATIENCE, heard).await.ok()
    }

    /// All lines heard since the last call; waits for one. Marks mean nothing
    /// afterwards: what was taken is forgotten.
    pub(super) async fn take(&self) -> Vec<Line> {
        loop {
            // Made before the look, so that no line falls in between.
            let more = self.heard.more.notified();
            let lines = self.taken();
            if !lines.is_empty() {
                return lines;
            }
            more.await;
        }
    }

    /// The same, without waiting.
    pub(super) fn taken(&self) -> Vec<Line> {
        std::mem::take(&mut *self.heard.lock())
    }

    /// Whether this was said since `mark`; does not wait.
    pub(super) fn heard(&self, mark: usize, message: &str) -> bool {
        let lines = self.heard.lock();
        lines.iter().skip(mark).any(|line| line.is(message))
    }

    /// The last warnings, to explain a failure with.
    pub(super) fn warnings(&self) -> Vec<String> {
        let lines = self.heard.lock();
        let serious = lines.iter().filter(|line| line.serious);
        let mut last: Vec<_> = serious.rev().take(5).map(ToString::to_string).collect();
        last.reverse();
        last
    }
}

impl Heard {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// A field; empty where the line has none of this name.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub(super) fn is(&self, message: &str) -> bool {
        self.message == message
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.fields
            .iter()
            .try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("sessionguard");
        metadata.is_event() && ours && *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line {
            serious: *event.metadata().level() <= Level::WARN,
            ..Line::default()
        };
        event.record(&mut line);
        self.0.lock().push(line);
        self.0.more.notify_waiters();
    }

    // Spans are not enabled; these are never called with one.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => drop(self.fields.insert(name, text)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.insert(field.name(), value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_heard_with_its_fields_whether_before_or_after_one_asks() {
        let witness = Witness::listen();
        let mark = witness.mark();
        tracing::info!(host = %"rds-1", score = Some(980.0), count = 3, "Placed");
        let line = witness.hear(mark, |line| line.is("Placed")).await.unwrap();
        assert_eq!(line.field("host"), "rds-1");
        assert_eq!(line.field("score"), "980");
        assert_eq!(line.field("count"), "3");
        assert_eq!(line.field("reason"), "");
        assert!(witness.heard(mark, "Placed"));

        let mark = witness.mark();
        assert!(!witness.heard(mark, "Placed"));
        let asked = witness.hear(mark, |line| line.is("Refused"));
        let said = async { tracing::warn!(reason = "because", "Refused") };
        let (line, ()) = tokio::join!(asked, said);
        assert_eq!(line.unwrap().field("reason"), "because");
        assert_eq!(witness.warnings(), ["Refused reason=because"]);

        assert_eq!(witness.take().await.len(), 2);
        let taken = async { witness.take().await };
        let said = async { tracing::info!("Listening") };
        let (taken, ()) = tokio::join!(taken, said);
        assert!(taken.iter().all(|line| line.is("Listening")) && taken.len() == 1);
    }
}
