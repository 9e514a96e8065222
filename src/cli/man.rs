//! `sessionguard man`: the manual, made from the command line itself.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use super::{Cli, FAILED, complain, say};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Write a page for every command into this folder instead
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(folder) = &arguments.folder {
        return match clap_mangen::generate_to(Cli::command(), folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(format_args!(
                    "cannot write to {}: {error}",
                    folder.display()
                ));
                ExitCode::from(FAILED)
            }
        };
    }
    let mut page = Vec::new();
    match clap_mangen::Man::new(Cli::command()).render(&mut page) {
        Ok(()) => say(format_args!(
            "{}",
            String::from_utf8_lossy(&page).trim_end()
        )),
        Err(error) => {
            complain(format_args!("cannot write the page: {error}"));
            ExitCode::from(FAILED)
        }
    }
}
