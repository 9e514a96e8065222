//! What the rules make of a request: written down once more, by the order of
//! their steps, without a look at how the product does it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use sessionguard::placement::{
    Farm, HostId, Mode, Report, Resource, SessionState, Snapshot, Timestamp,
};

use super::ask::{Ask, Lead, Who};
use super::figures::{Figures, Signal, is_of, mean};
use super::model::{Key, Model, Seat};
use super::scene::Scene;

/// Everything an expectation is drawn from.
pub(super) struct Ground<'a> {
    pub(super) scene: &'a Scene,
    pub(super) model: &'a Model,
    pub(super) snapshot: &'a Snapshot,
    pub(super) now: Timestamp,
}

/// What must come out of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expect {
    /// One of these hosts, because a tunnel is open there.
    Beside(Vec<HostId>),
    /// This host, because a session or a lease is there.
    Back(HostId, Way),
    /// One of these: the best of those that may take somebody new.
    New(Vec<HostId>),
    /// A refusal of this kind.
    Refused(&'static str),
    /// It is none of ours.
    NotOurs,
}

/// What leads back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Session(SessionState),
    Lease,
}

/// An expectation and what it was drawn from.
pub(super) struct Drawn<'a> {
    pub(super) expect: Expect,
    pub(super) farm: Option<&'a Farm>,
    pub(super) resource: Option<&'a Resource>,
    /// The RemoteApp its host must have.
    pub(super) app: Option<String>,
    pub(super) who: Option<Who>,
    pub(super) key: Option<Key>,
    /// Login and RDP user are two persons.
    pub(super) in_doubt: bool,
    /// The farm's hosts.
    pub(super) figures: BTreeMap<&'a HostId, Figures<'a>>,
}

/// Whether a seat is anything to the one who asks: in doubt it is nothing to a
/// user who is believed.
fn matters(seat: &Seat, drawn: &Drawn<'_>) -> bool {
    drawn.in_doubt || !seat.doubtful
}

/// Whether somebody new is sent there.
fn is_good(signal: Signal) -> bool {
    matches!(signal, Signal::Good | Signal::LastKnown)
}

/// What bounds a host.
pub(super) struct Bounds {
    pub(super) sessions: Option<u32>,
    pub(super) pending: u32,
    slow_start: Duration,
}

impl<'a> Ground<'a> {
    pub(super) fn draw(&self, ask: &Ask) -> Drawn<'a> {
        let mut drawn = Drawn {
            expect: Expect::NotOurs,
            farm: None,
            resource: None,
            app: None,
            who: None,
            key: None,
            in_doubt: ask.disagrees(),
            figures: BTreeMap::new(),
        };
        let (resource, farm) = match ask.leads(self.scene) {
            Lead::To(resource, farm) => (resource, farm),
            Lead::Closed(kind) => {
                drawn.expect = Expect::Refused(kind);
                return drawn;
            }
            Lead::NotOurs => return drawn,
        };
        (drawn.farm, drawn.resource) = (Some(farm), resource);
        drawn.app = ask.needs_app(resource);
        for host in self.scene.members(&farm.id) {
            let view = self.snapshot.hosts[host].as_ref();
            let figures = Figures::of(self.model, host, view, self.now);
            drawn.figures.insert(host, figures);
        }
        if ask.disagrees() && self.scene.rules.require_match {
            drawn.expect = Expect::Refused("login mismatch");
            return drawn;
        }
        drawn.who = ask.who(self.scene, farm, &self.model.known);
        let narrow = resource.map(|r| &r.id);
        let key = |who| Model::key(self.scene, who, &farm.id, narrow);
        drawn.key = drawn.who.clone().map(key);
        drawn.expect = self.steps(&drawn, farm);
        drawn
    }

    fn steps(&self, drawn: &Drawn<'_>, farm: &Farm) -> Expect {
        if self.too_many(drawn) {
            return Expect::Refused("too many tunnels");
        }
        if let Some(beside) = self.beside(drawn, farm) {
            return beside;
        }
        let back = self.session(drawn, farm);
        match back.or_else(|| self.lease(drawn, farm)) {
            Some((host, way)) if self.has_room(&host, &drawn.figures[&host]) => {
                Expect::Back(host, way)
            }
            Some(_) => Expect::Refused("logons pending"),
            None => self.new_session(drawn, farm),
        }
    }

    /// Whether the user has as many tunnels open as one may have, by any key.
    fn too_many(&self, drawn: &Drawn<'_>) -> bool {
        let (Some(most), Some(key)) = (self.scene.rules.max_tunnels_per_user, &drawn.key) else {
            return false;
        };
        let counts = |seat: &&Seat| {
            if !matters(seat, drawn) {
                return false;
            }
            let unwritten = seat.key.as_ref() == Some(key) && seat.keeps(self.now);
            unwritten || (seat.open && seat.who() == Some(&key.who))
        };
        let open = self.model.seats.values().filter(counts).count();
        open >= usize::try_from(most).unwrap()
    }

    /// An open tunnel of this key decides alone: in this farm first.
    fn beside(&self, drawn: &Drawn<'_>, farm: &Farm) -> Option<Expect> {
        let key = drawn.key.as_ref()?;
        let usable = |host: &&HostId| {
            let member = drawn.figures.get(*host);
            member.is_some_and(|figures| figures.mode != Mode::Maintenance)
        };
        let kept = || {
            let kept = self.model.keeping(key, self.now);
            kept.filter(|seat| matters(seat, drawn))
        };
        let mut here: Vec<_> = kept().filter(|s| s.farm == farm.id).collect();
        // The lease is in one place; whoever goes without counts after it.
        if here.iter().any(|seat| seat.has_part(self.now)) {
            here.retain(|seat| seat.has_part(self.now));
        }
        let here: Vec<_> = here.into_iter().map(|seat| &seat.host).collect();
        if !here.is_empty() {
            let hosts: Vec<_> = here.into_iter().filter(usable).cloned().collect();
            return Some(match hosts.is_empty() {
                true => Expect::Refused("held elsewhere"),
                false => Expect::Beside(hosts),
            });
        }
        let hosts: Vec<_> = kept().map(|s| &s.host).filter(usable).cloned().collect();
        (!hosts.is_empty()).then_some(Expect::Beside(hosts))
    }

    /// Whether somebody who belongs on a host is sent there.
    fn takes_back(&self, figures: &Figures<'_>) -> bool {
        figures.mode != Mode::Maintenance && figures.takes_back(self.scene)
    }

    fn session(&self, drawn: &Drawn<'_>, farm: &Farm) -> Option<(HostId, Way)> {
        let who = drawn.who.as_ref()?;
        let wanted = farm.overrides.reconnect_existing;
        if !wanted.unwrap_or(self.scene.rules.reconnect_existing) {
            return None;
        }
        let open = drawn.figures.iter().filter(|(_, f)| self.takes_back(f));
        let open = open.filter(|(host, _)| self.believes(who, host));
        let theirs = open.flat_map(|(host, figures)| {
            let of_user = figures.sessions().iter().filter(|s| is_of(who, s));
            of_user.map(move |s| (s.state, Reverse(s.latest), *host))
        });
        let (state, _, host) = theirs.min()?;
        Some((host.clone(), Way::Session(state)))
    }

    /// Whether a host is believed that this user is there: one that we know the
    /// user from is, and one that names more users than sessions or that another
    /// such host of a common farm speaks against is not.
    pub(super) fn believes(&self, who: &Who, host: &HostId) -> bool {
        let scene = self.scene;
        if self.model.vouches(who, host, self.now) {
            return true;
        }
        let report = self.snapshot.hosts[host].report.as_ref();
        if report.is_some_and(|report| report.overclaims) {
            return false;
        }
        if !scene.rules.single_session_per_user {
            return true;
        }
        let common = |other: &HostId| {
            let mut farms = scene.farms.iter().map(|farm| scene.members(&farm.id));
            farms.any(|members| members.contains(&host) && members.contains(&other))
        };
        let hosts = self.snapshot.hosts.iter();
        let mut others = hosts.filter(|(id, _)| *id != host && common(id));
        !others.any(|(id, view)| {
            let fresh = view
                .report
                .as_ref()
                .filter(|report| self.now.since(report.received) <= scene.rules.offline_after);
            let theirs = fresh.is_some_and(|r| r.sessions.iter().any(|s| is_of(who, s)));
            theirs && self.model.vouches(who, id, self.now)
        })
    }

    fn lease(&self, drawn: &Drawn<'_>, farm: &Farm) -> Option<(HostId, Way)> {
        let homes = self.model.homes(drawn.key.as_ref()?, self.now);
        let (own, other): (Vec<_>, Vec<_>) = homes.into_iter().partition(|(f, _)| **f == farm.id);
        let mut hosts = own.into_iter().chain(other).map(|(_, home)| &home.host);
        let takes = |host: &&HostId| {
            let member = drawn.figures.get(*host);
            member.is_some_and(|figures| self.takes_back(figures))
        };
        hosts.find(takes).map(|host| (host.clone(), Way::Lease))
    }

    fn new_session(&self, drawn: &Drawn<'_>, farm: &Farm) -> Expect {
        let all = &drawn.figures;
        if all.is_empty() {
            return Expect::Refused("empty farm");
        }
        let app = drawn.app.as_deref();
        let excused = self.excused(drawn);
        let fit: Vec<_> = all
            .iter()
            .filter(|(_, f)| self.fits(f, farm, app, excused))
            .collect();
        let roomy = |host: &HostId, f: &Figures<'_>| {
            let most = self.bounds(host).sessions;
            most.is_none_or(|most| f.users() < usize::try_from(most).unwrap())
        };
        let unfull: Vec<_> = fit.into_iter().filter(|(host, f)| roomy(host, f)).collect();
        let eligible: Vec<_> = unfull
            .iter()
            .filter(|(host, f)| self.has_room(host, f))
            .collect();
        if !eligible.is_empty() {
            let cpu = mean(all.values().filter_map(Figures::cpu));
            let memory = mean(all.values().filter_map(Figures::memory));
            let weights = self.scene.rules.weights;
            let rank = |f: &Figures<'_>| {
                let load = f.load();
                (f.score(load, &weights, (cpu, memory)), load.0 + load.1)
            };
            let ranked: Vec<_> = eligible.iter().map(|(host, f)| (rank(f), **host)).collect();
            let top = ranked
                .iter()
                .map(|((score, _), _)| *score)
                .fold(f64::MIN, f64::max);
            let level = ranked.iter().filter(|((score, _), _)| top - score < 1e-6);
            let fewest = level.clone().map(|((_, count), _)| *count).min();
            let best = level.filter(|((_, count), _)| Some(*count) == fewest);
            return Expect::New(best.map(|(_, host)| (*host).clone()).collect());
        }
        if !unfull.is_empty() {
            return Expect::Refused("logons pending");
        }
        let listens = |f: &Figures<'_>| f.view.report.as_ref().is_none_or(|r| r.rdp_listener_ok);
        let in_service = |f: &Figures<'_>| f.mode == Mode::Online;
        // A host out of service is asked no further: its listener does not count.
        let reached = all.values().any(|f| {
            is_good(f.signal(self.scene, excused))
                && (!in_service(f) || !f.barred() && (self.ill(f, farm) || listens(f)))
        });
        let withdrawn = !all.values().any(in_service);
        Expect::Refused(if reached || withdrawn {
            "busy"
        } else {
            "unreachable"
        })
    }

    /// Whether an agent's silence is not held against its host: no agent of
    /// the farm is heard, or we have only just begun to listen.
    fn excused(&self, drawn: &Drawn<'_>) -> bool {
        let listened = self.now.since(self.snapshot.started);
        let heard = drawn.figures.values().any(|f| f.is_heard(self.scene));
        listened < self.scene.rules.offline_after || !heard
    }

    fn ill(&self, figures: &Figures<'_>, farm: &Farm) -> bool {
        let least = farm.overrides.min_health_score;
        figures.health() < least.unwrap_or(self.scene.rules.min_health_score)
    }

    /// Whether a host may take somebody new, room aside.
    fn fits(&self, figures: &Figures<'_>, farm: &Farm, app: Option<&str>, excused: bool) -> bool {
        let lacks = |r: &Report| {
            let bare = |alias: &str| alias.to_ascii_lowercase().replace('|', "");
            let same = |alias: &str, known: &String| bare(alias) == bare(known);
            app.is_some_and(|alias| r.missing_remote_apps.iter().any(|known| same(alias, known)))
        };
        let report = figures.view.report.as_ref();
        figures.mode == Mode::Online
            && is_good(figures.signal(self.scene, excused))
            && !figures.barred()
            && !self.ill(figures, farm)
            && report.is_none_or(|r| r.rdp_listener_ok && !lacks(r))
    }

    fn has_room(&self, host: &HostId, figures: &Figures<'_>) -> bool {
        let bounds = self.bounds(host);
        figures.pending() < figures.pending_cap(bounds.pending, bounds.slow_start)
    }

    /// The host's own word, the ruling farm's, everybody's.
    pub(super) fn bounds(&self, id: &HostId) -> Bounds {
        let (scene, host) = (self.scene, self.scene.host(id));
        let named = host.farm_ids.iter().find_map(|id| scene.farm(id));
        let ruling = named.or_else(|| scene.farms.iter().find(|f| scene.member(f, host)));
        let word = ruling.map(|farm| &farm.overrides);
        let rules = &scene.rules;
        let sessions = host.max_sessions.or(word.and_then(|w| w.max_sessions));
        let pending = host
            .max_pending_logons
            .or(word.and_then(|w| w.max_pending_logons));
        Bounds {
            sessions: sessions.or(rules.max_sessions),
            pending: pending.unwrap_or(rules.max_pending_logons),
            slow_start: word.and_then(|w| w.slow_start).unwrap_or(rules.slow_start),
        }
    }

    pub(super) fn cap(&self, host: &HostId, figures: &Figures<'_>) -> u32 {
        let bounds = self.bounds(host);
        figures.pending_cap(bounds.pending, bounds.slow_start)
    }
}
