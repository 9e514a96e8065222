//! `sessionguard explain`: why somebody would go, or went, to a host, and why
//! to no other.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::ask::{Asking, escaped};
use super::decision::Told;
use super::table::visible;
use super::{FAILED, REFUSED, USAGE, complain};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").multiple(true).required(true)
    .args(["resource", "connection_id", "connection_name", "farm", "hostname", "decision", "last"]))]
pub(super) struct Arguments {
    /// The RDP user, as the connection has it; "" where Guacamole would ask
    #[arg(
        long,
        required_unless_present = "decision",
        conflicts_with = "decision"
    )]
    user: Option<String>,
    /// The RDP domain, as the connection has it
    #[arg(long, conflicts_with = "decision")]
    domain: Option<String>,
    /// The Guacamole login
    #[arg(long, conflicts_with = "decision")]
    login: Option<String>,
    /// A resource's id
    #[arg(long, value_name = "ID", conflicts_with = "decision")]
    resource: Option<String>,
    /// The Guacamole connection's id
    #[arg(long, value_name = "ID", conflicts_with = "decision")]
    connection_id: Option<String>,
    /// The Guacamole connection's name
    #[arg(long, value_name = "NAME", conflicts_with = "decision")]
    connection_name: Option<String>,
    /// The farm asked for, where allow_farm_selector lets connections do so
    #[arg(long, value_name = "ID", conflicts_with = "decision")]
    farm: Option<String>,
    /// The connection's hostname, which may be a selector
    #[arg(long, value_name = "TEXT", conflicts_with = "decision")]
    hostname: Option<String>,
    /// The connection's remote-app
    #[arg(long, value_name = "ALIAS", conflicts_with = "decision")]
    remote_app: Option<String>,
    /// The source of the listener it comes in by
    #[arg(long, conflicts_with = "decision")]
    source: Option<String>,
    /// A past decision, by the id in the log or in the message on the page
    #[arg(long, value_name = "ID")]
    decision: Option<String>,
    /// The last decision about the user, who may be spelled any way; a name
    /// without a domain finds every domain's
    #[arg(long, requires = "user", conflicts_with_all = ["decision", "domain", "login", "resource",
        "connection_id", "connection_name", "farm", "hostname", "remote_app", "source"])]
    last: bool,
    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let answer = match arguments.answer() {
        Ok(answer) => answer,
        Err(code) => return code,
    };
    let refused = matches!(
        answer.get("outcome").and_then(Value::as_str),
        Some("refused" | "failed")
    );
    let said = arguments
        .asking
        .tell(answer, |told: Told, paint| told.show(paint));
    if refused {
        ExitCode::from(REFUSED)
    } else {
        said
    }
}

impl Arguments {
    fn answer(&self) -> Result<Value, ExitCode> {
        match &self.decision {
            Some(id) => self.decided(id.trim()),
            None if self.last => self.decided(&self.last_id()?),
            None => {
                let question = self.question();
                self.asking.broker.post("/api/v1/explain", Some(&question))
            }
        }
    }

    /// A past decision.
    fn decided(&self, id: &str) -> Result<Value, ExitCode> {
        // Nothing that could lead to another path.
        if !id.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            complain(format_args!("a decision's id is a UUID"));
            return Err(ExitCode::from(USAGE));
        }
        self.asking.broker.get(&format!("/api/v1/decisions/{id}"))
    }

    /// The id of the last decision about the user.
    fn last_id(&self) -> Result<String, ExitCode> {
        let user = self.user.as_deref().unwrap_or_default();
        let path = format!("/api/v1/decisions?user={}&limit=1", escaped(user));
        let listed = self.asking.broker.get(&path)?;
        let id = listed.pointer("/decisions/0/id").and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| {
            complain(format_args!(
                "no decision about {} is kept: none was made in the last 30 days, or the user is \
                 spelled with another domain",
                visible(user, false)
            ));
            ExitCode::from(FAILED)
        })
    }

    fn question(&self) -> Value {
        let mut question = json!({ "username": self.user.as_deref().unwrap_or_default() });
        let parts = [
            ("domain", &self.domain),
            ("name", &self.login),
            ("resource_id", &self.resource),
            ("connection_id", &self.connection_id),
            ("connection_name", &self.connection_name),
            ("farm_id", &self.farm),
            ("hostname", &self.hostname),
            ("remote_app", &self.remote_app),
            ("source", &self.source),
        ];
        if let Some(object) = question.as_object_mut() {
            for (name, value) in parts {
                if let Some(value) = value {
                    object.insert(name.to_owned(), json!(value));
                }
            }
        }
        question
    }
}
