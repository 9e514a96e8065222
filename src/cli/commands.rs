//! `sessionguard sessions message|disconnect|logoff`: what a host's agent is to
//! do with the sessions there.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Asking, escaped};

/// What is to be done.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Show a text to sessions of a host
    Message(Message),
    /// Hang up on sessions of a host: they go on, and their users may come back
    Disconnect(Wish),
    /// End sessions of a host: what was not saved is lost
    Logoff(Wish),
}

#[derive(Debug, clap::Args)]
pub(super) struct Message {
    /// What to show
    #[arg(long)]
    text: String,
    #[command(flatten)]
    order: Wish,
}

#[derive(Debug, clap::Args)]
pub(super) struct Wish {
    /// The host's id
    host: String,
    #[command(flatten)]
    whose: Whose,
    /// How long the host's agent has for it: 10s to 24h
    #[arg(long, value_name = "TIME", default_value = "5m")]
    expires: String,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Whose {
    /// Sessions of this user, spelled any way
    #[arg(long)]
    user: Option<String>,
    /// Sessions that nobody is connected to
    #[arg(long)]
    disconnected: bool,
    /// Every session
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Deserialize)]
struct Asked {
    command: Command,
    is_new: bool,
}

#[derive(Debug, Deserialize)]
struct Command {
    id: String,
    host: String,
    r#type: String,
}

impl Action {
    pub(super) fn run(&self) -> ExitCode {
        match self {
            Self::Message(message) => message.order.run("message", Some(&message.text)),
            Self::Disconnect(order) => order.run("disconnect", None),
            Self::Logoff(order) => order.run("logoff", None),
        }
    }
}

impl Wish {
    fn run(&self, kind: &str, text: Option<&str>) -> ExitCode {
        let path = format!("/api/v1/hosts/{}/commands", escaped(self.host.trim()));
        let question = self.question(kind, text);
        match self.asking.broker.post(&path, Some(&question)) {
            Ok(answer) => self.asking.tell(answer, |told: Asked, _| told.show()),
            Err(code) => code,
        }
    }

    fn question(&self, kind: &str, text: Option<&str>) -> Value {
        json!({
            "type": kind,
            "user": self.whose.user,
            "state": self.whose.disconnected.then_some("disconnected"),
            "all": self.whose.all,
            "message": text,
            "expires": self.expires,
        })
    }
}

impl Asked {
    fn show(&self) -> String {
        let Command { id, host, r#type } = &self.command;
        let how = match self.is_new {
            true => "waits",
            false => "waited already",
        };
        let kind = r#type;
        format!("{kind} {id} {how} for the agent of {host}")
    }
}
