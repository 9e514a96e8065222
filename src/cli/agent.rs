//! `sessionguard agent`: the reporter on a session host.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{BAD_CONFIGURATION, FAILED, UNREACHABLE, USAGE, complain, say};
use crate::agent::{Agent, EnrollError, Enrolment, Server, Settings, Trust, enroll};
use crate::logging;
use crate::shutdown::Signals;

const DEFAULT_CONFIG: &str = "/etc/sessionguard/agent.toml";
const DEFAULT_KEY: &str = "/etc/sessionguard/agent.key";

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// The agent's own configuration file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make this host's key with an enrollment token, once
    Enroll(Enroll),
}

#[derive(Debug, clap::Args)]
struct Enroll {
    /// The broker's API, such as https://broker.example:9822; more than one is tried in turn
    #[arg(long, value_name = "URL", required = true)]
    server: Vec<String>,
    /// Who may have signed the broker's certificate, a PEM file, for https
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The SHA-256 of a certificate that is the broker's whoever signed it, for https
    #[arg(long, value_name = "SHA256")]
    pin: Vec<String>,
    /// A file that holds the enrollment token and that only its owner may read
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Where this host's key goes
    #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
    key_file: PathBuf,
    /// This host's name, where it is not the system's
    #[arg(long)]
    name: Option<String>,
    /// Send the token in the clear over a network that is trusted
    #[arg(long)]
    insecure: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.action {
        Some(Action::Enroll(arguments)) => run_enroll(arguments),
        None => report(&arguments.config),
    }
}

fn report(config: &Path) -> ExitCode {
    let settings = match Settings::load(config) {
        Ok(settings) => settings,
        Err(error) => return fail(BAD_CONFIGURATION, &error),
    };
    if let Err(error) = logging::init(&settings.log) {
        return fail(FAILED, &error);
    }
    let Some(runtime) = runtime() else {
        return ExitCode::from(FAILED);
    };
    let code = runtime.block_on(async {
        let mut signals = match Signals::take() {
            Ok(signals) => signals,
            Err(error) => return fail(FAILED, &error),
        };
        let agent = match Agent::build(settings) {
            Ok(agent) => agent,
            Err(error) => return fail(FAILED, &error),
        };
        let stop = CancellationToken::new();
        let running = agent.run(stop.clone());
        tokio::pin!(running);
        tokio::select! {
            () = &mut running => {}
            signal = signals.next() => {
                info!(signal, "Stopping");
                stop.cancel();
                running.await;
            }
        }
        ExitCode::SUCCESS
    });
    // Somebody may still be waiting for a file system that never answers.
    runtime.shutdown_background();
    logging::finish();
    code
}

fn run_enroll(arguments: &Enroll) -> ExitCode {
    let trust = match Trust::read(arguments.ca_file.clone(), &arguments.pin) {
        Ok(trust) => trust,
        Err(error) => {
            complain(format_args!("--pin {error}"));
            return ExitCode::from(USAGE);
        }
    };
    let servers = match Server::all(&arguments.server, &trust, arguments.insecure) {
        Ok(servers) => servers,
        Err(error) => return fail(USAGE, &error),
    };
    let enrolment = Enrolment {
        servers,
        token_file: arguments.token_file.clone(),
        key_file: arguments.key_file.clone(),
        name: arguments.name.clone(),
    };
    let Some(runtime) = runtime() else {
        return ExitCode::from(FAILED);
    };
    match runtime.block_on(enroll(&enrolment)) {
        Ok(agent_id) => say(format_args!(
            "this host is {agent_id}; its key is in {}",
            arguments.key_file.display()
        )),
        Err(error @ EnrollError::Asked(_)) => fail(UNREACHABLE, &error),
        Err(error) => fail(FAILED, &error),
    }
}

fn runtime() -> Option<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .inspect_err(|error| complain(format_args!("cannot start: {error}")))
        .ok()
}

fn fail(code: u8, error: &dyn std::error::Error) -> ExitCode {
    complain(format_args!("{error}"));
    ExitCode::from(code)
}
