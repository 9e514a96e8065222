//! `sessionguard serve`: the broker in the foreground.

use std::path::Path;
use std::process::ExitCode;

use super::{FAILED, complain, load};
use crate::app::App;
use crate::logging;
use crate::shutdown::{Shutdown, Signals};

pub(super) fn run(config: &Path) -> ExitCode {
    let loaded = match load(config) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    logging::init(&loaded.config.log);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("cannot start: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    runtime.block_on(async {
        let signals = match Signals::take() {
            Ok(signals) => signals,
            Err(error) => {
                complain(format_args!("cannot take over signals: {error}"));
                return ExitCode::from(FAILED);
            }
        };
        let shutdown = Shutdown::default();
        match App::build(&loaded.config, shutdown.clone()).await {
            Ok(app) => {
                tokio::spawn(signals.drive(shutdown));
                app.run().await;
                ExitCode::SUCCESS
            }
            Err(error) => {
                complain(format_args!("cannot start: {error}"));
                ExitCode::from(FAILED)
            }
        }
    })
}
