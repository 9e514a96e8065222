//! The picture a decision is made on: immutable, published whole, so that one
//! request sees one generation of everything.
//!
//! Published by the fleet; a simulator builds it by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::aim::Trust;
use super::breaker::Breaker;
use super::count::Known;
use super::directory::Directory;
use super::identity::UserKey;
use super::ids::{FarmId, HostId, ResourceId, TunnelId};
use super::lease_key::LeaseKey;
use super::lingering::LingeringLeases;
use super::mode::{Mode, Modes};
use super::people::People;
use super::report::{Report, SessionState};
use super::rules::Caps;
use super::time::Timestamp;
use super::trust::Strangers;

/// How long a tunnel that stood may miss from its host's reports and still
/// count as a session there: a logon takes that long to show.
pub const UNSEEN: Duration = Duration::from_secs(60);

/// Everything a decision reads besides the request and the user's own leases.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Grows by one with every published change.
    pub generation: u64,
    /// Which configuration this is: one at the start, one more with each reload.
    pub configuration: u64,
    /// What is configured.
    pub directory: Arc<Directory>,
    /// What is known of each configured host, and of each that was taken out
    /// of the configuration and has tunnels or lingering leases still: those
    /// tunnels count, and bar their users from other hosts. Such a host is in
    /// no farm, so that nobody is placed on it.
    pub hosts: BTreeMap<HostId, Arc<Known>>,
    /// Who connected through us.
    pub people: Arc<People>,
    /// When this process began to listen: what was reported before that counts
    /// for as long as an agent needs to be heard again.
    pub started: Timestamp,
}

/// What is known of one host.
#[derive(Debug, Clone, Default)]
pub struct HostView {
    /// Who may be placed here, and when.
    pub modes: Modes,
    /// What our own probe says.
    pub probe: Probe,
    /// The last report of the host's agent; `None` where no agent ever reported.
    /// Shared by pictures: it names everybody on the host.
    pub report: Option<Arc<Report>>,
    /// What the first report of its present start spoke of; `None` where it
    /// runs since before we first heard of it, and where its agent does not
    /// count.
    pub restarted: Option<Timestamp>,
    /// Users an earlier report of the same start of the host showed and the last
    /// one does not, where a tunnel or a lease of ours waits for them.
    pub departed: BTreeSet<UserKey>,
    /// When its agent was heard first; `None` where none ever was.
    pub heard_since: Option<Timestamp>,
    /// Users its agent reports whom we did not take there, as far as that speaks
    /// against it.
    pub strangers: Strangers,
    /// The tunnels to this host, pending and stood, at whichever replica. Shared
    /// by pictures, each by itself.
    pub tunnels: Vec<Arc<TunnelView>>,
    /// Leases that linger here without a tunnel, with their ends. Shared by
    /// pictures: there are many, and most changes are of something else.
    pub lingering: Arc<LingeringLeases>,
    /// Since when it can be reached again after it could not, or its breaker let
    /// nobody new in; `None` where it could ever since we started. See [`Self::turned_usable`].
    pub usable_since: Option<Timestamp>,
    /// What keeps newcomers from a host that answers and fails all the same.
    pub breaker: Breaker,
    /// Up to where what replicas, ours among them, placed here and ordered for
    /// it is in this view.
    pub standing: Standing,
}

/// How far a host has come in the store that replicas share; 0 where nothing was
/// told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Standing {
    /// Rises with every claim on it and every order for it.
    pub version: u64,
    /// How many claims there were on it, ever.
    pub claims: u64,
}

/// What our own X.224 probe last said, and since when it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// Not asked yet.
    #[default]
    Unknown,
    /// The RDP port answers.
    Answering {
        /// The first of the unbroken row of answers.
        since: Timestamp,
    },
    /// The RDP port does not answer.
    Failing {
        /// The first of the unbroken row of failures.
        since: Timestamp,
    },
}

/// A tunnel to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelView {
    /// Which tunnel.
    pub tunnel: TunnelId,
    /// The lease key it holds; `None` for a user not known yet.
    pub key: Option<LeaseKey>,
    /// Its user; `None` where Guacamole prompts.
    pub user: Option<UserKey>,
    /// Whether its user is to be believed.
    pub trust: Trust,
    /// The farm it was placed in.
    pub farm: FarmId,
    /// The resource it was placed for; `None` where any host would do.
    pub resource: Option<ResourceId>,
    /// When its seat was taken.
    pub since: Timestamp,
    /// When its RDP connection stood; `None` while pending.
    pub stood: Option<Timestamp>,
    /// It is open at another replica, which alone ends it and learns of its user.
    pub elsewhere: bool,
}

/// How full a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Users with a session, an open tunnel or a placement, each once.
    pub users: u32,
    /// Logons under way.
    pub pending: u32,
    /// Most logons that may be under way at this moment.
    pub pending_cap: u32,
}

/// Sessions on a host as the score counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Active and connected sessions, and placements not yet seen as sessions.
    pub active: u32,
    /// Disconnected sessions.
    pub disconnected: u32,
}

impl HostView {
    /// Who may be placed here now.
    pub fn mode(&self, now: Timestamp) -> Mode {
        self.modes.at(now)
    }

    /// Since when it takes new users again after it did not: it can be reached
    /// again, or its mode is `online` again. `None` where it did all along.
    pub fn turned_usable(&self, now: Timestamp) -> Option<Timestamp> {
        self.usable_since.max(self.modes.online_since(now))
    }

    /// Health as the score counts it: the agent's, or 100 for a host without one.
    pub fn health(&self) -> u8 {
        self.report.as_ref().map_or(100, |r| r.health.min(100))
    }

    /// Sessions as the score counts them, each user once.
    ///
    /// With an agent: reported sessions, and our placements until a report
    /// shows them or [`UNSEEN`] after they stood. Without one: our open tunnels
    /// are the active sessions, lingering leases the disconnected ones.
    pub fn load(&self, now: Timestamp) -> Load {
        let mut load = Load::default();
        let reported = self.report.as_ref().map_or(&[][..], |r| &r.sessions);
        for session in reported {
            match session.state {
                SessionState::Active | SessionState::Connected => load.active += 1,
                SessionState::Disconnected => load.disconnected += 1,
            }
        }
        let mut users = Vec::with_capacity(self.tunnels.len());
        for tunnel in &self.tunnels {
            let overdue = tunnel.stood.is_some_and(|stood| now.since(stood) >= UNSEEN);
            if self.report.is_some() && overdue {
                continue;
            }
            match &tunnel.user {
                None => load.active += 1,
                Some(user) => users.push(user),
            }
        }
        for user in each_once(&mut users) {
            let shown = reported.iter().filter(|s| user.matches_session(&s.user));
            match shown.map(|s| s.state).min() {
                None => load.active += 1,
                // Somebody on the way back to a session left behind makes it active.
                Some(SessionState::Disconnected) => {
                    load.active += 1;
                    load.disconnected = load.disconnected.saturating_sub(1);
                }
                Some(SessionState::Active | SessionState::Connected) => {}
            }
        }
        if self.report.is_none() {
            // Whoever is on the way back to a lease left here counts by the tunnel.
            let lingers = |key: &&LeaseKey| self.lingering.get(key).is_some_and(|at| at > now);
            let keys = self.tunnels.iter().filter_map(|tunnel| tunnel.key.as_ref());
            let mut back: Vec<_> = keys.filter(lingers).collect();
            let back = each_once(&mut back).len();
            load.disconnected = count(self.lingering.count_left(now).saturating_sub(back));
        }
        load
    }

    /// How full the host is, and how full it may be now.
    pub fn occupancy(&self, caps: Caps, now: Timestamp) -> Occupancy {
        let (users, pending) = self.users_and_pending(now);
        Occupancy {
            users,
            pending,
            pending_cap: self.pending_cap(caps, now),
        }
    }

    /// Users on it and logons under way, each user once.
    pub(super) fn users_and_pending(&self, now: Timestamp) -> (u32, u32) {
        let reported = self.report.as_ref().map_or(&[][..], |r| &r.sessions);
        let mut users = Vec::with_capacity(reported.len() + self.tunnels.len());
        users.extend(reported.iter().map(|session| &session.user));
        let mut unnamed = 0;
        // One user's tunnels that open together are one logon.
        let mut logons = Vec::new();
        let mut unnamed_logons = 0;
        for tunnel in &self.tunnels {
            let shown = |user| {
                reported
                    .iter()
                    .any(|s| UserKey::matches_session(user, &s.user))
            };
            let seen = tunnel.user.as_ref().is_some_and(shown);
            match &tunnel.user {
                None => unnamed += 1,
                Some(user) if !seen => users.push(user),
                Some(_) => {}
            }
            let done = seen || (self.report.is_none() && tunnel.stood.is_some());
            if !done && now.since(tunnel.since) < UNSEEN {
                match &tunnel.user {
                    None => unnamed_logons += 1,
                    Some(user) => logons.push(user),
                }
            }
        }
        (
            count(each_once(&mut users).len()).saturating_add(unnamed),
            count(each_once(&mut logons).len()).saturating_add(unnamed_logons),
        )
    }

    /// A host that turned usable starts with one logon at a time and reaches
    /// its cap evenly: else its good score would draw everybody at once.
    pub(super) fn pending_cap(&self, caps: Caps, now: Timestamp) -> u32 {
        let full = caps.max_pending_logons;
        let Some(since) = self.turned_usable(now) else {
            return full;
        };
        let (span, passed) = (caps.slow_start.as_millis(), now.since(since).as_millis());
        if passed >= span {
            return full;
        }
        let grown = u128::from(full.saturating_sub(1)) * passed / span;
        u32::try_from(grown)
            .map_or(full, |grown| grown + 1)
            .min(full)
    }
}

/// The same without what is there twice.
fn each_once<'a, 'b, T: Ord>(all: &'b mut Vec<&'a T>) -> &'b [&'a T] {
    all.sort_unstable();
    all.dedup();
    all
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
