//! `GET /api/v1/status`: the broker and every host, as they are now, and what
//! nobody has asked for.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Told};
use super::extract::Filter;
use super::hosts::{Host, UnmatchedHost};
use super::listing::Nothing;
use crate::clock::rfc3339;
use crate::config::ReloadState;
use crate::placement::{Conduct, alarms};
use crate::tls::Standing;
use crate::tunnel::GuacdStanding;

/// The broker.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    version: &'static str,
    /// Now (RFC 3339).
    time: String,
    uptime_seconds: u64,
    /// `broker` or `observe`.
    mode: &'static str,
    /// Generation of the configuration.
    configuration: u64,
    /// Generation of the live picture.
    generation: u64,
    /// How the configuration and its files stand to each other.
    #[schema(value_type = Option<Object>)]
    reload: Option<ReloadState>,
    /// What somebody should look into, in words.
    alarms: Vec<String>,
    /// Open tunnels, those that are passed through among them.
    tunnels: usize,
    /// Each guacd, as when it was last dialled.
    guacd: Vec<Guacd>,
    /// Certificates of either leg.
    certificates: Vec<Certificate>,
    /// Decisions that were not stored.
    decisions_lost: u64,
    /// Lines missing in the audit trail.
    audit_lines_lost: u64,
    /// Enabled resources that no connection named since the start.
    resources_never_matched: Vec<String>,
    /// Host names of connections that named no resource, the hundred seen last.
    hostnames_never_matched: Vec<Hostname>,
    hosts: Vec<Host>,
    /// Hosts that report and are not configured.
    unmatched: Vec<UnmatchedHost>,
}

/// A guacd that tunnels go to
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Guacd {
    /// As configured.
    name: String,
    /// One of the addresses that the name has.
    address: String,
    /// Connections to it, those that are being opened among them.
    tunnels: usize,
    /// For how long it still gets nobody, unless all the others fail.
    put_aside_seconds: Option<u64>,
    /// How it failed when it was last dialled.
    failure: Option<String>,
}

impl From<GuacdStanding> for Guacd {
    fn from(standing: GuacdStanding) -> Self {
        Self {
            name: standing.name.to_string(),
            address: standing.address.to_string(),
            tunnels: standing.tunnels,
            // Begun seconds count: it is put aside until they are over.
            put_aside_seconds: standing.aside.map(|left| left.as_secs() + 1),
            failure: standing.failure,
        }
    }
}

/// A certificate that is in force
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Certificate {
    /// The key of the configuration that names its file.
    key: &'static str,
    file: String,
    subject: String,
    /// From when on it holds (RFC 3339).
    not_before: String,
    /// Until when (RFC 3339).
    not_after: String,
    /// Why the file as it is now is not in force.
    last_error: Option<String>,
}

impl From<Standing> for Certificate {
    fn from(standing: Standing) -> Self {
        Self {
            key: standing.key,
            file: standing.file,
            subject: standing.subject,
            not_before: rfc3339(standing.not_before),
            not_after: rfc3339(standing.not_after),
            last_error: standing.last_error,
        }
    }
}

/// A host name that led to no resource.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Hostname {
    hostname: String,
    /// How often since the start.
    times: u64,
    /// When last (RFC 3339).
    last: String,
    /// How long ago that was.
    seconds_ago: u64,
}

/// The broker and every host
#[utoipa::path(get, path = "/status", operation_id = "status", responses(
    (status = 200, description = "As they are now.", body = Status),
))]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Filter(Nothing {}): Filter<Nothing>,
) -> Answer<Status> {
    let (snapshot, now) = (api.fleet.snapshot(), api.clock.now());
    let decisions = api.broker.decisions();
    let (losses, sightings) = (decisions.losses(), decisions.sightings());
    let resources = snapshot.directory.resources();
    let never = resources.filter(|r| r.enabled && sightings.of_resource(&r.id).is_none());
    let hostnames = sightings.unmatched_hostnames().into_iter();
    let guacd = api.pool.standings(&api.config.get().guacd);
    let standings = api.certificates.standings().into_iter();
    Ok(Told(Status {
        version: env!("CARGO_PKG_VERSION"),
        time: rfc3339(now),
        uptime_seconds: api.clock.uptime().as_secs(),
        mode: match snapshot.directory.rules().conduct {
            Conduct::Broker => "broker",
            Conduct::Observe => "observe",
        },
        configuration: snapshot.configuration,
        generation: snapshot.generation,
        reload: api.reload.as_ref().map(|reload| reload.state()),
        alarms: alarms(&snapshot, now)
            .iter()
            .map(ToString::to_string)
            .chain(api.limits.load().strains())
            .collect(),
        tunnels: api.tunnels.count() + api.beside().await.len(),
        guacd: guacd.into_iter().map(Guacd::from).collect(),
        certificates: standings.map(Certificate::from).collect(),
        decisions_lost: losses.decisions,
        audit_lines_lost: losses.audit_lines,
        resources_never_matched: never.map(|resource| resource.id.to_string()).collect(),
        hostnames_never_matched: hostnames
            .map(|(hostname, seen)| Hostname {
                hostname,
                times: seen.times,
                last: rfc3339(seen.last),
                seconds_ago: now.since(seen.last).as_secs(),
            })
            .collect(),
        hosts: api.hosts(&snapshot),
        unmatched: api.unmatched(),
    }))
}
