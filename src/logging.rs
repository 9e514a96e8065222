//! Log lines to standard error or to a file, for people or for programs.

mod fields;
mod journal;
mod lines;
#[cfg(feature = "otel")]
mod traced;

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use lines::Lines;
use tracing::Subscriber;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt as form, reload};

use crate::appended::Appended;
use crate::config::{LogFormat, LogLevel, LogSettings};
#[cfg(feature = "otel")]
use crate::traces::Traces;

/// For the last lines, when the process ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where the process's log goes, once it is set up.
static LOG: OnceLock<Lines> = OnceLock::new();

/// Where its traces go, if anywhere.
#[cfg(feature = "otel")]
static TRACES: OnceLock<Traces> = OnceLock::new();

/// How much is logged; can be changed while the process runs.
pub struct Level(Option<Box<dyn Fn(LogLevel) + Send + Sync>>);

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its file cannot be written.
    #[error("cannot write the log {}: {error}; set file in [log]", path.display())]
    File {
        /// The file as configured.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Traces cannot be sent.
    #[cfg(feature = "otel")]
    #[error("cannot send traces: {0}; set traces in [log]")]
    Traces(#[from] crate::traces::TracesError),
}

/// Where lines go, and what is different there.
struct Sink {
    writer: BoxMakeWriter,
    coloured: bool,
    /// It knows the time by itself.
    has_clock: bool,
}

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
///
/// # Errors
/// There is nothing to log to.
pub fn init(settings: &LogSettings) -> Result<Level, LogError> {
    let sink = sink(settings)?;
    let (filter, handle) = reload::Layer::new(filter(settings.level));
    #[cfg(feature = "otel")]
    let started = match &settings.traces {
        None => registry(filter, settings.format, sink),
        Some(collector) => {
            let traces = Traces::to(collector, settings.traces_users)?;
            let lines = lines(settings.format, sink).with_filter(filter);
            let started = tracing_subscriber::registry()
                .with(lines)
                .with(traced::layer(&traces))
                .try_init();
            let _ = TRACES.set(traces);
            started.is_ok()
        }
    };
    #[cfg(not(feature = "otel"))]
    let started = registry(filter, settings.format, sink);
    // Not where something was set up before; that one goes on then.
    Ok(Level(started.then(|| {
        let set = move |level| {
            // Fails where the log is gone.
            let _ = handle.reload(self::filter(level));
        };
        Box::new(set) as Box<dyn Fn(LogLevel) + Send + Sync>
    })))
}

/// Whether it was not too late.
fn registry(
    filter: reload::Layer<EnvFilter, tracing_subscriber::Registry>,
    format: LogFormat,
    sink: Sink,
) -> bool {
    let registry = tracing_subscriber::registry().with(filter);
    registry.with(lines(format, sink)).try_init().is_ok()
}

/// Waits until everything logged is written; not for ever, since a pipe may be
/// blocked. For the end of the process.
pub fn finish() {
    #[cfg(feature = "otel")]
    if let Some(traces) = TRACES.get() {
        traces.finish(LAST_WORDS);
    }
    if let Some(lines) = LOG.get() {
        lines.finish(LAST_WORDS);
    }
}

/// Lines that were lost since the start, which the log's reader or its disk did
/// not take.
pub fn lost() -> u64 {
    LOG.get().map_or(0, Lines::lost)
}

fn sink(settings: &LogSettings) -> Result<Sink, LogError> {
    if let Some(path) = &settings.file {
        let opened = Appended::open(path).and_then(Lines::to);
        let lines = opened.map_err(|error| LogError::File {
            path: path.clone(),
            error,
        })?;
        return Ok(Sink {
            writer: writer(lines),
            coloured: false,
            has_clock: false,
        });
    }
    let has_clock = journal::is_there();
    let writer = match Lines::to(io::stderr()) {
        Ok(lines) if has_clock => writer(lines.prefixed(journal::priority)),
        Ok(lines) => writer(lines),
        // Without a thread for it whoever logs writes, and may have to wait.
        Err(_) => BoxMakeWriter::new(io::stderr),
    };
    Ok(Sink {
        writer,
        coloured: io::stderr().is_terminal(),
        has_clock,
    })
}

fn writer(lines: Lines) -> BoxMakeWriter {
    BoxMakeWriter::new(LOG.get_or_init(|| lines).clone())
}

fn lines<S>(format: LogFormat, sink: Sink) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = form::layer()
        .with_writer(sink.writer)
        // It would be told to the same standard error, and panic where that is gone.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(sink.coloured);
    // Types that have only their use in common.
    macro_rules! boxed {
        ($lines:expr) => {{
            #[cfg(feature = "otel")]
            let lines = $lines.map_event_format(|inner| traced::Traced { inner, format });
            #[cfg(not(feature = "otel"))]
            let lines = $lines;
            lines.boxed()
        }};
    }
    let fields = debug_fn(fields::write).delimited(" ");
    match (format, sink.has_clock) {
        (LogFormat::Text, false) => boxed!(lines.fmt_fields(fields)),
        (LogFormat::Text, true) => boxed!(lines.fmt_fields(fields).without_time()),
        (LogFormat::Json, _) => boxed!(lines.json().flatten_event(true)),
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(format!("sessionguard={}", level.as_str()))
}
