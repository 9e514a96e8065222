//! `GET /api/v1/hosts`: every host as it is now, and why it takes nobody new.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Api;
use super::answer::{Answer, Told};
use super::breaker::BreakerTold;
use super::extract::{Filter, Named};
use super::listing::{given, unknown};
use super::modes::OrderTold;
use crate::clock::rfc3339;
use crate::placement::{
    Candidate, Exclusion, Farm, FarmId, HostId, HostView, Load, Mode, Probe, Reach, Snapshot,
    Timestamp, newcomer, reach,
};
use crate::reports::Said;

/// One host.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Host {
    /// Its id; also its agent's.
    id: String,
    /// Address and port; `None` for a host that was taken out and is still in
    /// use.
    address: Option<String>,
    /// The farms it belongs to.
    farms: Vec<String>,
    /// `online`, `drain` or `maintenance`.
    #[schema(value_type = String)]
    mode: Mode,
    /// What the configuration says; an order wins over it.
    #[schema(value_type = String)]
    mode_configured: Mode,
    /// The order that holds; `None`: the configuration rules.
    order: Option<OrderTold>,
    /// Orders that are to come, soonest first.
    announced: Vec<OrderTold>,
    /// `online`, `unknown`, `silent`, `last-known` (as its agent is not heard and
    /// that proves nothing) or `dead`.
    #[schema(value_type = String)]
    reach: Reach,
    /// `unknown`, `answering` or `failing`.
    probe: &'static str,
    /// When the probe began to say so (RFC 3339).
    probe_since: Option<String>,
    /// How long it has said so.
    probe_seconds: Option<u64>,
    /// Its breaker; `None` where it is closed.
    breaker: Option<BreakerTold>,
    /// Age of the agent's last report; `None` without one.
    report_age_seconds: Option<u64>,
    /// 0 to 100.
    health: u8,
    /// Sessions in use, as the score counts them.
    pub(super) active: u32,
    /// Sessions left behind, as the score counts them.
    pub(super) disconnected: u32,
    /// How full it is; `None` for a host that was taken out.
    pub(super) occupancy: Option<Occupancy>,
    /// What its agent says of itself; `None` where it was never heard.
    agent: Option<Agent>,
    /// Our open tunnels to it, and logons under way that do not come through us.
    pub(super) tunnels: usize,
    /// Those of the tunnels that have not stood.
    pending: usize,
    /// Sessions with a user that its agent reports; `None` without a report.
    sessions: Option<usize>,
    /// What it has to say to a user nobody knows, farm by farm.
    pub(super) newcomer: Vec<Newcomer>,
}

/// What a host's agent says of itself.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Agent {
    /// What the host calls itself.
    hostname: String,
    /// Whether it gives a health score; 100 counts where it does not.
    health_known: bool,
    /// Whether it ever said who is there; until then the host is placed on as
    /// one without an agent.
    sessions_known: bool,
    /// The checks that failed.
    failed_checks: Vec<String>,
    /// Heartbeats that were no news: replayed, late, or of an earlier start.
    stale_heartbeats: u64,
}

/// A host whose agent reports and that is not configured: nobody is placed on
/// it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UnmatchedHost {
    /// Whom its key is for.
    id: String,
    /// What it calls itself.
    hostname: String,
    /// When it was heard last (RFC 3339).
    heard: String,
    seconds_ago: u64,
    /// The address it was heard from; for people only.
    from: Option<String>,
}

/// How full a host is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Occupancy {
    /// Users with a session, an open tunnel or a placement, each once.
    pub(super) users: u32,
    /// Most users for new sessions; `None`: no bound.
    max_users: Option<u32>,
    /// Logons under way.
    pending: u32,
    /// Most logons that may be under way at this moment.
    pending_cap: u32,
}

/// What a host has to say to a newcomer of a farm.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Newcomer {
    pub(super) farm: String,
    /// The highest of those that are not out is chosen.
    score: f64,
    /// The rule that keeps it out.
    #[schema(value_type = Option<String>)]
    exclusion: Option<Exclusion>,
    /// Why it takes no newcomer of this farm, in words; the farm itself may be
    /// disabled.
    pub(super) out: Option<String>,
}

/// Hosts, by id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// Hosts that report and are not configured.
    unmatched: Vec<UnmatchedHost>,
}

/// Which hosts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Of this farm.
    farm: Option<String>,
}

/// Every host, by id
#[utoipa::path(get, path = "/hosts", operation_id = "hosts", params(Asked), responses(
    (status = 200, description = "Those in use though taken out, too.", body = Hosts),
))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Filter(asked): Filter<Asked>,
) -> Answer<Hosts> {
    let snapshot = api.fleet.snapshot();
    let farm = given("farm", asked.farm.as_deref())?;
    let farm = farm.map(|id| known_farm(&snapshot, id)).transpose()?;
    let mut hosts = api.hosts(&snapshot);
    hosts.retain(|host| farm.as_ref().is_none_or(|id| host.is_in(id)));
    // Those are in no farm.
    let unmatched = match farm {
        None => api.unmatched(),
        Some(_) => Vec::new(),
    };
    Ok(Told(Hosts { hosts, unmatched }))
}

/// One host
#[utoipa::path(get, path = "/hosts/{id}", operation_id = "host",
    params(("id" = String, Path, description = "The host's id.")),
    responses((status = 200, description = "The host.", body = Host)),
)]
pub(super) async fn one(State(api): State<Arc<Api>>, Named(id): Named) -> Answer<Host> {
    let snapshot = api.fleet.snapshot();
    let id = known_host(&snapshot, &id)?;
    let mut hosts = api.hosts(&snapshot);
    let at = hosts.iter().position(|host| host.id == id.as_str());
    let host = at.map(|at| hosts.swap_remove(at));
    host.map(Told)
        .ok_or_else(|| unknown("host", id.as_str(), std::iter::empty()))
}

/// The host of this name.
pub(super) fn known_host(snapshot: &Snapshot, id: &str) -> Result<HostId, super::answer::Failure> {
    let wanted = HostId::from(id);
    let known = snapshot.hosts.keys();
    match snapshot.hosts.contains_key(&wanted) {
        true => Ok(wanted),
        false => Err(unknown("host", id, known.map(HostId::as_str))),
    }
}

/// The farm of this name.
pub(super) fn known_farm(snapshot: &Snapshot, id: &str) -> Result<FarmId, super::answer::Failure> {
    let wanted = FarmId::from(id);
    let known = snapshot.directory.farms().map(|farm| farm.id.as_str());
    match snapshot.directory.farm(&wanted) {
        Some(_) => Ok(wanted),
        None => Err(unknown("farm", id, known)),
    }
}

impl Api {
    /// Every host, by id, and what its agent says of itself.
    pub(super) fn hosts(&self, snapshot: &Snapshot) -> Vec<Host> {
        let mut hosts = all(snapshot, self.clock.now());
        for host in &mut hosts {
            let said = self.intake.said(&HostId::from(host.id.as_str()));
            host.agent = said.map(Agent::of);
        }
        hosts
    }

    /// Hosts that report and are not configured.
    pub(super) fn unmatched(&self) -> Vec<UnmatchedHost> {
        let now = self.clock.now();
        let unmatched = self.intake.unmatched().into_iter();
        unmatched
            .map(|host| UnmatchedHost {
                id: host.host.to_string(),
                hostname: host.hostname,
                heard: rfc3339(host.heard),
                seconds_ago: now.since(host.heard).as_secs(),
                from: host.from,
            })
            .collect()
    }
}

impl Agent {
    fn of(said: Said) -> Self {
        Self {
            hostname: said.hostname,
            health_known: said.health_known,
            sessions_known: said.sessions_known,
            failed_checks: said.failed_checks,
            stale_heartbeats: said.stale,
        }
    }
}

/// Every host, by id, without its agent.
pub(super) fn all(snapshot: &Snapshot, now: Timestamp) -> Vec<Host> {
    let mut said: BTreeMap<HostId, Vec<Newcomer>> = BTreeMap::new();
    for farm in snapshot.directory.farms() {
        for candidate in newcomer(snapshot, &farm.id, now) {
            let host = candidate.host.clone();
            let says = said.entry(host).or_default();
            says.push(Newcomer::of(farm, &candidate, now));
        }
    }
    let hosts = snapshot.hosts.iter();
    hosts
        .map(|(id, view)| {
            let newcomer = said.remove(id).unwrap_or_default();
            Host::of(snapshot, id, view, newcomer, now)
        })
        .collect()
}

impl Newcomer {
    fn of(farm: &Farm, candidate: &Candidate, now: Timestamp) -> Self {
        let rule = candidate.exclusion.map(|rule| match &candidate.breaker {
            Some(opening) if rule == Exclusion::Breaker => opening.told(now),
            _ => rule.to_string(),
        });
        let disabled = (!farm.enabled).then(|| "farm disabled".to_owned());
        Self {
            farm: farm.id.to_string(),
            score: candidate.score.total,
            exclusion: candidate.exclusion,
            out: disabled.or(rule),
        }
    }
}

impl Host {
    fn of(
        snapshot: &Snapshot,
        id: &HostId,
        view: &HostView,
        newcomer: Vec<Newcomer>,
        now: Timestamp,
    ) -> Self {
        let directory = &snapshot.directory;
        let configured = directory.host(id);
        let Load {
            active,
            disconnected,
        } = view.load(now);
        let (probe, since) = match view.probe {
            Probe::Unknown => ("unknown", None),
            Probe::Answering { since } => ("answering", Some(since)),
            Probe::Failing { since } => ("failing", Some(since)),
        };
        let (report, orders) = (view.report.as_ref(), &view.modes.orders);
        Self {
            id: id.to_string(),
            address: configured.map(|host| format!("{}:{}", host.address, host.port)),
            farms: newcomer.iter().map(|says| says.farm.clone()).collect(),
            mode: view.mode(now),
            mode_configured: view.modes.configured,
            order: orders.at(now).map(OrderTold::of),
            announced: orders.announced(now).map(OrderTold::of).collect(),
            reach: reach(snapshot, id, now).unwrap_or(Reach::Unknown),
            probe,
            probe_since: since.map(rfc3339),
            probe_seconds: since.map(|since| now.since(since).as_secs()),
            breaker: BreakerTold::of(view, now),
            report_age_seconds: report.map(|report| now.since(report.received).as_secs()),
            health: view.health(),
            active,
            disconnected,
            occupancy: directory.caps(id).map(|caps| {
                let occupancy = view.occupancy(caps, now);
                Occupancy {
                    users: occupancy.users,
                    max_users: caps.max_sessions,
                    pending: occupancy.pending,
                    pending_cap: occupancy.pending_cap,
                }
            }),
            agent: None,
            tunnels: view.tunnels.len(),
            pending: view.tunnels.iter().filter(|t| t.stood.is_none()).count(),
            sessions: report.map(|report| report.sessions.len()),
            newcomer,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether it belongs to the farm.
    pub(super) fn is_in(&self, farm: &FarmId) -> bool {
        self.farms.iter().any(|id| id == farm.as_str())
    }
}
