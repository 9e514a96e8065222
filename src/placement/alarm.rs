//! What somebody should look into, as plain facts: whoever watches says it once
//! when it begins and once when it is over.

use std::collections::BTreeSet;
use std::fmt;

use super::ids::{FarmId, HostId};
use super::reach::{Reach, Silence};
use super::snapshot::Snapshot;
use super::time::Timestamp;
use super::trust::{Mistrust, on_two_hosts};

/// One such fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// Not a single agent of the farm is heard while its hosts answer: placed
    /// is on what was known last.
    AgentsSilent(FarmId),
    /// Fresh reports show users on two hosts of the farm at once.
    UsersOnTwoHosts(FarmId),
    /// The host's agent names more users than it has sessions.
    AgentOverclaims(HostId),
    /// The host names many users at once whom we never took there.
    AgentClaimsStrangers(HostId),
}

impl Alarm {
    /// Every kind there is.
    pub const KINDS: [&'static str; 4] = [
        "agents-silent",
        "users-on-two-hosts",
        "agent-overclaims",
        "agent-claims-strangers",
    ];

    /// Of which kind it is, in a word for machines.
    pub fn kind(&self) -> &'static str {
        let [silent, two_hosts, overclaims, strangers] = Self::KINDS;
        match self {
            Self::AgentsSilent(_) => silent,
            Self::UsersOnTwoHosts(_) => two_hosts,
            Self::AgentOverclaims(_) => overclaims,
            Self::AgentClaimsStrangers(_) => strangers,
        }
    }
}

/// Everything that should be looked into at this moment.
pub fn alarms(snapshot: &Snapshot, now: Timestamp) -> BTreeSet<Alarm> {
    let mut sounding = silent_farms(snapshot, now);
    sounding.extend(
        on_two_hosts(snapshot, now)
            .into_keys()
            .map(Alarm::UsersOnTwoHosts),
    );
    let rules = snapshot.directory.rules();
    let hosts = snapshot.hosts.iter();
    sounding.extend(hosts.filter_map(|(id, view)| match view.mistrust(rules)? {
        Mistrust::Overclaims => Some(Alarm::AgentOverclaims(id.clone())),
        Mistrust::Strangers => Some(Alarm::AgentClaimsStrangers(id.clone())),
        // Of one claim, not of the agent.
        Mistrust::Contradicted | Mistrust::NotInHistory => None,
    }));
    sounding
}

fn silent_farms(snapshot: &Snapshot, now: Timestamp) -> BTreeSet<Alarm> {
    let rules = snapshot.directory.rules();
    // Before that, silence says nothing.
    if now.since(snapshot.started) < rules.offline_after {
        return BTreeSet::new();
    }
    let farms = snapshot.directory.farms();
    let silent = farms.filter(|farm| {
        let silence = Silence::of(snapshot, &farm.id, now);
        let mut hosts = snapshot.directory.members(&farm.id);
        hosts.any(|id| {
            let view = snapshot.hosts.get(id);
            view.is_some_and(|view| view.reach_amid(silence, now) == Reach::LastKnown)
        })
    });
    silent
        .map(|farm| Alarm::AgentsSilent(farm.id.clone()))
        .collect()
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentsSilent(farm) => write!(
                f,
                "no agent of farm {farm} is heard while its hosts answer: placing on what was \
                 known last"
            ),
            Self::UsersOnTwoHosts(farm) => write!(
                f,
                "users of farm {farm} have sessions on two of its hosts at once, as these report"
            ),
            Self::AgentOverclaims(host) => write!(
                f,
                "the agent of host {host} names more users than it has sessions: only what we \
                 know ourselves is believed of its sessions"
            ),
            Self::AgentClaimsStrangers(host) => write!(
                f,
                "host {host} names many users at once whom we never took there: only what we \
                 know ourselves is believed of its sessions"
            ),
        }
    }
}
