//! The command line: one file a subcommand.

mod agent;
mod ask;
mod check;
mod commands;
mod completions;
mod config;
mod decision;
mod demo;
mod explain;
mod farms;
mod filters;
mod glance;
mod healthcheck;
mod hosts;
mod keys;
mod last_tunnel;
mod leases;
mod man;
mod mode;
mod order;
mod reload;
mod resources;
mod serve;
mod server;
mod sessions;
mod status;
mod table;
mod tunnels;
mod wait;
mod when;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Loaded;
use crate::placement::Mode;
use crate::privacy;

/// Exit codes that scripts rely on; clap's own usage errors end with 2.
const FAILED: u8 = 1;
const USAGE: u8 = 2;
const REFUSED: u8 = 3;
const UNREACHABLE: u8 = 4;
const BAD_CONFIGURATION: u8 = 78;

const DEFAULT_CONFIG: &str = "/etc/sessionguard/sessionguard.toml";

/// A connection broker for Apache Guacamole: places users on RDP session hosts
/// and relays their tunnels.
#[derive(Debug, Parser)]
#[command(name = "sessionguard", version, about, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the broker in the foreground
    Serve(serve::Arguments),
    /// Check a configuration and print everything that is wrong with it
    Check(check::Arguments),
    /// Print the settings in force, or the schema of a configuration file
    #[command(subcommand)]
    Config(config::Arguments),
    /// Say why somebody would go, or went, to a host, and why to no other
    Explain(Box<explain::Arguments>),
    /// Show the running broker and every host
    Status(ask::Asking),
    /// List the farms, and how full they are
    Farms(ask::Asking),
    /// List the hosts, and what keeps newcomers from them
    Hosts(hosts::Arguments),
    /// List what is published, and whether anybody asks for it
    Resources(resources::Arguments),
    /// List reported sessions, of a user open tunnels and leases, too; or have
    /// a host's agent do something with them
    Sessions(Box<sessions::Arguments>),
    /// List the open tunnels, or end some
    Tunnels(Box<tunnels::Arguments>),
    /// List the leases, or release some
    Leases(Box<leases::Arguments>),
    /// Take no new users on a host, or on a farm's; who was there may return
    Drain(Box<mode::Arguments>),
    /// Take nobody on a host, or on a farm's; open tunnels are left alone
    Maintenance(Box<mode::Arguments>),
    /// Take everybody again, and cancel what was announced
    Online(Box<mode::Arguments>),
    /// Make the running broker read its configuration now
    Reload(ask::Asking),
    /// Ask whether the running broker is ready, for a container's health check
    Healthcheck(ConfigFile),
    /// Make, list and revoke the keys of the API
    #[command(subcommand)]
    Keys(keys::Arguments),
    /// Show the broker at work, with nothing else installed
    Demo(demo::Arguments),
    /// Print what a shell needs to complete commands
    Completions(completions::Arguments),
    /// Print the manual page
    Man(man::Arguments),
    /// Report a Linux session host's sessions to the broker, or enrol it
    Agent(agent::Arguments),
    /// Print the version
    Version,
}

#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// Configuration file; files in conf.d beside it are read too
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
}

impl Cli {
    /// Does what was asked and says how it ended.
    pub fn run(self) -> ExitCode {
        if let Err(error) = privacy::keep_memory_private() {
            complain(format_args!(
                "warning: this process's memory cannot be kept out of core files: {error}"
            ));
        }
        match self.command {
            Command::Serve(arguments) => serve::run(&arguments),
            Command::Check(arguments) => check::run(&arguments),
            Command::Config(arguments) => config::run(&arguments),
            Command::Explain(arguments) => explain::run(&arguments),
            Command::Status(arguments) => status::run(&arguments),
            Command::Farms(asking) => farms::run(&asking),
            Command::Hosts(arguments) => hosts::run(&arguments),
            Command::Resources(arguments) => resources::run(&arguments),
            Command::Sessions(arguments) => sessions::run(&arguments),
            Command::Tunnels(arguments) => tunnels::run(&arguments),
            Command::Leases(arguments) => leases::run(&arguments),
            Command::Drain(arguments) => mode::run(Mode::Drain, &arguments),
            Command::Maintenance(arguments) => mode::run(Mode::Maintenance, &arguments),
            Command::Online(arguments) => mode::run(Mode::Online, &arguments),
            Command::Reload(asking) => reload::run(&asking),
            Command::Healthcheck(file) => healthcheck::run(&file),
            Command::Keys(arguments) => keys::run(&arguments),
            Command::Demo(arguments) => demo::run(&arguments),
            Command::Completions(arguments) => completions::run(&arguments),
            Command::Man(arguments) => man::run(&arguments),
            Command::Agent(arguments) => agent::run(&arguments),
            Command::Version => say(format_args!("sessionguard {}", env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// Loads a configuration and prints what there is to say about it.
///
/// # Errors
/// The exit code for a configuration that cannot be used.
fn load(path: &Path) -> Result<Loaded, ExitCode> {
    match crate::config::load(path, std::env::vars_os()) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                complain(format_args!("{warning}"));
            }
            Ok(loaded)
        }
        Err(faults) => {
            complain(format_args!("{faults}"));
            Err(ExitCode::from(BAD_CONFIGURATION))
        }
    }
}

/// Writes a line for whoever reads our output. A reader that has left, such as
/// `head`, is no failure.
fn say(line: std::fmt::Arguments<'_>) -> ExitCode {
    use std::io::Write;
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILED),
    }
}

/// Writes a line to standard error.
fn complain(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // Where even standard error is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A span of time in the two units that matter.
fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A span of time in the one unit that matters.
fn age(seconds: u64) -> String {
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min", seconds / 60),
        6000..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// An amount of data in the unit that leaves few digits.
fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut left = bytes;
    let mut shown = format!("{bytes} B");
    for unit in units {
        if left < 1024 {
            break;
        }
        let tenths = left.saturating_mul(10) / 1024;
        shown = match tenths {
            0..100 => format!("{}.{} {unit}", tenths / 10, tenths % 10),
            _ => format!("{} {unit}", tenths / 10),
        };
        left /= 1024;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_are_in_the_units_people_use() {
        for (seconds, text) in [
            (0, "0 s"),
            (99, "99 s"),
            (100, "1 min"),
            (5999, "99 min"),
            (7200, "2 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(age(seconds), text);
        }
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 * 1024, "10 KiB"),
            (1_048_576, "1.0 MiB"),
            (5_368_709_120, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn the_command_line_goes_together() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
