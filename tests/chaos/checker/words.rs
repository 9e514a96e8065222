//! I6: no trouble of the store ends a tunnel. I10: whoever clicks is answered. And no replica ends
//! by itself.

use std::time::Duration;

use super::super::history::{Event, Trouble, Visit, What};
use super::Violation;
use super::picture::{Picture, Span, Tunnel};

/// A page sees a moment later that its replica is gone.
const SEEN: Duration = Duration::from_secs(3);

pub(super) fn judge(picture: &Picture<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for event in picture.events {
        match &event.what {
            What::Broken { visit } => {
                let within = |event: &Event| Span {
                    from: event.at.minus(SEEN),
                    to: event.at.plus(SEEN),
                };
                found.extend(unexplained(picture, *visit, event, within(event), "I6"));
            }
            What::LetDown { visit } => {
                let clicked = picture.clicks.get(visit).map(|click| click.event.at);
                let within = Span {
                    from: clicked.unwrap_or(event.at).minus(SEEN),
                    to: event.at.plus(SEEN),
                };
                found.extend(unexplained(picture, *visit, event, within, "I10"));
            }
            What::Died { replica, how } => {
                let says = format!("replica {replica} ended by itself: {how}");
                found.push(Violation::of("process", says).with([event]));
            }
            _ => {}
        }
    }
    found
}

/// Whose replica neither was killed nor stood still has no excuse.
fn unexplained<'a>(
    picture: &Picture<'a>,
    visit: Visit,
    event: &'a Event,
    within: Span,
    invariant: &'static str,
) -> Option<Violation> {
    let click = picture.clicks.get(&visit)?;
    let mut troubles = picture.troubles_of(click.replica, SEEN);
    if troubles.any(|(of, span)| of == Trouble::Process && span.meets(within)) {
        return None;
    }
    let says = match invariant {
        "I6" => format!("a tunnel of user {} ended by itself", click.user),
        _ => format!("a click of user {} was not answered", click.user),
    };
    let tunnels = picture
        .tunnels
        .iter()
        .filter(|tunnel| tunnel.visit == visit);
    let told = tunnels.flat_map(Tunnel::events);
    let events = [click.event, event].into_iter().chain(told);
    Some(Violation::of(invariant, says).with(events))
}
