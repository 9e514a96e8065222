//! `sessionguard drain | maintenance | online`: changes the mode of a host, or
//! of every host of a farm.

use std::process::ExitCode;
use std::time::Duration;

use jiff::ZonedDateTime;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ask::{Asking, Output, escaped};
use super::order::Order;
use super::table::harmless;
use super::wait::{self, Awaited};
use super::when::{self, When};
use super::{FAILED, USAGE, complain, say};
use crate::placement::Mode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A host's id, or farm:ID for every host of a farm
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    target: String,
    /// Why, for administrators: shown by status and explain, kept in the audit
    /// trail
    #[arg(long)]
    reason: Option<String>,
    /// What users may be told
    #[arg(long)]
    message: Option<String>,
    /// When it begins: 22:00 (the next such time here), "2026-11-30 22:00",
    /// +2h, or RFC 3339; now if left out
    #[arg(long, value_name = "TIME", value_parser = When::read)]
    from: Option<When>,
    /// When it ends by itself, the same way; times of day and spans count from
    /// --from
    #[arg(long, value_name = "TIME", value_parser = When::read)]
    until: Option<When>,
    /// Restart the host once it is in drain and nobody is on it; its agent does
    #[arg(long)]
    restart_when_drained: bool,
    /// Put it online after that restart
    #[arg(long, requires = "restart_when_drained")]
    online_after_restart: bool,
    /// Do it even if it leaves a farm without a usable host
    #[arg(long)]
    force: bool,
    /// Wait until the host is empty: for drain until no tunnel is open and no
    /// session reported, for maintenance until no placement is under way
    #[arg(long, conflicts_with = "from")]
    wait: bool,
    /// Wait so long at most: 30s, 10m, 2h
    #[arg(long, value_name = "SPAN", value_parser = when::span, requires = "wait")]
    timeout: Option<Duration>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Deserialize)]
struct Done {
    order: Order,
    hosts: Vec<Host>,
    farms_without_host: Vec<Farm>,
}

#[derive(Debug, Deserialize)]
struct Host {
    id: String,
    mode_before: String,
    mode: String,
    ended: Vec<Order>,
    shortened: Vec<Order>,
    cancelled: Vec<Order>,
    kept: Vec<Order>,
    has_agent: bool,
}

#[derive(Debug, Deserialize)]
struct Farm {
    id: String,
    from: String,
}

pub(super) fn run(mode: Mode, arguments: &Arguments) -> ExitCode {
    if arguments.wait && mode == Mode::Online {
        complain(format_args!(
            "--wait: a host that is online is not waited for"
        ));
        return ExitCode::from(USAGE);
    }
    let body = match arguments.body(mode) {
        Ok(body) => body,
        Err(error) => {
            complain(format_args!("{error}"));
            return ExitCode::from(USAGE);
        }
    };
    let answer = match arguments.asking.broker.patch(&arguments.path(), &body) {
        Ok(answer) => answer,
        Err(code) => return code,
    };
    let done = match serde_json::from_value::<Done>(harmless(answer.clone())) {
        Ok(done) => done,
        Err(error) => {
            complain(format_args!(
                "the mode is changed, but the broker is of another release and says it differently ({error}): try -o json"
            ));
            return ExitCode::from(FAILED);
        }
    };
    let text = match arguments.asking.output {
        Output::Json => format!("{answer:#}"),
        Output::Table => done.show(),
    };
    let said = say(format_args!("{}", text.trim_end()));
    if !arguments.wait {
        return said;
    }
    let hosts = done.hosts.into_iter().map(|host| host.id);
    wait::run(&Awaited {
        broker: &arguments.asking.broker,
        hosts: hosts.collect(),
        mode,
        timeout: arguments.timeout,
    })
}

impl Arguments {
    fn path(&self) -> String {
        let target = self.target.trim();
        match (target.strip_prefix("farm:"), target.strip_prefix("host:")) {
            (Some(farm), _) => format!("/api/v1/farms/{}", escaped(farm)),
            // For a host whose id begins like a farm's.
            (None, host) => format!("/api/v1/hosts/{}", escaped(host.unwrap_or(target))),
        }
    }

    fn body(&self, mode: Mode) -> Result<Value, jiff::Error> {
        let mut body = Map::new();
        body.insert("mode".to_owned(), json!(mode));
        let mut base = ZonedDateTime::now();
        for (name, when) in [("from", &self.from), ("until", &self.until)] {
            if let Some(when) = when {
                let moment = when.after(&base)?;
                body.insert(name.to_owned(), json!(moment.to_string()));
                base = moment.to_zoned_datetime(base.time_zone().clone());
            }
        }
        for (name, text) in [("reason", &self.reason), ("message", &self.message)] {
            if let Some(text) = text {
                body.insert(name.to_owned(), json!(text));
            }
        }
        for (name, flag) in [
            ("restart_when_drained", self.restart_when_drained),
            ("online_after_restart", self.online_after_restart),
            ("force", self.force),
        ] {
            if flag {
                body.insert(name.to_owned(), json!(true));
            }
        }
        Ok(Value::Object(body))
    }
}

impl Done {
    fn show(&self) -> String {
        let mut lines = Vec::new();
        for host in &self.hosts {
            let id = &host.id;
            let until = self.order.until.as_deref().map(when::shown);
            let until = until.map(|until| format!(" until {until}"));
            let until = until.unwrap_or_default();
            lines.push(match &self.order.from {
                Some(from) => format!(
                    "{id}: {} from {}{until}; {} until then",
                    self.order.mode,
                    when::shown(from),
                    host.mode
                ),
                None => format!("{id}: {}{until}, was {}", host.mode, host.mode_before),
            });
            for (what, orders) in [
                ("ended", &host.ended),
                ("cut short", &host.shortened),
                ("cancelled", &host.cancelled),
                ("still to come", &host.kept),
            ] {
                lines.extend(
                    orders
                        .iter()
                        .map(|order| format!("  {what}: {}", order.show())),
                );
            }
            if self.order.restart_when_drained && !host.has_agent {
                lines
                    .push("  the restart needs an agent on the host: none has reported".to_owned());
            }
        }
        for farm in &self.farms_without_host {
            let from = when::shown(&farm.from);
            lines.push(format!(
                "farm {} has no usable host from {from} on",
                farm.id
            ));
        }
        lines.join("\n")
    }
}
