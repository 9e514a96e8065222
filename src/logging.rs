//! Log lines to standard error, for people or for programs.

mod lines;

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::Duration;

use lines::Lines;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::config::{LogFormat, LogLevel, LogSettings};

/// For the last lines, when the process ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where the process's log goes, once it is set up.
static LOG: OnceLock<Lines> = OnceLock::new();

/// How much is logged; can be changed while the process runs.
pub struct Level(Option<Box<dyn Fn(LogLevel) + Send + Sync>>);

impl Level {
    /// From now on, lines of at least this level are written. Nothing where
    /// the log was not set up by us.
    pub fn set(&self, level: LogLevel) {
        if let Some(set) = &self.0 {
            set(level);
        }
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Level").finish_non_exhaustive()
    }
}

/// Sets logging up for the whole process. Later calls change nothing.
pub fn init(settings: &LogSettings) -> Level {
    let lines = tracing_subscriber::fmt()
        .with_writer(writer())
        // It would be told to the same standard error, and panic where that is gone.
        .log_internal_errors(false)
        .with_env_filter(filter(settings.level))
        .with_target(false);
    // Two types that have only their use in common.
    macro_rules! start {
        ($lines:expr) => {{
            let lines = $lines.with_filter_reloading();
            let handle = lines.reload_handle();
            // Fails where something was set up before; that one goes on then.
            lines.try_init().ok().map(|()| {
                let set = move |level| {
                    // Fails where the log is gone.
                    let _ = handle.reload(filter(level));
                };
                Box::new(set) as Box<dyn Fn(LogLevel) + Send + Sync>
            })
        }};
    }
    Level(match settings.format {
        LogFormat::Text => start!(lines.with_ansi(io::stderr().is_terminal())),
        LogFormat::Json => start!(lines.json().flatten_event(true)),
    })
}

/// Waits until everything logged is written; not for ever, since a pipe may be
/// blocked. For the end of the process.
pub fn finish() {
    if let Some(lines) = LOG.get() {
        lines.finish(LAST_WORDS);
    }
}

fn writer() -> BoxMakeWriter {
    match Lines::to(io::stderr()) {
        Ok(lines) => BoxMakeWriter::new(LOG.get_or_init(|| lines).clone()),
        // Without a thread for it whoever logs writes, and may have to wait.
        Err(_) => BoxMakeWriter::new(io::stderr),
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(format!("sessionguard={}", level.as_str()))
}
