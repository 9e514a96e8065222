//! Log lines to standard error, for people or for programs.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSettings};

/// Sets logging up for the whole process. Later calls change nothing.
pub fn init(settings: &LogSettings) {
    let filter = EnvFilter::new(format!("sessionguard={}", settings.level.as_str()));
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(filter)
        .with_target(false);
    // Fails where something was set up before; that one goes on then.
    let _ = match settings.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
