//! From a request to a host the user may keep: look at the fleet, read the
//! user's leases, decide, claim; start again where somebody else was faster.
//!
//! Serves whoever needs a placement; knows no tunnel and no protocol. Decides
//! nothing itself ([`crate::placement`] does) and stores nothing itself.

mod administer;
mod cache;
mod catching_up;
mod decisions;
mod degraded;
mod footing;
mod gate;
mod keeper;
mod leases;
mod modes;
mod placing;
mod visits;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::clock::Clock;
use crate::config::{Config, Degraded, InForce};
use crate::fleet::{Checks, Fleet, News, Poll, Seat, SeatAttempt};
use crate::metrics::Cause;
use crate::placement::{
    Aim, Conduct, Decision, Directory, Finding, HostId, LeaseKey, Mode, Outcome, Refusal, Report,
    Request, Timestamp, decide, survey, unreadable,
};
use crate::store::{Store, StoreError};

pub use crate::fleet::Check;
pub use administer::Released;
use cache::Cache;
pub use catching_up::CatchUp;
pub use decisions::{
    Act, Asked, Decisions, Losses, Record, Recorder, Rewritten, Sighting, Sightings,
};
use degraded::Look;
pub use gate::{Gate, Shut};
use keeper::{Guest, Held, LeaseChanges, Tell};
pub use keeper::{Keeper, LeaseFigures};
pub use modes::{Changed, HostChanged, ModeError, Modes, Target, Wish, WishError};
pub use placing::Again;
use visits::Visits;

/// Places users and keeps their leases.
#[derive(Debug, Clone)]
pub struct Broker {
    fleet: Arc<Fleet>,
    leases: Arc<Leases>,
    keeper: Tell,
    decisions: Arc<Decisions>,
    visits: Arc<Visits>,
    checks: Arc<Checks>,
    /// Unset: there is nobody else whose writing could be taken over.
    catch_up: Arc<OnceLock<CatchUp>>,
    clock: Clock,
}

/// The store as the broker and its keeper use it: every record that was written
/// is told to the fleet.
pub(crate) struct Leases {
    store: Arc<dyn Store>,
    fleet: Arc<Fleet>,
    clock: Clock,
    changes: LeaseChanges,
    cache: Cache,
    gate: Arc<Gate>,
    degraded: Degraded,
}

/// One decision's name, in the log, in the refusal's text and wherever the
/// decision is asked for later. A UUIDv7, so that they sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DecisionId(Uuid);

/// What came of a request.
#[derive(Debug)]
pub struct Answer {
    /// The decision's name.
    pub id: DecisionId,
    /// The decision, able to explain itself.
    pub decision: Decision,
    /// The configuration it was made on.
    pub directory: Arc<Directory>,
    /// Which generation of it that is.
    pub configuration: u64,
    /// The place taken, where there is one.
    pub hold: Option<Hold>,
}

/// Nothing was decided, or too late.
#[derive(Debug)]
pub struct Unplaced {
    /// The name of the decision that did not come about.
    pub id: DecisionId,
    /// What was decided last, where it was waited for something better.
    pub last: Option<Box<Answer>>,
    /// Why.
    pub error: PlaceError,
}

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It took too long.
    #[error("placement took longer than its budget")]
    TimedOut,
    /// The store cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is slow, or was lost and is not what it was again yet.
    #[error("the store does not answer, or does not hold the leases of open tunnels again yet")]
    Away,
}

/// A place on a host: the seat that is counted and the lease that is claimed.
/// Dropping it gives the seat back and ends the tunnel's hold on the lease:
/// what stood lingers, what never stood is put back.
#[derive(Debug)]
pub struct Hold {
    seat: Seat,
    lease: Option<Held>,
    // After `seat`: a tunnel that is told to be gone is counted no more. Boxed:
    // most have a lease instead.
    _guest: Option<Box<Guest>>,
    tell: Tell,
}

/// An attempt that ended and counts against nobody yet; it may outlive its hold.
#[derive(Debug)]
pub struct Unexplained {
    attempt: SeatAttempt,
    clock: Clock,
}

impl Unexplained {
    /// It was the host.
    pub fn failed(self) {
        self.attempt.failed(self.clock.now());
    }
}

impl Broker {
    /// A broker and the keeper that must run beside it. Leases of an earlier
    /// life of this process are taken over: its tunnels are gone.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        fleet: Arc<Fleet>,
        store: Arc<dyn Store>,
        clock: Clock,
    ) -> Result<(Self, Keeper), StoreError> {
        Self::open_for(fleet, store, clock, Degraded::Refuse).await
    }

    /// The same with a say in what becomes of placements while the store is
    /// away.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_for(
        fleet: Arc<Fleet>,
        store: Arc<dyn Store>,
        clock: Clock,
        degraded: Degraded,
    ) -> Result<(Self, Keeper), StoreError> {
        let leases = Arc::new(Leases {
            cache: Cache::new(store.is_far()),
            gate: Arc::new(Gate::before(store.losses())),
            degraded,
            store,
            fleet: Arc::clone(&fleet),
            clock,
            changes: LeaseChanges::default(),
        });
        leases.adopt().await?;
        leases.fleet.listens_from(clock.now());
        let (keeper, tell) = Keeper::new(Arc::clone(&leases));
        let decisions = Decisions::in_memory();
        let config = InForce::new(Arc::new(Config::default())).current();
        let metrics = Arc::clone(decisions.metrics());
        let checks = Checks::new(Arc::clone(&fleet), config, clock, metrics);
        let broker = Self {
            fleet,
            leases,
            keeper: tell,
            decisions,
            visits: Arc::default(),
            checks,
            catch_up: Arc::default(),
            clock,
        };
        Ok((broker, keeper))
    }

    /// The same broker, one of several replicas that share its store.
    #[must_use]
    pub fn following(self, catch_up: CatchUp) -> Self {
        self.follows(catch_up);
        self
    }

    /// From now on it is one of several that share its store, and so are its
    /// clones. Once; whoever polls must run already.
    pub fn follows(&self, catch_up: CatchUp) {
        let _ = self.catch_up.set(catch_up);
    }

    /// The same broker, its decisions kept there.
    #[must_use]
    pub fn keeping(mut self, decisions: Arc<Decisions>) -> Self {
        self.decisions = decisions;
        self
    }

    /// The same broker, its hosts asked there.
    #[must_use]
    pub fn checking(mut self, checks: Arc<Checks>) -> Self {
        self.checks = checks;
        self
    }

    /// How far others' writing is taken over; `None`: there are no others.
    pub fn catching_up(&self) -> Option<&CatchUp> {
        self.catch_up.get()
    }

    /// Asks a host whether RDP answers, for whoever is about to send somebody
    /// there or has just failed to: a second at most, nothing where it was asked
    /// within the last one.
    pub async fn check(&self, host: &HostId) -> Check {
        self.checks.check(host, CHECKED_WITHIN).await
    }

    /// The same for a host where somebody may be logging on already: it fails
    /// only where it does for everybody, by the timeout of `[probe]`.
    pub async fn check_patiently(&self, host: &HostId) -> Check {
        self.checks.check_patiently(host).await
    }

    /// Where decisions are kept.
    pub fn decisions(&self) -> &Arc<Decisions> {
        &self.decisions
    }

    /// What would be decided now; claims nothing.
    ///
    /// # Errors
    /// As for [`Self::place`].
    pub async fn preview(&self, request: &Request, deadline: Instant) -> Result<Answer, Unplaced> {
        let id = DecisionId::mint();
        let previewed = timeout_at(deadline, async {
            // As for a placement: what leads to no farm waits for no host.
            if Aim::take(&self.fleet.snapshot(), request).is_ok() {
                self.fleet.probed().await;
            }
            let key = lease_key(&self.fleet, request);
            let look = self.recall(key.as_ref(), Look::Afresh).await;
            let (snapshot, now) = (self.fleet.snapshot(), self.clock.now());
            let mut decision = match look {
                Ok(recalled) => decide(&snapshot, request, &recalled.known.record, now),
                Err(error) => self
                    .would_lead_back(&snapshot, request, key.as_ref())
                    .ok_or(error)?,
            };
            if decision.candidates.is_empty() {
                // An open tunnel decides alone; who asks wants to see the others.
                decision.candidates = survey(&snapshot, request, now);
            }
            Ok(Answer {
                id,
                decision,
                directory: Arc::clone(&snapshot.directory),
                configuration: snapshot.configuration,
                hold: None,
            })
        });
        let previewed = previewed.await.unwrap_or(Err(PlaceError::TimedOut));
        previewed.map_err(|error| Unplaced {
            id,
            last: None,
            error,
        })
    }

    /// The decision on a request that cannot even be read.
    pub fn unreadable(&self, refusal: &Refusal) -> Answer {
        let snapshot = self.fleet.snapshot();
        Answer {
            id: DecisionId::mint(),
            decision: unreadable(&snapshot, refusal.clone()),
            directory: Arc::clone(&snapshot.directory),
            configuration: snapshot.configuration,
            hold: None,
        }
    }

    /// The record of an answer to what was asked.
    pub fn record(&self, answer: &Answer, act: Act, asked: Asked) -> Record {
        Record::of(answer, act, asked, self.clock.now())
    }

    /// The record of what came to nothing.
    pub fn record_unplaced(&self, unplaced: &Unplaced, act: Act, asked: Asked) -> Record {
        let record = match &unplaced.last {
            Some(last) => Record::of(last, act, asked, self.clock.now()),
            None => Record {
                configuration: self.fleet.snapshot().configuration,
                ..Record::bare(unplaced.id, act, asked, self.clock.now())
            },
        };
        record.failed(&unplaced.error, unplaced.error.cause())
    }

    /// Takes over what a host's agent reports, and what that means for tunnels
    /// and leases. False where a newer report is known, or nothing of the host.
    pub fn hear(&self, host: &HostId, report: Report) -> bool {
        let found = self.fleet.note_report(host, report, self.clock.now());
        let is_news = found.is_some();
        for finding in found.into_iter().flatten() {
            self.keeper.found(host, finding);
        }
        is_news
    }

    /// The same of a report that came to another replica: what it means for
    /// leases is written by that one, and here what it means for our own tunnels.
    /// `since` is from when on that one has believed the host's agent.
    pub fn hear_elsewhere(&self, host: &HostId, report: Report, since: Option<Timestamp>) -> bool {
        let now = self.clock.now();
        let found = match since {
            Some(since) => self.fleet.note_kept_report(host, report, since, now),
            None => self.fleet.note_report(host, report, now),
        };
        let is_news = found.is_some();
        for finding in found.into_iter().flatten() {
            match finding {
                Finding::Shown(_) | Finding::Tagged { .. } => self.keeper.found(host, finding),
                Finding::Moved { .. } | Finding::SignedOut { .. } => {}
            }
        }
        is_news
    }

    /// Takes over what a poll told of leases, orders and other replicas' tunnels.
    pub fn follow(&self, poll: Poll, news: News) {
        for (key, known) in &news.leases {
            self.leases.heard(key, known.clone());
        }
        self.fleet.follow(poll, news, self.clock.now());
    }

    /// What stands between a loss of the store and placements.
    pub fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.leases.gate)
    }

    /// How often reports changed leases.
    pub fn lease_figures(&self) -> LeaseFigures {
        self.leases.changes.so_far()
    }

    /// Whether decisions are to be acted on.
    pub fn conduct(&self) -> Conduct {
        self.fleet.snapshot().directory.rules().conduct
    }

    /// Whether an answer may still be acted on: checked last, right before
    /// guacd is told, since the host may be in maintenance by now and the
    /// configuration may have changed. One that changed elsewhere matters to
    /// nobody here.
    pub fn still_holds(&self, decision: &Decision, made_on: &Directory) -> bool {
        let snapshot = self.fleet.snapshot();
        let (Outcome::Placed(placement), Some(farm)) = (&decision.outcome, &decision.farm) else {
            return true;
        };
        let (now, host) = (&snapshot.directory, &placement.host);
        let view = snapshot.hosts.get(host);
        if view.is_some_and(|view| view.mode(self.clock.now()) == Mode::Maintenance) {
            return false;
        }
        if snapshot.configuration == decision.configuration {
            return true;
        }
        let resource = decision.resource.as_ref();
        now.is_member(farm, host)
            && now.host(host) == made_on.host(host)
            && now.farm(farm) == made_on.farm(farm)
            && resource.and_then(|id| now.resource(id))
                == resource.and_then(|id| made_on.resource(id))
            && now.rules() == made_on.rules()
    }
}

fn lease_key(fleet: &Fleet, request: &Request) -> Option<LeaseKey> {
    let snapshot = fleet.snapshot();
    let aim = Aim::take(&snapshot, request);
    aim.ok().and_then(|aim| aim.key)
}

/// A host on the way to its user takes no longer to answer, and a second is
/// little of what the page waits for.
const CHECKED_WITHIN: Duration = Duration::from_secs(1);

impl Hold {
    /// The RDP connection stood: the lease is good.
    pub fn stood(&self) {
        self.seat.stood(self.tell.now());
        if let Some(held) = &self.lease {
            held.stood();
        }
    }

    /// The attempt there failed before the RDP connection stood, by what guacd
    /// said or for want of it; not where the user or the page ended it. Counts
    /// against the host only beside those of other users and resources. The
    /// place itself is given back by dropping the hold.
    pub fn failed(&self) {
        self.seat.failed(self.tell.now());
    }

    /// The same where guacd ended without a word, which may be its own fault:
    /// for whoever learns later that it was not. `None`: nothing would count.
    pub fn unexplained(&self) -> Option<Unexplained> {
        let (clock, attempt) = (self.tell.clock(), self.seat.attempt()?);
        Some(Unexplained { attempt, clock })
    }
}

impl Answer {
    /// The refusal, where that came out.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.decision.outcome {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::Placed(_) | Outcome::Unmatched => None,
        }
    }
}

impl PlaceError {
    fn cause(&self) -> Cause {
        match self {
            Self::TimedOut => Cause::TimedOut,
            Self::Store(_) | Self::Away => Cause::Store,
        }
    }
}

impl DecisionId {
    fn mint() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads what [`fmt::Display`] writes; `None` where it is no such thing.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text.trim()).ok().map(Self)
    }

    /// Sorts as the id does.
    pub fn bits(self) -> u128 {
        self.0.as_u128()
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
