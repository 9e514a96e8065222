//! No host beyond what it may hold, in every order of arrivals and reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::build::*;
use super::cases::case;
use crate::placement::*;

const HOSTS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Event {
    Arrives(u8),
    Stands(usize),
    Ends(usize),
    Reports(usize),
    Returns(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..12_u8).prop_map(Event::Arrives),
        3 => any::<usize>().prop_map(Event::Stands),
        2 => any::<usize>().prop_map(Event::Ends),
        2 => (0..3_usize).prop_map(Event::Reports),
        1 => (0..3_usize).prop_map(Event::Returns),
        2 => prop_oneof![0..70_u64, Just(60)].prop_map(Event::Wait),
    ]
}

/// A farm at work: what its hosts hold, and when.
struct Rush {
    snapshot: Snapshot,
    now: Timestamp,
    tunnels: u32,
}

impl Rush {
    fn new(agents: bool, change: impl FnOnce(&mut Rules)) -> Self {
        let hosts = HOSTS.iter().map(|id| {
            let host = host(id).answering();
            if agents { host.reporting() } else { host }
        });
        let world = hosts.fold(farm("office").rules(change), World::with);
        Self {
            snapshot: world.snapshot(),
            now: NOW,
            tunnels: 0,
        }
    }

    fn host(&mut self, at: usize) -> &mut HostView {
        let host = self.snapshot.hosts.get_mut(&HostId::from(HOSTS[at]));
        let known: &mut Known = Arc::make_mut(host.unwrap());
        known
    }

    fn occupancy(&self, host: &HostId) -> Occupancy {
        let caps = self.snapshot.directory.caps(host).unwrap();
        self.snapshot.hosts[host].occupancy(caps, self.now)
    }

    /// Every open tunnel of ours, as host and place there.
    fn open(&self) -> Vec<(usize, usize)> {
        let views = HOSTS
            .iter()
            .map(|id| &self.snapshot.hosts[&HostId::from(*id)]);
        let places = views
            .enumerate()
            .flat_map(|(at, view)| (0..view.tunnels.len()).map(move |n| (at, n)));
        places.collect()
    }

    fn arrives(&mut self, who: u8) -> Decision {
        let request = Request {
            carriers: by_resource("office"),
            claims: claims(&format!("user{who}")),
            ..Request::default()
        };
        let decision = decide(&self.snapshot, &request, &LeaseRecord::default(), self.now);
        if let Outcome::Placed(placement) = &decision.outcome {
            self.tunnels += 1;
            let view = TunnelView {
                trust: Trust::Plain,
                tunnel: format!("t{}", self.tunnels).into(),
                key: decision.key.clone(),
                user: decision.user.clone(),
                farm: "office".into(),
                since: self.now,
                stood: None,
                resource: None,
                elsewhere: false,
            };
            let at = HOSTS.iter().position(|id| *id == placement.host.as_str());
            self.host(at.unwrap()).tunnels.push(Arc::new(view));
        }
        decision
    }

    fn happen(&mut self, event: &Event) {
        let now = self.now;
        let open = self.open();
        let pick = |n: &usize| open.get(n % open.len().max(1)).copied();
        match event {
            Event::Arrives(who) => {
                self.arrives(*who);
            }
            Event::Stands(n) => {
                if let Some((host, at)) = pick(n) {
                    Arc::make_mut(&mut self.host(host).tunnels[at])
                        .stood
                        .get_or_insert(now);
                }
            }
            Event::Ends(n) => {
                if let Some((host, at)) = pick(n) {
                    self.host(host).tunnels.remove(at);
                }
            }
            // Sessions of everybody whose tunnel stands.
            Event::Reports(at) => {
                let view = self.host(*at);
                let stands = view.tunnels.iter().filter(|t| t.stood.is_some());
                let users: BTreeMap<_, _> =
                    stands.filter_map(|t| Some((t.user.clone()?, ()))).collect();
                let sessions = users.into_keys().map(|user| Session {
                    user,
                    state: SessionState::Active,
                    latest: now,
                    client_name: None,
                });
                let sessions = sessions.collect();
                if let Some(report) = view.report.as_mut().map(Arc::make_mut) {
                    report.sessions = sessions;
                    report.received = now;
                }
            }
            Event::Returns(at) => self.host(*at).usable_since = Some(now),
            Event::Wait(seconds) => {
                self.now = now + secs(*seconds);
                // Agents that only keep silent are another matter.
                let fresh = self.now;
                for at in 0..HOSTS.len() {
                    if let Some(report) = self.host(at).report.as_mut().map(Arc::make_mut) {
                        report.received = fresh;
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nobody_new_comes_to_a_host_that_is_full(
        agents in any::<bool>(),
        most in 0..4_u32,
        events in vec(event(), 0..60),
    ) {
        let mut rush = Rush::new(agents, |r| r.max_sessions = Some(most));
        for event in &events {
            let Event::Arrives(who) = event else {
                rush.happen(event);
                continue;
            };
            let before = rush.snapshot.clone();
            let decision = rush.arrives(*who);
            let Outcome::Placed(placement) = decision.outcome else { continue };
            if placement.reason == Reason::Score {
                let caps = before.directory.caps(&placement.host).unwrap();
                let was = before.hosts[&placement.host].occupancy(caps, rush.now);
                prop_assert!(was.users < most);
                prop_assert!(rush.occupancy(&placement.host).users <= most);
            }
        }
    }

    #[test]
    fn no_logon_is_let_in_over_the_cap(
        agents in any::<bool>(),
        cap in 0..4_u32,
        slow in prop_oneof![Just(0), Just(60_u64)],
        events in vec(event(), 0..60),
    ) {
        let mut rush = Rush::new(agents, |r| {
            r.max_pending_logons = cap;
            r.slow_start = secs(slow);
        });
        for event in &events {
            let Event::Arrives(who) = event else {
                rush.happen(event);
                continue;
            };
            let Outcome::Placed(placement) = rush.arrives(*who).outcome else { continue };
            if placement.reason != Reason::Tunnel {
                let now = rush.occupancy(&placement.host);
                prop_assert!(now.pending <= now.pending_cap, "{:?}", now);
                prop_assert!(now.pending_cap <= cap);
            }
        }
    }

    #[test]
    fn a_rush_fills_every_host_to_its_cap_and_waits_then(
        users in 1..60_u32,
        cap in 1..6_u32,
    ) {
        let mut rush = Rush::new(false, |r| r.max_pending_logons = cap);
        let places = 3 * cap;
        for who in 0..users {
            let outcome = rush.arrives(who.try_into().unwrap()).outcome;
            let placed = matches!(outcome, Outcome::Placed(_));
            prop_assert_eq!(placed, who < places);
            if !placed {
                let waits = Outcome::Refused(Refusal::LogonsPending("office".into()));
                prop_assert_eq!(outcome, waits);
            }
        }
    }

    #[test]
    fn whatever_the_farm_is_like_nobody_is_let_in_over_a_bound(
        case in case(),
        most in option::of(0..4_u32),
        cap in 0..4_u32,
    ) {
        let case = case.bounded(most, cap);
        let decision = case.decide();
        let Outcome::Placed(placement) = &decision.outcome else { return Ok(()) };
        if placement.reason == Reason::Tunnel { return Ok(()) }
        let caps = case.snapshot.directory.caps(&placement.host).unwrap();
        let occupancy = case.view(&placement.host).occupancy(caps, NOW);
        prop_assert!(occupancy.pending < occupancy.pending_cap);
        if placement.reason == Reason::Score {
            prop_assert!(most.is_none_or(|most| occupancy.users < most));
        }
    }

    #[test]
    fn a_host_never_holds_more_logons_than_tunnels_nor_counts_fewer_users_than_it_shows(case in case()) {
        for (id, view) in &case.snapshot.hosts {
            let Some(caps) = case.snapshot.directory.caps(id) else { continue };
            let occupancy = view.occupancy(caps, NOW);
            prop_assert!(occupancy.pending as usize <= view.tunnels.len());
            let shown = view.report.iter().flat_map(|report| &report.sessions);
            let shown: std::collections::BTreeSet<_> = shown.map(|s| &s.user).collect();
            prop_assert!(occupancy.users as usize >= shown.len());
            prop_assert!(occupancy.users as usize <= shown.len() + view.tunnels.len());
        }
    }
}
