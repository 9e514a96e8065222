//! The broker score, term by term.
//!
//! `health * 10 - active * 20 - disconnected * 5 - CPU percent * 2 - memory
//! percent`, weights configurable. A figure nobody reported is the mean of the
//! farm's known ones (zero where none is known), so that a broken counter does
//! not attract users.

use serde::{Deserialize, Serialize};

use super::count::Known;
use super::identity::UserKey;
use super::ids::HostId;
use super::rules::Weights;
use super::snapshot::{HostView, Load};

/// A host's score and what it is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The sum: higher is better.
    pub total: f64,
    /// Health, 0 to 100, before its weight.
    pub health: u8,
    /// Active sessions, before their weight.
    pub active: u32,
    /// Disconnected sessions, before their weight.
    pub disconnected: u32,
    /// CPU percent, before its weight.
    pub cpu: Figure,
    /// Percent of memory used, before its weight.
    pub memory: Figure,
}

/// A percentage, and whether the host itself reported it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// 0 to 100.
    pub percent: f64,
    /// False: the mean of the farm's known hosts stands in.
    pub known: bool,
}

/// Means of what a farm's hosts reported.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Means {
    cpu: f64,
    memory: f64,
}

impl Means {
    /// Over these hosts; zero where no host knows.
    pub fn of<'a>(hosts: impl Iterator<Item = &'a Known> + Clone) -> Self {
        let reports = hosts.filter_map(|host| host.report.as_ref());
        Self {
            cpu: mean(reports.clone().filter_map(|r| percent(r.cpu_percent))),
            memory: mean(reports.filter_map(|r| percent(r.memory_used_percent))),
        }
    }
}

impl Score {
    /// The score of a host with that load, unknown figures taken from `means`.
    pub fn of(host: &HostView, load: Load, means: Means, weights: &Weights) -> Self {
        let report = host.report.as_ref();
        let cpu = figure(report.and_then(|r| r.cpu_percent), means.cpu);
        let memory = figure(report.and_then(|r| r.memory_used_percent), means.memory);
        let Load {
            active,
            disconnected,
        } = load;
        let health = host.health();
        let total = f64::from(health) * f64::from(weights.health)
            - f64::from(active) * f64::from(weights.active)
            - f64::from(disconnected) * f64::from(weights.disconnected)
            - cpu.percent * f64::from(weights.cpu)
            - memory.percent * f64::from(weights.memory);
        Self {
            total,
            health,
            active,
            disconnected,
            cpu,
            memory,
        }
    }

    /// Sessions of both kinds: fewer wins a tie.
    pub fn sessions(&self) -> u64 {
        u64::from(self.active) + u64::from(self.disconnected)
    }
}

fn figure(reported: Option<f64>, mean: f64) -> Figure {
    match percent(reported) {
        Some(percent) => Figure {
            percent,
            known: true,
        },
        None => Figure {
            percent: mean,
            known: false,
        },
    }
}

/// Reported figures are clamped; what is no number is unknown.
fn percent(reported: Option<f64>) -> Option<f64> {
    reported
        .filter(|p| p.is_finite())
        .map(|p| p.clamp(0.0, 100.0))
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), f| (sum + f, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Breaks the last tie: spreads users over equal hosts, the same user always
/// to the same one. FNV-1a over user and host with a final mix, since plain
/// FNV leaves the high bits of short texts alike. Part of the behaviour, so it
/// must not change with a compiler release as the standard hasher may.
pub fn tie_hash(user: Option<&UserKey>, host: &HostId) -> u64 {
    Ties::of(user).hash(host)
}

/// One user's [`tie_hash`] of many hosts, the user hashed once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ties(u64);

impl Ties {
    pub(super) fn of(user: Option<&UserKey>) -> Self {
        let user = user.map(ToString::to_string).unwrap_or_default();
        let start: u64 = 0xcbf2_9ce4_8422_2325;
        Self(user.bytes().chain([0]).fold(start, fnv))
    }

    pub(super) fn hash(self, host: &HostId) -> u64 {
        let hash = host.as_str().bytes().fold(self.0, fnv);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    }
}

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}
