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
    let certificates = crate::tls::inspect(&loaded.config);
    for fault in &certificates.faults {
        complain(format_args!("fault: {fault}"));
    }
    for warning in &certificates.warnings {
        complain(format_args!("warning: {warning}"));
    }
    if !certificates.faults.is_empty() {
        return ExitCode::from(FAILED);
    }
    for advice in &loaded.advice {
        complain(format_args!("{advice}"));
    }
    let warnings = loaded.warnings.len() + certificates.warnings.len();
    let directory = &loaded.config.directory;
    let said = say(format_args!(
        "{} files: {} hosts, {} farms, {} resources, {} warnings",
        loaded.files.len(),
        directory.hosts().count(),
        directory.farms().count(),
        directory.resources().count(),
        warnings,
    ));
    if arguments.strict && warnings > 0 {
        complain(format_args!("--strict: warnings count as failures"));
        return ExitCode::from(FAILED);
    }
    said
}
