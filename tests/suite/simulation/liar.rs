//! A host whose agent lies: at random it claims users who are not there, and
//! now and then more of them than it has sessions.
//!
//! A session that is made up carries a mark that only the shadow reads.

use sessionguard::placement::{
    HostId, Placement, Reason, Report, Session, SessionState, Timestamp, UserKey,
};

use super::ask::Who;
use super::dice::Dice;
use super::expect::{Drawn, Ground};
use super::figures::is_of;
use super::scene::PEOPLE;
use super::verdict::{Rule, Violation, broken};

/// The client that made-up sessions are used from: no tunnel has such a mark.
const MARK: &str = "made up";

fn is_made_up(session: &Session) -> bool {
    session.client_name.as_deref() == Some(MARK)
}

/// What a liar says instead of the truth; sessions that are there it names.
pub(super) fn tell(report: &mut Report, bare: bool, now: Timestamp, dice: &mut Dice) {
    if dice.chance(30) {
        return;
    }
    for _ in 0..dice.between(1, 6) {
        let account = dice.pick(&PEOPLE).account();
        let user = match bare {
            true => UserKey::new(account.user(), "").unwrap(),
            false => account,
        };
        if report.sessions.iter().any(|session| session.user == user) {
            continue;
        }
        report.sessions.push(Session {
            user,
            state: *dice.pick(&[
                SessionState::Active,
                SessionState::Connected,
                SessionState::Disconnected,
            ]),
            latest: now,
            client_name: Some(MARK.to_owned()),
        });
    }
    report.overclaims = dice.chance(25);
}

/// Whether all that is reported there of this user is made up.
fn is_lied_about(drawn: &Drawn<'_>, who: &Who, host: &HostId) -> bool {
    let sessions = drawn.figures[host].sessions().iter();
    let mut theirs = sessions.filter(|session| is_of(who, session)).peekable();
    theirs.peek().is_some() && theirs.all(is_made_up)
}

/// Whether we know this user from another host of the farm, which says so
/// itself and truly.
fn is_known_elsewhere(ground: &Ground<'_>, drawn: &Drawn<'_>, who: &Who, host: &HostId) -> bool {
    let rules = &ground.scene.rules;
    drawn.figures.iter().any(|(id, figures)| {
        let report = figures.view.report.as_ref();
        let fresh = report.filter(|r| ground.now.since(r.received) <= rules.offline_after);
        let mut sessions = fresh.into_iter().flat_map(|r| &r.sessions);
        *id != host
            && ground.model.vouches(who, id, ground.now)
            && sessions.any(|session| is_of(who, session) && !is_made_up(session))
    })
}

/// Nobody is taken back to a session that is not to be believed, and least of
/// all somebody we know elsewhere to one that is made up.
pub(super) fn withstood(
    ground: &Ground<'_>,
    drawn: &Drawn<'_>,
    placement: &Placement,
) -> Result<(), Violation> {
    let (host, Some(who)) = (&placement.host, &drawn.who) else {
        return Ok(());
    };
    if !matches!(placement.reason, Reason::Reconnect(_)) {
        return Ok(());
    }
    let several = !ground.scene.rules.single_session_per_user;
    let ours = several || ground.model.vouches(who, host, ground.now);
    if !ours && is_lied_about(drawn, who, host) && is_known_elsewhere(ground, drawn, who, host) {
        return broken(Rule::Trust, format!("{who:?} follows a lie to {host}"));
    }
    if !ground.believes(who, host) {
        return broken(Rule::Trust, format!("{host} is believed to have {who:?}"));
    }
    Ok(())
}

/// What there was of lies about the one who asked, for the tally.
pub(super) fn temptation(ground: &Ground<'_>, drawn: &Drawn<'_>) -> Option<&'static str> {
    let who = drawn.who.as_ref()?;
    let liar = drawn
        .figures
        .keys()
        .find(|host| is_lied_about(drawn, who, host))?;
    Some(match is_known_elsewhere(ground, drawn, who, liar) {
        true => "lie about somebody known elsewhere",
        false => "lie about somebody else",
    })
}
