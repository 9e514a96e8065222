//! The process around the decision, as the product keeps it: the published
//! picture, the store, and the keeper that writes what tunnels tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sessionguard::placement::{
    Aim, Decision, Directory, Finding, HostId, HostView, Known, LeaseKey, LeaseRecord, LeaseState,
    Mode, Modes, Order, Orders, Placement, Probe, RENEWAL, Report, Request, Snapshot, Timestamp,
    Trust, TunnelId, TunnelView, findings, is_silent, most_at_first,
};

use super::keeper::Kept;

/// Picture, store and keeper.
pub(super) struct Broker {
    pub(super) snapshot: Snapshot,
    pub(super) store: BTreeMap<LeaseKey, LeaseRecord>,
    lingering: BTreeMap<LeaseKey, Vec<HostId>>,
    /// Stored, also for hosts that are not configured.
    orders: BTreeMap<HostId, Arc<Orders>>,
    pub(super) kept: BTreeMap<TunnelId, Kept>,
    /// Records written since somebody looked.
    touched: Vec<LeaseKey>,
}

impl Broker {
    pub(super) fn new(directory: Arc<Directory>) -> Self {
        let view = |mode| {
            let view = HostView {
                modes: Modes::from(mode),
                ..HostView::default()
            };
            Arc::new(view.into())
        };
        let hosts = directory
            .hosts()
            .map(|host| (host.id.clone(), view(host.mode)));
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
            orders: BTreeMap::new(),
            kept: BTreeMap::new(),
            touched: Vec::new(),
        }
    }

    /// The records written since the last call.
    pub(super) fn news(&mut self) -> Vec<LeaseKey> {
        std::mem::take(&mut self.touched)
    }

    /// The record an open tunnel's lease is in.
    pub(super) fn record_of(&self, tunnel: &TunnelId) -> Option<&LeaseRecord> {
        self.store.get(&self.kept.get(tunnel)?.key)
    }

    /// The record a request stands on.
    pub(super) fn read(&self, request: &Request) -> LeaseRecord {
        let aim = Aim::take(&self.snapshot, request).ok();
        let key = aim.and_then(|aim| aim.key);
        key.and_then(|key| self.store.get(&key).cloned())
            .unwrap_or_default()
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
        let seat = TunnelView {
            trust: decision.trust,
            tunnel: tunnel.clone(),
            key: decision.key.clone(),
            user: decision.user.clone(),
            farm: farm.clone(),
            resource: decision.resource.clone(),
            since: now,
            stood: None,
            elsewhere: false,
        };
        self.host(&placement.host, |view| view.tunnels.push(Arc::new(seat)));
        let Some(key) = decision.key.clone() else {
            return true;
        };
        let mut record = self.store.get(&key).cloned().unwrap_or_default();
        if !record.claim(&farm, &placement.host, tunnel, decision.trust, now) {
            return false;
        }
        let kept = Kept {
            key: key.clone(),
            host: placement.host.clone(),
            user: decision.user.clone().unwrap(),
            stood: None,
            ended: false,
            shown: false,
            doubtful: decision.trust == Trust::Doubtful,
            due: now + RENEWAL,
        };
        self.kept.insert(tunnel.clone(), kept);
        self.write(key, record, now);
        true
    }

    /// The tunnel stood; the keeper writes it after `lag`, or with what is due sooner.
    pub(super) fn stood(
        &mut self,
        tunnel: &TunnelId,
        host: &HostId,
        lag: Duration,
        now: Timestamp,
    ) {
        self.host(host, |view| {
            if let Some(seat) = view.tunnels.iter_mut().find(|t| t.tunnel == *tunnel) {
                Arc::make_mut(seat).stood = Some(now);
                view.attempt_stood(now);
            }
        });
        if let Some(kept) = self.kept.get_mut(tunnel) {
            (kept.stood, kept.due) = (Some(now), kept.due.min(now + lag));
        }
    }

    /// The tunnel's attempt failed.
    pub(super) fn attempt_failed(&mut self, tunnel: &TunnelId, host: &HostId, now: Timestamp) {
        self.host(host, |view| {
            let seat = view.tunnels.iter().find(|t| t.tunnel == *tunnel).cloned();
            if let Some(seat) = seat {
                view.attempt_failed(&seat, now);
            }
        });
    }

    /// The tunnel is gone; the keeper writes it after `lag`, or with what is due sooner.
    pub(super) fn ended(
        &mut self,
        tunnel: &TunnelId,
        host: &HostId,
        lag: Duration,
        now: Timestamp,
    ) {
        self.host(host, |view| view.tunnels.retain(|t| t.tunnel != *tunnel));
        if let Some(kept) = self.kept.get_mut(tunnel) {
            (kept.ended, kept.due) = (true, kept.due.min(now + lag));
        }
    }

    pub(super) fn write(&mut self, key: LeaseKey, record: LeaseRecord, now: Timestamp) {
        for host in self.lingering.remove(&key).unwrap_or_default() {
            self.host(&host, |view| {
                _ = Arc::make_mut(&mut view.lingering).remove(&key)
            });
        }
        if let Some(user) = record.user() {
            let people = Arc::make_mut(&mut self.snapshot.people);
            for past in record.visits(now) {
                people.remember(user, &past.host, past.at);
            }
        }
        let mut hosts = Vec::new();
        for lease in record
            .views(now)
            .filter(|l| l.state == LeaseState::Lingering)
        {
            // Leases of two farms on one host: the longer one counts.
            self.host(lease.host, |view| {
                Arc::make_mut(&mut view.lingering).insert(key.clone(), lease.until);
            });
            hosts.push(lease.host.clone());
        }
        self.lingering.insert(key.clone(), hosts);
        self.touched.push(key.clone());
        if record.is_empty() {
            self.store.remove(&key);
        } else {
            self.store.insert(key, record);
        }
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        for view in self.snapshot.hosts.values_mut() {
            let over: Vec<_> = view.lingering.over(now).cloned().collect();
            for key in over {
                let view = Arc::make_mut(view);
                Arc::make_mut(&mut view.lingering).remove(&key);
            }
        }
        self.forget_gone();
    }

    /// A host out of the configuration is known for as long as it is in use.
    fn forget_gone(&mut self) {
        let directory = &self.snapshot.directory;
        let in_use = |view: &HostView| !view.tunnels.is_empty() || !view.lingering.is_empty();
        self.snapshot
            .hosts
            .retain(|id, view| directory.host(id).is_some() || in_use(view));
    }

    /// A probe's finding; hosts out of the configuration are not asked.
    pub(super) fn probed(&mut self, host: &HostId, answers: bool, now: Timestamp) {
        if self.snapshot.directory.host(host).is_none() {
            return;
        }
        self.host(host, |view| {
            let returned = answers && view.failing_for(now).is_some();
            match view.probe {
                Probe::Answering { .. } if !answers => _ = view.probe_changed(false, now),
                Probe::Failing { .. } if answers => _ = view.probe_changed(returned, now),
                _ => {}
            }
            view.probe = match (view.probe, answers) {
                (same @ Probe::Answering { .. }, true) | (same @ Probe::Failing { .. }, false) => {
                    same
                }
                (_, false) => Probe::Failing { since: now },
                (before, true) => {
                    if matches!(before, Probe::Failing { .. }) {
                        view.usable_since = Some(now);
                    }
                    Probe::Answering { since: now }
                }
            };
        });
    }

    /// `None` where a newer report is known.
    pub(super) fn reported(
        &mut self,
        host: &HostId,
        report: Report,
        now: Timestamp,
    ) -> Option<Vec<Finding>> {
        let was_silent = is_silent(&self.snapshot, host, now);
        let mut news = false;
        let people = Arc::clone(&self.snapshot.people);
        let most = most_at_first(&self.snapshot, host, now);
        self.host(host, |view| {
            news = view.hear(report, most, |user| people.was_on(user, host));
            if news && was_silent {
                view.usable_since = Some(now);
            }
        });
        if !news {
            return None;
        }
        let found = findings(&self.snapshot, host, now);
        for finding in found.clone() {
            self.heed(host, finding, now);
        }
        Some(found)
    }

    fn heed(&mut self, host: &HostId, finding: Finding, now: Timestamp) {
        let lease = self.snapshot.directory.rules().lease;
        match finding {
            Finding::Shown(tunnel) => {
                self.tunnel(host, &tunnel, |seat| seat.trust = Trust::Plain);
                let kept = self.kept.get_mut(&tunnel).unwrap();
                (kept.shown, kept.due) = (true, now);
            }
            // Nobody's clients carry a mark here.
            Finding::Tagged { .. } => {}
            Finding::Moved { key, to, taken } => {
                let directory = Arc::clone(&self.snapshot.directory);
                let in_farm = |farm: &_| directory.is_member(farm, &to);
                let mut record = self.store.get(&key).cloned().unwrap_or_default();
                record.follow((host, &to), in_farm, taken, lease, now);
                self.write(key, record, now);
            }
            Finding::SignedOut { key, taken } => {
                let mut record = self.store.get(&key).cloned().unwrap_or_default();
                record.sign_out(host, taken, lease, now);
                self.write(key, record, now);
            }
        }
    }

    pub(super) fn turned_usable(&mut self, host: &HostId, now: Timestamp) {
        self.host(host, |view| view.usable_since = Some(now));
    }

    pub(super) fn order(&mut self, host: &HostId, order: Order) {
        let known = self.orders.entry(host.clone()).or_default();
        *known = Arc::new(known.give(Mode::Online, order).0);
        let orders = Arc::clone(known);
        self.host(host, |view| view.modes.orders = orders);
    }

    /// Another configuration; a host that comes back into it is asked anew.
    pub(super) fn configure(&mut self, directory: Arc<Directory>, now: Timestamp) {
        let before = std::mem::replace(&mut self.snapshot.directory, Arc::clone(&directory));
        let is_new = |id: &HostId| before.host(id).is_none();
        for host in directory.hosts().filter(|host| is_new(&host.id)) {
            let view = self.snapshot.hosts.entry(host.id.clone()).or_default();
            let view = Arc::make_mut(view);
            view.probe = Probe::Unknown;
            view.reset_breaker();
            view.modes.orders = self.orders.get(&host.id).cloned().unwrap_or_default();
        }
        if directory.hosts().any(|host| is_new(&host.id)) {
            self.note_leases(now);
        }
        self.forget_gone();
    }

    fn note_leases(&mut self, now: Timestamp) {
        for (key, record) in self.store.clone() {
            self.write(key, record, now);
        }
    }

    /// The process died and a new one takes over the store; modes are stored,
    /// and so, where `remembers`, is what agents last said.
    pub(super) fn restart(&mut self, remembers: bool, now: Timestamp) {
        let before = std::mem::take(&mut self.snapshot.hosts);
        *self = Self {
            store: std::mem::take(&mut self.store),
            orders: std::mem::take(&mut self.orders),
            ..Self::new(Arc::clone(&self.snapshot.directory))
        };
        for (host, old) in before {
            self.host(&host, |view| {
                view.report = old.report.clone().filter(|_| remembers);
            });
        }
        for (host, orders) in self.orders.clone() {
            self.host(&host, |view| view.modes.orders = orders);
        }
        self.snapshot.started = now;
        for record in self.store.values_mut() {
            record.orphan(now);
        }
        self.note_leases(now);
    }

    /// Changes an open tunnel.
    pub(super) fn tunnel(
        &mut self,
        host: &HostId,
        id: &TunnelId,
        change: impl FnOnce(&mut TunnelView),
    ) {
        self.host(host, |view| {
            if let Some(seat) = view.tunnels.iter_mut().find(|t| t.tunnel == *id) {
                change(Arc::make_mut(seat));
            }
        });
    }

    /// Changes what is known of a host, if anything is.
    fn host(&mut self, id: &HostId, change: impl FnOnce(&mut HostView)) {
        self.snapshot.generation += 1;
        if let Some(view) = self.snapshot.hosts.get_mut(id) {
            let known: &mut Known = Arc::make_mut(view);
            change(known);
        }
    }
}
