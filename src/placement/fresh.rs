//! Steps 7 and 8 of a placement: a new session, on the eligible host with the
//! highest score.

use super::aim::Aim;
use super::decision::{Candidate, Exclusion, Refusal};
use super::ids::HostId;
use super::mode::Mode;
use super::rules::{Caps, Rules};
use super::score::{Means, Score, tie_hash};
use super::snapshot::{HostView, Occupancy, Reach, Snapshot};
use super::time::Timestamp;

/// Every host of the farm with its score and what keeps it out, in id order.
pub(super) fn candidates(snapshot: &Snapshot, aim: &Aim<'_>, now: Timestamp) -> Vec<Candidate> {
    let rules = snapshot.directory.rules();
    let weights = aim.farm.overrides.weights.unwrap_or(rules.weights);
    let views = || {
        let members = snapshot.directory.members(&aim.farm.id);
        members.filter_map(|id| snapshot.hosts.get(id).map(|view| (id, view.as_ref())))
    };
    let hosts: Vec<_> = views().collect();
    let means = Means::of(hosts.iter().map(|(_, view)| *view));
    hosts
        .into_iter()
        .filter_map(|(id, view)| {
            let caps = snapshot.directory.caps(id)?;
            let reach = view.reach(rules.offline_after, now);
            let occupancy = view.occupancy(caps, now);
            let mode = view.mode(now);
            let kept_out = exclusion(view, mode, reach, aim, rules);
            let order = view.modes.orders.at(now).filter(|_| mode != Mode::Online);
            Some(Candidate {
                host: id.clone(),
                score: Score::of(view, means, &weights, now),
                reach,
                probe: view.probe,
                report: view.report.as_ref().map(|report| report.received),
                occupancy,
                exclusion: kept_out.or_else(|| over(occupancy, caps)),
                order: order.cloned(),
            })
        })
        .collect()
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
    mode: Mode,
    reach: Reach,
    aim: &Aim<'_>,
    rules: &Rules,
) -> Option<Exclusion> {
    match mode {
        Mode::Online => {}
        Mode::Drain => return Some(Exclusion::Drain),
        Mode::Maintenance => return Some(Exclusion::Maintenance),
    }
    match reach {
        Reach::Online => {}
        Reach::Unknown => return Some(Exclusion::NotProbed),
        Reach::Silent => return Some(Exclusion::AgentSilent),
        Reach::Dead => return Some(Exclusion::ProbeFails),
    }
    let minimum = aim.farm.overrides.min_health_score;
    if view.health() < minimum.unwrap_or(rules.min_health_score) {
        return Some(Exclusion::Unhealthy);
    }
    let report = view.report.as_ref()?;
    if !report.rdp_listener_ok {
        return Some(Exclusion::NoListener);
    }
    let missing = |alias| {
        let mut gone = report.missing_remote_apps.iter();
        gone.any(|known| known.eq_ignore_ascii_case(alias))
    };
    aim.remote_app()
        .is_some_and(missing)
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
    let eligible = candidates.iter().filter(|c| c.exclusion.is_none());
    let best = eligible.max_by(|a, b| {
        let hash = |c: &Candidate| tie_hash(aim.user.as_ref(), &c.host);
        (a.score.total.total_cmp(&b.score.total))
            .then_with(|| b.score.sessions().cmp(&a.score.sessions()))
            .then_with(|| (Some(&a.host) == last).cmp(&(Some(&b.host) == last)))
            .then_with(|| hash(a).cmp(&hash(b)))
    });
    best.map(|candidate| candidate.host.clone())
        .ok_or_else(|| refusal(aim, candidates))
}

/// Busy is lasting and the page does not retry; unreachable may pass by itself
/// and it does. A farm that somebody took out of service whole is busy even
/// with every host off: it will be so for as long as the work there lasts.
fn refusal(aim: &Aim<'_>, candidates: &[Candidate]) -> Refusal {
    let farm = aim.farm.id.clone();
    if candidates.is_empty() {
        return Refusal::EmptyFarm(farm);
    }
    let reachable =
        |c: &Candidate| c.reach == Reach::Online && c.exclusion != Some(Exclusion::NoListener);
    let waiting = |c: &Candidate| c.exclusion == Some(Exclusion::LogonsPending);
    if candidates.iter().any(waiting) {
        return Refusal::LogonsPending(farm);
    }
    let out_of_service =
        |c: &Candidate| matches!(c.exclusion, Some(Exclusion::Drain | Exclusion::Maintenance));
    if candidates.iter().any(reachable) || candidates.iter().all(out_of_service) {
        Refusal::Busy(farm)
    } else {
        Refusal::Unreachable(farm)
    }
}
