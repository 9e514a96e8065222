//! Steps 4 to 6 of a placement: where a user who comes back belongs. An open
//! tunnel decides alone, then a session the user left, then a lease.

use std::collections::BTreeSet;

use super::aim::{Aim, Trust};
use super::count::{Known, Name};
use super::decision::Reason;
use super::hearing::was_left_by;
use super::ids::{FarmId, HostId, TunnelId};
use super::lease::{LeaseRecord, LeaseView};
use super::lease_key::LeaseKey;
use super::mode::Mode;
use super::rules::Rules;
use super::snapshot::{HostView, Snapshot, TunnelView};
use super::time::Timestamp;
use super::trust::Claim;

/// Where an open tunnel of this lease key keeps the user.
pub(super) enum Held {
    /// Nowhere: no tunnel is open.
    Nowhere,
    /// On this host.
    On(HostId),
    /// On a host that may not be used now: nobody may be placed elsewhere
    /// either until that tunnel ends, or one user would sit on two hosts.
    Barred(HostId),
}

/// A live or pending tunnel of this key and farm decides alone, drain
/// included, whatever reports and probes say: a tunnel that stands proves its
/// host.
pub(super) fn held(
    snapshot: &Snapshot,
    aim: &Aim<'_>,
    leases: &LeaseRecord,
    now: Timestamp,
) -> Held {
    let Some(key) = &aim.key else {
        return Held::Nowhere;
    };
    // The record knows one host a farm, and nobody is given another beside it.
    // Our own tunnels speak where the store has lost it.
    let usable = |host: &&HostId| may_return(snapshot, aim, host, now).is_some();
    let mut leased = leases.held(now).filter(|(farm, _)| **farm == aim.farm.id);
    if let Some((_, host)) = leased.next() {
        return match usable(&host) {
            true => Held::On(host.clone()),
            false => Held::Barred(host.clone()),
        };
    }
    let open: Vec<_> = tunnels(snapshot, aim, key).collect();
    let here = || {
        let here = open.iter().filter(|(farm, _)| **farm == aim.farm.id);
        here.map(|(_, host)| *host)
    };
    if let Some(host) = here().find(usable) {
        return Held::On(host.clone());
    }
    if let Some(host) = here().next_back() {
        return Held::Barred(host.clone());
    }
    // A tunnel in another farm keeps the user only where its host is in this
    // farm too; else the farm boundary wins.
    let held = leases.held(now).chain(open);
    held.map(|(_, host)| host)
        .find(usable)
        .map_or(Held::Nowhere, |host| Held::On(host.clone()))
}

/// Our own tunnels of this key, each as its farm and host, in the order of
/// hosts: the store may have lost a lease, the tunnel is still there. A host
/// that left its farm still counts, since its tunnel does.
fn tunnels<'a>(
    snapshot: &'a Snapshot,
    aim: &'a Aim<'_>,
    key: &'a LeaseKey,
) -> impl Iterator<Item = (&'a FarmId, &'a HostId)> {
    let name = Name::of_key(key);
    let hosts = snapshot.hosts.iter();
    let hosts = hosts.filter(move |(_, view)| view.may_have_tunnel(name));
    let open = hosts.flat_map(|(host, view)| view.tunnels.iter().map(move |t| (host, t)));
    let theirs = open.filter(|(_, t)| t.key.as_ref() == Some(key) && matters(t, aim));
    theirs.map(|(host, t)| (&t.farm, host))
}

/// Whether a tunnel of the user's name is anything to the one who asks: one in
/// doubt keeps others in doubt together, and is nothing to a user who is
/// believed.
fn matters(tunnel: &TunnelView, aim: &Aim<'_>) -> bool {
    aim.trust == Trust::Doubtful || tunnel.trust != Trust::Doubtful
}

/// How many tunnels the user has open: by the record on any replica, and here
/// by any key, since a user may have one a resource. Not the one that is asked
/// for once more.
pub(super) fn tunnels_open(
    snapshot: &Snapshot,
    aim: &Aim<'_>,
    leases: &LeaseRecord,
    repeats: Option<&TunnelId>,
    now: Timestamp,
) -> u32 {
    let Some(user) = &aim.user else {
        return 0;
    };
    let here = snapshot.hosts.values().flat_map(|view| &view.tunnels);
    let here = here
        .filter(|t| t.user.as_ref() == Some(user) && matters(t, aim))
        .map(|t| &t.tunnel);
    let open = leases.tunnels(now).chain(here);
    let open: BTreeSet<_> = open.filter(|open| Some(*open) != repeats).collect();
    u32::try_from(open.len()).unwrap_or(u32::MAX)
}

/// A session or a lease to return to.
pub(super) fn returning(
    snapshot: &Snapshot,
    aim: &Aim<'_>,
    leases: &LeaseRecord,
    tried: &BTreeSet<HostId>,
    claims: &[Claim<'_>],
    now: Timestamp,
) -> Option<(HostId, Reason)> {
    let rules = snapshot.directory.rules();
    let reconnect = aim.farm.overrides.reconnect_existing;
    let session = if reconnect.unwrap_or(rules.reconnect_existing) {
        session(snapshot, aim, claims, now)
    } else {
        None
    };
    session.or_else(|| lease(snapshot, aim, leases, tried, now).map(|host| (host, Reason::Lease)))
}

/// The user's best session of those that are believed: active before connected
/// before disconnected, then the most recent, then host id.
fn session(
    snapshot: &Snapshot,
    aim: &Aim<'_>,
    claims: &[Claim<'_>],
    now: Timestamp,
) -> Option<(HostId, Reason)> {
    let user = aim.user.as_ref()?;
    let rules = snapshot.directory.rules();
    let mut best = None;
    for claim in claims.iter().filter(|claim| claim.aside.is_none()) {
        let host = claim.host;
        let usable = may_return(snapshot, aim, host, now).is_some();
        if !usable || !is_available(claim.view, rules, now) {
            continue;
        }
        for session in claim.report.of(user) {
            let rank = (session.state, std::cmp::Reverse(session.latest));
            // Hosts come in id order, so an equal later one does not win.
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                best = Some((rank, host.clone()));
            }
        }
    }
    best.map(|((state, _), host)| (host, Reason::Reconnect(state)))
}

/// The user's lease in this farm, else one held in another farm on a host that
/// is in this one too. Leases here have stood: a claim that has not is an open
/// tunnel's and was met before. One on a host that failed whoever asks holds
/// for as long as a session may be there.
fn lease(
    snapshot: &Snapshot,
    aim: &Aim<'_>,
    leases: &LeaseRecord,
    tried: &BTreeSet<HostId>,
    now: Timestamp,
) -> Option<HostId> {
    let rules = snapshot.directory.rules();
    let usable = |lease: &LeaseView<'_>| {
        may_return(snapshot, aim, lease.host, now).is_some_and(|view| {
            let is_over =
                || tried.contains(lease.host) && was_ended_by_restart(view, aim, lease, rules);
            is_available(view, rules, now) && !is_over()
        })
    };
    let own = leases.view(&aim.farm.id, now).into_iter();
    let other = leases.views(now).filter(|view| *view.farm != aim.farm.id);
    own.chain(other)
        .find(usable)
        .map(|lease| lease.host.clone())
}

/// Whether the host started anew after the lease was left, and says that its
/// user has no session there.
fn was_ended_by_restart(
    view: &HostView,
    aim: &Aim<'_>,
    lease: &LeaseView<'_>,
    rules: &Rules,
) -> bool {
    let (Some(restarted), Some(report), Some(user)) = (view.restarted, &view.report, &aim.user)
    else {
        return false;
    };
    was_left_by(lease.until, rules.lease, restarted)
        && !report.shows(user)
        && view.mistrust(rules).is_none()
}

/// The host, if somebody who was there before may go back: it is in the farm
/// and not in maintenance.
fn may_return<'a>(
    snapshot: &'a Snapshot,
    aim: &Aim<'_>,
    host: &HostId,
    now: Timestamp,
) -> Option<&'a Known> {
    let view = snapshot.hosts.get(host)?;
    let member = snapshot.directory.is_member(&aim.farm.id, host);
    (member && view.mode(now) != Mode::Maintenance).then_some(view)
}

/// A user is moved off a host only after our own probe has failed for
/// `reconnect_failover`; until then the way back leads there and nowhere else.
fn is_available(view: &HostView, rules: &Rules, now: Timestamp) -> bool {
    view.failing_for(now)
        .is_none_or(|span| span < rules.reconnect_failover)
}

/// Whether the host can take one more logon now: who comes back waits for the
/// own host and is not sent elsewhere.
pub(super) fn has_room(snapshot: &Snapshot, host: &HostId, now: Timestamp) -> bool {
    let view = snapshot.hosts.get(host).zip(snapshot.directory.caps(host));
    view.is_none_or(|(view, caps)| {
        let occupancy = view.occupancy(caps, now);
        occupancy.pending < occupancy.pending_cap
    })
}
