//! I2: nobody is placed on a host behind an acknowledged maintenance. I11: a draining host gets
//! returning users only. I14: new sessions never push a host beyond its bound.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::history::{Before, Event, Host, Mode, Moment, User, What};
use super::picture::{Claim, Picture, Span, Tunnel};
use super::{Rules, Violation};

/// For so long a session that is gone may still be what leads its user back.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A seat is free a moment before guacd sees that it is.
const SEEN: Duration = Duration::from_millis(500);

/// Within that what one replica hears reaches the others.
const TOLD: Duration = Duration::from_secs(3);

/// How long a replica may need to know everything again.
const RECOVERED: Duration = Duration::from_secs(10);

pub(super) fn judge(picture: &Picture<'_>, rules: &Rules) -> Vec<Violation> {
    let crowd = Crowd::of(picture);
    let mut found = Vec::new();
    for claim in &picture.claims {
        found.extend(against_an_order(picture, claim));
        found.extend(crowd.too_many(claim, rules));
    }
    found
}

fn returns(picture: &Picture<'_>, claim: &Claim<'_>) -> bool {
    let lately = Span {
        from: claim.at.minus(REMEMBERED),
        to: claim.at,
    };
    claim.before != Before::Nothing || picture.was_on(claim.host, claim.user, lately)
}

fn against_an_order(picture: &Picture<'_>, claim: &Claim<'_>) -> Option<Violation> {
    let ruling = picture.ruling(claim.host, claim.at)?;
    // What the replica that took the order had decided before it answered was pending then. At
    // the others nothing is: a claim that did not see the order is not written.
    if ruling.replica == claim.replica && claim.decided <= ruling.span.from {
        return None;
    }
    let (invariant, says) = match ruling.mode {
        Mode::Maintenance => ("I2", "was placed on a host in maintenance"),
        Mode::Drain if !returns(picture, claim) => ("I11", "is new on a host in drain"),
        Mode::Drain | Mode::Online => return None,
    };
    let says = format!("user {} {says}, {}", claim.user, claim.host);
    let sent = claim.sent.map(|at| picture.tunnels[at].sent);
    let events = [ruling.ordered, ruling.acknowledged, claim.event];
    Some(Violation::of(invariant, says).with(events.into_iter().chain(sent)))
}

/// Who is on each host.
struct Crowd<'a, 'b> {
    picture: &'b Picture<'a>,
    /// Claims that led to a connection, in order.
    tunnels: BTreeMap<Host, Vec<(Moment, &'b Tunnel<'a>)>>,
    /// When its agent said something, and when that was heard.
    reports: BTreeMap<Host, Vec<(Moment, Moment)>>,
    sessions: BTreeMap<Host, Vec<(User, Span)>>,
}

impl<'a, 'b> Crowd<'a, 'b> {
    fn of(picture: &'b Picture<'a>) -> Self {
        let mut tunnels: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for claim in &picture.claims {
            if let Some(at) = claim.sent {
                let tunnel = &picture.tunnels[at];
                tunnels
                    .entry(claim.host)
                    .or_default()
                    .push((claim.at, tunnel));
            }
        }
        let mut sessions: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ((host, user), spans) in &picture.sessions {
            let spans = spans.iter().map(|span| (*user, *span));
            sessions.entry(*host).or_default().extend(spans);
        }
        Self {
            picture,
            tunnels,
            reports: heard(picture.events),
            sessions,
        }
    }

    /// Users, besides the one who claims, that its replica knew or could know to be there.
    fn there(&self, claim: &Claim<'_>) -> BTreeSet<User> {
        let mut there = BTreeSet::new();
        let tunnels = self.tunnels.get(&claim.host).into_iter().flatten();
        for (claimed, tunnel) in tunnels {
            if *claimed < claim.at && tunnel.span.to > claim.at.plus(SEEN) {
                there.insert(tunnel.user);
            }
        }
        let known = Span {
            from: claim.at.minus(RECOVERED),
            to: claim.at,
        };
        if !self.picture.is_troubled(claim.replica, known, TOLD) {
            let sessions = self.sessions.get(&claim.host).into_iter().flatten();
            for (user, span) in sessions {
                if span.holds(claim.at) && self.is_told(claim, span.from) {
                    there.insert(*user);
                }
            }
        }
        there.remove(&claim.user);
        there
    }

    /// Whether a report that shows what began then must be known at the time of the claim.
    fn is_told(&self, claim: &Claim<'_>, began: Moment) -> bool {
        let reports = self.reports.get(&claim.host).map_or(&[][..], Vec::as_slice);
        let first = reports.partition_point(|(made, _)| *made <= began);
        // Of those that show it the first ones are heard first, save for some late ones.
        let mut reports = reports[first..].iter().take(8);
        reports.any(|(_, heard)| heard.plus(TOLD) < claim.at)
    }

    fn too_many(&self, claim: &Claim<'a>, rules: &Rules) -> Option<Violation> {
        if returns(self.picture, claim) {
            return None;
        }
        let there = self.there(claim);
        if there.len() < rules.max_sessions {
            return None;
        }
        let says = format!(
            "user {} is new on host {}, where {} are that may take {}: {there:?}",
            claim.user,
            claim.host,
            there.len(),
            rules.max_sessions
        );
        let tunnels = self.tunnels.get(&claim.host).into_iter().flatten();
        let before = tunnels.filter(|(claimed, _)| *claimed < claim.at);
        let mut last: Vec<&Event> = before
            .filter(|(_, tunnel)| tunnel.span.to > claim.at.plus(SEEN))
            .filter_map(|(_, tunnel)| Some(self.picture.claims[tunnel.claim?].event))
            .collect();
        last.sort_by_key(|event| event.at);
        let last = last.into_iter().rev().take(3);
        let sent = claim.sent.map(|at| self.picture.tunnels[at].sent);
        let events = std::iter::once(claim.event).chain(sent).chain(last);
        Some(Violation::of("I14", says).with(events))
    }
}

/// The reports that were news: when each was made and when that was answered.
fn heard(events: &[Event]) -> BTreeMap<Host, Vec<(Moment, Moment)>> {
    let mut made = BTreeMap::new();
    let mut heard: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events {
        match event.what {
            What::Reported { host, seq, .. } => {
                made.entry((host, seq)).or_insert(event.at);
            }
            What::Answered {
                host,
                seq,
                taken: true,
            } => {
                if let Some(made) = made.get(&(host, seq)) {
                    heard.entry(host).or_default().push((*made, event.at));
                }
            }
            _ => {}
        }
    }
    for reports in heard.values_mut() {
        reports.sort();
    }
    heard
}
