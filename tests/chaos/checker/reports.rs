//! I16: an older report never wins over a newer one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::history::{Event, Replica, What};
use super::Violation;
use super::picture::{Picture, Span};

/// Within that what one replica heard is known to the others.
const TOLD: Duration = Duration::from_millis(1500);

/// How long a replica may need to know everything again.
const RECOVERED: Duration = Duration::from_secs(10);

pub(super) fn judge(picture: &Picture<'_>) -> Vec<Violation> {
    let mut found = kept(picture.events);
    found.extend(taken(picture));
    found
}

/// What is kept of a host only gets newer.
fn kept(events: &[Event]) -> Vec<Violation> {
    let mut last: BTreeMap<_, ((u64, u64), &Event)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in events {
        let What::Kept {
            host, boot, seq, ..
        } = event.what
        else {
            continue;
        };
        let number = (boot, seq);
        if let Some((newest, before)) = last.get(&host)
            && *newest > number
        {
            let says = format!("an older report of host {host} was kept over a newer one");
            found.push(Violation::of("I16", says).with([*before, event]));
        }
        last.insert(host, (number, event));
    }
    found
}

/// A report that comes after a newer one was heard is no news, at whichever
/// replica: where one of the two is cut off, the other cannot know.
fn taken(picture: &Picture<'_>) -> Vec<Violation> {
    let mut made = BTreeMap::new();
    let mut newest: BTreeMap<_, Vec<(u64, Replica, &Event)>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in picture.events {
        match event.what {
            What::Reported { host, seq, replica } => {
                made.insert((host, seq), (replica, event));
            }
            What::Answered {
                host,
                seq,
                taken: true,
            } => {
                let Some((replica, sent)) = made.get(&(host, seq)).copied() else {
                    continue;
                };
                let heard = newest.entry(host).or_default();
                let lately = |since: &Event| Span {
                    from: since.at.minus(RECOVERED),
                    to: event.at,
                };
                let newer = heard.iter().find(|(other, teller, at)| {
                    *other > seq
                        && at.at.plus(TOLD) < sent.at
                        && (*teller == replica || !picture.is_troubled(*teller, lately(at), TOLD))
                });
                if let Some((_, _, newer)) = newer
                    && !picture.is_troubled(replica, lately(sent), TOLD)
                {
                    let says = format!("an older report of host {host} was taken for news");
                    found.push(Violation::of("I16", says).with([*newer, sent, event]));
                }
                heard.push((seq, replica, event));
                // Only the last ones can matter.
                if heard.len() > 64 {
                    heard.remove(0);
                }
            }
            _ => {}
        }
    }
    found
}
