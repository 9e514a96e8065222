//! What is kept of a decision: enough to answer why, and nothing that is
//! secret. Parameter values never enter it, whatever they are.

use serde::{Deserialize, Serialize};

use crate::broker::{Answer, DecisionId};
use crate::metrics::Cause;
use crate::placement::{
    Carriers, Claims, Decision, Directory, Outcome, Request, ResourceKind, Timestamp, TunnelId,
    UserKey, Weights,
};
use crate::store::{Kept, StoreError};

/// Longest text of a carrier or a name that is kept, in characters.
const LONGEST: usize = 256;

/// One decision as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub id: DecisionId,
    /// When it was made, in milliseconds since the Unix epoch.
    pub at: Timestamp,
    /// What it was made for.
    pub act: Act,
    /// The tunnel that asked; `None` for a dry run, and for a connection that
    /// does not come through us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<TunnelId>,
    /// What was asked for.
    pub asked: Asked,
    /// Generation of the configuration it was made on.
    pub configuration: u64,
    /// The decision; `None` where none could be made.
    pub decision: Option<Decision>,
    /// The score's weights in that farm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// What was rewritten in the connection, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<Rewritten>,
    /// Why it came to nothing, whatever was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The same in one word, for counting; not kept.
    #[serde(skip)]
    pub cause: Option<Cause>,
}

/// What a decision is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// To be acted on.
    Placement,
    /// To be watched: `mode = "observe"`.
    Observation,
    /// For somebody who asked what would happen.
    DryRun,
}

/// What was asked for, as it arrived; blank parts are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// RDP `username`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// RDP `domain`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Guacamole login.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub login: String,
    /// A resource's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The Guacamole connection's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub connection_id: String,
    /// The Guacamole connection's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub connection_name: String,
    /// A farm's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub farm: String,
    /// The hostname, where it is no selector that could be read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The RemoteApp the connection names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_app: String,
    /// The `load-balance-info`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub load_balance_info: String,
    /// The source of the listener.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// Names of connection parameters that were rewritten, never values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rewritten {
    /// Names that lost a value.
    pub cleared: Vec<String>,
    /// Names that host or resource set.
    pub set: Vec<String>,
    /// Names that host or resource would set and guacd does not have.
    pub unknown: Vec<String>,
}

impl Asked {
    /// Who asks, and for nothing yet.
    pub fn by(claims: &Claims) -> Self {
        Self {
            username: short(&claims.username),
            domain: short(&claims.domain),
            login: short(&claims.name),
            ..Self::default()
        }
    }

    /// A hostname that could not be read.
    #[must_use]
    pub fn at(mut self, hostname: &str) -> Self {
        self.hostname = short(hostname);
        self
    }
}

impl From<&Request> for Asked {
    fn from(request: &Request) -> Self {
        let Carriers {
            resource,
            connection_id,
            connection_name,
            farm,
            hostname,
            any_host,
            remote_app,
            load_balance_info,
            source,
        } = &request.carriers;
        let text = |text: &Option<String>| text.as_deref().map(short).unwrap_or_default();
        Self {
            resource: resource
                .as_ref()
                .map(|id| short(id.as_str()))
                .unwrap_or_default(),
            connection_id: text(connection_id),
            connection_name: text(connection_name),
            farm: farm
                .as_ref()
                .map(|id| short(id.as_str()))
                .unwrap_or_default(),
            hostname: if *any_host {
                "any host".to_owned()
            } else {
                short(hostname)
            },
            remote_app: short(remote_app),
            load_balance_info: short(load_balance_info),
            source: text(source),
            ..Self::by(&request.claims)
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

impl Record {
    /// The record of an answer to what was asked.
    pub fn of(answer: &Answer, act: Act, asked: Asked, at: Timestamp) -> Self {
        let weights = weights(&answer.directory, &answer.decision);
        Self {
            configuration: answer.configuration,
            decision: Some(without_values(answer.decision.clone())),
            weights,
            ..Self::bare(answer.id, act, asked, at)
        }
    }

    /// A record with nothing decided.
    pub(in crate::broker) fn bare(id: DecisionId, act: Act, asked: Asked, at: Timestamp) -> Self {
        Self {
            id,
            at,
            act,
            tunnel: None,
            asked,
            configuration: 0,
            decision: None,
            weights: None,
            rewritten: None,
            failure: None,
            cause: None,
        }
    }

    /// Asked by this tunnel.
    #[must_use]
    pub fn by(mut self, tunnel: &TunnelId) -> Self {
        self.tunnel = Some(tunnel.clone());
        self
    }

    /// What was done to the connection.
    #[must_use]
    pub fn with(mut self, rewritten: Rewritten) -> Self {
        self.rewritten = Some(rewritten);
        self
    }

    /// It came to nothing all the same.
    #[must_use]
    pub fn failed(mut self, why: impl ToString, cause: Cause) -> Self {
        self.failure = Some(why.to_string());
        self.cause = Some(cause);
        self
    }

    /// Spellings of its user: with the domain, and without.
    pub(super) fn names(&self) -> Vec<String> {
        let decided = self.decision.as_ref().and_then(|d| d.user.clone());
        let asked = || match UserKey::new(&self.asked.username, &self.asked.domain) {
            None => UserKey::new(&self.asked.login, ""),
            user => user,
        };
        let Some(user) = decided.or_else(asked) else {
            return Vec::new();
        };
        let (full, bare) = (user.to_string(), user.user().to_owned());
        if full == bare {
            vec![bare]
        } else {
            vec![full, bare]
        }
    }

    /// As the archive keeps it.
    pub(super) fn kept(&self) -> Option<Kept> {
        // Plain data with text for keys: nothing in it can fail to be written.
        let json = serde_json::to_string(self).ok()?;
        Some(Kept {
            id: self.id.bits(),
            names: self.names(),
            json,
        })
    }

    /// As it was kept, perhaps by another release.
    pub(super) fn read(json: &str) -> Result<Self, StoreError> {
        serde_json::from_str(json).map_err(|error| StoreError::Failed {
            reason: format!("a decision's record: {error}"),
        })
    }
}

/// The RemoteApp's directory and arguments are parameter values.
fn without_values(mut decision: Decision) -> Decision {
    if let Outcome::Placed(placement) = &mut decision.outcome
        && let ResourceKind::RemoteApp(app) = &mut placement.kind
    {
        app.dir.clear();
        app.args.clear();
    }
    decision
}

fn weights(directory: &Directory, decision: &Decision) -> Option<Weights> {
    let farm = directory.farm(decision.farm.as_ref()?)?;
    Some(farm.overrides.weights.unwrap_or(directory.rules().weights))
}
