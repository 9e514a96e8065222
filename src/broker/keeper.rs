//! Keeps leases alive for as long as their tunnels are: one task for all.
//!
//! Tunnels say what happened to them by dropping a note that cannot fail and
//! does not wait; the keeper does the writing. While the store fails, what is
//! to be written waits here, one entry a tunnel, and is tried again.
//!
//! The queue of notes has no bound of its own, since a tunnel's end must never
//! be lost; what goes into it has: three a tunnel (claimed, stood, ended), and
//! tunnels are bounded, with a claim in the store before the first of them;
//! and [`FINDINGS`] of reports, which say again what was not heard.

mod findings;
mod regain;
mod tunnels;
mod watch;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{debug, info, warn};

use super::Leases;
use crate::audit::Audit;
use crate::clock::Clock;
use crate::placement::{
    FarmId, Finding, HostId, LeaseKey, LeaseRecord, Origin, RENEWAL, Timestamp, Trust, TunnelId,
    UNSEEN, UserKey,
};
use crate::store::StoreError;

pub use findings::LeaseFigures;
pub(super) use findings::{Guest, LeaseChanges};
use regain::{RETRY, Regaining};
use tunnels::Tunnels;
use watch::Watch;

/// Leases written at a time.
const TOGETHER: usize = 64;

/// What reports found that may wait to be heeded.
const FINDINGS: usize = 4096;

/// How often every record is looked through for what has run out.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long news wait for others before they are written together. What a kill
/// in this time takes is what a kill before the news takes.
const GATHER: Duration = Duration::from_millis(50);

/// How often the keeper looks for what is due.
const TICK: Duration = Duration::from_secs(1);

/// The task that writes leases on behalf of open tunnels.
#[derive(Debug)]
pub struct Keeper {
    leases: Arc<Leases>,
    notes: mpsc::UnboundedReceiver<Note>,
    /// Tunnels with a lease, open or ended and not written off yet. One that
    /// was placed again may have a part in two records for a moment.
    tunnels: Tunnels,
    /// Set while the store fails, so that it is said once.
    failing: bool,
    /// What was to be written last could not be, since the store is away.
    away: bool,
    /// Set while nobody is placed since the store was lost.
    regaining: Option<Regaining>,
    /// As of which loss everything was written again last.
    losses_regained: u64,
    audit: Option<Audit>,
    /// When every record is looked through next.
    next_sweep: Instant,
    /// When the news that wait are written; `None` where there are none.
    gathered: Option<Instant>,
    watch: Watch,
}

/// The way to tell the keeper. One for all: every tunnel has it.
#[derive(Debug, Clone)]
pub(super) struct Tell(Arc<Way>);

#[derive(Debug)]
struct Way {
    notes: mpsc::UnboundedSender<Note>,
    /// Room for [`FINDINGS`].
    findings: Arc<Semaphore>,
    clock: Clock,
}

/// A tunnel's hold on a lease; dropping it ends the hold.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) claim: Arc<Claim>,
    tell: Tell,
    /// Nothing was claimed, so that there is nothing to end.
    void: bool,
}

/// What a tunnel claims, and for whom.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) key: LeaseKey,
    pub(super) farm: FarmId,
    pub(super) host: HostId,
    pub(super) tunnel: TunnelId,
    pub(super) user: UserKey,
    pub(super) trust: Trust,
    /// For other replicas, where there are any. Boxed: most have none.
    pub(super) origin: Option<Box<Origin>>,
}

/// A tunnel's part in one record.
type Part = (TunnelId, LeaseKey);

#[derive(Debug)]
enum Note {
    /// Something happened to a tunnel with a lease.
    Tunnel(Kept, News),
    /// A tunnel that began without one ended.
    Gone(TunnelId),
    /// A host's report means something.
    Found(HostId, Finding, OwnedSemaphorePermit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Claimed,
    Stood,
    Ended,
}

#[derive(Debug, Clone)]
struct Kept {
    claim: Arc<Claim>,
    state: State,
    /// When it must be written next.
    due: Instant,
    /// Another tunnel was found to hold its lease on another host.
    is_elsewhere: bool,
}

/// What is known of a tunnel. News adds up: one that stood and ended before
/// either was written did both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    /// Since when it has stood.
    stood: Option<Instant>,
    /// When it ended.
    ended: Option<Instant>,
    /// It may be somebody else who only says to be this user.
    doubtful: bool,
    /// Its host reports the logon.
    shown: bool,
}

impl State {
    /// A logon is believed once it is reported; one that nobody reports, once
    /// the session has lasted: a wrong password would have ended it.
    fn confirmed_at(&self) -> Option<Instant> {
        let stood = self.stood.filter(|_| self.doubtful)?;
        if self.shown {
            return Some(stood);
        }
        let at = stood + UNSEEN;
        self.ended.is_none_or(|ended| ended >= at).then_some(at)
    }

    fn is_confirmed(&self, now: Instant) -> bool {
        self.confirmed_at().is_some_and(|at| at <= now)
    }

    fn hear(&mut self, news: News, now: Instant) {
        match news {
            // Before anything else, and so nothing to add.
            News::Claimed => {}
            News::Stood => self.stood = Some(now),
            News::Ended => self.ended = Some(now),
        }
    }
}

impl Claim {
    fn part(&self) -> Part {
        (self.tunnel.clone(), self.key.clone())
    }

    /// Has other replicas know of it, where there are any.
    pub(super) fn tell_origin(&self, record: &mut LeaseRecord) {
        if let Some(origin) = &self.origin {
            record.tell_origin(&self.tunnel, origin);
        }
    }
}

impl Tell {
    pub(super) fn held(&self, claim: Claim) -> Held {
        Held {
            claim: Arc::new(claim),
            tell: self.clone(),
            void: false,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        let Self(way) = self;
        way.clock.now()
    }

    pub(super) fn clock(&self) -> Clock {
        let Self(way) = self;
        way.clock
    }

    fn send(&self, note: Note) {
        // The keeper outlives the tunnels; at the very end of the process there
        // is nobody left to tell, and the lease runs out by itself.
        let Self(way) = self;
        let _ = way.notes.send(note);
    }
}

impl Held {
    pub(super) fn claimed(&self) {
        self.note(News::Claimed);
    }

    pub(super) fn stood(&self) {
        self.note(News::Stood);
    }

    /// Whether this is the same tunnel's next claim in the same record, so that
    /// writing it ended the earlier one.
    pub(super) fn follows(&self, earlier: &Self) -> bool {
        self.claim.part() == earlier.claim.part()
    }

    /// Ends it without a word: the claim was not written, or the same tunnel's
    /// next one took its place. An end told now would be written after that
    /// next claim, and take it back.
    pub(super) fn void(mut self) {
        self.void = true;
    }

    fn note(&self, news: News) {
        let kept = Kept {
            claim: Arc::clone(&self.claim),
            state: State {
                doubtful: self.claim.trust == Trust::Doubtful,
                ..State::default()
            },
            due: Instant::now() + RENEWAL,
            is_elsewhere: false,
        };
        self.tell.send(Note::Tunnel(kept, news));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.void {
            self.note(News::Ended);
        }
    }
}

impl Keeper {
    pub(super) fn new(leases: Arc<Leases>) -> (Self, Tell) {
        let (tell, notes) = mpsc::unbounded_channel();
        let clock = leases.clock;
        let keeper = Self {
            losses_regained: leases.gate.losses(),
            leases,
            notes,
            tunnels: Tunnels::default(),
            failing: false,
            away: false,
            regaining: None,
            audit: None,
            next_sweep: Instant::now() + DAY,
            gathered: None,
            watch: Watch::default(),
        };
        let tell = Tell(Arc::new(Way {
            notes: tell,
            findings: Arc::new(Semaphore::new(FINDINGS)),
            clock,
        }));
        (keeper, tell)
    }

    /// Runs until every [`super::Broker`] and every hold is gone and their last
    /// news are written.
    pub async fn run(mut self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut notes = Vec::new();
        loop {
            let seen = self.losses_seen();
            tokio::select! {
                count = self.notes.recv_many(&mut notes, TOGETHER) => {
                    if count == 0 {
                        break;
                    }
                    for note in notes.drain(..) {
                        self.hear(note).await;
                    }
                }
                _ = tick.tick() => {
                    self.watch.look(&self.leases);
                    // What can wait does, while the store may be away.
                    if !self.leases.gate.is_shut() {
                        self.sweep().await;
                    }
                }
                () = self.leases.gate.lost_beyond(seen) => {}
                () = sleep(RETRY), if self.regaining.is_some() => {}
                () = due(self.gathered), if self.gathered.is_some() => self.gathered = None,
            }
            self.notice_loss();
            if self.gathered.is_some() && !self.leases.gate.is_shut() {
                continue;
            }
            self.write_due().await;
            self.regain().await;
        }
        // Nobody is left to tell anything new; what is known must still be
        // written, however long the store takes. Who waits for us decides
        // when to give up.
        self.write_due().await;
        while !self.tunnels.is_empty() {
            tick.tick().await;
            self.write_due().await;
        }
    }

    /// What has run out leaves the store as well as the picture: leases soon,
    /// history once a day.
    async fn sweep(&mut self) {
        let now = self.leases.clock.now();
        let over = self.leases.fleet.expire_leases(now);
        let mut swept = self
            .leases
            .update_all(over, |record| record.expire(now))
            .await;
        if self.next_sweep <= Instant::now() {
            self.next_sweep = Instant::now() + DAY;
            self.leases.fleet.forget_people(now);
            swept = swept.and(self.leases.sweep(now).await);
        }
        if let Err(error) = swept {
            // It goes with the user's return, or with the next day's sweep.
            debug!(%error, "What has run out was not removed from the store");
        }
    }

    async fn hear(&mut self, note: Note) {
        let now = Instant::now();
        let (kept, news) = match note {
            Note::Tunnel(kept, news) => (kept, news),
            Note::Gone(tunnel) => return self.guest_left(&tunnel, now),
            Note::Found(host, finding, _room) => return self.heed(host, finding).await,
        };
        let part = kept.claim.part();
        if news == News::Claimed {
            let mut kept = kept;
            if self.leases.gate.is_shut() {
                kept.due = now;
                self.owe(&part);
            }
            // Perhaps not the first: it is the one that counts from now on.
            self.tunnels.insert(kept);
            return;
        }
        self.tunnels.insert_if_new(kept);
        self.tunnels.change(&part, |kept| {
            kept.state.hear(news, now);
            kept.due = now;
        });
        self.gathered.get_or_insert(now + GATHER);
    }

    /// Writes what is due, many at a time so that one sync to disk serves them
    /// all, until nothing is due or the store fails.
    async fn write_due(&mut self) {
        loop {
            let now = Instant::now();
            let due = self.tunnels.due(now);
            let lease = self.leases.fleet.snapshot().directory.rules().lease;
            let mut writing = JoinSet::new();
            for (part, kept) in due.take(TOGETHER) {
                let leases = Arc::clone(&self.leases);
                let (part, kept) = (part.clone(), kept.clone());
                writing.spawn(async move {
                    let written = leases.tell(&kept, lease, now).await;
                    (part, kept.state, written)
                });
            }
            if writing.is_empty() {
                self.away = false;
                return;
            }
            let mut failure = None;
            while let Some(done) = writing.join_next().await {
                match done {
                    Ok((part, state, Ok(elsewhere))) => {
                        self.written(&part, state, lease, now);
                        self.note_elsewhere(&part, elsewhere);
                    }
                    Ok((part, _, Err(error))) => {
                        if !error.is_away() {
                            // It may never come about; nobody else waits for it.
                            self.paid(&part);
                        }
                        failure = graver(failure, error);
                    }
                    // A writer that panicked: its tunnel stays due.
                    Err(_) => failure = graver(failure, StoreError::Closed),
                }
            }
            self.note_failure(failure.as_ref());
            if failure.is_some() {
                return;
            }
        }
    }

    /// `asked`: the moment by which the writing went.
    fn written(&mut self, part: &Part, state: State, lease: Duration, asked: Instant) {
        let now = Instant::now();
        self.paid(part);
        if state.ended.is_some() {
            self.tunnels.remove(part);
            return;
        }
        let fleet = &self.leases.fleet;
        self.tunnels.change(part, |kept| {
            // A lease that has stood is renewed thrice in its time, since one
            // or two of the writings may fail.
            let pause = match state.stood {
                Some(_) => (lease / 3).max(TICK),
                None => RENEWAL,
            };
            kept.due = now + pause;
            if state.is_confirmed(asked) {
                kept.state.doubtful = false;
                fleet.believe(&kept.claim.host, &kept.claim.tunnel);
            } else if let Some(at) = state.confirmed_at() {
                kept.due = kept.due.min(at);
            }
        });
    }

    /// Says so once, where a tunnel's lease is held by another one elsewhere.
    fn note_elsewhere(&mut self, part: &Part, elsewhere: Option<HostId>) {
        let noted = self.tunnels.change(part, |kept| {
            let was = std::mem::replace(&mut kept.is_elsewhere, elsewhere.is_some());
            (was, Arc::clone(&kept.claim))
        });
        if let (Some((false, claim)), Some(held)) = (noted, elsewhere) {
            self.found_elsewhere(&claim, &held);
        }
    }

    fn note_failure(&mut self, failure: Option<&StoreError>) {
        self.away = failure.is_some_and(StoreError::is_away);
        if let (Some(error), true) = (failure, self.away) {
            self.leases.gate.fails(error);
        }
        match failure {
            Some(error) if !self.failing => warn!(%error, "Leases cannot be written, trying again"),
            None if self.failing => info!("Leases are written again"),
            _ => {}
        }
        self.failing = failure.is_some();
    }
}

/// Returns at this moment, where there is one.
async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Of two failures the one that says that the store is away.
fn graver(known: Option<StoreError>, another: StoreError) -> Option<StoreError> {
    Some(known.filter(StoreError::is_away).unwrap_or(another))
}

#[cfg(test)]
mod tests;
