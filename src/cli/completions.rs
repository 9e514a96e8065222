//! `sessionguard completions`: what a shell needs to complete our commands.

use std::process::ExitCode;

use clap::CommandFactory;

use super::{Cli, say};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Which shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    // To memory, since the generator panics where its reader has left.
    clap_complete::generate(
        arguments.shell,
        &mut Cli::command(),
        "sessionguard",
        &mut script,
    );
    say(format_args!(
        "{}",
        String::from_utf8_lossy(&script).trim_end()
    ))
}
