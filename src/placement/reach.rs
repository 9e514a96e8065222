//! Whether a host can be reached: by its own reports, by our probes, and by
//! what the silence of a whole farm means.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::count::Known;
use super::ids::{FarmId, HostId};
use super::snapshot::{HostView, Probe, Snapshot};
use super::time::Timestamp;

/// Whether a host can be reached for new sessions, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Its report is fresh, or its probe answers.
    Online,
    /// Nothing has been heard yet.
    Unknown,
    /// Its report is too old.
    Silent,
    /// Its report is too old, but its probe answers and silence proves nothing:
    /// every agent of the farm is silent, or we have only just begun to listen.
    LastKnown,
    /// Its probe fails.
    Dead,
}

/// What it means that an agent of a farm is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    offline_after: Duration,
    /// Not a single agent is heard: their path is broken, not the farm.
    is_total: bool,
    /// We have not listened for long enough to tell.
    is_young: bool,
}

impl Silence {
    /// What it means in this farm at this moment.
    pub fn of(snapshot: &Snapshot, farm: &FarmId, now: Timestamp) -> Self {
        let offline_after = snapshot.directory.rules().offline_after;
        let hosts = snapshot.directory.members(farm);
        let views = hosts.filter_map(|id| snapshot.hosts.get(id));
        Self::among(
            views.map(AsRef::as_ref),
            offline_after,
            snapshot.started,
            now,
        )
    }

    pub(super) fn among<'a>(
        hosts: impl Iterator<Item = &'a Known>,
        offline_after: Duration,
        started: Timestamp,
        now: Timestamp,
    ) -> Self {
        let mut reports = hosts.filter_map(|view| view.report.as_ref());
        Self {
            offline_after,
            is_total: reports.all(|report| report.age(now) > offline_after),
            is_young: now.since(started) < offline_after,
        }
    }
}

/// Whether a host can be reached, as its farms see it: where silence proves
/// nothing in one of them, it takes new sessions there. `None` where nothing is
/// known of it.
pub fn reach(snapshot: &Snapshot, host: &HostId, now: Timestamp) -> Option<Reach> {
    let directory = &snapshot.directory;
    let view = snapshot.hosts.get(host)?;
    let alone = view.reach(directory.rules().offline_after, now);
    // Nothing else is read differently in a farm.
    if alone != Reach::Silent {
        return Some(alone);
    }
    let farms = directory.farms().map(|farm| &farm.id);
    let farms = farms.filter(|farm| directory.is_member(farm, host));
    let mut amid = farms.map(|farm| view.reach_amid(Silence::of(snapshot, farm, now), now));
    Some(
        amid.find(|reach| *reach != Reach::Silent)
            .unwrap_or(Reach::Silent),
    )
}

/// Whether a host gets no new session from any of its farms because its agent
/// is not heard.
pub fn is_silent(snapshot: &Snapshot, host: &HostId, now: Timestamp) -> bool {
    reach(snapshot, host, now) == Some(Reach::Silent)
}

impl HostView {
    /// How long our probe has been failing. A tunnel that stood after it began
    /// to fail proves the host: then the probe's path is blocked, not the host.
    pub fn failing_for(&self, now: Timestamp) -> Option<Duration> {
        let Probe::Failing { since } = self.probe else {
            return None;
        };
        (!self.is_proven()).then(|| now.since(since))
    }

    /// Whether a tunnel that is open stood after our probe began to fail.
    pub fn is_proven(&self) -> bool {
        let Probe::Failing { since } = self.probe else {
            return false;
        };
        let mut stood = self.tunnels.iter().filter_map(|tunnel| tunnel.stood);
        stood.any(|at| at >= since)
    }

    /// Whether new sessions can reach this host, by itself.
    pub fn reach(&self, offline_after: Duration, now: Timestamp) -> Reach {
        if self.failing_for(now).is_some() {
            return Reach::Dead;
        }
        match (&self.report, self.probe) {
            (Some(report), _) if report.age(now) > offline_after => Reach::Silent,
            (Some(_), _) => Reach::Online,
            // Failing, yet proven by a tunnel.
            (None, Probe::Answering { .. } | Probe::Failing { .. }) => Reach::Online,
            (None, Probe::Unknown) => Reach::Unknown,
        }
    }

    /// The same in a farm, where silence has a meaning of its own.
    pub fn reach_amid(&self, silence: Silence, now: Timestamp) -> Reach {
        match (self.reach(silence.offline_after, now), self.probe) {
            (Reach::Silent, Probe::Unknown) if silence.is_young => Reach::Unknown,
            (Reach::Silent, Probe::Answering { .. } | Probe::Failing { .. })
                if silence.is_young || silence.is_total =>
            {
                Reach::LastKnown
            }
            (reach, _) => reach,
        }
    }
}

impl Reach {
    /// Whether new sessions go there.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Online | Self::LastKnown)
    }
}
