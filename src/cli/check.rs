//! `sessionguard check`: is this configuration good?

use std::process::ExitCode;

use super::{ConfigFile, FAILED, complain, load, say};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Make warnings fail, with exit code 1
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let loaded = match load(&arguments.file.config) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    for advice in &loaded.advice {
        complain(format_args!("{advice}"));
    }
    let directory = &loaded.config.directory;
    let said = say(format_args!(
        "{} files: {} hosts, {} farms, {} resources, {} warnings",
        loaded.files.len(),
        directory.hosts().count(),
        directory.farms().count(),
        directory.resources().count(),
        loaded.warnings.len(),
    ));
    if arguments.strict && !loaded.warnings.is_empty() {
        complain(format_args!("--strict: warnings count as failures"));
        return ExitCode::from(FAILED);
    }
    said
}
