//! Steps 7 and 8 of a placement: a new session, on the eligible host with the
//! highest score.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::aim::Aim;
use super::count::Known;
use super::decision::{Candidate, Exclusion, Refusal};
use super::ids::HostId;
use super::mode::Mode;
use super::reach::{Reach, Silence};
use super::rules::{Caps, Rules};
use super::score::{Means, Score, Ties};
use super::snapshot::{HostView, Occupancy, Snapshot};
use super::time::Timestamp;
use super::trust::Claim;

/// Every host of the farm with its score and what keeps it out, in id order.
/// `tried`: the hosts that failed whoever asks.
pub(super) fn candidates(
    snapshot: &Snapshot,
    aim: &Aim<'_>,
    tried: &BTreeSet<HostId>,
    now: Timestamp,
) -> Vec<Candidate> {
    let rules = snapshot.directory.rules();
    let weights = aim.farm.overrides.weights.unwrap_or(rules.weights);
    let mut hosts = Vec::with_capacity(snapshot.directory.roster(&aim.farm.id).len());
    hosts.extend(roster(snapshot, aim));
    let all = hosts.iter().map(|(_, _, view)| *view);
    let silence = Silence::among(all, rules.offline_after, snapshot.started, now);
    let means = Means::of(hosts.iter().map(|(_, _, view)| *view));
    hosts
        .into_iter()
        .map(|(id, caps, view)| {
            let reach = view.reach_amid(silence, now);
            let (load, occupancy) = view.load_and_occupancy(caps, now);
            let mode = view.mode(now);
            let barred = view.barred(now).is_some();
            let kept_out = exclusion(view, (mode, reach, barred), aim, rules)
                .or_else(|| tried.contains(id).then_some(Exclusion::Tried));
            let order = view.modes.orders.at(now).filter(|_| mode != Mode::Online);
            Candidate {
                host: id.clone(),
                score: Score::of(view, load, means, &weights),
                reach,
                probe: view.probe,
                report: view.report.as_ref().map(|report| report.received),
                occupancy,
                exclusion: kept_out.or_else(|| over(occupancy, caps)),
                order: order.cloned(),
                breaker: view.breaker(now).opening().cloned(),
                session_set_aside: None,
            }
        })
        .collect()
}

/// Notes which hosts are not believed that the user has a session there.
pub(super) fn set_aside(candidates: &mut [Candidate], claims: &[Claim<'_>]) {
    for claim in claims.iter().filter(|claim| claim.aside.is_some()) {
        let mut known = candidates.iter_mut();
        if let Some(candidate) = known.find(|candidate| candidate.host == *claim.host) {
            candidate.session_set_aside = claim.aside;
        }
    }
}

/// The farm's hosts of which anything is known. Both lists are in id order, and
/// walked side by side: a farm may be large.
fn roster<'a>(
    snapshot: &'a Snapshot,
    aim: &'a Aim<'_>,
) -> impl Iterator<Item = (&'a HostId, Caps, &'a Known)> {
    let mut known = snapshot.hosts.iter().peekable();
    let members = snapshot.directory.roster(&aim.farm.id).iter();
    members.filter_map(move |(id, caps)| {
        loop {
            let (other, view) = *known.peek()?;
            match other.cmp(id) {
                Ordering::Less => known.next(),
                Ordering::Equal => return Some((id, *caps, view.as_ref())),
                Ordering::Greater => return None,
            };
        }
    })
}

/// Full hosts come last of all rules: that one passes by itself.
fn over(occupancy: Occupancy, caps: Caps) -> Option<Exclusion> {
    if caps
        .max_sessions
        .is_some_and(|most| occupancy.users >= most)
    {
        Some(Exclusion::Full)
    } else if occupancy.pending >= occupancy.pending_cap {
        Some(Exclusion::LogonsPending)
    } else {
        None
    }
}

/// The first rule that keeps the host out of a new session.
fn exclusion(
    view: &HostView,
    (mode, reach, barred): (Mode, Reach, bool),
    aim: &Aim<'_>,
    rules: &Rules,
) -> Option<Exclusion> {
    match mode {
        Mode::Online => {}
        Mode::Drain => return Some(Exclusion::Drain),
        Mode::Maintenance => return Some(Exclusion::Maintenance),
    }
    match reach {
        Reach::Online | Reach::LastKnown => {}
        Reach::Unknown => return Some(Exclusion::NotProbed),
        Reach::Silent => return Some(Exclusion::AgentSilent),
        Reach::Dead => return Some(Exclusion::ProbeFails),
    }
    if barred {
        return Some(Exclusion::Breaker);
    }
    let minimum = aim.farm.overrides.min_health_score;
    if view.health() < minimum.unwrap_or(rules.min_health_score) {
        return Some(Exclusion::Unhealthy);
    }
    let report = view.report.as_ref()?;
    if !report.rdp_listener_ok {
        return Some(Exclusion::NoListener);
    }
    aim.remote_app
        .as_deref()
        .is_some_and(|alias| report.lacks(alias))
        .then_some(Exclusion::RemoteAppMissing)
}

/// The eligible host with the highest score; ties go to fewer sessions, then
/// to the host the user was on last, then to a stable hash of user and host.
///
/// # Errors
/// Why nobody can be placed.
pub(super) fn best(
    aim: &Aim<'_>,
    candidates: &[Candidate],
    last: Option<&HostId>,
) -> Result<HostId, Refusal> {
    let eligible = || candidates.iter().filter(|c| c.exclusion.is_none());
    let rank = |a: &&Candidate, b: &&Candidate| {
        (a.score.total.total_cmp(&b.score.total))
            .then_with(|| b.score.sessions().cmp(&a.score.sessions()))
            .then_with(|| (Some(&a.host) == last).cmp(&(Some(&b.host) == last)))
    };
    let Some(top) = eligible().max_by(rank) else {
        return Err(refusal(aim, candidates));
    };
    // Of an idle farm every host is among them.
    let ties = Ties::of(aim.user.as_ref());
    let equal = eligible().filter(|candidate| rank(candidate, &top).is_eq());
    let best = equal.max_by_key(|candidate| ties.hash(&candidate.host));
    Ok(best.unwrap_or(top).host.clone())
}

/// Busy is lasting and the page does not retry; unreachable may pass by itself
/// and it does. A farm that somebody took out of service whole is busy even
/// with every host off: it will be so for as long as the work there lasts. One
/// whose hosts only failed this connection may be there again for the next.
fn refusal(aim: &Aim<'_>, candidates: &[Candidate]) -> Refusal {
    let farm = aim.farm.id.clone();
    if candidates.is_empty() {
        return Refusal::EmptyFarm(farm);
    }
    let fails = |c: &Candidate| {
        matches!(
            c.exclusion,
            Some(Exclusion::NoListener | Exclusion::Breaker)
        )
    };
    let reachable = |c: &Candidate| c.reach.is_good() && !fails(c);
    let waiting = |c: &Candidate| c.exclusion == Some(Exclusion::LogonsPending);
    if candidates.iter().any(waiting) {
        return Refusal::LogonsPending(farm);
    }
    let stopped_by = |rule| candidates.iter().any(|c| c.exclusion == Some(rule));
    if stopped_by(Exclusion::Tried) && !stopped_by(Exclusion::Full) {
        return Refusal::Unreachable(farm);
    }
    let out_of_service =
        |c: &Candidate| matches!(c.exclusion, Some(Exclusion::Drain | Exclusion::Maintenance));
    if candidates.iter().any(reachable) || candidates.iter().all(out_of_service) {
        Refusal::Busy(farm)
    } else {
        Refusal::Unreachable(farm)
    }
}
