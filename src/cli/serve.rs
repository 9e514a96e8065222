//! `sessionguard serve`: the broker in the foreground.

use std::path::Path;
use std::process::ExitCode;

use super::{BAD_CONFIGURATION, FAILED, complain, load};
use crate::app::App;
use crate::config::Origin;
use crate::entrance;
use crate::logging;
use crate::panics;
use crate::shutdown::{Hangups, Shutdown, Signals};
use crate::supervisor;

pub(super) fn run(config: &Path) -> ExitCode {
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
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("cannot start: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let code = runtime.block_on(async {
        let taken = Signals::take().and_then(|signals| Ok((signals, Hangups::take()?)));
        let (signals, hangups) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                complain(format_args!("cannot take over signals: {error}"));
                return ExitCode::from(FAILED);
            }
        };
        let shutdown = Shutdown::default();
        match App::build(&loaded.config, shutdown.clone()).await {
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
                app.run().await;
                ExitCode::SUCCESS
            }
            Err(error) => {
                complain(format_args!("cannot start: {error}"));
                ExitCode::from(FAILED)
            }
        }
    });
    logging::finish();
    code
}
