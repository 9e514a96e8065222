//! `GET /api/v1/status`: the broker and every host, as they are now.

use serde::Serialize;

use super::Api;
use super::answer::{Answer, answer};
use crate::clock::rfc3339;
use crate::config::ReloadState;
use crate::placement::{
    Conduct, Directory, FarmId, HostId, HostView, Load, Mode, Occupancy, Probe, Reach, Timestamp,
};

#[derive(Debug, Serialize)]
struct Status<'a> {
    version: &'static str,
    time: String,
    uptime_seconds: u64,
    /// `broker` or `observe`.
    mode: &'static str,
    /// Generation of the configuration.
    configuration: u64,
    /// Generation of the live picture.
    generation: u64,
    /// How the configuration and its files stand to each other.
    reload: Option<ReloadState>,
    tunnels: usize,
    /// Decisions that were not stored, and lines missing in the audit trail.
    decisions_lost: u64,
    audit_lines_lost: u64,
    hosts: Vec<Host<'a>>,
}

#[derive(Debug, Serialize)]
struct Host<'a> {
    id: &'a HostId,
    /// `None` for a host that was taken out and is still in use.
    address: Option<String>,
    farms: Vec<&'a FarmId>,
    mode: Mode,
    reach: Reach,
    /// `unknown`, `answering` or `failing`.
    probe: &'static str,
    probe_since: Option<String>,
    /// Age of the agent's last report.
    report_age_seconds: Option<u64>,
    active: u32,
    disconnected: u32,
    occupancy: Option<Occupancy>,
    tunnels: usize,
}

impl Api {
    pub(super) fn status(&self) -> Answer {
        let (snapshot, now) = (self.fleet.snapshot(), self.clock.now());
        let directory = &snapshot.directory;
        let hosts = snapshot.hosts.iter();
        let hosts: Vec<_> = hosts
            .map(|(id, view)| host(directory, id, view, now))
            .collect();
        let losses = self.broker.decisions().losses();
        answer(&Status {
            version: env!("CARGO_PKG_VERSION"),
            time: rfc3339(now),
            uptime_seconds: self.clock.uptime().as_secs(),
            mode: match directory.rules().conduct {
                Conduct::Broker => "broker",
                Conduct::Observe => "observe",
            },
            configuration: snapshot.configuration,
            generation: snapshot.generation,
            reload: self.reload.as_ref().map(|reload| reload.state()),
            tunnels: hosts.iter().map(|host| host.tunnels).sum(),
            decisions_lost: losses.decisions,
            audit_lines_lost: losses.audit_lines,
            hosts,
        })
    }
}

fn host<'a>(directory: &'a Directory, id: &'a HostId, view: &HostView, now: Timestamp) -> Host<'a> {
    let configured = directory.host(id);
    let farms = directory.farms().map(|farm| &farm.id);
    let Load {
        active,
        disconnected,
    } = view.load(now);
    let (probe, since) = match view.probe {
        Probe::Unknown => ("unknown", None),
        Probe::Answering { since } => ("answering", Some(since)),
        Probe::Failing { since } => ("failing", Some(since)),
    };
    let report = view.report.as_ref();
    Host {
        id,
        address: configured.map(|host| format!("{}:{}", host.address, host.port)),
        farms: farms.filter(|farm| directory.is_member(farm, id)).collect(),
        mode: view.mode,
        reach: view.reach(directory.rules().offline_after, now),
        probe,
        probe_since: since.map(rfc3339),
        report_age_seconds: report.map(|report| now.since(report.received).as_secs()),
        active,
        disconnected,
        occupancy: directory.caps(id).map(|caps| view.occupancy(caps, now)),
        tunnels: view.tunnels.len(),
    }
}
