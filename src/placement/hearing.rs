//! What a host's newest report means for our tunnels and for the leases that
//! linger there: who a tunnel turned out to be, who signed out, who is
//! somewhere else.
//!
//! Only what a report saw can follow from it: one that lacks a user says
//! nothing of a lease that was left after the moment it speaks of, and nothing
//! at all where the agent does not count its reports, since it may be an older
//! one that comes late.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::aim::Trust;
use super::identity::UserKey;
use super::ids::{FarmId, HostId, TunnelId};
use super::lease_key::LeaseKey;
use super::report::{Report, Session};
use super::rules::Rules;
use super::snapshot::{HostView, Snapshot, TunnelView};
use super::time::Timestamp;
use super::trust::{claims, tells_who};

/// Something a report means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A tunnel in doubt is its user's: the logon is there.
    Shown(TunnelId),
    /// A tunnel of a user nobody knew is this user's.
    Tagged {
        /// Which tunnel.
        tunnel: TunnelId,
        /// Whose it is.
        user: UserKey,
        /// The lease key that goes with that.
        key: LeaseKey,
        /// The farm it was placed in.
        farm: FarmId,
    },
    /// The session a lease stands for is on another host.
    Moved {
        /// Whose lease.
        key: LeaseKey,
        /// Where the session is.
        to: HostId,
        /// What the report speaks of: leases left later are not meant.
        taken: Timestamp,
    },
    /// The session a lease stands for was seen here and is gone.
    SignedOut {
        /// Whose lease.
        key: LeaseKey,
        /// What the report speaks of: leases left later are not meant.
        taken: Timestamp,
    },
}

impl Report {
    /// Whether it is news after `known`: where the agent counts its reports by
    /// that, else by their arrival.
    pub fn is_newer_than(&self, known: &Self) -> bool {
        self.order
            .zip(known.order)
            .is_none_or(|(new, old)| new > old)
    }

    /// Whether both are of one start of the host.
    fn is_of_same_boot(&self, other: &Self) -> bool {
        let boots = self.order.zip(other.order);
        boots.is_some_and(|(a, b)| a.boot == b.boot)
    }

    /// Whether they are of two starts of the host.
    fn is_of_other_boot(&self, other: &Self) -> bool {
        let boots = self.order.zip(other.order);
        boots.is_some_and(|(a, b)| a.boot != b.boot)
    }

    /// Whose tunnel that is: exactly one session came from a client of that
    /// name.
    fn tagged(&self, tag: &str) -> Option<&Session> {
        let from_there = |session: &&Session| {
            let name = session.client_name.as_deref();
            name.is_some_and(|name| name.eq_ignore_ascii_case(tag))
        };
        let mut tagged = self.sessions.iter().filter(from_there);
        tagged.next().filter(|_| tagged.next().is_none())
    }
}

impl HostView {
    /// Takes over a report. False, and nothing changed, where a newer one is
    /// known. `taken_there` says of whom we know that they were here through
    /// us, and `most_at_first` how many others a first report may name
    /// (`None`: any number).
    pub fn hear(
        &mut self,
        report: Report,
        most_at_first: Option<u32>,
        taken_there: impl Fn(&UserKey) -> bool,
    ) -> bool {
        let before = self.report.as_ref();
        if before.is_some_and(|known| !report.is_newer_than(known)) {
            return false;
        }
        self.strangers = self.strangers_with(&report, most_at_first, taken_there);
        self.heard_since.get_or_insert(report.received);
        let before = self.report.as_ref();
        if before.is_some_and(|known| report.is_of_other_boot(known)) {
            self.restarted = Some(report.taken);
        }
        let mut seen = BTreeSet::new();
        if let Some(before) = before.filter(|known| report.is_of_same_boot(known)) {
            seen.append(&mut self.departed);
            seen.extend(before.sessions.iter().map(|session| session.user.clone()));
        }
        // Kept for those only whom something of ours waits for.
        seen.retain(|user| {
            let back = report.sessions.iter().any(|s| s.user == *user);
            !back && self.waits_for(user, report.received)
        });
        self.departed = seen;
        self.report = Some(Arc::new(report));
        true
    }

    fn waits_for(&self, session: &UserKey, now: Timestamp) -> bool {
        let is_theirs = |user: &UserKey| user.matches_session(session);
        let mut tunnels = self.tunnels.iter().filter_map(|t| t.user.as_ref());
        let mut leases = self.lingering.left(now);
        tunnels.any(is_theirs) || leases.any(|(key, _)| is_theirs(&key.user()))
    }

    /// Whether the report shows that this tunnel in doubt is its user's: a
    /// session of theirs began after it did, and no other tunnel explains that.
    fn shows_logon(&self, tunnel: &TunnelView) -> bool {
        let (Some(report), Some(user)) = (&self.report, &tunnel.user) else {
            return false;
        };
        let explains = |other: &Arc<TunnelView>| {
            other.tunnel != tunnel.tunnel && other.user.as_ref() == Some(user)
        };
        tunnel.trust == Trust::Doubtful
            && !tunnel.elsewhere
            && tunnel.stood.is_some()
            && !self.tunnels.iter().any(explains)
            && report
                .of(user)
                .any(|session| session.latest >= tunnel.since)
    }
}

/// What the newest report of a host means at the moment it came.
pub fn findings(snapshot: &Snapshot, host: &HostId, now: Timestamp) -> Vec<Finding> {
    let Some(view) = snapshot.hosts.get(host) else {
        return Vec::new();
    };
    let Some(report) = &view.report else {
        return Vec::new();
    };
    let believed = |user: &UserKey| tells_who(snapshot, host, view, user, now);
    let shown = view
        .tunnels
        .iter()
        .filter(|tunnel| view.shows_logon(tunnel) && tunnel.user.as_ref().is_some_and(believed));
    let mut found: Vec<_> = shown.map(|t| Finding::Shown(t.tunnel.clone())).collect();
    let unknown = view.tunnels.iter();
    let unknown = unknown.filter(|tunnel| tunnel.user.is_none() && !tunnel.elsewhere);
    found.extend(unknown.filter_map(|tunnel| {
        let session = report.tagged(&tunnel.tunnel.tag())?;
        let rules = snapshot.directory.rules();
        let user = snapshot.people.qualified(session.user.clone(), rules).0;
        believed(&user).then(|| bind(rules, tunnel, user))
    }));
    // Whom a mistrusted host does not name may be there all the same.
    if report.order.is_some() && view.mistrust(snapshot.directory.rules()).is_none() {
        left_leases(snapshot, host, view, report, now, &mut found);
    }
    found
}

fn bind(rules: &Rules, tunnel: &TunnelView, user: UserKey) -> Finding {
    let key = if rules.single_session_per_user {
        LeaseKey::of_user(&user)
    } else {
        LeaseKey::of_resource(&user, &tunnel.farm, tunnel.resource.as_ref())
    };
    Finding::Tagged {
        tunnel: tunnel.tunnel.clone(),
        user,
        key,
        farm: tunnel.farm.clone(),
    }
}

/// Leases that linger on a host whose report lacks their user.
fn left_leases(
    snapshot: &Snapshot,
    host: &HostId,
    view: &HostView,
    report: &Report,
    now: Timestamp,
    found: &mut Vec<Finding>,
) {
    let rules = snapshot.directory.rules();
    let taken = report.taken;
    for (key, until) in view.lingering.left(now) {
        let user = key.user();
        let open =
            |t: &Arc<TunnelView>| t.key.as_ref() == Some(key) || t.user.as_ref() == Some(&user);
        if !was_left_by(until, rules.lease, taken)
            || report.shows(&user)
            || view.tunnels.iter().any(open)
        {
            continue;
        }
        let key = key.clone();
        if let Some(to) = seen_elsewhere(snapshot, host, &user, now) {
            found.push(Finding::Moved {
                key: key.clone(),
                to,
                taken,
            });
        }
        if view
            .departed
            .iter()
            .any(|session| user.matches_session(session))
        {
            found.push(Finding::SignedOut { key, taken });
        }
    }
}

/// Whether a lease that lingers until then had been left by that moment.
pub(super) fn was_left_by(until: Timestamp, lease: Duration, taken: Timestamp) -> bool {
    until <= taken + lease
}

/// Where fresh reports that are believed show the user's best session, besides
/// on this host.
fn seen_elsewhere(
    snapshot: &Snapshot,
    host: &HostId,
    user: &UserKey,
    now: Timestamp,
) -> Option<HostId> {
    let offline_after = snapshot.directory.rules().offline_after;
    let claims = claims(snapshot, user, now);
    let others = claims.iter().filter(|claim| {
        claim.host != host && claim.aside.is_none() && claim.report.age(now) <= offline_after
    });
    let theirs = others.flat_map(|claim| {
        let ranked = claim.report.of(user);
        ranked.map(move |s| (s.state, Reverse(s.latest), claim.host))
    });
    theirs.min().map(|(_, _, id)| id.clone())
}
