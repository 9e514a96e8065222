//! What a report must mean, worked out from the shadow's own seats and homes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sessionguard::placement::{
    Finding, HostId, HostView, LeaseKey, Report, Snapshot, Timestamp, TunnelId, UserKey,
};

use super::ask::Who;
use super::day::{Checked, Day};
use super::expect::Ground;
use super::figures::{is_of, name};
use super::model::{Home, Key, Model, Seat};
use super::verdict::{Rule, broken};

/// Who was seen on which host since its last start and is not there now, where
/// a seat or a home waits for them.
pub(super) type Gone = BTreeMap<HostId, BTreeSet<Who>>;

/// What follows from one report.
#[derive(Debug, Default, PartialEq)]
struct Meaning {
    shown: BTreeSet<TunnelId>,
    moved: BTreeMap<LeaseKey, HostId>,
    signed_out: BTreeSet<LeaseKey>,
}

impl Day {
    pub(super) fn hear_report(&mut self, host: &HostId, report: Report) -> Checked {
        let now = self.now;
        let Some(view) = self.broker.snapshot.hosts.get(host) else {
            return Ok(());
        };
        let before = view.report.clone();
        let known = before.as_ref().and_then(|r| r.order);
        let is_news = known.is_none_or(|known| report.order > Some(known));
        let Some(found) = self.broker.reported(host, report.clone(), now) else {
            return match is_news {
                true => broken(Rule::Sighting, format!("a report of {host} is not heard")),
                false => Ok(()),
            };
        };
        if !is_news {
            return broken(Rule::Sighting, format!("an older report of {host} wins"));
        }
        self.tally.reports += 1;
        self.remember(host, before.as_deref(), &report);
        let keys = self.lingering_on(host);
        let expected = self.meaning(host, &report, &keys);
        let found = Meaning::told(&found);
        if found != expected {
            return broken(
                Rule::Sighting,
                format!("{host}: {found:?}, not {expected:?}"),
            );
        }
        for (what, count) in [
            ("logon shown", found.shown.len()),
            ("lease moved", found.moved.len()),
            ("signed out", found.signed_out.len()),
        ] {
            *self.tally.outcomes.entry(what).or_default() += count;
        }
        self.follow_up(host, &report, &found, &keys);
        Ok(())
    }

    fn remember(&mut self, host: &HostId, before: Option<&Report>, report: &Report) {
        let boot = |r: &Report| r.order.map(|order| order.boot);
        let same = before.filter(|before| boot(before) == boot(report));
        let mut gone = self.gone.remove(host).unwrap_or_default();
        match same {
            Some(before) => gone.extend(before.sessions.iter().map(|s| name(&s.user))),
            None => gone.clear(),
        }
        let there: BTreeSet<_> = report.sessions.iter().map(|s| name(&s.user)).collect();
        let (model, now) = (&self.model, self.now);
        gone.retain(|who| !there.contains(who) && model.waits(host, who, now));
        self.gone.insert(host.clone(), gone);
    }

    /// Keys whose homes linger on a host, with the latest end.
    fn lingering_on(&self, host: &HostId) -> Vec<(Key, Timestamp)> {
        let keys = self.model.homes.keys();
        let with_end = keys.filter_map(|key| {
            let here = self.model.lingering(key, host, self.now);
            Some((key.clone(), here.into_iter().map(|home| home.until).max()?))
        });
        with_end.collect()
    }

    fn meaning(&self, host: &HostId, report: &Report, keys: &[(Key, Timestamp)]) -> Meaning {
        let seats = self.model.open_on(host);
        let mut meaning = Meaning::default();
        for (id, seat) in &self.model.seats {
            let is_there = seat.open && seat.host == *host && seat.doubtful;
            let known = |who| self.model.vouches(who, host, self.now);
            let believed = !report.overclaims || seat.who().is_some_and(known);
            if is_there && believed && shows(&seats, seat, report) {
                meaning.shown.insert(id.clone());
            }
        }
        // Whom a host that overclaims does not name may be there all the same.
        let lasting = keys.iter().filter(|_| !report.overclaims);
        let lease = self.scene.rules.lease;
        for (key, until) in lasting {
            let theirs = |s: &&&Seat| s.key.as_ref() == Some(key) || s.who() == Some(&key.who);
            let there = report.sessions.iter().any(|s| is_of(&key.who, s));
            if *until > report.taken + lease || there || seats.iter().any(|s| theirs(&s)) {
                continue;
            }
            if let Some(to) = self.elsewhere(host, &key.who) {
                meaning.moved.insert(stored(key), to);
            }
            if self.gone[host]
                .iter()
                .any(|seen| same_person(&key.who, seen))
            {
                meaning.signed_out.insert(stored(key));
            }
        }
        meaning
    }

    /// The other host whose fresh report shows the best session of theirs.
    fn elsewhere(&self, host: &HostId, who: &Who) -> Option<HostId> {
        let ground = Ground {
            scene: &self.scene,
            model: &self.model,
            snapshot: &self.broker.snapshot,
            now: self.now,
        };
        let Snapshot { hosts, .. } = &self.broker.snapshot;
        let offline_after = self.scene.rules.offline_after;
        let mut best: Option<(_, _, &HostId)> = None;
        let others = hosts.iter().filter(|(id, _)| *id != host);
        for (id, view) in others.filter(|(id, _)| ground.believes(who, id)) {
            let view: &HostView = view;
            let report = view.report.as_ref();
            let fresh = report.filter(|r| self.now.since(r.received) <= offline_after);
            for session in fresh
                .iter()
                .flat_map(|r| &r.sessions)
                .filter(|s| is_of(who, s))
            {
                let rank = (session.state, Reverse(session.latest), id);
                best = Some(best.map_or(rank, |known| known.min(rank)));
            }
        }
        best.map(|(_, _, id)| id.clone())
    }

    /// What the keeper makes of it, as the shadow sees it.
    fn follow_up(
        &mut self,
        host: &HostId,
        report: &Report,
        found: &Meaning,
        keys: &[(Key, Timestamp)],
    ) {
        for id in &found.shown {
            self.model.seats.get_mut(id).unwrap().doubtful = false;
        }
        let latest = report.taken + self.scene.rules.lease;
        let mut moved = Vec::new();
        for (key, _) in keys {
            let stored = stored(key);
            let kept: Vec<_> = self.model.keeping(key, self.now).cloned().collect();
            let is_held = |farm: &_, host: &HostId| {
                let mut kept = kept.iter().filter(|seat| seat.holds);
                kept.any(|seat| seat.farm == *farm && seat.host == *host)
            };
            let Some(homes) = self.model.homes.get_mut(key) else {
                continue;
            };
            let left = |home: &Home| home.host == *host && home.until <= latest;
            if let Some(to) = found.moved.get(&stored) {
                for (farm, home) in homes.iter_mut().filter(|(_, home)| left(home)) {
                    let anybody = kept.iter().any(|seat| seat.holds && seat.farm == *farm);
                    if self.scene.members(farm).contains(&to) && !anybody {
                        home.host = to.clone();
                        moved.push((key.clone(), farm.clone(), to.clone()));
                    }
                }
            }
            if found.signed_out.contains(&stored) {
                homes.retain(|farm, home| !left(home) || is_held(farm, host));
            }
            if found.moved.contains_key(&stored) || found.signed_out.contains(&stored) {
                self.model.forget(key, self.now);
            }
        }
        for (key, farm, to) in moved {
            self.model.was_on(&key, &farm, &to);
        }
    }
}

impl Meaning {
    fn told(found: &[Finding]) -> Self {
        let mut meaning = Self::default();
        for finding in found {
            match finding {
                Finding::Shown(tunnel) => _ = meaning.shown.insert(tunnel.clone()),
                Finding::Moved { key, to, .. } => {
                    meaning.moved.insert(key.clone(), to.clone());
                }
                Finding::SignedOut { key, .. } => _ = meaning.signed_out.insert(key.clone()),
                Finding::Tagged { .. } => {}
            }
        }
        meaning
    }
}

impl Model {
    /// Homes of a key that linger on a host: no tunnel is written to stand for
    /// them.
    pub(super) fn lingering(&self, key: &Key, host: &HostId, now: Timestamp) -> Vec<&Home> {
        let homes = self.homes(key, now).into_iter();
        let here = homes.filter(|(_, home)| home.host == *host);
        let stands = |farm: &_| {
            let mut kept = self.keeping(key, now);
            kept.any(|s| s.holds && s.written && s.until > now && s.farm == *farm)
        };
        let left = here.filter(|(farm, _)| !stands(*farm));
        left.map(|(_, home)| home).collect()
    }

    fn waits(&self, host: &HostId, seen: &Who, now: Timestamp) -> bool {
        let seats = self.open_on(host);
        let mut sitting = seats.iter().filter_map(|seat| seat.who());
        let mut homes = self.homes.keys().filter(|key| same_person(&key.who, seen));
        sitting.any(|who| same_person(who, seen))
            || homes.any(|key| !self.lingering(key, host, now).is_empty())
    }
}

/// Whether somebody seen by this name may be that user.
fn same_person(who: &Who, seen: &Who) -> bool {
    who.1 == seen.1 && (seen.0.is_empty() || seen.0 == who.0)
}

fn shows(seats: &[&Seat], seat: &Seat, report: &Report) -> bool {
    let Some(who) = seat.who() else {
        return false;
    };
    let others = seats.iter().filter(|other| other.who() == Some(who));
    let mut theirs = report.sessions.iter().filter(|s| is_of(who, s));
    seat.stood.is_some() && others.count() == 1 && theirs.any(|s| s.latest >= seat.since)
}

/// The key as the store knows it.
fn stored(key: &Key) -> LeaseKey {
    let user = UserKey::new(&key.who.1, &key.who.0).unwrap();
    match key.narrow() {
        None => LeaseKey::of_user(&user),
        Some((farm, resource)) => {
            let resource = (!resource.is_empty()).then(|| resource.into());
            LeaseKey::of_resource(&user, &farm.into(), resource.as_ref())
        }
    }
}
