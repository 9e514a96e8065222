//! What holds after every step, whatever happened in it.

use std::collections::BTreeMap;
use std::time::Duration;

use sessionguard::placement::{HISTORY, LeaseState, TunnelId};

use super::day::{Day, Life};
use super::model::CLAIM;
use super::verdict::{Rule, Violation, broken};

/// One host a key and farm; the leases of open tunnels live; no lease is for
/// ever.
pub(super) fn after_step(day: &mut Day) -> Result<(), Violation> {
    let mut hosts = BTreeMap::new();
    for (id, seat) in day.model.seats.iter().filter(|(_, seat)| seat.open) {
        // Somebody in doubt beside the lease is somebody else.
        if seat.doubtful || (seat.in_doubt && !seat.holds) {
            if seat.holds {
                lives(day, id)?;
            }
            continue;
        }
        let Some(key) = &seat.key else { continue };
        let first = *hosts.entry((key, &seat.farm)).or_insert(&seat.host);
        if *first != seat.host {
            return broken(
                Rule::OneHost,
                format!("{key:?} on {first} and {}", seat.host),
            );
        }
        if seat.holds {
            lives(day, id)?;
        }
    }
    bounded(day)
}

/// The lease an open tunnel holds is there, on its host, and worth what the
/// tunnel is.
fn lives(day: &Day, id: &TunnelId) -> Result<(), Violation> {
    let seat = &day.model.seats[id];
    let record = day.broker.record_of(id);
    let lease = record.and_then(|record| record.view(&seat.farm, day.now));
    let good = lease.as_ref().is_some_and(|lease| {
        let live = lease.state == LeaseState::Live || !seat.written;
        *lease.host == seat.host && live
    });
    if !good {
        return broken(
            Rule::LeaseLives,
            format!("{id} on {}: {lease:?}", seat.host),
        );
    }
    Ok(())
}

/// A lease ends when it was to end when it was written: only what was written
/// needs a look.
fn bounded(day: &mut Day) -> Result<(), Violation> {
    let longest = day.latest + day.scene.rules.lease.max(CLAIM);
    for key in day.broker.news() {
        let Some(record) = day.broker.store.get(&key) else {
            continue;
        };
        if let Some(lease) = record.views(day.now).find(|lease| lease.until > longest) {
            return broken(Rule::LeaseEnds, format!("{key}: {lease:?}"));
        }
    }
    Ok(())
}

/// The evening: everybody leaves, and what is left runs out by itself.
pub(super) fn at_the_end(day: &mut Day) -> Result<(), Violation> {
    for life in std::mem::take(&mut day.lives) {
        let Life { id, host, .. } = life;
        day.broker.ended(&id, &host, Duration::ZERO, day.now);
        day.model.ended(&id);
    }
    day.pass(Duration::from_secs(20))?;
    let night = day.latest + day.scene.rules.lease + Duration::from_secs(60);
    for (key, record) in &day.broker.store {
        if let Some(lease) = record.views(night).next() {
            return broken(Rule::LeaseEnds, format!("{key}: {lease:?}"));
        }
        let mut record = record.clone();
        record.expire(night + HISTORY);
        if !record.is_empty() {
            return broken(Rule::LeaseEnds, format!("{key} is remembered for ever"));
        }
    }
    Ok(())
}
