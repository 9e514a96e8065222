//! `sessionguard serve`: the broker in the foreground.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tracing::{info, warn};

use super::{BAD_CONFIGURATION, FAILED, complain, load};
use crate::app::App;
use crate::config::Origin;
use crate::entrance;
use crate::logging;
use crate::panics;
use crate::shutdown::{Hangups, Shutdown, Signals, Upgrades};
use crate::supervisor;

/// For what is left to wait for when all is done.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// As it is written on the command line.
const TAKE_OVER: &str = "--take-over";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: super::ConfigFile,
    /// Replace the broker that runs, if one does: take its listeners and its
    /// store, while it keeps its tunnels until they end
    #[arg(long)]
    take_over: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let config = arguments.file.config.as_path();
    // Before the file is replaced by a newer one.
    let program = std::env::current_exe();
    if let Err(error) = entrance::take_over() {
        complain(format_args!("cannot start: {error}"));
        return ExitCode::from(BAD_CONFIGURATION);
    }
    // Before the load: what changes in between is noticed later.
    let origin = Origin::of(config);
    let loaded = match load(config) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let level = match logging::init(&loaded.config.log) {
        Ok(level) => level,
        Err(error) => {
            complain(format_args!("cannot start: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    panics::watch();
    // One thread for everything that begins and ends: several would wake one another
    // at every step of a logon, which costs more than the step. Who moves much has
    // every processor (`tunnel::Loud`).
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("cannot start: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let code = runtime.block_on(async {
        let taken =
            Signals::take().and_then(|signals| Ok((signals, Hangups::take()?, Upgrades::take()?)));
        let (signals, hangups, upgrades) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                complain(format_args!("cannot take over signals: {error}"));
                return ExitCode::from(FAILED);
            }
        };
        let shutdown = Shutdown::default();
        let built = match arguments.take_over {
            true => App::take_over(&loaded.config, shutdown.clone()).await,
            false => App::build(&loaded.config, shutdown.clone()).await,
        };
        match built {
            Ok(mut app) => {
                // Its connections would wait for nobody, without end.
                if let Some(address) = entrance::unclaimed().first() {
                    complain(format_args!(
                        "cannot start: a socket that listens on {address} was handed over, and no \
                         listen of the configuration names it; make ListenStream= of the socket \
                         unit and the configuration agree"
                    ));
                    return ExitCode::from(BAD_CONFIGURATION);
                }
                app.follow(origin, hangups, move |wanted| level.set(wanted));
                tokio::spawn(supervisor::keep_told(shutdown.stop.clone()));
                tokio::spawn(signals.drive(shutdown));
                tokio::spawn(succeed_on(upgrades, program));
                app.run().await;
                ExitCode::SUCCESS
            }
            Err(error) => {
                complain(format_args!("cannot start: {error}"));
                ExitCode::from(FAILED)
            }
        }
    });
    // Whoever still waits for somebody else, as for a manager that reads no more.
    runtime.shutdown_timeout(LAST_WAIT);
    logging::finish();
    code
}

/// At each SIGUSR2 starts the program as it is on disk by now, to take over from
/// whoever has the admin socket.
async fn succeed_on(mut upgrades: Upgrades, program: io::Result<PathBuf>) {
    loop {
        upgrades.next().await;
        let started = program.as_ref().map_err(|error| error.kind().into());
        let started = started.and_then(|program| {
            info!(program = %program.display(), "Starting the successor");
            let arguments = std::env::args_os().skip(1);
            let arguments = arguments.filter(|argument| argument != TAKE_OVER);
            tokio::process::Command::new(program)
                .args(arguments)
                .arg(OsString::from(TAKE_OVER))
                // What was granted to this process alone.
                .env_remove("WATCHDOG_PID")
                .env_remove("LISTEN_PID")
                .env_remove("LISTEN_FDS")
                .spawn()
        });
        match started {
            Ok(mut successor) => {
                tokio::spawn(async move {
                    // Ours as long as we live, whoever looks after it.
                    match successor.wait().await {
                        Ok(status) if status.success() => {}
                        ended => warn!(?ended, "The successor ended"),
                    }
                });
            }
            Err(error) => warn!(%error, "The successor cannot be started"),
        }
    }
}
