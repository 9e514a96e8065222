//! Reads the tables of settings: `[broker]`, `[identity]`, `[[listen]]`,
//! `[probe]`, `[api]`, `[health]`, `[limits]`, `[log]`; [`super::guacd`] reads
//! `[guacd]`, [`super::store`] `[store]`.
//!
//! Each may stand in several files; a key set again replaces the earlier one.
//! The ranges are in [`super::keys`].

use crate::placement::IdentitySource;

use super::draft::{Gathered, ListenDraft, ScoreDraft};
use super::guacd::advertised;
use super::keys;
use super::names::{id, name, place, secret_file};
use super::network::{collector_or_off, listen_address, listen_address_or_off};
use super::node::{Located, Node};
use super::problem::Problem;
use super::reader::{Reader, put};
use super::report::Report;
use super::settings::{AdminSocket, AuditTarget, Listen};
use super::shape::Shape;
use super::tls;
use super::value_error::ValueError;
use super::values::word;
use super::words::{CONDUCTS, FORMATS, LEVELS, SOURCES, TRUST_AGENTS, UNMATCHED};

pub(super) fn broker(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Broker, node, report) else {
        return;
    };
    let rules = &mut into.rules;
    put(&mut rules.conduct, table.read("mode", word(CONDUCTS)));
    put(
        &mut rules.unmatched,
        table.read("unmatched", word(UNMATCHED)),
    );
    put(
        &mut rules.reconnect_existing,
        table.switch("reconnect_existing"),
    );
    put(
        &mut rules.single_session_per_user,
        table.switch("single_session_per_user"),
    );
    put(&mut rules.lease, table.time("lease_seconds"));
    put(
        &mut rules.min_health_score,
        table.number("min_health_score"),
    );
    put(
        &mut rules.offline_after,
        table.time("offline_after_seconds"),
    );
    put(
        &mut rules.reconnect_failover,
        table.time("reconnect_failover"),
    );
    put(
        &mut rules.max_sessions,
        table.number("max_sessions").map(Located::some),
    );
    put(
        &mut rules.max_pending_logons,
        table.number("max_pending_logons"),
    );
    put(&mut rules.slow_start, table.time("slow_start"));
    put(
        &mut rules.max_tunnels_per_user,
        table.number("max_tunnels_per_user").map(Located::some),
    );
    put(
        &mut rules.trust_agents,
        table.read("trust_agents", word(TRUST_AGENTS)),
    );
    put(
        &mut rules.agent_trust_threshold,
        table.number("agent_trust_threshold"),
    );
    put(
        &mut rules.allow_farm_selector,
        table.switch("allow_farm_selector"),
    );
    let timeouts = &mut into.config.timeouts;
    put(&mut timeouts.placement, table.time("placement_timeout"));
    put(&mut timeouts.drain, table.time("drain_timeout"));
    let attempts = &mut into.config.attempts;
    put(&mut attempts.most, table.number("max_attempts"));
    put(&mut attempts.deadline, table.time("attempt_deadline"));
    into.has_default_farm |= table.has("default_farm");
    if let Some(farm) = table.read("default_farm", id) {
        into.default_farm = Some(farm);
    }
    if let Some(score) = table.inner("score", Shape::BrokerScore) {
        into.rules.weights = read_score(score).over(into.rules.weights);
    }
}

/// A farm may name some of the weights; the others stay global.
pub(super) fn read_score(mut table: Reader<'_>) -> ScoreDraft {
    let mut weight = |key| table.number(key).map(|found| found.value);
    ScoreDraft {
        health: weight("health"),
        active: weight("active"),
        disconnected: weight("disconnected"),
        cpu: weight("cpu"),
        memory: weight("memory"),
    }
}

pub(super) fn identity(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Identity, node, report) else {
        return;
    };
    let rules = &mut into.rules;
    if let Some(order) = read_order(&mut table) {
        rules.identity_order = order;
    }
    put(
        &mut rules.default_domain,
        table.read("default_domain", name).map(Located::some),
    );
    put(&mut rules.require_match, table.switch("require_match"));
    rules.domains.extend(table.domains("domains"));
}

fn read_order(table: &mut Reader<'_>) -> Option<Vec<IdentitySource>> {
    let order = table.list("order", word(SOURCES))?;
    if order.value.is_empty() {
        table.refuse("order", order.at, ValueError::EmptyList);
    }
    Some(order.value.into_iter().map(|source| source.value).collect())
}

pub(super) fn listen(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Listen, node, report) else {
        return;
    };
    let address = table.require("address", listen_address);
    let mut draft = ListenDraft::default();
    read_listener(&mut table, &mut draft);
    if let Some(address) = address {
        draft.listen.address = address.value;
        draft.address_at = Some(address.at);
        into.listen.push(draft);
    }
}

/// What the environment says of the listener, where there is but one.
pub(super) fn only_listener(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Listen, node, report) else {
        return;
    };
    if into.listen.len() > 1 {
        table.fault_here(Problem::WhichListener);
        return;
    }
    let mut draft = into.listen.pop().unwrap_or_default();
    if let Some(address) = table.read("address", listen_address) {
        draft.listen.address = address.value;
        draft.address_at = Some(address.at);
    }
    read_listener(&mut table, &mut draft);
    into.listen.push(draft);
}

fn read_listener(table: &mut Reader<'_>, draft: &mut ListenDraft) {
    let Listen {
        source,
        first_byte_timeout,
        handshake_timeout,
        advertise,
        ..
    } = &mut draft.listen;
    let reached = table.read("advertise", advertised);
    draft.advertise_at = reached.as_ref().map(|it| it.at).or(draft.advertise_at);
    put(advertise, reached.map(Located::some));
    put(source, table.read("source", name).map(Located::some));
    put(first_byte_timeout, table.time("first_byte_timeout"));
    let handshake = table.time("handshake_timeout");
    draft.handshake_at = handshake
        .as_ref()
        .map(|found| found.at)
        .or(draft.handshake_at);
    put(handshake_timeout, handshake);
    tls::read_server(table, &mut draft.tls);
}

pub(super) fn probe(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Probe, node, report) else {
        return;
    };
    let probe = &mut into.config.probe;
    put(&mut probe.interval, table.time("interval"));
    put(&mut probe.timeout, table.time("timeout"));
}

pub(super) fn api(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Api, node, report) else {
        return;
    };
    let socket = |node: &Node| {
        Ok(match place(keys::SOCKET)(node)? {
            Ok(_) => AdminSocket::Off,
            Err(path) => AdminSocket::At(path),
        })
    };
    let api = &mut into.config.api;
    let socket = table.read("socket", socket).map(|found| Located {
        value: match found.value {
            AdminSocket::At(path) => AdminSocket::At(table.beside_main_file(&path)),
            other => other,
        },
        at: found.at,
    });
    put(&mut api.socket, socket);
    put(&mut api.listen, table.read("listen", listen_address_or_off));
    put(&mut api.insecure, table.switch("insecure"));
    tls::read_server(&mut table, &mut into.api_tls);
    let broker_key = table.file("broker_key_file", secret_file);
    put(&mut api.broker_key_file, broker_key.map(Located::some));
    let admin_key = table.file("admin_key_file", secret_file);
    put(&mut api.admin_key_file, admin_key.map(Located::some));
}

pub(super) fn health(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Health, node, report) else {
        return;
    };
    let listen = table.read("listen", listen_address_or_off);
    put(&mut into.config.health.listen, listen);
}

pub(super) fn limits(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Limits, node, report) else {
        return;
    };
    let limits = &mut into.config.limits;
    let most = table.number("max_tunnels").map(Located::some);
    put(&mut limits.max_tunnels, most);
    put(&mut limits.max_guacd_dials, table.number("max_guacd_dials"));
    put(&mut limits.stall, table.time("stall_timeout"));
}

pub(super) fn log(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Log, node, report) else {
        return;
    };
    let log = &mut into.config.log;
    put(&mut log.level, table.read("level", word(LEVELS)));
    put(&mut log.format, table.read("format", word(FORMATS)));
    let file = |node: &Node| Ok(place(keys::LOG_FILE)(node)?.err());
    let file = table.read("file", file).map(|found| Located {
        value: found.value.map(|path| table.beside_main_file(&path)),
        at: found.at,
    });
    put(&mut log.file, file);
    let audit = |node: &Node| {
        Ok(match place(keys::AUDIT)(node)? {
            Ok(0) => AuditTarget::Off,
            Ok(_) => AuditTarget::Stdout,
            Err(path) => AuditTarget::File(path),
        })
    };
    let audit = table.read("audit", audit).map(|found| Located {
        value: match found.value {
            AuditTarget::File(path) => AuditTarget::File(table.beside_main_file(&path)),
            other => other,
        },
        at: found.at,
    });
    put(&mut log.audit, audit);
    put(&mut log.traces, table.read("traces", collector_or_off));
    put(&mut log.traces_users, table.switch("traces_users"));
}
