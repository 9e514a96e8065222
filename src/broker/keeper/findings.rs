//! What reports mean for leases, written by the one who writes leases.
//!
//! None of it is kept for later: while it is so, the host's next report says it
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{debug, info, warn};

use super::{Keeper, Kept, Leases, Note, State, Tell};
use crate::broker::keeper::Claim;
use crate::placement::{Finding, HostId, LeaseKey, Origin, Timestamp, Trust, TunnelId};
use crate::store::StoreError;

/// How often reports changed a lease, or would have.
#[derive(Debug, Default)]
pub(in crate::broker) struct LeaseChanges {
    followed: AtomicU64,
    released: AtomicU64,
    conflicts: AtomicU64,
}

/// How often reports changed a lease, or would have, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseFigures {
    /// Leases that followed their users to another host.
    pub followed: u64,
    /// Leases released because their users signed out.
    pub released: u64,
    /// Users found on one host while a tunnel of theirs holds their lease on
    /// another.
    pub conflicts: u64,
}

/// The end of a tunnel whose user was not known when it began.
#[derive(Debug)]
pub(in crate::broker) struct Guest {
    pub(in crate::broker) tunnel: TunnelId,
    pub(in crate::broker) tell: Tell,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.tell.send(Note::Gone(self.tunnel.clone()));
    }
}

impl Tell {
    /// Left out where too many wait already: the next report says it again.
    pub(in crate::broker) fn found(&self, host: &HostId, finding: Finding) {
        let Self(way) = self;
        match Arc::clone(&way.findings).try_acquire_owned() {
            Ok(room) => self.send(Note::Found(host.clone(), finding, room)),
            Err(_) => debug!(%host, "What a report means for leases waits for the next one"),
        }
    }
}

impl LeaseChanges {
    pub(in crate::broker) fn so_far(&self) -> LeaseFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LeaseFigures {
            followed: read(&self.followed),
            released: read(&self.released),
            conflicts: read(&self.conflicts),
        }
    }
}

fn once_more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Keeper {
    pub(super) fn guest_left(&mut self, tunnel: &TunnelId, now: super::Instant) {
        self.tunnels.change_all_of(tunnel, |kept| {
            kept.state.ended = Some(now);
            kept.due = now;
        });
    }

    pub(super) async fn heed(&mut self, host: HostId, finding: Finding) {
        let leases = &self.leases;
        let is_known_here = matches!(finding, Finding::Shown(_));
        if leases.gate.is_shut() && !is_known_here {
            // Nobody waits here for a store that is away: holds come first.
            return;
        }
        let written = match finding {
            Finding::Shown(tunnel) => {
                let now = super::Instant::now();
                self.tunnels.change_all_of(&tunnel, |kept| {
                    kept.state.shown = true;
                    kept.due = now;
                });
                Ok(())
            }
            Finding::Tagged {
                tunnel,
                user,
                key,
                farm,
            } => {
                let claim = Claim {
                    origin: leases.origin_of(&host, &tunnel).map(Box::new),
                    key,
                    farm,
                    host,
                    tunnel,
                    user,
                    trust: Trust::Plain,
                };
                let bound = leases.bind(&claim).await;
                if matches!(bound, Ok(true)) {
                    self.keep_bound(claim);
                }
                bound.map(|_| ())
            }
            Finding::Moved { key, to, taken } => leases.follow(&key, (&host, &to), taken).await,
            Finding::SignedOut { key, taken } => leases.sign_out(&key, &host, taken).await,
        };
        if let Err(error) = written {
            debug!(%error, "What a report means was not written, its next one will say it again");
        }
    }

    /// From here on the tunnel is kept like any other.
    fn keep_bound(&mut self, claim: Claim) {
        let now = super::Instant::now();
        let kept = Kept {
            state: State {
                // A session with its mark is there.
                stood: Some(now),
                ..State::default()
            },
            due: now,
            is_elsewhere: false,
            claim: Arc::new(claim),
        };
        if self.leases.is_open(&kept.claim.host, &kept.claim.tunnel) {
            self.tunnels.insert_if_new(kept);
        }
    }
}

impl Leases {
    fn is_open(&self, host: &HostId, tunnel: &TunnelId) -> bool {
        let snapshot = self.fleet.snapshot();
        let view = snapshot.hosts.get(host);
        view.is_some_and(|view| {
            let mut tunnels = view.tunnels.iter();
            tunnels.any(|t| &t.tunnel == tunnel && !t.elsewhere)
        })
    }

    /// What other replicas are told of a tunnel that is open here.
    fn origin_of(&self, host: &HostId, tunnel: &TunnelId) -> Option<Origin> {
        let (replica, snapshot) = (self.fleet.replica()?, self.fleet.snapshot());
        let mut tunnels = snapshot.hosts.get(host)?.tunnels.iter();
        let known = tunnels.find(|t| &t.tunnel == tunnel && !t.elsewhere)?;
        Some(Origin {
            replica,
            resource: known.resource.clone(),
            since: known.since,
            stood: known.stood,
        })
    }

    /// A tunnel turned out to be this user's. False where it gets no part in
    /// the lease: it has ended, or the lease is held elsewhere and stays there.
    async fn bind(&self, claim: &Claim) -> Result<bool, StoreError> {
        if !self.is_open(&claim.host, &claim.tunnel) {
            return Ok(false);
        }
        let now = self.clock.now();
        let claimed = self.update_if(&claim.key, |record| {
            let (farm, host, tunnel) = (&claim.farm, &claim.host, &claim.tunnel);
            let claimed = record.claim(farm, host, tunnel, Trust::Plain, now);
            claim.tell_origin(record);
            claimed
        });
        let claimed = claimed.await?;
        let Claim {
            host, tunnel, user, ..
        } = claim;
        if claimed {
            info!(%tunnel, %user, %host, "A tunnel's user is known by its host's report");
        } else {
            once_more(&self.changes.conflicts);
            warn!(%tunnel, %user, %host, "A tunnel's user has another tunnel on another host");
        }
        Ok(claimed)
    }

    async fn follow(
        &self,
        key: &LeaseKey,
        (from, to): (&HostId, &HostId),
        taken: Timestamp,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let directory = self.fleet.snapshot().directory.clone();
        let lease = directory.rules().lease;
        let in_farm = |farm: &_| directory.is_member(farm, to);
        let followed = self.update_if(key, |record| {
            record.follow((from, to), in_farm, taken, lease, now)
        });
        if followed.await? {
            once_more(&self.changes.followed);
            info!(%key, %from, %to, "A lease follows its user to another host");
        }
        Ok(())
    }

    async fn sign_out(
        &self,
        key: &LeaseKey,
        host: &HostId,
        taken: Timestamp,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let lease = self.fleet.snapshot().directory.rules().lease;
        let released = self.update_if(key, |record| record.sign_out(host, taken, lease, now));
        if released.await? {
            once_more(&self.changes.released);
            info!(%key, %host, "A lease is released: its user has signed out");
        }
        Ok(())
    }
}
