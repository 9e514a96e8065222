//! Reads the tables of settings: `[broker]`, `[identity]`, `[guacd]`,
//! `[[listen]]`, `[probe]`, `[store]`, `[log]`.
//!
//! Each may stand in several files; a key set again replaces the earlier one.
//! Ranges are wide: they refuse what cannot work, not what is unusual.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::placement::IdentitySource;

use super::draft::{Gathered, ScoreDraft};
use super::names::{id, name};
use super::network::{host_port, listen_address};
use super::node::{Located, Node};
use super::reader::Reader;
use super::report::Report;
use super::settings::{Listen, LogFormat, LogLevel};
use super::shape::Shape;
use super::value_error::ValueError;
use super::values::{number, seconds, switch, time, word};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const DAY: u64 = 86_400;
const LEASE: RangeInclusive<u64> = 30..=30 * DAY;
const OFFLINE_AFTER: RangeInclusive<u64> = 1..=DAY;
const FAILOVER: RangeInclusive<Duration> = s(0)..=s(3600);
/// guacd hangs up 15 s after its last input; a second is kept for the answer.
const PLACEMENT: RangeInclusive<Duration> = s(1)..=s(14);
const DRAIN: RangeInclusive<Duration> = s(0)..=s(30 * DAY);
const CONNECT: RangeInclusive<Duration> = ms(100)..=s(14);
const FIRST_BYTE: RangeInclusive<Duration> = s(1)..=s(600);
const HANDSHAKE: RangeInclusive<Duration> = s(1)..=s(60);
const PROBE_INTERVAL: RangeInclusive<Duration> = s(1)..=s(3600);
const PROBE_TIMEOUT: RangeInclusive<Duration> = ms(50)..=s(60);
const WEIGHT: RangeInclusive<u32> = 0..=10_000;
pub(super) const HEALTH: RangeInclusive<u8> = 0..=100;

pub(super) fn broker(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Broker, node, report) else {
        return;
    };
    let rules = &mut into.rules;
    let timeouts = &mut into.config.timeouts;
    table.set("reconnect_existing", &mut rules.reconnect_existing, switch);
    table.set(
        "single_session_per_user",
        &mut rules.single_session_per_user,
        switch,
    );
    table.set("lease_seconds", &mut rules.lease, seconds(LEASE));
    table.set(
        "min_health_score",
        &mut rules.min_health_score,
        number(HEALTH),
    );
    table.set(
        "offline_after_seconds",
        &mut rules.offline_after,
        seconds(OFFLINE_AFTER),
    );
    table.set(
        "reconnect_failover",
        &mut rules.reconnect_failover,
        time(FAILOVER),
    );
    table.set(
        "allow_farm_selector",
        &mut rules.allow_farm_selector,
        switch,
    );
    table.set(
        "placement_timeout",
        &mut timeouts.placement,
        time(PLACEMENT),
    );
    table.set("drain_timeout", &mut timeouts.drain, time(DRAIN));
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
    let mut weight = |key| table.read(key, number(WEIGHT)).map(|found| found.value);
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
    if let Some(domain) = table.read("default_domain", name) {
        rules.default_domain = Some(domain.value);
    }
}

const SOURCES: &[(&str, IdentitySource)] = &[
    ("username", IdentitySource::Username),
    ("name", IdentitySource::Name),
];

fn read_order(table: &mut Reader<'_>) -> Option<Vec<IdentitySource>> {
    let order = table.list("order", word(SOURCES))?;
    if order.value.is_empty() {
        table.refuse("order", order.at, ValueError::EmptyList);
    }
    Some(order.value.into_iter().map(|source| source.value).collect())
}

pub(super) fn guacd(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Guacd, node, report) else {
        return;
    };
    let guacd = &mut into.config.guacd;
    table.set("address", &mut guacd.address, host_port);
    table.set("connect_timeout", &mut guacd.connect_timeout, time(CONNECT));
}

pub(super) fn listen(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Listen, node, report) else {
        return;
    };
    let mut listen = Listen::default();
    let address = table.require("address", listen_address);
    table.set(
        "first_byte_timeout",
        &mut listen.first_byte_timeout,
        time(FIRST_BYTE),
    );
    table.set(
        "handshake_timeout",
        &mut listen.handshake_timeout,
        time(HANDSHAKE),
    );
    if let Some(address) = address {
        listen.address = address.value;
        let at = address.at;
        into.listen.push(Located { value: listen, at });
    }
}

pub(super) fn probe(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Probe, node, report) else {
        return;
    };
    let probe = &mut into.config.probe;
    table.set("interval", &mut probe.interval, time(PROBE_INTERVAL));
    table.set("timeout", &mut probe.timeout, time(PROBE_TIMEOUT));
}

pub(super) fn store(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Store, node, report) else {
        return;
    };
    let path = |node: &Node| name(node).map(PathBuf::from);
    table.set("path", &mut into.config.store.path, path);
}

pub(super) fn log(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Log, node, report) else {
        return;
    };
    let log = &mut into.config.log;
    table.set("level", &mut log.level, word(LEVELS));
    table.set("format", &mut log.format, word(FORMATS));
}

const LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];
