//! I19: every lease ends, and a live tunnel's does not run out while its replica reaches the store.

use std::time::Duration;

use super::super::history::{Event, Moment, What};
use super::picture::{CLAIM, Claim, Picture, Span, Tunnel};
use super::{Rules, Violation};

/// With the store at hand for so long, what is due is written.
const WRITTEN: Duration = Duration::from_secs(6);

/// How long after a trouble a replica may need to be back at work.
const RECOVERED: Duration = Duration::from_secs(2);

/// Clocks are one; what is written is dated a moment earlier.
const DATED: Duration = Duration::from_secs(2);

/// Within that it is known that a tunnel ended.
const ENDED: Duration = Duration::from_secs(5);

pub(super) fn judge(picture: &Picture<'_>, rules: &Rules) -> Vec<Violation> {
    let mut found = Vec::new();
    for claim in &picture.claims {
        let written = picture.written.get(&claim.tunnel);
        let written = written.map_or(&[][..], Vec::as_slice);
        found.extend(bounds(claim, written, rules));
        if let Some(at) = claim.sent {
            let tunnel = &picture.tunnels[at];
            found.extend(lapse(picture, claim, tunnel, written));
            found.extend(outlives(picture, tunnel, written));
        }
    }
    found
}

/// Until when a tunnel holds its lease by what was written; `None`: it left.
fn until(event: &Event) -> Option<Moment> {
    match event.what {
        What::Claimed { until, .. } | What::Renewed { until, .. } => Some(until),
        _ => None,
    }
}

/// Nothing is written that would last for ever.
fn bounds(claim: &Claim<'_>, written: &[&Event], rules: &Rules) -> Option<Violation> {
    let most = rules.lease.max(CLAIM) + DATED;
    let too_long = written.iter().find(|event| {
        let lingers = match event.what {
            What::Left { lingers, .. } => lingers,
            _ => None,
        };
        let ends = until(event).or(lingers);
        ends.is_some_and(|ends| ends > event.at.plus(most))
    })?;
    let says = format!("a lease of user {} lasts too long", claim.user);
    Some(Violation::of("I19", says).with([claim.event, too_long]))
}

/// A live tunnel's lease ran out, though its replica could have renewed it.
fn lapse(
    picture: &Picture<'_>,
    claim: &Claim<'_>,
    tunnel: &Tunnel<'_>,
    written: &[&Event],
) -> Option<Violation> {
    for (nth, event) in written.iter().enumerate() {
        let Some(until) = until(event) else {
            // It left; what is written of it after that is another story.
            return None;
        };
        let next = written.get(nth + 1).map_or(Moment::NEVER, |next| next.at);
        let lapses = until < next && until.plus(ENDED) < tunnel.ends.from;
        // A third of its time is when it is due.
        let due = event
            .at
            .plus(until.since(event.at) / 3 + Duration::from_secs(1));
        if lapses
            && could_write(
                picture,
                tunnel,
                Span {
                    from: due,
                    to: until,
                },
            )
        {
            let says = format!("the lease of a live tunnel of user {} ran out", claim.user);
            let next = written.get(nth + 1).copied();
            let events = [claim.event, event].into_iter().chain(next);
            return Some(Violation::of("I19", says).with(events.chain(tunnel.events())));
        }
    }
    None
}

/// Whether within this time nothing was in its way for long enough.
fn could_write(picture: &Picture<'_>, tunnel: &Tunnel<'_>, within: Span) -> bool {
    let troubles = picture.troubles_of(tunnel.replica, RECOVERED);
    let mut troubles: Vec<_> = troubles.map(|(_, span)| span).collect();
    troubles.retain(|span| span.meets(within));
    troubles.sort_by_key(|span| span.from);
    let mut free = within.from;
    for trouble in troubles {
        if trouble.from.since(free) >= WRITTEN {
            return true;
        }
        free = free.max(trouble.to);
    }
    within.to.since(free) >= WRITTEN
}

/// It is renewed though its tunnel ended.
fn outlives(picture: &Picture<'_>, tunnel: &Tunnel<'_>, written: &[&Event]) -> Option<Violation> {
    let late = written.iter().find(|event| {
        let within = Span {
            from: tunnel.ends.to.plus(ENDED),
            to: event.at,
        };
        matches!(event.what, What::Renewed { .. } | What::Claimed { .. })
            && could_write(picture, tunnel, within)
    })?;
    let says = format!(
        "a lease of user {} is renewed, its tunnel ended",
        tunnel.user
    );
    Some(Violation::of("I19", says).with(tunnel.events().chain([*late])))
}
