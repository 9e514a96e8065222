//! `sessionguard demo`: the broker at work, with nothing else installed.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{FAILED, complain};
use crate::config::HostPort;
use crate::demo::{self, Fault, Login, Options};
use crate::shutdown::{Shutdown, Signals};

/// As a shell reports a program that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// As clap's own usage errors.
const USAGE: u8 = 2;

const GUACD_PORT: u16 = 4822;
const RDP_PORT: u16 = 3389;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Play no scenes: stay until Ctrl-C for a real Guacamole, and show each
    /// decision and what is sent to guacd as it happens
    #[arg(long)]
    stay: bool,
    /// Where to listen for that Guacamole
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "stay",
        default_value = "127.0.0.1:4822"
    )]
    listen: SocketAddr,
    /// A real guacd in place of the stand-in; it logs on for real, so it needs
    /// --hosts as well (a scripted host has no desktop to log on to)
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = guacd_address, requires = "hosts")]
    guacd: Option<HostPort>,
    /// Real hosts in place of the scripted ones, two or more: A,B,C
    #[arg(long, value_name = "ADDR[:PORT],...", value_parser = host_address, value_delimiter = ',')]
    hosts: Vec<HostPort>,
    /// The account on the real hosts, without its domain; with --stay,
    /// Guacamole brings its own
    #[arg(
        long,
        value_parser = bare_name, requires = "guacd",
        requires = "password_file",
        conflicts_with = "stay"
    )]
    username: Option<String>,
    /// A file that holds its password
    #[arg(long, value_name = "FILE", requires = "username")]
    password_file: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.hosts.len() == 1 && !arguments.stay {
        complain(format_args!(
            "demo: a farm of one host has nothing to show, give two: --hosts A,B"
        ));
        return ExitCode::from(USAGE);
    }
    let login = match login(arguments) {
        Ok(login) => login,
        Err(code) => return code,
    };
    let terminal = io::stdout().is_terminal();
    let options = Options {
        guacd: arguments.guacd.clone(),
        hosts: arguments.hosts.clone(),
        login,
        stay: arguments.stay.then_some(arguments.listen),
        colour: terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()),
        pauses: terminal,
    };
    // One thread: the demo hears the broker's log on the thread it runs on.
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
    let played = runtime.block_on(async {
        let shutdown = Shutdown::default();
        match Signals::take() {
            Ok(signals) => drop(tokio::spawn(signals.drive(shutdown.clone()))),
            // Ctrl-C then ends it the hard way.
            Err(error) => complain(format_args!("cannot take over signals: {error}")),
        }
        demo::run(options, &mut io::stdout().lock(), &shutdown.stop).await
    });
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fault::Interrupted) => ExitCode::from(INTERRUPTED),
        // A reader that has left, such as `head`, is no failure.
        Err(Fault::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Fault::Output(error)) => {
            complain(format_args!("cannot write: {error}"));
            ExitCode::from(FAILED)
        }
        // It has been said already.
        Err(_) => ExitCode::from(FAILED),
    }
}

fn login(arguments: &Arguments) -> Result<Option<Login>, ExitCode> {
    let (Some(username), Some(file)) = (&arguments.username, &arguments.password_file) else {
        return Ok(None);
    };
    Ok(Some(Login {
        username: username.clone(),
        password: password(file)?,
    }))
}

/// The first line: editors end it with a line break that is not meant.
fn password(file: &Path) -> Result<String, ExitCode> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().next().unwrap_or_default().to_owned()),
        Err(error) => {
            complain(format_args!(
                "demo: cannot read {}: {error}",
                file.display()
            ));
            Err(ExitCode::from(FAILED))
        }
    }
}

/// The scripted users share the account, and get a domain each.
fn bare_name(text: &str) -> Result<String, String> {
    match text.contains(['\\', '@']) {
        true => Err("expected the account without its domain".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn guacd_address(text: &str) -> Result<HostPort, String> {
    address(text, GUACD_PORT)
}

fn host_address(text: &str) -> Result<HostPort, String> {
    address(text, RDP_PORT)
}

/// `name`, `name:port`, `[v6]` or `[v6]:port`.
fn address(text: &str, default: u16) -> Result<HostPort, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or("a `]` is missing")?;
            match behind {
                "" => (host, None),
                _ => (
                    host,
                    Some(behind.strip_prefix(':').ok_or("expected `:` behind `]`")?),
                ),
            }
        }
        None => match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address needs brackets: [::1]:3389".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    // It is written into a configuration: nothing that would mean more there.
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) {
        return Err("expected a host name or an IP address".to_owned());
    }
    let port = match port {
        Some(port) => port
            .parse()
            .ok()
            .filter(|&port| port != 0)
            .ok_or("expected a port of 1 to 65535")?,
        None => default,
    };
    Ok(HostPort {
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_with_and_without_a_port() {
        for (text, shown) in [
            ("rds-1.example.com", "rds-1.example.com:3389"),
            ("10.0.0.1:3390", "10.0.0.1:3390"),
            ("[::1]", "[::1]:3389"),
            ("[2001:db8::1]:4000", "[2001:db8::1]:4000"),
        ] {
            assert_eq!(address(text, 3389).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "", ":1", "a:0", "a:65536", "a:b", "::1", "[::1", "[::1]x", "a\"b:1", "a b",
        ] {
            assert!(address(text, 3389).is_err(), "{text}");
        }
    }
}
