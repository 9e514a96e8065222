//! The process around the decision, as the product keeps it: the published
//! picture, the store, and the keeper that writes what tunnels tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sessionguard::placement::{
    Aim, Decision, Directory, HostId, HostView, LeaseKey, LeaseRecord, LeaseState, Mode,
    Placement, Probe, RENEWAL, Report, Request, Snapshot, Timestamp, Trust, TunnelId, TunnelView,
    UNSEEN, UserKey,
};

/// Picture, store and keeper.
pub(super) struct Broker {
    pub(super) snapshot: Snapshot,
    pub(super) store: BTreeMap<LeaseKey, LeaseRecord>,
    lingering: BTreeMap<LeaseKey, Vec<HostId>>,
    kept: BTreeMap<TunnelId, Kept>,
}

/// A tunnel the keeper writes for.
struct Kept {
    key: LeaseKey,
    user: UserKey,
    stood: Option<Timestamp>,
    ended: bool,
    doubtful: bool,
    due: Timestamp,
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
    pub(super) fn new(directory: Arc<Directory>) -> Self {
        let view = |mode| {
            Arc::new(HostView {
                mode,
                ..HostView::default()
            })
        };
        let hosts = directory.hosts().map(|host| (host.id.clone(), view(host.mode)));
        let snapshot = Snapshot {
            generation: 1,
            hosts: hosts.collect(),
            directory,
            ..Snapshot::default()
        };
        Self {
            snapshot,
            store: BTreeMap::new(),
            lingering: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// The record a request stands on.
    pub(super) fn read(&self, request: &Request) -> LeaseRecord {
        let aim = Aim::take(&self.snapshot, request).ok();
        let key = aim.and_then(|aim| aim.key);
        key.and_then(|key| self.store.get(&key).cloned()).unwrap_or_default()
    }

    /// Takes the seat and claims the lease. False where the claim is refused.
    pub(super) fn seat(
        &mut self,
        decision: &Decision,
        placement: &Placement,
        tunnel: &TunnelId,
        now: Timestamp,
    ) -> bool {
        let farm = decision.farm.clone().unwrap();
        self.host(&placement.host).tunnels.push(TunnelView {
            tunnel: tunnel.clone(),
            key: decision.key.clone(),
            user: decision.user.clone(),
            farm: farm.clone(),
            since: now,
            stood: None,
        });
        let Some(key) = decision.key.clone() else {
            return true;
        };
        let mut record = self.store.get(&key).cloned().unwrap_or_default();
        if !record.claim(&farm, &placement.host, tunnel, decision.trust, now) {
            return false;
        }
        let kept = Kept {
            key: key.clone(),
            user: decision.user.clone().unwrap(),
            stood: None,
            ended: false,
            doubtful: decision.trust == Trust::Doubtful,
            due: now + RENEWAL,
        };
        self.kept.insert(tunnel.clone(), kept);
        self.write(key, record, now);
        true
    }

    /// The tunnel stood; the keeper writes it after `lag`.
    pub(super) fn stood(&mut self, tunnel: &TunnelId, host: &HostId, lag: Duration, now: Timestamp) {
        let mut tunnels = self.host(host).tunnels.iter_mut();
        tunnels.find(|t| t.tunnel == *tunnel).unwrap().stood = Some(now);
        if let Some(kept) = self.kept.get_mut(tunnel) {
            (kept.stood, kept.due) = (Some(now), now + lag);
        }
    }

    /// The tunnel is gone; the keeper writes it after `lag`.
    pub(super) fn ended(&mut self, tunnel: &TunnelId, host: &HostId, lag: Duration, now: Timestamp) {
        self.host(host).tunnels.retain(|t| t.tunnel != *tunnel);
        if let Some(kept) = self.kept.get_mut(tunnel) {
            (kept.ended, kept.due) = (true, now + lag);
        }
    }

    /// The keeper's turn: everything due is written.
    pub(super) fn keep(&mut self, now: Timestamp) -> Vec<Written> {
        let due = self.kept.iter().filter(|(_, kept)| kept.due <= now);
        let due: Vec<_> = due.map(|(tunnel, _)| tunnel.clone()).collect();
        self.expire(now);
        due.into_iter().map(|tunnel| self.keep_one(tunnel, now)).collect()
    }

    fn keep_one(&mut self, tunnel: TunnelId, now: Timestamp) -> Written {
        let lease = self.snapshot.directory.rules().lease;
        let mut kept = self.kept.remove(&tunnel).unwrap();
        let believed = kept.stood.filter(|_| kept.doubtful).map(|at| at + UNSEEN);
        let confirmed = believed.is_some_and(|at| at <= now);
        let (stood, ended) = (kept.stood.is_some(), kept.ended);
        let mut record = self.store.get(&kept.key).cloned().unwrap_or_default();
        if confirmed {
            record.confirm(&tunnel);
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

    fn write(&mut self, key: LeaseKey, record: LeaseRecord, now: Timestamp) {
        for host in self.lingering.remove(&key).unwrap_or_default() {
            self.host(&host).lingering.remove(&key);
        }
        if let Some(user) = record.user() {
            Arc::make_mut(&mut self.snapshot.people).remember(user);
        }
        let mut hosts = Vec::new();
        for lease in record.views(now).filter(|l| l.state == LeaseState::Lingering) {
            self.host(lease.host).lingering.insert(key.clone(), lease.until);
            hosts.push(lease.host.clone());
        }
        self.lingering.insert(key.clone(), hosts);
        if record.is_empty() {
            self.store.remove(&key);
        } else {
            self.store.insert(key, record);
        }
    }

    fn expire(&mut self, now: Timestamp) {
        for view in self.snapshot.hosts.values_mut() {
            if view.lingering.values().any(|until| *until <= now) {
                Arc::make_mut(view).lingering.retain(|_, until| *until > now);
            }
        }
    }

    pub(super) fn probed(&mut self, host: &HostId, answers: bool, now: Timestamp) {
        let view = self.host(host);
        view.probe = match (view.probe, answers) {
            (same @ Probe::Answering { .. }, true) | (same @ Probe::Failing { .. }, false) => same,
            (_, false) => Probe::Failing { since: now },
            (before, true) => {
                if matches!(before, Probe::Failing { .. }) {
                    view.usable_since = Some(now);
                }
                Probe::Answering { since: now }
            }
        };
    }

    pub(super) fn reported(&mut self, host: &HostId, report: Report) {
        let offline_after = self.snapshot.directory.rules().offline_after;
        let view = self.host(host);
        let before = view.report.as_ref().map(|known| known.received);
        if before.is_some_and(|at| report.received.since(at) > offline_after) {
            view.usable_since = Some(report.received);
        }
        view.report = Some(report);
    }

    pub(super) fn set_mode(&mut self, host: &HostId, mode: Mode, now: Timestamp) {
        let view = self.host(host);
        if mode == Mode::Online && view.mode != Mode::Online {
            view.usable_since = Some(now);
        }
        view.mode = mode;
    }

    pub(super) fn configure(&mut self, directory: Arc<Directory>) {
        self.snapshot.directory = directory;
    }

    /// The process died and a new one takes over the store; modes are stored,
    /// and so, where `remembers`, is what agents last said.
    pub(super) fn restart(&mut self, remembers: bool, now: Timestamp) {
        let before = std::mem::take(&mut self.snapshot.hosts);
        *self = Self {
            store: std::mem::take(&mut self.store),
            ..Self::new(Arc::clone(&self.snapshot.directory))
        };
        for (host, old) in before {
            let view = self.host(&host);
            view.mode = old.mode;
            view.report = old.report.clone().filter(|_| remembers);
        }
        let keys: Vec<_> = self.store.keys().cloned().collect();
        for key in keys {
            let mut record = self.store.get(&key).cloned().unwrap_or_default();
            record.orphan(now);
            self.write(key, record, now);
        }
    }

    fn host(&mut self, id: &HostId) -> &mut HostView {
        self.snapshot.generation += 1;
        Arc::make_mut(self.snapshot.hosts.get_mut(id).unwrap())
    }
}
