//! Refuses what would make a decision depend on chance: equal ids, two hosts
//! at one address, two resources that one connection could mean.
//!
//! Called by [`super::check`]. Compares as placement does, so that nothing
//! passes here and is ambiguous there.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::placement::{ResourceKind, fold};

use super::draft::{Gathered, ResourceDraft};
use super::node::{At, Located};
use super::problem::Problem;
use super::report::Report;

pub(super) fn refuse(gathered: &Gathered, report: &mut Report) {
    refuse_equal_ids(gathered, report);
    refuse_equal_addresses(gathered, report);
    refuse_equal_matchers(&gathered.resources, report);
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

/// Where the items with one key were seen, by source.
struct Seen<'a> {
    first: At,
    by_source: BTreeMap<Option<&'a str>, At>,
}

/// Reports every item whose key an earlier one has within its source. One
/// without a source stands for all of them.
fn refuse_equal_by_source<'a>(
    items: impl IntoIterator<Item = (String, Option<&'a str>, At)>,
    report: &mut Report,
    problem: impl Fn(String) -> Problem,
) {
    let mut seen: BTreeMap<String, Seen<'a>> = BTreeMap::new();
    for (key, source, at) in items {
        let known = seen.entry(key.clone()).or_insert_with(|| Seen {
            first: at,
            by_source: BTreeMap::new(),
        });
        let earlier = match source {
            None if known.by_source.is_empty() => None,
            None => Some(known.first),
            Some(_) => {
                let same = known.by_source.get(&source);
                same.or_else(|| known.by_source.get(&None)).copied()
            }
        };
        match earlier {
            Some(first) => report.collision(at, first, problem(key)),
            None => {
                known.by_source.insert(source, at);
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
    let listeners = gathered.listen.iter().filter_map(|draft| {
        let address = draft.listen.address;
        draft.address_at.map(|at| (address, at))
    });
    // Port 0 asks for any free one, so two of these do not collide.
    let listeners = listeners.filter(|(address, _)| address.port() != 0);
    refuse_equal(listeners, report, |address: SocketAddr| {
        Problem::EqualListeners {
            address: address.to_string(),
        }
    });
}

fn refuse_equal_matchers(resources: &[ResourceDraft], report: &mut Report) {
    let enabled = || resources.iter().filter(|draft| draft.resource.enabled);
    let ids = enabled().filter_map(|draft| {
        let id = draft.resource.guacamole_connection_id.clone()?;
        Some((
            id,
            draft.resource.source.as_deref(),
            draft.connection_id_at?,
        ))
    });
    refuse_equal_by_source(ids, report, |id| Problem::EqualConnectionIds { id });

    let names = enabled().filter_map(|draft| {
        let name = draft.resource.guacamole_connection_name.as_deref()?;
        Some((
            fold(name),
            draft.resource.source.as_deref(),
            draft.connection_name_at?,
        ))
    });
    refuse_equal_by_source(names, report, |name| Problem::EqualConnectionNames { name });

    let infos = enabled().filter_map(|draft| {
        let info = draft.resource.load_balance_info.clone();
        info.zip(draft.load_balance_at)
    });
    refuse_equal(infos, report, |info| Problem::EqualLoadBalanceInfos {
        info,
    });

    let hostnames = enabled().flat_map(|draft| {
        let alias = match &draft.resource.kind {
            // As Windows compares aliases.
            ResourceKind::RemoteApp(app) => Some(app.alias.to_lowercase()),
            // Both take a connection that asks for no RemoteApp.
            ResourceKind::Desktop | ResourceKind::AsConnected => None,
        };
        let named = draft.hostnames.iter();
        named.map(move |name| ((name.value.clone(), alias.clone()), name.at))
    });
    refuse_equal(hostnames, report, |(hostname, alias)| {
        Problem::EqualHostnames { hostname, alias }
    });
}
