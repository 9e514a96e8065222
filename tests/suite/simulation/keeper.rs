//! The keeper: writes what tunnels tell, a little later than they tell it.

use sessionguard::placement::{
    HostId, LeaseKey, RENEWAL, Timestamp, Trust, TunnelId, UNSEEN, UserKey,
};

use super::broker::Broker;

/// A tunnel the keeper writes for.
pub(super) struct Kept {
    pub(super) key: LeaseKey,
    pub(super) host: HostId,
    pub(super) user: UserKey,
    pub(super) stood: Option<Timestamp>,
    pub(super) ended: bool,
    pub(super) doubtful: bool,
    /// Its host reports the logon.
    pub(super) shown: bool,
    pub(super) due: Timestamp,
}

/// What the keeper wrote of a tunnel.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) tunnel: TunnelId,
    pub(super) confirmed: bool,
    pub(super) stood: bool,
    pub(super) ended: bool,
}

impl Broker {
    /// The keeper's turn: everything due is written.
    pub(super) fn keep(&mut self, now: Timestamp) -> Vec<Written> {
        let due = self.kept.iter().filter(|(_, kept)| kept.due <= now);
        let due: Vec<_> = due.map(|(tunnel, _)| tunnel.clone()).collect();
        self.expire(now);
        due.into_iter()
            .map(|tunnel| self.keep_one(tunnel, now))
            .collect()
    }

    fn keep_one(&mut self, tunnel: TunnelId, now: Timestamp) -> Written {
        let lease = self.snapshot.directory.rules().lease;
        let mut kept = self.kept.remove(&tunnel).unwrap();
        let believed = kept
            .stood
            .filter(|_| kept.doubtful)
            .map(|at| match kept.shown {
                true => at,
                false => at + UNSEEN,
            });
        let confirmed = believed.is_some_and(|at| at <= now);
        let (stood, ended) = (kept.stood.is_some(), kept.ended);
        let mut record = self.store.get(&kept.key).cloned().unwrap_or_default();
        if confirmed {
            record.confirm(&tunnel);
            self.tunnel(&kept.host, &tunnel, |seat| seat.trust = Trust::Plain);
        }
        if stood {
            record.stood(&tunnel, &kept.user, lease, now);
        } else if !ended {
            record.renew_claim(&tunnel, now);
        }
        if ended {
            record.end(&tunnel, lease, now);
        }
        self.write(kept.key.clone(), record, now);
        if !ended {
            kept.doubtful &= !confirmed;
            kept.due = now + if stood { lease / 3 } else { RENEWAL };
            if let Some(at) = believed.filter(|_| !confirmed) {
                kept.due = kept.due.min(at);
            }
            self.kept.insert(tunnel.clone(), kept);
        }
        Written {
            tunnel,
            confirmed,
            stood,
            ended,
        }
    }
}
