//! The thinking: who goes to which host, and why.
//!
//! Pure: no await, no clock, no randomness, no I/O; the moment is an argument.
//! The broker calls it, a test can torture it. It refuses rather than guesses,
//! never leaves the farm, and never chooses a host in maintenance.

mod aim;
mod alarm;
mod breaker;
mod count;
mod decision;
mod directory;
mod drained;
mod first_report;
mod fresh;
mod hearing;
mod identity;
mod ids;
mod last_host;
mod lease;
mod lease_key;
mod lingering;
mod mode;
mod people;
mod reach;
mod report;
mod resource;
mod returning;
mod rules;
mod score;
mod selector;
mod snapshot;
mod time;
mod trust;

#[cfg(test)]
mod tests;

pub use aim::{Aim, Astray, Request, Trust};
pub use alarm::{Alarm, alarms};
pub use breaker::{
    Breaker, BreakerState, FLAPS, Failure, LONGEST, OpenedBy, Opening, Openings, QUIET, SHORTEST,
    WINDOW,
};
pub use count::Known;
pub use decision::{Candidate, Decision, Exclusion, Outcome, Placement, Reason, Refusal};
pub use directory::{
    Directory, Farm, FarmOverrides, Host, ParameterValues, RemoteApp, Resource, ResourceKind,
};
pub use drained::{is_drained, restart_order};
pub use first_report::most_at_first;
pub use hearing::{Finding, findings};
pub use identity::{Claims, UserKey, Who, fold};
pub use ids::{FarmId, HostId, ReplicaId, ResourceId, TunnelId, derive_id};
pub use last_host::{Emptied, emptied};
pub use lease::{
    CLAIM, Elsewhere, HISTORY, Holder, Lease, LeaseRecord, LeaseState, LeaseView, Lingering,
    Origin, Past, RENEWAL,
};
pub use lease_key::LeaseKey;
pub use lingering::LingeringLeases;
pub use mode::{Actor, Effect, MOST_TIMED, Mode, Modes, Order, Orders};
pub use people::People;
pub use reach::{Reach, Silence, is_silent, reach};
pub use report::{Heard, Report, ReportNumber, Session, SessionState, Told};
pub use resource::{Carried, Carriers};
pub use rules::{Caps, Conduct, IdentitySource, Rules, TrustAgents, Unmatched, Weights};
pub use score::{Figure, Score, tie_hash};
pub use selector::{Selector, SelectorError};
pub use snapshot::{HostView, Load, Occupancy, Probe, Snapshot, Standing, TunnelView, UNSEEN};
pub use time::Timestamp;
pub use trust::{Mistrust, Strangers, on_two_hosts};

use std::borrow::Cow;
use std::collections::BTreeSet;

use returning::Held;

/// Decides where a request goes. `leases` is the record of the key that
/// [`Aim::take`] finds for the same request and configuration; empty for a
/// user who has none.
///
/// The same arguments give the same decision.
pub fn decide(
    snapshot: &Snapshot,
    request: &Request,
    leases: &LeaseRecord,
    now: Timestamp,
) -> Decision {
    let aim = match Aim::take(snapshot, request) {
        Ok(aim) => aim,
        Err(astray) => return lost(snapshot, astray),
    };
    let mut decision = Decision {
        generation: snapshot.generation,
        configuration: snapshot.configuration,
        resource: aim.resource.map(|r| r.id.clone()),
        farm: Some(aim.farm.id.clone()),
        user: aim.user.clone(),
        trust: aim.trust,
        key: aim.key.clone(),
        outcome: Outcome::Unmatched,
        candidates: Vec::new(),
    };
    // Whoever merely names a user neither steers nor bars nor exhausts them.
    let believed = match aim.trust {
        Trust::Doubtful => Cow::Borrowed(leases),
        Trust::Plain | Trust::Ambiguous => leases.without_doubt(),
    };
    let leases = believed.as_ref();
    let most = snapshot.directory.rules().max_tunnels_per_user;
    let beside = || returning::tunnels_open(snapshot, &aim, leases, request.repeats.as_ref(), now);
    if most.is_some_and(|most| beside() >= most) {
        decision.outcome = Outcome::Refused(Refusal::TooManyTunnels);
        return decision;
    }
    let chosen = match returning::held(snapshot, &aim, leases, now) {
        Held::On(host) => Ok((host, Reason::Tunnel)),
        Held::Barred(host) => Err(Refusal::HeldElsewhere(host)),
        Held::Nowhere => {
            // Whoever asks later why a lease decided wants to see the others.
            let tried = &request.tried;
            decision.candidates = fresh::candidates(snapshot, &aim, tried, now);
            let user = aim.user.as_ref();
            let claims = user.map(|user| trust::claims(snapshot, user, now));
            let claims = claims.unwrap_or_default();
            fresh::set_aside(&mut decision.candidates, &claims);
            match returning::returning(snapshot, &aim, leases, tried, &claims, now) {
                Some((host, reason)) if returning::has_room(snapshot, &host, now) => {
                    Ok((host, reason))
                }
                Some(_) => Err(Refusal::LogonsPending(aim.farm.id.clone())),
                None => {
                    let last = leases.last(&aim.farm.id, now).map(|past| &past.host);
                    let best = fresh::best(&aim, &decision.candidates, last);
                    best.map(|host| (host, Reason::Score))
                }
            }
        }
    };
    decision.outcome = match chosen {
        Ok((host, reason)) => placed(&snapshot.directory, &aim, &host, reason),
        Err(refusal) => Outcome::Refused(refusal),
    };
    decision
}

/// What every host of the farm has to say to a request, whoever it would go
/// to: for somebody who asks why. Empty where no farm is reached.
pub fn survey(snapshot: &Snapshot, request: &Request, now: Timestamp) -> Vec<Candidate> {
    let Ok(aim) = Aim::take(snapshot, request) else {
        return Vec::new();
    };
    let mut candidates = fresh::candidates(snapshot, &aim, &request.tried, now);
    if let Some(user) = &aim.user {
        let claims = trust::claims(snapshot, user, now);
        fresh::set_aside(&mut candidates, &claims);
    }
    candidates
}

/// What every host of a farm has to say to a newcomer whom nobody knows, in id
/// order; empty for a farm that is not configured.
pub fn newcomer(snapshot: &Snapshot, farm: &FarmId, now: Timestamp) -> Vec<Candidate> {
    let farm = snapshot.directory.farm(farm);
    farm.map_or_else(Vec::new, |farm| {
        let aim = Aim {
            remote_app: None,
            resource: None,
            farm,
            user: None,
            trust: Trust::default(),
            key: None,
        };
        fresh::candidates(snapshot, &aim, &BTreeSet::new(), now)
    })
}

/// The decision on a request that cannot even be read.
pub fn unreadable(snapshot: &Snapshot, refusal: Refusal) -> Decision {
    lost(
        snapshot,
        Astray {
            refusal: Some(refusal),
            ..Astray::default()
        },
    )
}

/// Address and port come from the configuration this decision saw, and the
/// host must be the farm's by that same configuration.
fn placed(directory: &Directory, aim: &Aim<'_>, host: &HostId, reason: Reason) -> Outcome {
    let member = directory.is_member(&aim.farm.id, host);
    match directory.host(host).filter(|_| member) {
        Some(configured) => Outcome::Placed(Placement {
            host: configured.id.clone(),
            address: configured.address.clone(),
            port: configured.port,
            kind: aim.kind().clone(),
            reason,
        }),
        None => Outcome::Refused(Refusal::HeldElsewhere(host.clone())),
    }
}

fn lost(snapshot: &Snapshot, astray: Astray<'_>) -> Decision {
    Decision {
        generation: snapshot.generation,
        configuration: snapshot.configuration,
        resource: astray.resource.map(|r| r.id.clone()),
        farm: astray.farm.map(|f| f.id.clone()),
        user: None,
        trust: Trust::default(),
        key: None,
        outcome: astray.refusal.map_or(Outcome::Unmatched, Outcome::Refused),
        candidates: Vec::new(),
    }
}
