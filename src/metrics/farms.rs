//! How many hosts of a farm take newcomers, and how many more users fit.

use super::Page;
use crate::placement::{Candidate, Exclusion, Snapshot, Timestamp, newcomer};

/// Seats of one farm's hosts in service.
#[derive(Debug, Default)]
struct Seats {
    taken: u32,
    free: u32,
}

/// Puts the figures of the farms that are enabled on a page.
pub(super) fn farms(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let enabled = snapshot.directory.farms().filter(|farm| farm.enabled);
    let enabled = enabled.map(|farm| (&farm.id, newcomer(snapshot, &farm.id, now)));
    let enabled: Vec<_> = enabled.collect();
    let mut samples = page.gauge(
        "farm_hosts",
        "Hosts of a farm: open to newcomers, full for now, or out of service for them.",
    );
    for (farm, candidates) in &enabled {
        let count = |of: fn(&Candidate) -> bool| candidates.iter().filter(|it| of(it)).count();
        let (open, full) = (count(is_open), count(is_full));
        let out = candidates.len().saturating_sub(open + full);
        for (state, count) in [("open", open), ("full", full), ("out", out)] {
            samples.put(&[("farm", farm.as_str()), ("state", state)], count as f64);
        }
    }
    let mut samples = page.gauge(
        "farm_seats",
        "Users that fit on a farm's hosts in service by max_sessions, each of which has one: taken, and free.",
    );
    for (farm, candidates) in &enabled {
        let Some(seats) = seats(snapshot, candidates, now) else {
            continue;
        };
        for (state, count) in [("taken", seats.taken), ("free", seats.free)] {
            samples.put(
                &[("farm", farm.as_str()), ("state", state)],
                f64::from(count),
            );
        }
    }
}

fn is_open(candidate: &Candidate) -> bool {
    candidate.exclusion.is_none()
}

/// It takes newcomers again by itself.
fn is_full(candidate: &Candidate) -> bool {
    matches!(
        candidate.exclusion,
        Some(Exclusion::Full | Exclusion::LogonsPending)
    )
}

/// `None`: a host has no bound, or there is no host in service.
fn seats(snapshot: &Snapshot, candidates: &[Candidate], now: Timestamp) -> Option<Seats> {
    let mut all = None;
    let in_service = candidates.iter().filter(|it| is_open(it) || is_full(it));
    for candidate in in_service {
        let caps = snapshot.directory.caps(&candidate.host)?;
        let (most, view) = (caps.max_sessions?, snapshot.hosts.get(&candidate.host)?);
        let users = view.occupancy(caps, now).users;
        let seats: &mut Seats = all.get_or_insert_default();
        seats.taken = seats.taken.saturating_add(users);
        seats.free = seats.free.saturating_add(most.saturating_sub(users));
    }
    all
}
