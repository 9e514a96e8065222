//! Farms and hosts at a glance: of each farm how full it is, and only those hosts
//! that somebody may want to look into.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::age;
use super::order::Order;
use super::table::{Paint, Table, Tone, plain};

/// Farms shown; the whole list is `farms`'.
const FARMS: usize = 8;
/// Hosts shown; the whole list is `hosts`'.
const HOSTS: usize = 10;
/// Breakers and orders told of these hosts.
const NOTES: usize = 6;

#[derive(Debug, Deserialize)]
pub(super) struct Host {
    id: String,
    address: Option<String>,
    farms: Vec<String>,
    mode: String,
    mode_configured: String,
    order: Option<Order>,
    announced: Vec<Order>,
    reach: String,
    probe: String,
    probe_seconds: Option<u64>,
    breaker: Option<Breaker>,
    report_age_seconds: Option<u64>,
    active: u32,
    disconnected: u32,
    occupancy: Option<Occupancy>,
    agent: Option<Agent>,
    tunnels: u64,
    newcomer: Vec<Newcomer>,
}

#[derive(Debug, Deserialize)]
struct Breaker {
    said: String,
}

#[derive(Debug, Deserialize)]
struct Occupancy {
    users: u32,
}

#[derive(Debug, Deserialize)]
struct Agent {
    failed_checks: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Newcomer {
    farm: String,
    out: Option<String>,
}

/// What keeps a host from being as it should, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// It does not answer.
    Failing,
    /// Its agent is not heard, or finds fault.
    Alarmed,
    /// It takes nobody new, though nobody ordered that.
    Out,
    /// Somebody ordered that.
    Ordered,
    /// Somebody will have.
    Announced,
}

/// Sums over a farm's hosts.
#[derive(Debug, Default)]
struct Farm {
    hosts: usize,
    open: usize,
    users: u64,
    active: u64,
    disconnected: u64,
    tunnels: u64,
}

/// Farms, hosts in trouble and what was ordered of them, as text.
pub(super) fn show(hosts: &[Host], paint: Paint) -> String {
    let mut shown = farms(hosts, paint);
    let mut troubled: Vec<_> = hosts
        .iter()
        .filter_map(|host| Some((host.trouble()?, host)))
        .collect();
    troubled.sort_by_key(|(trouble, _)| *trouble);
    shown.push('\n');
    if troubled.is_empty() {
        shown.push_str("every host is online and open\n");
        return shown;
    }
    let mut table = Table::new(&[
        "host", "address", "farms", "mode", "reach", "probe", "report", "users", "tunnels", "why",
    ]);
    for (trouble, host) in troubled.iter().take(HOSTS) {
        table.row(host.row(*trouble));
    }
    shown.push_str(&table.show(paint));
    rest(&mut shown, troubled.len(), HOSTS, "sessionguard hosts");
    let listed = || troubled.iter().take(HOSTS).map(|(_, host)| host);
    let breakers = listed().filter_map(|host| host.breaker());
    let orders = listed().flat_map(|host| host.orders());
    let notes: Vec<_> = breakers.chain(orders).collect();
    if !notes.is_empty() {
        shown.push('\n');
    }
    for note in notes.iter().take(NOTES) {
        // Writing to a text cannot fail.
        let _ = writeln!(shown, "{note}");
    }
    rest(
        &mut shown,
        notes.len(),
        NOTES,
        "sessionguard status -o json",
    );
    shown
}

/// How many are not shown, and what shows them.
fn rest(shown: &mut String, all: usize, most: usize, command: &str) {
    if all > most {
        // Writing to a text cannot fail.
        let _ = writeln!(shown, "and {} more: {command}", all - most);
    }
}

fn farms(hosts: &[Host], paint: Paint) -> String {
    let mut farms: BTreeMap<&str, Farm> = BTreeMap::new();
    for host in hosts {
        for id in &host.farms {
            farms.entry(id).or_default().count(id, host);
        }
    }
    let mut table = Table::new(&["farm", "hosts open", "users", "active", "left", "tunnels"]);
    for (id, farm) in farms.iter().take(FARMS) {
        table.row(farm.row(id));
    }
    let mut shown = table.show(paint);
    rest(&mut shown, farms.len(), FARMS, "sessionguard farms");
    shown
}

impl Farm {
    fn count(&mut self, id: &str, host: &Host) {
        self.hosts += 1;
        self.open += usize::from(host.is_open_in(id));
        self.users += host.occupancy.as_ref().map_or(0, |o| u64::from(o.users));
        self.active += u64::from(host.active);
        self.disconnected += u64::from(host.disconnected);
        self.tunnels += host.tunnels;
    }

    fn row(&self, id: &str) -> Vec<(String, Tone)> {
        let tone = match self.open {
            0 => Tone::Bad,
            _ => Tone::Good,
        };
        vec![
            (id.to_owned(), Tone::Strong),
            (format!("{} of {}", self.open, self.hosts), tone),
            plain(self.users),
            plain(self.active),
            plain(self.disconnected),
            plain(self.tunnels),
        ]
    }
}

impl Host {
    fn is_open_in(&self, farm: &str) -> bool {
        let mut says = self.newcomer.iter();
        says.any(|says| says.farm == farm && says.out.is_none())
    }

    /// Why nobody new is placed there, where users failed there.
    fn breaker(&self) -> Option<String> {
        let breaker = self.breaker.as_ref();
        breaker.map(|breaker| format!("{}: {}", self.id, breaker.said))
    }

    fn trouble(&self) -> Option<Trouble> {
        let agent = self.agent.as_ref();
        let checks_fail = agent.is_some_and(|agent| !agent.failed_checks.is_empty());
        let unheard = !matches!(self.reach.as_str(), "online" | "dead");
        if self.mode != "online" {
            return Some(Trouble::Ordered);
        }
        if self.reach == "dead" || self.probe == "failing" {
            return Some(Trouble::Failing);
        }
        if unheard || checks_fail || self.address.is_none() {
            return Some(Trouble::Alarmed);
        }
        if self.newcomer.iter().any(|says| says.out.is_some()) {
            return Some(Trouble::Out);
        }
        (!self.announced.is_empty()).then_some(Trouble::Announced)
    }

    /// In a few words; mode, reach and probe have columns of their own.
    fn why(&self, trouble: Trouble) -> String {
        let checks = self
            .agent
            .as_ref()
            .map(|agent| agent.failed_checks.as_slice());
        match (trouble, checks) {
            (Trouble::Ordered, _) => String::new(),
            (Trouble::Announced, _) => "an order is to come".to_owned(),
            (_, Some([first, ..])) => first.clone(),
            _ => {
                let mut reasons = self.newcomer.iter().filter_map(|says| says.out.clone());
                reasons.next().unwrap_or_default()
            }
        }
    }

    /// What was ordered: a mode from the configuration needs no line.
    fn orders(&self) -> Vec<String> {
        let is_plain = self.mode == "online" && self.mode_configured == "online";
        let holds = self.order.iter().filter(|_| !is_plain);
        let holds = holds.map(|order| ("", order));
        let comes = self.announced.iter().map(|order| ("announced: ", order));
        holds
            .chain(comes)
            .map(|(when, order)| format!("{}: {when}{}", self.id, order.show()))
            .collect()
    }

    fn row(&self, trouble: Trouble) -> Vec<(String, Tone)> {
        let tone = |good: bool| if good { Tone::Good } else { Tone::Bad };
        let users = self.occupancy.as_ref().map(|o| o.users.to_string());
        vec![
            (self.id.clone(), Tone::Strong),
            plain(self.address.as_deref().unwrap_or("taken out")),
            plain(self.farms.join(" ")),
            (self.mode.clone(), tone(self.mode == "online")),
            (self.reach.clone(), tone(self.reach == "online")),
            plain(match self.probe_seconds {
                Some(seconds) => format!("{} {}", self.probe, age(seconds)),
                None => self.probe.clone(),
            }),
            plain(
                self.report_age_seconds
                    .map_or_else(|| "no agent".to_owned(), age),
            ),
            plain(users.unwrap_or_default()),
            plain(self.tunnels),
            plain(self.why(trouble)),
        ]
    }
}
