//! Compares what was decided with what the rules make of it, and names the
//! rule that was broken.

use std::fmt;

use sessionguard::placement::{
    Decision, HostId, Mode, Outcome, Placement, Reason, Refusal, SessionState,
};

use super::ask::Ask;
use super::expect::{Drawn, Expect, Ground, Way};
use super::figures::{is_of, name};
use super::liar;

/// The rules, in the order they are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// I18.
    FailClosed,
    /// I3.
    Boundary,
    /// I2.
    Maintenance,
    /// I4.
    Configured,
    /// I1.
    OneHost,
    Trust,
    /// I11.
    Drain,
    Breaker,
    /// I14.
    MaxSessions,
    PendingCap,
    Returning,
    Eligible,
    BestScore,
    /// I15.
    Placed,
    RefusalKind,
    Identity,
    SameAnswer,
    /// I16.
    Sighting,
    /// I19.
    LeaseLives,
    /// I19.
    LeaseEnds,
}

/// A rule that was broken, and how.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) rule: Rule,
    pub(super) what: String,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailClosed => "what leads nowhere is refused",
            Self::Boundary => "the host is a member of the farm",
            Self::Maintenance => "a host in maintenance is never chosen",
            Self::Configured => "the address is the configured one",
            Self::OneHost => "one host a lease key and farm",
            Self::Trust => "nobody we know elsewhere follows a lie",
            Self::Drain => "a draining host gets returning users only",
            Self::Breaker => "nobody new where the breaker is open",
            Self::MaxSessions => "new sessions never go beyond max_sessions",
            Self::PendingCap => "logons under way stay within their cap",
            Self::Returning => "a returning user gets the own host",
            Self::Eligible => "new sessions go to eligible hosts only",
            Self::BestScore => "new sessions go to the best score",
            Self::Placed => "a healthy host with room takes the user",
            Self::RefusalKind => "a refusal says the right reason",
            Self::Identity => "every spelling is the right person",
            Self::SameAnswer => "the same question has the same answer",
            Self::Sighting => "a report means what it shows",
            Self::LeaseLives => "an open tunnel's lease does not expire",
            Self::LeaseEnds => "every lease ends",
        })
    }
}

pub(super) fn broken(rule: Rule, what: impl Into<String>) -> Result<(), Violation> {
    Err(Violation {
        rule,
        what: what.into(),
    })
}

/// A refusal's kind, as expectations name it.
pub(super) fn kind(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownResource => "unknown resource",
        Refusal::ResourceDisabled(_) => "resource disabled",
        Refusal::NoFarm => "no farm",
        Refusal::UnknownFarm(_) => "unknown farm",
        Refusal::FarmDisabled(_) => "farm disabled",
        Refusal::EmptyFarm(_) => "empty farm",
        Refusal::HeldElsewhere(_) => "held elsewhere",
        Refusal::LoginMismatch => "login mismatch",
        Refusal::TooManyTunnels => "too many tunnels",
        Refusal::LogonsPending(_) => "logons pending",
        Refusal::Busy(_) => "busy",
        Refusal::Unreachable(_) => "unreachable",
        _ => "of another kind",
    }
}

/// Whether a decision is what the rules make of the request.
pub(super) fn judge(
    ground: &Ground<'_>,
    ask: &Ask,
    drawn: &Drawn<'_>,
    decision: &Decision,
) -> Result<(), Violation> {
    match &decision.outcome {
        Outcome::Placed(placement) => {
            safe(ground, drawn, placement)?;
            as_expected(drawn, placement)
                .map_err(|violation| counted(drawn, decision, violation))?;
        }
        Outcome::Refused(refusal) => refused(&drawn.expect, kind(refusal))?,
        Outcome::Unmatched if drawn.expect == Expect::NotOurs => {}
        Outcome::Unmatched => broken(Rule::FailClosed, "passed by unbrokered")?,
    }
    let same = drawn.who == decision.user.as_ref().map(name);
    if drawn.farm.is_some() && !matches!(drawn.expect, Expect::Refused("login mismatch")) && !same {
        let (meant, taken) = (&drawn.who, &decision.user);
        broken(
            Rule::Identity,
            format!("{ask:?} is {meant:?}, taken for {taken:?}"),
        )?;
    }
    Ok(())
}

/// What no reason whatever excuses.
fn safe(ground: &Ground<'_>, drawn: &Drawn<'_>, placement: &Placement) -> Result<(), Violation> {
    let host = &placement.host;
    let Some(farm) = drawn.farm else {
        return broken(Rule::FailClosed, format!("placed on {host}"));
    };
    let Some(figures) = drawn.figures.get(host) else {
        return broken(Rule::Boundary, format!("{host} is not in {}", farm.id));
    };
    if figures.mode == Mode::Maintenance {
        return broken(Rule::Maintenance, format!("{host} is in maintenance"));
    }
    let configured = ground.scene.host(host);
    if (&configured.address, configured.port) != (&placement.address, placement.port) {
        return broken(
            Rule::Configured,
            format!("{}:{}", placement.address, placement.port),
        );
    }
    match &drawn.expect {
        Expect::Beside(hosts) if hosts.contains(host) => return Ok(()),
        Expect::Beside(hosts) => return broken(Rule::OneHost, format!("{host} beside {hosts:?}")),
        Expect::Refused(kind @ "held elsewhere") => {
            return broken(Rule::OneHost, format!("{host}, though {kind}"));
        }
        _ => {}
    }
    liar::withstood(ground, drawn, placement)?;
    let (users, bounds) = (figures.users(), ground.bounds(host));
    let newcomer = !belongs(ground, drawn, host);
    if newcomer && figures.mode == Mode::Drain {
        return broken(Rule::Drain, format!("somebody new on {host}"));
    }
    if placement.reason == Reason::Score && figures.barred() {
        return broken(Rule::Breaker, format!("somebody new on {host}"));
    }
    let full = bounds
        .sessions
        .filter(|most| users >= usize::try_from(*most).unwrap());
    if let Some(most) = full.filter(|_| newcomer) {
        return broken(
            Rule::MaxSessions,
            format!("{users} users of {most} on {host}"),
        );
    }
    let (pending, cap) = (figures.pending(), ground.cap(host, figures));
    if pending >= cap {
        return broken(
            Rule::PendingCap,
            format!("{pending} of {cap} under way on {host}"),
        );
    }
    Ok(())
}

/// Whether anything of the user's is on a host: a session or a lease.
fn belongs(ground: &Ground<'_>, drawn: &Drawn<'_>, host: &HostId) -> bool {
    let sessions = drawn.figures[host].sessions();
    let session = |who| sessions.iter().any(|s| is_of(who, s));
    let lease = |key| {
        let homes = ground.model.homes(key, ground.now);
        homes.iter().any(|(_, home)| home.host == *host)
    };
    drawn.who.as_ref().is_some_and(session) || drawn.key.as_ref().is_some_and(lease)
}

/// Adds what either side counted on each host.
fn counted(drawn: &Drawn<'_>, decision: &Decision, mut violation: Violation) -> Violation {
    for candidate in &decision.candidates {
        let ours = drawn
            .figures
            .get(&candidate.host)
            .map(|figures| figures.load());
        let (host, score) = (&candidate.host, &candidate.score);
        let told = format!(
            "\n  {host}: {} active, {} disconnected, {:?}; {ours:?} by the rules",
            score.active, score.disconnected, candidate.occupancy
        );
        violation.what.push_str(&told);
    }
    violation
}

fn as_expected(drawn: &Drawn<'_>, placement: &Placement) -> Result<(), Violation> {
    let (host, reason) = (&placement.host, placement.reason);
    let (hosts, reasons): (&[HostId], Reason) = match &drawn.expect {
        Expect::Beside(hosts) => (hosts, Reason::Tunnel),
        Expect::Back(host, Way::Lease) => (std::slice::from_ref(host), Reason::Lease),
        Expect::Back(host, Way::Session(state)) => {
            (std::slice::from_ref(host), Reason::Reconnect(*state))
        }
        Expect::New(hosts) => (hosts, Reason::Score),
        Expect::Refused(kind) => {
            return broken(Rule::Eligible, format!("{host} ({reason}), though {kind}"));
        }
        Expect::NotOurs => return broken(Rule::FailClosed, "placed though none of ours"),
    };
    let rule = match drawn.expect {
        Expect::New(_) => Rule::BestScore,
        _ => Rule::Returning,
    };
    if !hosts.contains(host) || reason != reasons {
        let told = format!("{host} ({reason}), expected {hosts:?} ({reasons})");
        return broken(rule, told);
    }
    Ok(())
}

fn refused(expect: &Expect, kind: &'static str) -> Result<(), Violation> {
    match expect {
        Expect::Refused(expected) if *expected == kind => Ok(()),
        Expect::Refused(expected) => broken(Rule::RefusalKind, format!("{kind}, not {expected}")),
        Expect::NotOurs => broken(Rule::RefusalKind, format!("{kind}, though none of ours")),
        Expect::Beside(hosts) | Expect::New(hosts) => {
            broken(Rule::Placed, format!("{kind}, not placed on {hosts:?}"))
        }
        Expect::Back(host, way) => broken(Rule::Placed, format!("{kind}, not {way:?} on {host}")),
    }
}

/// What came out, in a word, for the tally.
pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Unmatched => "passed through",
        Outcome::Refused(refusal) => kind(refusal),
        Outcome::Placed(placement) => match placement.reason {
            Reason::Tunnel => "placed beside a tunnel",
            Reason::Reconnect(SessionState::Disconnected) => "placed on a left session",
            Reason::Reconnect(_) => "placed on a session in use",
            Reason::Lease => "placed by lease",
            Reason::Score => "placed by score",
            Reason::Degraded => "placed by what was known last",
        },
    }
}
