//! The thinking: who goes to which host, and why.
//!
//! Pure: no await, no clock, no randomness, no I/O; the moment is an argument.
//! The broker calls it, a test can torture it. It refuses rather than guesses,
//! never leaves the farm, and never chooses a host in maintenance.

mod aim;
mod decision;
mod directory;
mod fresh;
mod identity;
mod ids;
mod lease;
mod resource;
mod returning;
mod score;
mod selector;
mod snapshot;
mod time;

#[cfg(test)]
mod tests;

pub use aim::{Aim, Astray, Request};
pub use decision::{Candidate, Decision, Exclusion, Outcome, Placement, Reason, Refusal};
pub use directory::{
    Directory, Farm, FarmOverrides, Host, IdentitySource, Mode, RemoteApp, Resource, ResourceKind,
    Rules, Weights,
};
pub use identity::{Claims, UserKey};
pub use ids::{FarmId, HostId, ResourceId, TunnelId, derive_id};
pub use lease::{
    CLAIM, Holder, Lease, LeaseKey, LeaseRecord, LeaseState, LeaseView, Lingering, RENEWAL,
};
pub use resource::Carriers;
pub use score::{Figure, Score, tie_hash};
pub use selector::{Selector, SelectorError};
pub use snapshot::{
    HostView, Load, Probe, Reach, Report, Session, SessionState, Snapshot, TunnelView, UNSEEN,
};
pub use time::Timestamp;

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
    let aim = match Aim::take(&snapshot.directory, request) {
        Ok(aim) => aim,
        Err(astray) => return lost(snapshot, astray),
    };
    let mut decision = Decision {
        generation: snapshot.generation,
        resource: Some(aim.resource.id.clone()),
        farm: Some(aim.farm.id.clone()),
        user: aim.user.clone(),
        key: aim.key.clone(),
        outcome: Outcome::Unmatched,
        candidates: Vec::new(),
    };
    let chosen = match returning::held(snapshot, &aim, leases, now) {
        Held::On(host) => Ok((host, Reason::Tunnel)),
        Held::Barred(host) => Err(Refusal::HeldElsewhere(host)),
        Held::Nowhere => {
            decision.candidates = fresh::candidates(snapshot, &aim, now);
            match returning::returning(snapshot, &aim, leases, now) {
                Some(chosen) => Ok(chosen),
                None => fresh::best(&aim, &decision.candidates).map(|host| (host, Reason::Score)),
            }
        }
    };
    decision.outcome = match chosen {
        Ok((host, reason)) => placed(&snapshot.directory, &aim, &host, reason),
        Err(refusal) => Outcome::Refused(refusal),
    };
    decision
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
            kind: aim.resource.kind.clone(),
            reason,
        }),
        None => Outcome::Refused(Refusal::HeldElsewhere(host.clone())),
    }
}

fn lost(snapshot: &Snapshot, astray: Astray<'_>) -> Decision {
    Decision {
        generation: snapshot.generation,
        resource: astray.resource.map(|r| r.id.clone()),
        farm: astray.farm.map(|f| f.id.clone()),
        user: None,
        key: None,
        outcome: astray.refusal.map_or(Outcome::Unmatched, Outcome::Refused),
        candidates: Vec::new(),
    }
}
