//! Whether a host is believed that somebody has a session there.
//!
//! An agent is believed until something speaks against it: people expect a
//! session to be found that was opened yesterday or past us. What speaks
//! against it leaves those of its claims standing that we can support
//! ourselves: by a tunnel, by a lease, by having taken that user there in the
//! last 30 days.
//!
//! Against an agent as a whole speaks that it names more users than it has
//! sessions, or more than `agent_trust_threshold` at once whom we never took
//! there: who came within a minute while we watched, or, where no host of the
//! farm could have so many, who was there at first (see [`most_at_first`]). It
//! is believed again once no more than that are left: strangers sign out, or
//! come through us.
//!
//! Against one claim speaks another host of a common farm whose fresh report
//! shows the user, too, where we know the user from there and not from here.
//! Where we know neither or both, both are believed, and the better session
//! counts: people do have two sessions, and if either were set aside for the
//! other's sake neither would ever be found. The alarm sounds for every such
//! pair, whoever is believed.
//!
//! [`most_at_first`]: super::most_at_first
//!
//! Load is no claim of this kind: whatever a host reports counts as its load.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::aim::Trust;
use super::count::{Known, Name};
use super::identity::UserKey;
use super::ids::{FarmId, HostId};
use super::report::Report;
use super::rules::{Rules, TrustAgents};
use super::snapshot::{HostView, Snapshot, TunnelView};
use super::time::Timestamp;

/// Within this time strangers are taken to have come together.
const TOGETHER: Duration = Duration::from_secs(60);

/// Why a host's claim that a user has a session there is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mistrust {
    /// The host names more users than it has sessions.
    Overclaims,
    /// The host names many users at once whom we never took there.
    Strangers,
    /// Another host of a farm of its reports the user, too, and we know the
    /// user from there.
    Contradicted,
    /// Only what our own history supports is believed of any host.
    NotInHistory,
}

impl fmt::Display for Mistrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overclaims => "the host names more users than it has sessions",
            Self::Strangers => "the host names many users at once whom we never took there",
            Self::Contradicted => "another host reports the user, too, and we know them there",
            Self::NotInHistory => "our own history does not know the user there",
        })
    }
}

/// Users whom a host reports and whom we did not take there: who came while we
/// watched, and who was there at first where that is too many to be true.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Strangers {
    /// Those who are still there, and since when.
    since: Arc<BTreeMap<UserKey, Timestamp>>,
    /// The most of them who came together.
    most: u32,
}

impl Strangers {
    fn of(since: BTreeMap<UserKey, Timestamp>) -> Self {
        Self {
            most: most_together(since.values().copied()),
            since: Arc::new(since),
        }
    }

    /// The most of them who came together.
    pub fn most(&self) -> u32 {
        self.most
    }
}

impl HostView {
    /// What speaks against the host's agent as a whole.
    pub fn mistrust(&self, rules: &Rules) -> Option<Mistrust> {
        let report = self.report.as_ref()?;
        if report.overclaims {
            Some(Mistrust::Overclaims)
        } else if self.strangers.most > rules.agent_trust_threshold {
            Some(Mistrust::Strangers)
        } else {
            None
        }
    }

    /// Who is strange once this report is taken over. The first one we hear
    /// only says who was there before, where it names no more than
    /// `most_at_first`.
    pub(super) fn strangers_with(
        &self,
        report: &Report,
        most_at_first: Option<u32>,
        taken_there: impl Fn(&UserKey) -> bool,
    ) -> Strangers {
        let there: BTreeSet<_> = report.sessions.iter().map(|s| &s.user).collect();
        let ours = |user: &UserKey| taken_there(user) || self.expects(user, report.received);
        let Some(before) = &self.report else {
            let Some(most) = most_at_first else {
                return Strangers::default();
            };
            let strange = there.into_iter().filter(|user| !ours(user));
            let strange = strange.map(|user| (user.clone(), report.received));
            let all = Strangers::of(strange.collect());
            return if all.most > most {
                all
            } else {
                Strangers::default()
            };
        };
        let boots = report.order.zip(before.order);
        let restarted = boots.is_some_and(|(new, old)| new.boot != old.boot);
        let old: BTreeSet<_> = match restarted {
            // Nobody is left from before.
            true => BTreeSet::new(),
            // By the user part: a reload may read the domains otherwise.
            false => before.sessions.iter().map(|s| s.user.user()).collect(),
        };
        let known = self.strangers.since.iter();
        let known = known.filter(|(user, _)| !restarted && there.contains(user));
        let mut since: BTreeMap<UserKey, Timestamp> = known
            .filter(|(user, _)| !ours(user))
            .map(|(user, at)| (user.clone(), *at))
            .collect();
        let new = there.iter().filter(|user| !old.contains(user.user()));
        let new: Vec<UserKey> = new
            .filter(|user| !ours(user))
            .map(|user| (*user).clone())
            .collect();
        // After a gap nobody knows when they came: then evenly.
        let gap = report.received.since(before.received);
        let count = u32::try_from(new.len()).unwrap_or(u32::MAX);
        for (nth, user) in (1..).zip(new) {
            let at = match gap > TOGETHER {
                true => before.received + gap.mul_f64(f64::from(nth) / f64::from(count)),
                false => report.received,
            };
            since.insert(user, at);
        }
        Strangers::of(since)
    }

    /// Whether a believed tunnel or a lease of ours says that the user of this
    /// session is here.
    fn expects(&self, session: &UserKey, now: Timestamp) -> bool {
        let believed = self.tunnels.iter().filter(|t| t.trust != Trust::Doubtful);
        let mut users = believed.filter_map(|t| t.user.as_ref());
        let mut left = self.lingering.left(now);
        users.any(|user| user.matches_session(session))
            || left.any(|(key, _)| key.user().matches_session(session))
    }

    /// The same of a user we know.
    fn has(&self, user: &UserKey, now: Timestamp) -> bool {
        let theirs =
            |t: &Arc<TunnelView>| t.trust != Trust::Doubtful && t.user.as_ref() == Some(user);
        let mut left = self.lingering.left(now);
        self.tunnels.iter().any(theirs) || left.any(|(key, _)| key.user() == *user)
    }
}

/// The most moments that lie within [`TOGETHER`].
fn most_together(moments: impl Iterator<Item = Timestamp>) -> u32 {
    let mut moments: Vec<_> = moments.collect();
    moments.sort_unstable();
    let mut most = 0;
    let mut first = moments.iter();
    let mut within = 0_u32;
    for at in &moments {
        within = within.saturating_add(1);
        while first
            .as_slice()
            .first()
            .is_some_and(|from| at.since(*from) >= TOGETHER)
        {
            first.next();
            within = within.saturating_sub(1);
        }
        most = most.max(within);
    }
    most
}

/// One host's claim that a user has sessions there.
pub(super) struct Claim<'a> {
    pub(super) host: &'a HostId,
    pub(super) view: &'a Known,
    pub(super) report: &'a Report,
    /// Why it is set aside; `None`: it is believed.
    pub(super) aside: Option<Mistrust>,
}

/// Every host that reports a session of this user, in id order, and whether it
/// is believed.
pub(super) fn claims<'a>(snapshot: &'a Snapshot, user: &UserKey, now: Timestamp) -> Vec<Claim<'a>> {
    let rules = snapshot.directory.rules();
    let name = Name::of_user(user);
    let hosts = snapshot.hosts.iter();
    let hosts = hosts.filter(|(_, view)| view.may_show(name));
    let told = hosts.filter_map(|(host, view)| {
        let view = view.as_ref();
        let report = view.report.as_ref().filter(|report| report.shows(user))?;
        let supported = is_supported(snapshot, host, view, user, now);
        let claim = Claim {
            host,
            view,
            report,
            aside: doubt(view, supported, rules),
        };
        Some((claim, supported))
    });
    let mut told: Vec<_> = told.collect();
    // Who may have a session a resource is in two places by right.
    if rules.single_session_per_user && told.len() > 1 {
        let fresh = |report: &Report| report.age(now) <= rules.offline_after;
        let known: Vec<_> = told
            .iter()
            .filter(|(claim, supported)| *supported && fresh(claim.report))
            .map(|(claim, _)| claim.host)
            .collect();
        let contradicts = |host: &HostId| known.iter().any(|by| share_a_farm(snapshot, host, by));
        for (claim, supported) in &mut told {
            if !*supported && claim.aside.is_none() && contradicts(claim.host) {
                claim.aside = Some(Mistrust::Contradicted);
            }
        }
    }
    told.into_iter().map(|(claim, _)| claim).collect()
}

/// Whether the host is believed as to who sits behind a tunnel of ours: whatever
/// other hosts say, that tunnel is there.
pub(super) fn tells_who(
    snapshot: &Snapshot,
    host: &HostId,
    view: &HostView,
    user: &UserKey,
    now: Timestamp,
) -> bool {
    let supported = || is_supported(snapshot, host, view, user, now);
    doubt(view, false, snapshot.directory.rules()).is_none() || supported()
}

fn doubt(view: &HostView, supported: bool, rules: &Rules) -> Option<Mistrust> {
    if supported {
        return None;
    }
    let strict = match rules.trust_agents {
        TrustAgents::Always => None,
        TrustAgents::History => Some(Mistrust::NotInHistory),
    };
    view.mistrust(rules).or(strict)
}

fn is_supported(
    snapshot: &Snapshot,
    host: &HostId,
    view: &HostView,
    user: &UserKey,
    now: Timestamp,
) -> bool {
    snapshot.people.took(user, host) || view.has(user, now)
}

/// Whether two hosts are members of one farm.
pub(super) fn share_a_farm(snapshot: &Snapshot, one: &HostId, other: &HostId) -> bool {
    let directory = &snapshot.directory;
    let mut farms = directory.farms().map(|farm| &farm.id);
    one != other
        && farms.any(|farm| directory.is_member(farm, one) && directory.is_member(farm, other))
}

/// Users whom fresh reports show on two hosts of one farm at once, with those
/// hosts; nobody where a user may have several sessions.
pub fn on_two_hosts(
    snapshot: &Snapshot,
    now: Timestamp,
) -> BTreeMap<FarmId, BTreeMap<UserKey, BTreeSet<HostId>>> {
    let (directory, mut found) = (&snapshot.directory, BTreeMap::new());
    let rules = directory.rules();
    if !rules.single_session_per_user {
        return found;
    }
    let fresh = |report: &&Arc<Report>| report.age(now) <= rules.offline_after;
    let mut seen: Vec<(&str, &UserKey, &HostId)> = Vec::new();
    for (host, view) in &snapshot.hosts {
        let sessions = view.report.iter().filter(fresh).flat_map(|r| &r.sessions);
        seen.extend(sessions.map(|s| (s.user.user(), &s.user, host)));
    }
    seen.sort_unstable();
    seen.dedup();
    for same_name in seen.chunk_by(|a, b| a.0 == b.0) {
        for (nth, (_, user, host)) in same_name.iter().enumerate() {
            let later = same_name.iter().skip(nth + 1);
            for (_, other, elsewhere) in later.filter(|(_, other, _)| may_be_one(user, other)) {
                let both = directory.farms().filter(|farm| {
                    host != elsewhere
                        && directory.is_member(&farm.id, host)
                        && directory.is_member(&farm.id, elsewhere)
                });
                for farm in both {
                    let named = if user.domain().is_some() { user } else { other };
                    let of_farm = found.entry(farm.id.clone()).or_insert_with(BTreeMap::new);
                    let hosts: &mut BTreeSet<HostId> = of_farm.entry((*named).clone()).or_default();
                    hosts.extend([(*host).clone(), (*elsewhere).clone()]);
                }
            }
        }
    }
    found
}

/// Whether two sessions may be one person's: no two domains that differ.
fn may_be_one(one: &UserKey, other: &UserKey) -> bool {
    one.matches_session(other) || other.matches_session(one)
}
