//! Reads hosts, farms and resources.
//!
//! Each object is read to its end whatever is wrong with it. Only a whole one
//! is kept; its id is kept in any case, so that what refers to it is not
//! reported as leading nowhere.

use std::collections::BTreeSet;

use crate::placement::{
    Farm, FarmId, FarmOverrides, Host, HostId, RemoteApp, Resource, ResourceKind, derive_id,
};

use super::draft::{FarmDraft, Gathered, HostDraft, ResourceDraft};
use super::names::{alias, check_id, connection_id, free_text, id, name, parameter_name};
use super::network::{host_address, hostname_matcher};
use super::node::{Located, Node};
use super::parameters;
use super::problem::Problem;
use super::reader::Reader;
use super::report::Report;
use super::sections::read_score;
use super::shape::Shape;
use super::values::{text, word};
use super::words::{KINDS, Kind, MODES};

const RDP_PORT: u16 = 3389;

/// The keys only a RemoteApp has.
const REMOTE_APP_KEYS: [&str; 3] = ["remote_app", "remote_app_dir", "remote_app_args"];

pub(super) fn host(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Host, node, report) else {
        into.incomplete = true;
        return;
    };
    let identity = identify(&mut table);
    let address = table.require("address", host_address);
    let port = table.number("port");
    let farm_ids = table.list("farm_ids", id::<FarmId>);
    let tags = table.texts("tags", name);
    let mode = table.read("mode", word(MODES));
    let max_sessions = table.number("max_sessions");
    let max_pending_logons = table.number("max_pending_logons");
    let parameters = table.parameters("parameters", parameters::refused_in_host);

    let Some(identity) = identity else {
        into.incomplete = true;
        return;
    };
    into.host_ids.push(identity.id.clone());
    let Some(address) = address else { return };
    let farm_ids = farm_ids.map(value).unwrap_or_default();
    into.hosts.push(HostDraft {
        host: Host {
            id: identity.id.value,
            address: address.value,
            port: port.map_or(RDP_PORT, value),
            farm_ids: farm_ids.iter().map(|id| id.value.clone()).collect(),
            tags: tags.map(value).unwrap_or_default(),
            mode: mode.map(value).unwrap_or_default(),
            max_sessions: max_sessions.map(value),
            max_pending_logons: max_pending_logons.map(value),
            parameters,
        },
        address_at: address.at,
        farm_ids,
    });
}

pub(super) fn farm(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Farm, node, report) else {
        into.incomplete = true;
        return;
    };
    let identity = identify(&mut table);
    let enabled = table.switch("enabled");
    let agent_ids = table.list("agent_ids", id::<HostId>);
    let required_tags = table.texts("required_tags", name);
    let reconnect_existing = table.switch("reconnect_existing");
    let min_health_score = table.number("min_health_score");
    let max_sessions = table.number("max_sessions");
    let max_pending_logons = table.number("max_pending_logons");
    let slow_start = table.time("slow_start");
    let default_domain = table.read("default_domain", name);
    let score = table.inner("score", Shape::FarmScore).map(read_score);

    let Some(identity) = identity else {
        into.incomplete = true;
        return;
    };
    into.farm_ids.push(identity.id.clone());
    let agent_ids = agent_ids.map(value).unwrap_or_default();
    let tags_at = required_tags.as_ref().map(|tags| tags.at);
    into.farms.push(FarmDraft {
        farm: Farm {
            id: identity.id.value,
            name: identity.name,
            enabled: enabled.is_none_or(value),
            agent_ids: agent_ids.iter().map(|id| id.value.clone()).collect(),
            required_tags: required_tags.map(value).unwrap_or_default(),
            overrides: FarmOverrides {
                reconnect_existing: reconnect_existing.map(value),
                min_health_score: min_health_score.map(value),
                weights: None,
                default_domain: default_domain.map(value),
                max_sessions: max_sessions.map(value),
                max_pending_logons: max_pending_logons.map(value),
                slow_start: slow_start.map(value),
            },
        },
        agent_ids,
        tags_at,
        score,
    });
}

pub(super) fn resource(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Resource, node, report) else {
        into.incomplete = true;
        return;
    };
    let identity = identify(&mut table);
    let kind = read_kind(&mut table);
    let farm_id = table.read("farm_id", id);
    let enabled = table.switch("enabled");
    let connection_id = table.read("guacamole_connection_id", connection_id);
    let connection_name = table.read("guacamole_connection_name", name);
    let source = table.read("source", name);
    let hostnames = table.list("hostnames", hostname_matcher);
    let load_balance_info = table.read("load_balance_info", name);
    let attempt_deadline = table.time("attempt_deadline");
    let keep_parameters = read_kept(&mut table);
    let parameters = table.parameters("parameters", parameters::refused_in_resource);

    let Some(identity) = identity else {
        into.incomplete = true;
        return;
    };
    into.resource_ids.push(identity.id.clone());
    let Some(kind) = kind else { return };
    let hostnames = hostnames.map(value).unwrap_or_default();
    into.resources.push(ResourceDraft {
        at: identity.id.at,
        farm_at: farm_id.as_ref().map(|found| found.at),
        connection_id_at: connection_id.as_ref().map(|found| found.at),
        connection_name_at: connection_name.as_ref().map(|found| found.at),
        source_at: source.as_ref().map(|found| found.at),
        load_balance_at: load_balance_info.as_ref().map(|found| found.at),
        resource: Resource {
            id: identity.id.value,
            name: identity.name,
            kind,
            farm_id: farm_id.map(value),
            enabled: enabled.is_none_or(value),
            guacamole_connection_id: connection_id.map(value),
            guacamole_connection_name: connection_name.map(value),
            source: source.map(value),
            hostnames: hostnames.iter().map(|name| name.value.clone()).collect(),
            load_balance_info: load_balance_info.map(value),
            attempt_deadline: attempt_deadline.map(value),
            keep_parameters,
            parameters,
        },
        hostnames,
    });
}

fn read_kind(table: &mut Reader<'_>) -> Option<ResourceKind> {
    let kind = table.require("kind", word(KINDS)).map(value);
    let other = match kind {
        Some(Kind::Desktop) => Some(ResourceKind::Desktop),
        Some(Kind::AsConnected) => Some(ResourceKind::AsConnected),
        Some(Kind::RemoteApp) | None => None,
    };
    if other.is_some() {
        for key in REMOTE_APP_KEYS {
            table.forbid(key, Problem::RemoteAppOnly { key });
        }
        return other;
    }
    // Where the kind itself is wrong, these are checked for what they are.
    let alias = match kind {
        Some(_) => table.require("remote_app", alias),
        None => table.read("remote_app", alias),
    };
    let dir = table.read("remote_app_dir", free_text);
    let args = table.read("remote_app_args", free_text);
    kind?;
    Some(ResourceKind::RemoteApp(RemoteApp {
        alias: alias?.value,
        dir: dir.map(value).unwrap_or_default(),
        args: args.map(value).unwrap_or_default(),
    }))
}

/// What is kept only counts where a placement would clear it.
fn read_kept(table: &mut Reader<'_>) -> BTreeSet<String> {
    let kept = table.list("keep_parameters", |node| {
        text(node).and_then(parameter_name)
    });
    let kept = kept.map(value).unwrap_or_default();
    for name in kept
        .iter()
        .filter(|name| !parameters::is_cleared(&name.value))
    {
        let parameter = name.value.clone();
        table.warning(name.at, Problem::KeptAnyway { parameter });
    }
    kept.into_iter().map(value).collect()
}

/// What an object is called.
struct Identity<T> {
    id: Located<T>,
    name: String,
}

/// The id, or one derived from the name; the name, or the id in its place.
fn identify<T>(table: &mut Reader<'_>) -> Option<Identity<T>>
where
    T: From<String> + ToString,
{
    let named = table.read("name", name);
    if table.has("id") {
        let id: Located<T> = table.read("id", id)?;
        let name = named.map_or_else(|| id.value.to_string(), value);
        return Some(Identity { id, name });
    }
    if !table.has("name") {
        let shape = table.shape();
        table.fault_here(Problem::Nameless { shape });
    }
    let Located { value: name, at } = named?;
    let derived = derive_id(&name);
    if derived.is_empty() {
        table.fault(at, Problem::NoDerivedId { name });
        return None;
    }
    if let Err(error) = check_id(&derived) {
        table.refuse("name", at, error);
        return None;
    }
    let id = Located {
        value: derived.into(),
        at,
    };
    Some(Identity { id, name })
}

fn value<T>(found: Located<T>) -> T {
    found.value
}
