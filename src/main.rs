//! The front door: reads the command line and lets the library do the rest.

use std::process::ExitCode;

use clap::Parser;
use sessionguard::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
