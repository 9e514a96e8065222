//! `sessionguard config`: what is in force, and what may be written.

use std::process::ExitCode;

use super::{BAD_CONFIGURATION, ConfigFile, complain, say};
use crate::config;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Arguments {
    /// Print every setting in force as TOML; values of connection parameters
    /// are masked
    Show(Show),
    /// Print the JSON Schema of a configuration file, for editors
    Schema,
}

#[derive(Debug, clap::Args)]
pub(super) struct Show {
    #[command(flatten)]
    file: ConfigFile,
    /// Say beside each value where it came from
    #[arg(long)]
    origin: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    match arguments {
        Arguments::Show(show) => {
            match config::show(&show.file.config, std::env::vars_os(), show.origin) {
                Ok(settings) => say(format_args!("{}", settings.trim_end())),
                Err(faults) => {
                    complain(format_args!("{faults}"));
                    ExitCode::from(BAD_CONFIGURATION)
                }
            }
        }
        Arguments::Schema => say(format_args!("{}", config::schema().trim_end())),
    }
}
