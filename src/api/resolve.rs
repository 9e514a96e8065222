//! `POST /api/v1/broker/resolve`: places somebody whose connection does not
//! come through us: a plug-in of Guacamole asks, and dials the host itself.
//!
//! The same rules decide and the same lease is claimed as for a tunnel, so that
//! a user who comes both ways is on one host. But no tunnel follows that would
//! renew the claim, stand, and end. So an answer is taken for what it most
//! likely becomes, a logon:
//!
//! - for a minute the user counts as a logon under way on that host, as a
//!   tunnel does that has not stood yet; asked again, once;
//! - the lease stands at once, for `lease_seconds` from each answer on: that
//!   long a user comes back to the same host without being asked for anew. With
//!   an agent on the host, what it reports takes over: a session keeps the user
//!   there for as long as it lasts, and a logoff ends the lease;
//! - it was written to the store before it was answered, so that no crash takes
//!   back what somebody was told.
//!
//! Who asks and then does not connect blocks nobody: the place is free after a
//! minute, and a lease holds no seat.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::info;
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::caller::Caller;
use super::extract::Sent;
use super::refused::refused;
use crate::broker::{self, Act, Asked, DecisionId};
use crate::clock::rfc3339;
use crate::placement::{
    Actor, Carriers, Claims, Conduct, FarmId, Outcome, Placement, Reason, Refusal, Request,
    Resource, ResourceId, ResourceKind, Timestamp, Unmatched, UserKey,
};

/// Longest name of a user, in characters; with a DNS domain Windows has none
/// that is longer. It becomes the key of a lease, and a word in the log.
const LONGEST: usize = 512;

/// Who wants to go where; blank parts count as missing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// The user as the host knows them: `user`, `DOMAIN\user` or
    /// `user@dns.domain`.
    username: String,
    /// The Guacamole connection's id.
    #[serde(default)]
    connection_id: String,
    /// The Guacamole connection's name.
    #[serde(default)]
    connection_name: String,
    /// A resource's id.
    #[serde(default)]
    resource_id: String,
    /// A farm's id: obeyed where `farm=` in a selector is.
    #[serde(default)]
    farm_id: String,
}

/// Where a user belongs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Resolved {
    /// The host's id, also its agent's.
    agent_id: String,
    /// Its address: a name or an IP address.
    hostname: String,
    farm_id: Option<String>,
    resource_id: Option<String>,
    /// Whether the user is or was there already.
    reconnect: bool,
    /// Why this host.
    reason: String,
    /// 0 to 100.
    health_score: u8,
    /// What to fill in, by name.
    pub(super) tokens: BTreeMap<&'static str, String>,
    /// When the lease ends unless the user comes again (RFC 3339).
    lease_expires: Option<String>,
    /// The decision, as in the log.
    decision_id: String,
}

/// What came of a wish.
pub(super) enum Settled {
    /// A host.
    There(Resolved),
    /// The connection is none of ours.
    Unmapped(DecisionId),
    /// It was only looked at: `mode = "observe"`.
    Observed(DecisionId),
}

/// Place a user whose connection does not come through the broker
///
/// Claims a lease as a tunnel does, which lasts `lease_seconds` from each
/// answer on. 404: nothing published answers to it. 409: it is disabled or
/// ambiguous. 503: no host can be had now.
#[utoipa::path(post, path = "/broker/resolve", operation_id = "resolve", request_body = Wish,
    responses((status = 200, description = "The host.", body = Resolved)),
)]
pub(super) async fn resolve(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Sent(wish): Sent<Wish>,
) -> Answer<Resolved> {
    match api.settle(&wish, &caller.actor).await? {
        Settled::There(resolved) => Ok(Told(resolved)),
        Settled::Unmapped(decision) => {
            Err(Failure::not_found("nothing published answers to this connection").about(decision))
        }
        Settled::Observed(decision) => Err(Failure::conflict(
            "mode is \"observe\": nobody is placed; explain says what would be decided",
        )
        .about(decision)),
    }
}

impl Api {
    pub(super) async fn settle(&self, wish: &Wish, actor: &Actor) -> Result<Settled, Failure> {
        let request = wish.request()?;
        let deadline = Instant::now() + self.config.get().timeouts.placement;
        let observing = self.broker.conduct() == Conduct::Observe;
        let (act, placed) = if observing {
            let previewed = self.broker.preview(&request, deadline).await;
            (Act::Observation, previewed.map(|answer| (answer, None)))
        } else {
            let placed = self.broker.place_elsewhere(&request, deadline).await;
            (Act::Placement, placed)
        };
        let asked = || Asked::from(&request);
        let (mut answer, until) = match placed {
            Ok(placed) => placed,
            Err(unplaced) => {
                let record = self.broker.record_unplaced(&unplaced, act, asked());
                self.broker.decisions().keep(record);
                let (decision_id, error) = (unplaced.id, &unplaced.error);
                info!(%decision_id, %error, %actor, "Not resolved");
                return Err(Failure::from(unplaced.error).about(unplaced.id));
            }
        };
        if wish.leads_nowhere(&answer) {
            answer.decision.outcome = Outcome::Unmatched;
        }
        let record = self.broker.record(&answer, act, asked());
        self.broker.decisions().keep(record);
        self.tell_of_resolved(&answer, observing, actor);
        if observing {
            return Ok(Settled::Observed(answer.id));
        }
        match &answer.decision.outcome {
            Outcome::Placed(placement) => {
                Ok(Settled::There(self.resolved(&answer, placement, until)))
            }
            Outcome::Refused(refusal) => Err(refused(refusal, answer.id)),
            Outcome::Unmatched => Ok(Settled::Unmapped(answer.id)),
        }
    }

    fn tell_of_resolved(&self, answer: &broker::Answer, observing: bool, actor: &Actor) {
        let decision = &answer.decision;
        let user = decision.user.as_ref().map(ToString::to_string);
        let (farm, resource) = (decision.farm.as_ref(), decision.resource.as_ref());
        let (farm, resource) = (farm.map(FarmId::as_str), resource.map(ResourceId::as_str));
        let (host, reason) = match &decision.outcome {
            Outcome::Placed(placement) => {
                let host = Some(placement.host.as_str());
                (host, Some(placement.reason.to_string()))
            }
            Outcome::Refused(refusal) => (None, Some(refusal.to_string())),
            Outcome::Unmatched => (None, None),
        };
        let decision_id = answer.id;
        let observed = observing.then_some(true);
        info!(user, host, farm, resource, reason, %decision_id, observed, %actor, "Resolved");
    }

    fn resolved(
        &self,
        answer: &broker::Answer,
        placement: &Placement,
        until: Option<Timestamp>,
    ) -> Resolved {
        let decision = &answer.decision;
        let resource = decision.resource.as_ref();
        let resource = resource.and_then(|id| answer.directory.resource(id));
        let snapshot = self.fleet.snapshot();
        let view = snapshot.hosts.get(&placement.host);
        Resolved {
            agent_id: placement.host.to_string(),
            hostname: placement.address.clone(),
            farm_id: decision.farm.as_ref().map(ToString::to_string),
            resource_id: resource.map(|resource| resource.id.to_string()),
            reconnect: placement.reason != Reason::Score,
            reason: placement.reason.to_string(),
            health_score: view.map_or(0, |view| view.health()),
            tokens: tokens(placement, resource),
            lease_expires: until.map(rfc3339),
            decision_id: answer.id.to_string(),
        }
    }
}

/// The tokens that Guacamole's parameters may hold, without `${` and `}`.
fn tokens(placement: &Placement, resource: Option<&Resource>) -> BTreeMap<&'static str, String> {
    let (alias, dir, args) = match &placement.kind {
        ResourceKind::RemoteApp(app) => (app.alias.as_str(), app.dir.as_str(), app.args.as_str()),
        ResourceKind::Desktop | ResourceKind::AsConnected => ("", "", ""),
    };
    let id = resource.map_or("", |resource| resource.id.as_str());
    let tokens = [
        ("SESSIONGUARD_HOST", placement.address.as_str()),
        ("SESSIONGUARD_AGENT_ID", placement.host.as_str()),
        ("SESSIONGUARD_RESOURCE_ID", id),
        ("SESSIONGUARD_REMOTE_APP", alias),
        ("SESSIONGUARD_REMOTE_APP_DIR", dir),
        ("SESSIONGUARD_REMOTE_APP_ARGS", args),
    ];
    let tokens = tokens.into_iter();
    tokens
        .map(|(name, value)| (name, value.to_owned()))
        .collect()
}

impl Wish {
    fn request(&self) -> Result<Request, Failure> {
        if UserKey::new(&self.username, "").is_none() {
            return Err(Failure::bad("username is blank"));
        }
        if self.username.chars().count() > LONGEST {
            let text = format!("username is longer than {LONGEST} characters");
            return Err(Failure::bad(text));
        }
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let carriers = Carriers {
            resource: given(&self.resource_id).map(ResourceId::from),
            connection_id: given(&self.connection_id),
            connection_name: given(&self.connection_name),
            farm: given(&self.farm_id).map(FarmId::from),
            ..Carriers::default()
        };
        if carriers == Carriers::default() {
            return Err(Failure::bad(
                "say what is asked for: resource_id, connection_id, connection_name or farm_id",
            ));
        }
        let claims = Claims {
            username: self.username.clone(),
            ..Claims::default()
        };
        Ok(Request {
            carriers,
            claims,
            ..Request::default()
        })
    }

    /// Whether a connection was named and nothing else, and nothing published
    /// answers to it. In a tunnel a selector says that something must; here
    /// every connection is asked for, also those that are none of ours.
    fn leads_nowhere(&self, answer: &broker::Answer) -> bool {
        let unknown = matches!(answer.refusal(), Some(Refusal::UnknownResource));
        let connection_alone = self.resource_id.trim().is_empty() && self.farm_id.trim().is_empty();
        let passes = answer.directory.rules().unmatched == Unmatched::Pass;
        unknown && connection_alone && passes
    }
}
