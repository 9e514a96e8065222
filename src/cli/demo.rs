//! `sessionguard demo`: placeholder
use std::process::ExitCode;
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}
pub(super) fn run(_arguments: &Arguments) -> ExitCode { ExitCode::SUCCESS }
