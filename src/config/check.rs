//! Judges what was gathered as a whole and makes the [`Config`] of it.
//!
//! Refuses what would make a decision depend on chance: equal ids, two hosts at
//! one address, two resources that one connection could mean. Warns of what
//! leads nowhere but leaves the rest sound.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

use crate::placement::{Directory, ResourceKind};

use super::draft::{Gathered, ResourceDraft};
use super::node::{At, Located};
use super::problem::Problem;
use super::report::Report;
use super::settings::{Config, Listen};

/// Reports what is wrong with the whole; the result counts only if nothing is.
pub(super) fn conclude(mut gathered: Gathered, report: &mut Report) -> Config {
    refuse_equal_ids(&gathered, report);
    refuse_equal_addresses(&gathered, report);
    refuse_equal_matchers(&gathered.resources, report);
    refuse_overlapping_probes(&gathered.config, report);
    warn_of_empty_tags(&gathered, report);
    if !gathered.incomplete {
        follow_references(&gathered, report);
    }
    assemble(&mut gathered)
}

/// Reports every item whose key an earlier one has.
fn refuse_equal<K: Ord + Clone>(
    items: impl IntoIterator<Item = (K, At)>,
    report: &mut Report,
    problem: impl Fn(K) -> Problem,
) {
    let mut seen = BTreeMap::new();
    for (key, at) in items {
        match seen.get(&key) {
            Some(first) => report.collision(at, *first, problem(key)),
            None => {
                seen.insert(key, at);
            }
        }
    }
}

fn refuse_equal_ids(gathered: &Gathered, report: &mut Report) {
    let equal = |kind| move |id: String| Problem::EqualIds { kind, id };
    refuse_equal(texts(&gathered.host_ids), report, equal("hosts"));
    refuse_equal(texts(&gathered.farm_ids), report, equal("farms"));
    refuse_equal(texts(&gathered.resource_ids), report, equal("resources"));
}

fn texts<T: ToString>(ids: &[Located<T>]) -> impl Iterator<Item = (String, At)> {
    ids.iter().map(|id| (id.value.to_string(), id.at))
}

fn refuse_equal_addresses(gathered: &Gathered, report: &mut Report) {
    let hosts = gathered.hosts.iter().map(|draft| {
        let host = &draft.host;
        let name = host.address.to_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
        ((name, host.port), draft.address_at)
    });
    refuse_equal(hosts, report, |(name, port)| Problem::EqualAddresses {
        address: format!("{name} port {port}"),
    });
    // Port 0 asks for any free one, so two of these do not collide.
    let listeners = gathered
        .listen
        .iter()
        .filter(|l| l.value.address.port() != 0);
    let listeners = listeners.map(|listen| (listen.value.address, listen.at));
    refuse_equal(listeners, report, |address: SocketAddr| {
        Problem::EqualListeners {
            address: address.to_string(),
        }
    });
}

fn refuse_equal_matchers(resources: &[ResourceDraft], report: &mut Report) {
    let enabled = || resources.iter().filter(|draft| draft.resource.enabled);
    let ids = enabled().filter_map(|draft| {
        let id = draft.resource.guacamole_connection_id.clone();
        id.zip(draft.connection_id_at)
    });
    refuse_equal(ids, report, |id| Problem::EqualConnectionIds { id });

    let names = enabled().filter_map(|draft| {
        let name = draft.resource.guacamole_connection_name.as_deref();
        name.map(fold).zip(draft.connection_name_at)
    });
    refuse_equal(names, report, |name| Problem::EqualConnectionNames { name });

    let hostnames = enabled().flat_map(|draft| {
        let alias = match &draft.resource.kind {
            // As Windows compares aliases.
            ResourceKind::RemoteApp(app) => Some(app.alias.to_lowercase()),
            ResourceKind::Desktop => None,
        };
        let named = draft.hostnames.iter();
        named.map(move |name| ((name.value.clone(), alias.clone()), name.at))
    });
    refuse_equal(hostnames, report, |(hostname, alias)| {
        Problem::EqualHostnames { hostname, alias }
    });
}

/// The form in which names that differ in case only are one.
fn fold(name: &str) -> String {
    name.nfd().default_case_fold().nfc().collect()
}

fn refuse_overlapping_probes(config: &Config, report: &mut Report) {
    if config.probe.timeout > config.probe.interval {
        let written = ["probe.timeout", "probe.interval"];
        if let Some(at) = written.into_iter().find_map(|key| report.origin_of(key)) {
            report.fault(at, Problem::ProbeOverlap);
        }
    }
}

fn warn_of_empty_tags(gathered: &Gathered, report: &mut Report) {
    for draft in &gathered.farms {
        if let (Some(at), true) = (draft.tags_at, draft.farm.required_tags.is_empty()) {
            let farm = draft.farm.id.to_string();
            report.warning(at, Problem::EmptyTags { farm });
        }
    }
}

fn follow_references(gathered: &Gathered, report: &mut Report) {
    let hosts: BTreeSet<_> = gathered.host_ids.iter().map(|id| &id.value).collect();
    let farms: BTreeSet<_> = gathered.farm_ids.iter().map(|id| &id.value).collect();

    if let Some(farm) = &gathered.default_farm
        && !farms.contains(&farm.value)
    {
        let name = farm.value.to_string();
        report.fault(farm.at, Problem::NoDefaultFarm { farm: name });
    }
    for draft in &gathered.hosts {
        for farm in draft
            .farm_ids
            .iter()
            .filter(|farm| !farms.contains(&farm.value))
        {
            let host = draft.host.id.to_string();
            let farm_id = farm.value.to_string();
            report.warning(
                farm.at,
                Problem::NoFarmOfHost {
                    host,
                    farm: farm_id,
                },
            );
        }
    }
    for draft in &gathered.farms {
        for host in draft
            .agent_ids
            .iter()
            .filter(|host| !hosts.contains(&host.value))
        {
            let farm = draft.farm.id.to_string();
            let host_id = host.value.to_string();
            report.warning(
                host.at,
                Problem::NoHostOfFarm {
                    farm,
                    host: host_id,
                },
            );
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
}

fn assemble(gathered: &mut Gathered) -> Config {
    let mut config = std::mem::take(&mut gathered.config);
    let mut rules = std::mem::take(&mut gathered.rules);
    rules.default_farm = gathered.default_farm.take().map(|farm| farm.value);
    let global = rules.weights;
    let farms = gathered.farms.drain(..).map(|mut draft| {
        draft.farm.overrides.weights = draft.score.map(|score| score.over(global));
        draft.farm
    });
    let hosts = gathered.hosts.drain(..).map(|draft| draft.host);
    let resources = gathered.resources.drain(..).map(|draft| draft.resource);
    config.directory = Arc::new(Directory::new(rules, hosts, farms, resources));
    let listen: Vec<Listen> = gathered
        .listen
        .drain(..)
        .map(|listen| listen.value)
        .collect();
    if !listen.is_empty() {
        config.listen = listen;
    }
    config
}
