//! `sessionguard keys`: who may use the API.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Output, Where};
use super::table::{Paint, Table, Tone};
use super::{FAILED, USAGE, complain, say};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Arguments {
    /// Make a key and print it, once: it is kept nowhere in a form that shows it
    Create(Create),
    /// Show every key, without what could be used of it
    List(List),
    /// Let a host that is alive be enrolled anew, with a token that waits for it
    Approve(Named),
    /// End a key at once
    Revoke(Named),
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// What it is for
    #[arg(long, value_enum)]
    role: Role,
    /// The host it belongs to, for the roles agent and enrollment
    #[arg(long, value_name = "ID")]
    host: Option<String>,
    /// What to call it in lists
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// When it ends: 30d, 12h, or in UTC 2027-01-31 or 2027-01-31T12:00:00Z;
    /// an enrollment token ends after a day unless it says so, other keys do not
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    #[command(flatten)]
    broker: Where,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// Asks where a user belongs
    Broker,
    /// Looks at everything
    AdminRead,
    /// Looks at everything and changes it
    AdminWrite,
    /// Reports for one host
    Agent,
    /// Gets one host its agent's key, once
    Enrollment,
}

#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// How the answer is written
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    broker: Where,
}

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// Its id, as `keys list` shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    broker: Where,
}

const PATH: &str = "/api/v1/keys";

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let done = match arguments {
        Arguments::Create(create) => create.run(),
        Arguments::List(list) => list.run(),
        Arguments::Approve(named) => named.approve(),
        Arguments::Revoke(named) => named.revoke(),
    };
    done.unwrap_or_else(|code| code)
}

#[derive(Deserialize)]
struct Created {
    id: String,
    role: String,
    host: Option<String>,
    expires_at: Option<String>,
    key: String,
    warnings: Vec<String>,
}

impl Create {
    fn run(&self) -> Result<ExitCode, ExitCode> {
        let role = clap::ValueEnum::to_possible_value(&self.role);
        let question = json!({
            "role": role.map(|role| role.get_name().to_owned()),
            "host": self.host,
            "label": self.label,
            "expires": self.expires,
        });
        let created: Created = understood(self.broker.post(PATH, Some(&question))?)?;
        for warning in &created.warnings {
            complain(format_args!("warning: {warning}"));
        }
        let of = created
            .host
            .map_or_else(String::new, |host| format!(" of {host}"));
        let until = created.expires_at.map_or_else(
            || "until it is revoked".to_owned(),
            |end| format!("until {end}"),
        );
        complain(format_args!(
            "key {} ({}{of}), good {until}; it is shown this once",
            created.id, created.role
        ));
        Ok(say(format_args!("{}", created.key)))
    }
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    role: String,
    host: Option<String>,
    label: String,
    state: String,
    created_by: String,
    created_at: Option<String>,
    expires_at: Option<String>,
    last_used: Option<String>,
}

impl List {
    fn run(&self) -> Result<ExitCode, ExitCode> {
        let answer = self.broker.get(PATH)?;
        if self.output == Output::Json {
            return Ok(say(format_args!("{answer:#}")));
        }
        let mut table = Table::new(&[
            "id",
            "role",
            "host",
            "label",
            "state",
            "created",
            "by",
            "expires",
            "last used",
        ]);
        let Keys { keys } = understood(answer)?;
        for key in keys {
            table.row(key.row());
        }
        let shown = table.show(Paint::stdout());
        Ok(say(format_args!("{}", shown.trim_end())))
    }
}

impl Listed {
    fn tell(self, what: &str) -> ExitCode {
        let Self { id, role, host, .. } = self;
        let of = host.map_or_else(String::new, |host| format!(" of {host}"));
        say(format_args!("key {id} ({role}{of}) {what}"))
    }

    fn row(self) -> Vec<(String, Tone)> {
        let plain = |text: Option<String>| (text.unwrap_or_default(), Tone::Plain);
        let tone = match self.state.as_str() {
            "valid" => Tone::Good,
            "ending" | "waiting" => Tone::Plain,
            _ => Tone::Faint,
        };
        vec![
            (self.id, Tone::Strong),
            plain(Some(self.role)),
            plain(self.host),
            plain(Some(self.label)),
            (self.state, tone),
            plain(self.created_at),
            plain(Some(self.created_by)),
            plain(self.expires_at),
            plain(self.last_used),
        ]
    }
}

impl Named {
    /// The path of the key.
    fn path(&self) -> Result<String, ExitCode> {
        // Somebody may paste the whole key: no more than the id leaves here.
        let id = match self.id.trim().split('_').collect::<Vec<_>>().as_slice() {
            ["sg", _, id, _] => *id,
            [id] => *id,
            _ => "",
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if id.is_empty() || id.len() > 32 || !id.chars().all(plain) {
            complain(format_args!(
                "a key's id is twelve of 0-9 and a-f, as `keys list` shows it"
            ));
            return Err(ExitCode::from(USAGE));
        }
        Ok(format!("{PATH}/{id}"))
    }

    fn revoke(&self) -> Result<ExitCode, ExitCode> {
        let listed: Listed = understood(self.broker.delete(&self.path()?)?)?;
        Ok(listed.tell("is revoked"))
    }

    fn approve(&self) -> Result<ExitCode, ExitCode> {
        let path = format!("{}/approve", self.path()?);
        let listed: Listed = understood(self.broker.post(&path, None)?)?;
        Ok(listed.tell("is approved: its host enrolls with it now"))
    }
}

fn understood<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, ExitCode> {
    serde_json::from_value(answer).map_err(|error| {
        // The error names a field or its kind; a key is text where text belongs.
        complain(format_args!(
            "the broker is of another release and says it differently ({error})"
        ));
        ExitCode::from(FAILED)
    })
}
