//! Keeps leases alive for as long as their tunnels are: one task for all.
//!
//! Tunnels say what happened to them by dropping a note that cannot fail and
//! does not wait; the keeper does the writing. While the store fails, notes
//! wait here (at most two a tunnel) and are tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use super::Leases;
use crate::placement::{LeaseKey, RENEWAL, TunnelId};
use crate::store::StoreError;

/// Leases written at a time.
const TOGETHER: usize = 64;

/// How often the keeper looks for what is due.
const TICK: Duration = Duration::from_secs(1);

/// The task that writes leases on behalf of open tunnels.
#[derive(Debug)]
pub struct Keeper {
    leases: Arc<Leases>,
    notes: mpsc::UnboundedReceiver<Note>,
    /// Tunnels with a lease, open or ended and not written off yet.
    tunnels: BTreeMap<TunnelId, Kept>,
    /// Set while the store fails, so that it is said once.
    failing: bool,
}

/// The way to tell the keeper.
#[derive(Debug, Clone)]
pub(super) struct Tell(mpsc::UnboundedSender<Note>);

/// A tunnel's hold on a lease; dropping it ends the hold.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) key: LeaseKey,
    tunnel: TunnelId,
    tell: Tell,
    /// Nothing was claimed, so that there is nothing to end.
    void: bool,
}

#[derive(Debug)]
struct Note {
    tunnel: TunnelId,
    key: LeaseKey,
    news: News,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Claimed,
    Stood,
    Ended,
}

#[derive(Debug)]
struct Kept {
    key: LeaseKey,
    state: State,
    /// When it must be written next.
    due: Instant,
}

/// What is known of a tunnel. News adds up: one that stood and ended before
/// either was written did both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    stood: bool,
    ended: bool,
}

impl Tell {
    pub(super) fn held(&self, key: LeaseKey, tunnel: TunnelId) -> Held {
        Held {
            key,
            tunnel,
            tell: self.clone(),
            void: false,
        }
    }
}

impl Held {
    pub(super) fn claimed(&self) {
        self.note(News::Claimed);
    }

    pub(super) fn stood(&self) {
        self.note(News::Stood);
    }

    /// Ends it without a word: the claim was not written. An end told now would
    /// be written after the same tunnel's next claim, and take that back.
    pub(super) fn void(mut self) {
        self.void = true;
    }

    fn note(&self, news: News) {
        // The keeper outlives the tunnels; at the very end of the process there
        // is nobody left to tell, and the lease runs out by itself.
        let _ = self.tell.0.send(Note {
            tunnel: self.tunnel.clone(),
            key: self.key.clone(),
            news,
        });
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
        let keeper = Self {
            leases,
            notes,
            tunnels: BTreeMap::new(),
            failing: false,
        };
        (keeper, Tell(tell))
    }

    /// Runs until every [`super::Broker`] and every hold is gone and their last
    /// news are written.
    pub async fn run(mut self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut notes = Vec::new();
        loop {
            tokio::select! {
                count = self.notes.recv_many(&mut notes, TOGETHER) => {
                    if count == 0 {
                        break;
                    }
                    notes.drain(..).for_each(|note| self.hear(note));
                }
                _ = tick.tick() => self.sweep().await,
            }
            self.write_due().await;
        }
        // Nobody is left to tell anything new; what is known must still be
        // written, however long the store takes. Who waits for us decides
        // when to give up.
        while !self.tunnels.is_empty() {
            tick.tick().await;
            self.write_due().await;
        }
    }

    /// Leases that have run out leave the store as well as the picture.
    async fn sweep(&mut self) {
        let now = self.leases.clock.now();
        for key in self.leases.fleet.expire_leases(now) {
            let swept = self.leases.update(&key, |record| record.expire(now)).await;
            if let Err(error) = swept {
                // It goes with the user's return, or at the next start.
                debug!(%error, "A lease that ran out was not removed");
            }
        }
    }

    fn hear(&mut self, Note { tunnel, key, news }: Note) {
        let now = Instant::now();
        let kept = self.tunnels.entry(tunnel).or_insert_with(|| Kept {
            key,
            state: State::default(),
            due: now + RENEWAL,
        });
        match news {
            News::Claimed => return,
            News::Stood => kept.state.stood = true,
            News::Ended => kept.state.ended = true,
        }
        kept.due = now;
    }

    /// Writes what is due, many at a time so that one sync to disk serves them
    /// all, until nothing is due or the store fails.
    async fn write_due(&mut self) {
        loop {
            let now = Instant::now();
            let due = self.tunnels.iter().filter(|(_, kept)| kept.due <= now);
            let lease = self.leases.fleet.snapshot().directory.rules().lease;
            let mut writing = JoinSet::new();
            for (tunnel, kept) in due.take(TOGETHER) {
                let leases = Arc::clone(&self.leases);
                let (tunnel, key, state) = (tunnel.clone(), kept.key.clone(), kept.state);
                writing.spawn(async move {
                    let written = leases.tell(&key, &tunnel, state, lease).await;
                    (tunnel, state, written)
                });
            }
            if writing.is_empty() {
                return;
            }
            let mut failure = None;
            while let Some(done) = writing.join_next().await {
                match done {
                    Ok((tunnel, state, Ok(()))) => self.written(&tunnel, state, lease),
                    Ok((_, _, Err(error))) => failure = Some(error),
                    // A writer that panicked: its tunnel stays due.
                    Err(_) => failure = Some(StoreError::Closed),
                }
            }
            self.note_failure(failure.as_ref());
            if failure.is_some() {
                return;
            }
        }
    }

    fn written(&mut self, tunnel: &TunnelId, state: State, lease: Duration) {
        if state.ended {
            self.tunnels.remove(tunnel);
        } else if let Some(kept) = self.tunnels.get_mut(tunnel) {
            // A lease that has stood is renewed thrice in its time, since one
            // or two of the writings may fail.
            let pause = if state.stood {
                (lease / 3).max(TICK)
            } else {
                RENEWAL
            };
            kept.due = Instant::now() + pause;
        }
    }

    fn note_failure(&mut self, failure: Option<&StoreError>) {
        match failure {
            Some(error) if !self.failing => warn!(%error, "Leases cannot be written, trying again"),
            None if self.failing => info!("Leases are written again"),
            _ => {}
        }
        self.failing = failure.is_some();
    }
}

impl Leases {
    async fn tell(
        &self,
        key: &LeaseKey,
        tunnel: &TunnelId,
        state: State,
        lease: Duration,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.update(key, |record| {
            if state.stood {
                record.stood(tunnel, lease, now);
            } else if !state.ended {
                record.renew_claim(tunnel, now);
            }
            if state.ended {
                record.end(tunnel, lease, now);
            }
        })
        .await
    }
}
