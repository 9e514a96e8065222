//! `sessionguard tunnels wait`: returns once no tunnel is open, for whoever
//! must not go before that, such as a container beside ours.

use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;

use super::ask::Where;
use super::wait::{Patience, Progress};
use super::{FAILED, REFUSED, complain, when};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Wait so long at most: 30s, 10m, 2h
    #[arg(long, value_name = "SPAN", value_parser = when::span)]
    timeout: Option<Duration>,
    #[command(flatten)]
    broker: Where,
}

#[derive(Debug, Deserialize)]
struct Status {
    tunnels: usize,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let mut patience = match Patience::of(arguments.timeout) {
        Ok(patience) => patience,
        Err(code) => return code,
    };
    let mut progress = Progress::default();
    loop {
        let answer = match arguments.broker.get("/api/v1/status") {
            Ok(answer) => answer,
            Err(code) => {
                progress.end();
                return code;
            }
        };
        let open = match serde_json::from_value::<Status>(answer) {
            Ok(status) => status.tunnels,
            Err(error) => {
                complain(format_args!("the broker is of another release: {error}"));
                return ExitCode::from(FAILED);
            }
        };
        let line = match open {
            0 => "no tunnel is open".to_owned(),
            1 => "1 tunnel is open".to_owned(),
            open => format!("{open} tunnels are open"),
        };
        progress.say(&line);
        if open == 0 {
            progress.end();
            return ExitCode::SUCCESS;
        }
        if let Some(why) = patience.ends() {
            progress.end();
            complain(format_args!("{why}: {line}"));
            return ExitCode::from(REFUSED);
        }
    }
}
