//! I1: per user and farm at most one host at a time. I3 and I4: the host is one of ours and a
//! member of the resource's farm.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Violation;
use super::picture::{Picture, Span, Tunnel};

/// guacd sees the end of a connection a moment after it was let go.
const SEEN: Duration = Duration::from_secs(1);

/// guacd reads a moment later what was decided and written.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

pub(super) fn judge(picture: &Picture<'_>) -> Vec<Violation> {
    let mut found = overlaps(picture);
    for tunnel in &picture.tunnels {
        found.extend(is_member(picture, tunnel));
        found.extend(is_claimed(picture, tunnel));
    }
    found
}

fn overlaps(picture: &Picture<'_>) -> Vec<Violation> {
    let mut by_user: BTreeMap<_, Vec<&Tunnel<'_>>> = BTreeMap::new();
    for tunnel in &picture.tunnels {
        let whose = (tunnel.user, tunnel.farm);
        by_user.entry(whose).or_default().push(tunnel);
    }
    let mut found = Vec::new();
    for ((user, farm), tunnels) in by_user {
        // Those that were open when a later one was sent elsewhere.
        let mut open: Vec<&Tunnel<'_>> = Vec::new();
        for tunnel in tunnels {
            open.retain(|earlier| earlier.span.to > tunnel.span.from.plus(SEEN));
            let elsewhere = open.iter().find(|earlier| earlier.host != tunnel.host);
            if let Some(earlier) = elsewhere {
                let says = format!(
                    "user {user} has tunnels of farm {farm} on two hosts, {:?} and {:?}",
                    earlier.host, tunnel.host
                );
                let claims = [*earlier, tunnel].map(|it| it.claim.map(|at| &picture.claims[at]));
                let claims = claims.into_iter().flatten().map(|claim| claim.event);
                let events = earlier.events().chain(tunnel.events()).chain(claims);
                found.push(Violation::of("I1", says).with(events));
            }
            open.push(tunnel);
        }
    }
    found
}

/// Whoever is sent to a host has a claim on it in the database.
fn is_claimed(picture: &Picture<'_>, tunnel: &Tunnel<'_>) -> Option<Violation> {
    if tunnel.claim.is_some() || tunnel.host.is_none() || picture.claims.is_empty() {
        return None;
    }
    let says = format!("user {} was sent to a host without a claim", tunnel.user);
    Some(Violation::of("I1", says).with(tunnel.events()))
}

fn is_member(picture: &Picture<'_>, tunnel: &Tunnel<'_>) -> Option<Violation> {
    let Some(host) = tunnel.host else {
        let says = "guacd was sent to an address that is none of the configuration's";
        return Some(Violation::of("I4", says).with(tunnel.events()));
    };
    let known = picture.configurations.get(&tunnel.replica)?;
    // A replica that stood still may have written what it decided by an older one.
    let mut from = tunnel.span.from.minus(ON_ITS_WAY);
    for (_, span) in picture.troubles_of(tunnel.replica, ON_ITS_WAY) {
        if span.holds(from) {
            from = from.min(span.from.minus(ON_ITS_WAY));
        }
    }
    let within = Span {
        from,
        to: tunnel.span.from.plus(Duration::from_micros(1)),
    };
    let mut in_force = known.iter().filter(|one| one.span.meets(within));
    let is_member = in_force.any(|configured| {
        let hosts = configured.members.get(&tunnel.farm);
        hosts.is_some_and(|hosts| hosts.contains(&host))
    });
    if is_member {
        return None;
    }
    let says = format!("host {host} is no member of farm {}", tunnel.farm);
    let files = known.iter().filter(|one| one.span.meets(within));
    let events = tunnel.events().chain(files.map(|one| one.event));
    Some(Violation::of("I3", says).with(events))
}
