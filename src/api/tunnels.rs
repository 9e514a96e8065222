//! `/api/v1/tunnels`: the open tunnels, and their end at an administrator's
//! word.

mod beside;

use std::borrow::Cow;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::caller::Caller;
use super::extract::{Filter, Named};
use super::hosts::known_host;
use super::listing::{MOST, given, limit};
use super::whose::Whose;
use crate::clock::rfc3339;
use crate::placement::{Timestamp, TunnelId};
use crate::tunnel::{Kind, Open};

pub use beside::answering;

/// One open tunnel.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Tunnel {
    /// Its id, as in the log; sorts by the time it was opened.
    id: String,
    /// `handshake`, `brokered`, `pass-through` or `join`.
    #[schema(value_type = String)]
    kind: Cow<'static, str>,
    /// What is spoken to the host: `rdp`, `vnc`...
    protocol: Option<String>,
    /// The user, by the identity rules.
    user: Option<String>,
    /// The Guacamole login.
    login: Option<String>,
    /// The host it was placed on.
    pub(super) host: Option<String>,
    farm: Option<String>,
    resource: Option<String>,
    /// The decision it goes by.
    decision_id: Option<String>,
    /// The tunnel that a join sits in.
    joined: Option<String>,
    /// Whose connection it is: the address Guacamole dialled from.
    peer: Option<String>,
    /// When it was opened (RFC 3339).
    since: String,
    open_seconds: u64,
    /// When its RDP connection stood; `None`: not yet, or not ours to know.
    stood: Option<String>,
    /// Bytes from Guacamole to guacd since the handshake.
    to_guacd: u64,
    /// Bytes from guacd to Guacamole since the handshake.
    to_guacamole: u64,
}

/// Open tunnels, the oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TunnelList {
    tunnels: Vec<Tunnel>,
    /// There are more: ask again with this as `after`.
    next: Option<String>,
}

/// Which tunnels.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Of this user, spelled any way.
    user: Option<String>,
    /// To this host.
    host: Option<String>,
    /// Of this farm.
    farm: Option<String>,
    /// How many: 1 to 1000, usually 1000.
    limit: Option<String>,
    /// Those after this id.
    after: Option<String>,
}

/// Whose tunnels end.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfHost {
    /// All to this host.
    host: String,
}

/// What was told to end.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ended {
    /// Tunnels that end now, each on the next boundary of an instruction.
    ended: Vec<String>,
}

/// Open tunnels, the oldest first
#[utoipa::path(get, path = "/tunnels", operation_id = "tunnels", params(Asked), responses(
    (status = 200, description = "Those that are passed through, too.", body = TunnelList),
))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Filter(asked): Filter<Asked>,
) -> Answer<TunnelList> {
    let snapshot = api.fleet.snapshot();
    let user = given("user", asked.user.as_deref())?;
    let user = user.map(|name| Whose::read(name, &snapshot)).transpose()?;
    let host = given("host", asked.host.as_deref())?;
    let farm = given("farm", asked.farm.as_deref())?;
    let after = given("after", asked.after.as_deref())?.map(TunnelId::from);
    let limit = limit(asked.limit.as_deref(), MOST, MOST)?;
    let mut tunnels = api.open(after.as_ref(), user.as_ref()).await;
    tunnels.retain(|tunnel| {
        let is = |known: &Option<String>, asked: Option<&str>| {
            asked.is_none_or(|asked| known.as_deref() == Some(asked))
        };
        is(&tunnel.host, host) && is(&tunnel.farm, farm)
    });
    let more = tunnels.len() > limit;
    tunnels.truncate(limit);
    let last = tunnels.last().filter(|_| more);
    let next = last.map(|tunnel| tunnel.id.clone());
    Ok(Told(TunnelList { tunnels, next }))
}

/// One open tunnel
#[utoipa::path(get, path = "/tunnels/{id}", operation_id = "tunnel",
    params(("id" = String, Path, description = "As in the log.")),
    responses((status = 200, description = "The tunnel.", body = Tunnel)),
)]
pub(super) async fn one(State(api): State<Arc<Api>>, Named(id): Named) -> Answer<Tunnel> {
    match api.tunnels.find(&TunnelId::from(id.trim())) {
        Some(tunnel) => Ok(Told(Tunnel::of(&tunnel, api.clock.now()))),
        None => Ok(Told(api.find_beside(&id).await?.tunnel)),
    }
}

/// End one tunnel
///
/// The page hears `error` 0x20B. A tunnel that is still in its handshake is
/// refused with the same.
#[utoipa::path(delete, path = "/tunnels/{id}", operation_id = "end_tunnel",
    params(("id" = String, Path, description = "As in the log.")),
    responses((status = 200, description = "It was told.", body = Ended)),
)]
pub(super) async fn end_one(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
) -> Answer<Ended> {
    match api.tunnels.find(&TunnelId::from(id.trim())) {
        Some(tunnel) => Ok(Told(api.end(&caller, [tunnel]))),
        None => {
            let tunnel = api.find_beside(&id).await?;
            Ok(Told(api.end_beside(&caller, vec![tunnel]).await))
        }
    }
}

/// End every tunnel to a host
///
/// Where the host takes users, they may come back to it at once: set it to
/// maintenance first.
#[utoipa::path(delete, path = "/tunnels", operation_id = "end_tunnels", params(OfHost), responses(
    (status = 200, description = "These were told.", body = Ended),
))]
pub(super) async fn end_of_host(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Filter(of): Filter<OfHost>,
) -> Answer<Ended> {
    let host = given("host", Some(&of.host))?.unwrap_or_default();
    let host = known_host(&api.fleet.snapshot(), host)?;
    let open = api.tunnels.after(None).into_iter();
    let there = open.filter(|tunnel| tunnel.facts().host.as_ref() == Some(&host));
    let mut ended = api.end(&caller, there);
    let mut beside = api.beside().await;
    beside.retain(|told| told.tunnel.host.as_deref() == Some(host.as_str()));
    let more = api.end_beside(&caller, beside).await;
    ended.ended.extend(more.ended);
    Ok(Told(ended))
}

impl Api {
    /// The open tunnels, of this user where one is named.
    pub(super) async fn open(&self, after: Option<&TunnelId>, user: Option<&Whose>) -> Vec<Tunnel> {
        let now = self.clock.now();
        let open = self.tunnels.after(after).into_iter();
        let fits = |tunnel: &Arc<Open>| {
            let is = |whose: &Whose| tunnel.facts().user.is_some_and(|user| whose.is(&user));
            user.is_none_or(is)
        };
        let open = open.filter(fits);
        let mut open: Vec<_> = open.map(|tunnel| Tunnel::of(&tunnel, now)).collect();
        let mut beside = self.beside().await;
        beside.retain(|told| {
            let is = |whose: &Whose| told.user.as_ref().is_some_and(|user| whose.is(user));
            let is_later = |id: &TunnelId| told.tunnel.id.as_str() > id.as_str();
            after.is_none_or(is_later) && user.is_none_or(is)
        });
        open.extend(beside.into_iter().map(|told| told.tunnel));
        open.sort_by(|one, other| one.id.cmp(&other.id));
        open
    }

    async fn find_beside(&self, id: &str) -> Result<beside::Told, Failure> {
        let mut beside = self.beside().await.into_iter();
        let found = beside.find(|told| told.tunnel.id == id.trim());
        found.ok_or_else(|| {
            Failure::not_found(format!(
                "no tunnel {id:?} is open: it may have ended already"
            ))
        })
    }

    fn end(&self, caller: &Caller, tunnels: impl IntoIterator<Item = Arc<Open>>) -> Ended {
        let tunnels = tunnels.into_iter();
        let ended = tunnels.map(|tunnel| {
            tunnel.end();
            let facts = tunnel.facts();
            let (user, host) = (facts.user.as_ref(), facts.host.as_ref());
            self.tell_of_ended(&caller.actor, tunnel.id(), user, host);
            tunnel.id().to_string()
        });
        Ended {
            ended: ended.collect(),
        }
    }
}

impl Tunnel {
    fn of(tunnel: &Open, now: Timestamp) -> Self {
        let facts = tunnel.facts();
        let (to_guacd, to_guacamole) = tunnel.bytes();
        let shown = |id: &dyn ToString| id.to_string();
        Self {
            id: tunnel.id().to_string(),
            kind: Cow::Borrowed(match facts.kind {
                Kind::Handshake => "handshake",
                Kind::Brokered => "brokered",
                Kind::PassThrough => "pass-through",
                Kind::Join => "join",
            }),
            protocol: facts.protocol.map(|it| it.to_string()),
            user: facts.user.map(|user| user.to_string()),
            login: facts.login.map(|it| it.to_string()),
            host: facts.host.as_ref().map(|id| shown(id)),
            farm: facts.farm.as_ref().map(|id| shown(id)),
            resource: facts.resource.as_ref().map(|id| shown(id)),
            decision_id: facts.decision.as_ref().map(|id| shown(id)),
            joined: facts.joined.as_ref().map(|id| shown(id)),
            peer: tunnel.peer().as_ref().map(|peer| shown(peer)),
            since: rfc3339(tunnel.since()),
            open_seconds: now.since(tunnel.since()).as_secs(),
            stood: facts.stood.map(rfc3339),
            to_guacd,
            to_guacamole,
        }
    }
}
