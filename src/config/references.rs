//! Warns of what leads nowhere but leaves the rest sound, and advises on what
//! is left to do in Guacamole.
//!
//! Called by [`super::check`]: first with what was gathered, then, where no
//! fault was found, with the finished [`Directory`]. What one warning explains
//! a second one does not repeat.

use std::collections::BTreeSet;

use crate::placement::{Directory, FarmId, Resource};

use super::draft::Gathered;
use super::node::Located;
use super::problem::Problem;
use super::report::Report;

/// References from one object to another that does not exist.
pub(super) fn follow(gathered: &Gathered, report: &mut Report) {
    let hosts: BTreeSet<_> = gathered.host_ids.iter().map(|id| &id.value).collect();
    let farms: BTreeSet<_> = gathered.farm_ids.iter().map(|id| &id.value).collect();

    if let Some(farm) = &gathered.default_farm
        && !farms.contains(&farm.value)
    {
        let name = farm.value.to_string();
        report.fault(farm.at, Problem::NoDefaultFarm { farm: name });
    }
    for draft in &gathered.hosts {
        for farm in absent(&draft.farm_ids, &farms) {
            let host = draft.host.id.to_string();
            let at = farm.at;
            let farm = farm.value.to_string();
            report.warning(at, Problem::NoFarmOfHost { host, farm });
        }
    }
    for draft in &gathered.farms {
        for host in absent(&draft.agent_ids, &hosts) {
            let farm = draft.farm.id.to_string();
            let at = host.at;
            let host = host.value.to_string();
            report.warning(at, Problem::NoHostOfFarm { farm, host });
        }
    }
    for draft in &gathered.resources {
        let resource = draft.resource.id.to_string();
        match (&draft.resource.farm_id, draft.farm_at) {
            (Some(farm), Some(at)) if !farms.contains(farm) => {
                let farm = farm.to_string();
                report.warning(at, Problem::NoFarmOfResource { resource, farm });
            }
            (None, _) if !gathered.has_default_farm => {
                report.warning(draft.at, Problem::Farmless { resource });
            }
            _ => {}
        }
    }
    follow_sources(gathered, report);
}

fn absent<'a, T: Ord>(
    named: &'a [Located<T>],
    known: &BTreeSet<&T>,
) -> impl Iterator<Item = &'a Located<T>> {
    named.iter().filter(|id| !known.contains(&id.value))
}

fn follow_sources(gathered: &Gathered, report: &mut Report) {
    let listeners = gathered.listen.iter();
    let known: BTreeSet<_> = listeners
        .filter_map(|draft| draft.listen.source.as_ref())
        .collect();
    for draft in &gathered.resources {
        if let (Some(source), Some(at)) = (&draft.resource.source, draft.source_at)
            && !known.contains(source)
        {
            let resource = draft.resource.id.to_string();
            let name = source.clone();
            report.warning(at, Problem::NoListenerOfSource { resource, name });
        }
    }
}

/// What the objects come to together.
#[derive(Debug)]
pub(super) struct Members {
    /// Farms whose lack of hosts was already warned of.
    explained: BTreeSet<FarmId>,
}

impl Members {
    /// Takes from the drafts what the directory no longer knows.
    pub(super) fn note(gathered: &Gathered) -> Self {
        let farms = gathered.farms.iter();
        let explained = farms.filter(|draft| {
            let empty_tags = draft.tags_at.is_some() && draft.farm.required_tags.is_empty();
            empty_tags || !draft.agent_ids.is_empty()
        });
        Self {
            explained: explained.map(|draft| draft.farm.id.clone()).collect(),
        }
    }

    /// Hosts nobody is placed on, farms that place nobody.
    pub(super) fn judge(&self, gathered: &Gathered, directory: &Directory, report: &mut Report) {
        let farms = directory.farms();
        let members: BTreeSet<_> = farms.flat_map(|farm| directory.members(&farm.id)).collect();
        for id in &gathered.host_ids {
            let host = directory.host(&id.value);
            // A host that names farms was warned of: none of them exists.
            if host.is_some_and(|host| host.farm_ids.is_empty()) && !members.contains(&id.value) {
                let host = id.value.to_string();
                report.warning(id.at, Problem::HostInNoFarm { host });
            }
        }
        for id in &gathered.farm_ids {
            let enabled = directory.farm(&id.value).is_some_and(|farm| farm.enabled);
            let empty = directory.members(&id.value).next().is_none();
            if enabled && empty && !self.explained.contains(&id.value) {
                let farm = id.value.to_string();
                let problem = Problem::FarmWithoutHosts { farm };
                // Where no host is written down at all, somebody is still at it.
                match gathered.host_ids.is_empty() {
                    true => report.advice(id.at, problem),
                    false => report.warning(id.at, problem),
                }
            }
        }
        if let Some(id) = &gathered.default_farm
            && directory.farm(&id.value).is_some_and(|farm| !farm.enabled)
        {
            let farm = id.value.to_string();
            report.warning(id.at, Problem::DefaultFarmDisabled { farm });
        }
    }
}

/// Tells what to type where no host name in a connection leads to a resource.
pub(super) fn advise(gathered: &Gathered, directory: &Directory, report: &mut Report) {
    for id in &gathered.resource_ids {
        let resource = directory.resource(&id.value);
        if let Some(resource) = resource.filter(|r| r.enabled && needs_selector(r)) {
            let problem = Problem::NeedsSelector {
                resource: resource.id.to_string(),
                selector: selector(resource),
            };
            report.advice(id.at, problem);
        }
    }
}

fn needs_selector(resource: &Resource) -> bool {
    resource.hostnames.is_empty() && resource.load_balance_info.is_none()
}

/// The text that names this resource in a connection's hostname.
fn selector(resource: &Resource) -> String {
    let Resource {
        id,
        guacamole_connection_id,
        guacamole_connection_name,
        ..
    } = resource;
    match (guacamole_connection_name, guacamole_connection_id) {
        // The name takes the rest of the text, so that it may hold anything.
        (Some(name), _) => format!("sessionguard:name={name}"),
        (None, Some(number)) if !number.contains(';') => format!("sessionguard:id={number}"),
        (None, _) => format!("sessionguard:resource={id}"),
    }
}
