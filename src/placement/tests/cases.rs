//! Snapshots nobody would build on purpose: figures that are no numbers,
//! moments far ahead, hosts without a view, leases on hosts that are gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::build::*;
use crate::placement::*;

const HOSTS: [&str; 5] = ["a", "b", "c", "d", "gone"];
const FARMS: [&str; 2] = ["erp", "office"];
const USERS: [&str; 5] = ["ann", "corp\\ann", "lab\\ann", "bob", ""];

/// Everything one decision reads.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) snapshot: Snapshot,
    pub(super) leases: LeaseRecord,
    pub(super) tried: BTreeSet<HostId>,
    carriers: Carriers,
    who: &'static str,
}

impl Case {
    pub(super) fn decide(&self) -> Decision {
        self.decide_at(NOW)
    }

    pub(super) fn decide_at(&self, now: Timestamp) -> Decision {
        let request = Request {
            carriers: self.carriers.clone(),
            claims: claims(self.who),
            tried: self.tried.clone(),
            ..Request::default()
        };
        decide(&self.snapshot, &request, &self.leases, now)
    }

    /// The same, every host bounded alike.
    pub(super) fn bounded(mut self, max_sessions: Option<u32>, max_pending_logons: u32) -> Self {
        let directory = &self.snapshot.directory;
        let rules = Rules {
            max_sessions,
            max_pending_logons,
            ..directory.rules().clone()
        };
        let directory = Directory::new(
            rules,
            directory.hosts().cloned(),
            directory.farms().cloned(),
            directory.resources().cloned(),
        );
        self.snapshot.directory = Arc::new(directory);
        self
    }

    pub(super) fn view(&self, host: &HostId) -> &HostView {
        &self.snapshot.hosts[host]
    }

    /// Hosts on which this key has an open tunnel for this farm.
    pub(super) fn held(&self, farm: &FarmId, key: &LeaseKey) -> Vec<HostId> {
        let believed = self.leases.without_doubt();
        let leased = believed.held(NOW).filter(|(f, _)| *f == farm);
        let mut hosts: Vec<_> = leased.map(|(_, host)| host.clone()).collect();
        for (id, view) in &self.snapshot.hosts {
            let mut open = view.tunnels.iter();
            if open.any(|t| t.farm == *farm && t.key.as_ref() == Some(key)) {
                hosts.push(id.clone());
            }
        }
        hosts
    }
}

fn pick<const N: usize>(words: [&'static str; N]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words.to_vec())
}

fn moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        6 => (0..200_u64).prop_map(ago),
        1 => Just(NOW + secs(3600)),
        1 => any::<u64>().prop_map(Timestamp::from_millis),
    ]
}

fn percent() -> impl Strategy<Value = Option<f64>> {
    option::of(prop_oneof![0.0..100.0_f64, any::<f64>(), Just(f64::NAN)])
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![2 => Just(Mode::Online), 1 => Just(Mode::Drain), 1 => Just(Mode::Maintenance)]
}

fn probe() -> impl Strategy<Value = Probe> {
    prop_oneof![
        Just(Probe::Unknown),
        moment().prop_map(|since| Probe::Answering { since }),
        moment().prop_map(|since| Probe::Failing { since }),
    ]
}

fn session() -> impl Strategy<Value = Session> {
    let state = prop_oneof![
        Just(SessionState::Active),
        Just(SessionState::Connected),
        Just(SessionState::Disconnected),
    ];
    let who = pick(["ann", "corp\\ann", "lab\\ann", "bob"]);
    (who, state, moment()).prop_map(|(who, state, latest)| Session {
        user: user(who),
        state,
        latest,
        client_name: None,
    })
}

prop_compose! {
    fn some_report()(
        received in moment(),
        health in any::<u8>(),
        rdp_listener_ok in prop::bool::weighted(0.8),
        cpu_percent in percent(),
        memory_used_percent in percent(),
        sessions in vec(session(), 0..4),
        lacks in any::<bool>(),
    ) -> Report {
        let missing_remote_apps = if lacks { vec!["||Sage".into()] } else { Vec::new() };
        Report {
            received,
            health,
            rdp_listener_ok,
            cpu_percent,
            memory_used_percent,
            sessions,
            missing_remote_apps,
            order: None,
            taken: received,
            overclaims: false,
        }
    }
}

prop_compose! {
    fn tunnel()(
        who in pick(USERS),
        farm in pick(FARMS),
        since in moment(),
        stood in option::of(moment()),
        id in any::<u16>(),
    ) -> TunnelView {
        let user = UserKey::new(who, "");
        TunnelView {
 trust: Trust::Plain,
            tunnel: format!("t{id}").into(),
            key: user.as_ref().map(LeaseKey::of_user),
            user,
            farm: farm.into(),
            resource: None,
            since,
            stood,
            elsewhere: false,
        }
    }
}

prop_compose! {
    pub(super) fn view()(
        mode in mode(),
        probe in probe(),
        report in option::of(some_report()),
        tunnels in prop_oneof![3 => Just(Vec::new()), 1 => vec(tunnel(), 0..3)],
        lingering in btree_map(pick(["ann", "bob"]).prop_map(|w| LeaseKey::of_user(&user(w))), moment(), 0..2),
        usable_since in option::weighted(0.3, moment()),
    ) -> HostView {
        HostView { modes: mode.into(), probe, report: report.map(Arc::new), restarted: None, tunnels: tunnels.into_iter().map(Arc::new).collect(), lingering: Arc::new(lingering.into_iter().collect()), usable_since, breaker: Default::default(), departed: Default::default(), strangers: Default::default(), heard_since: None, standing: Default::default() }
    }
}

prop_compose! {
    fn rules()(
        reconnect_existing in any::<bool>(),
        single_session_per_user in prop::bool::weighted(0.8),
        min_health_score in 0..=100_u8,
        weights in any::<[u32; 5]>(),
        default_domain in option::of(Just("CORP".to_owned())),
        max_sessions in option::weighted(0.3, 0..5_u32),
        max_pending_logons in prop_oneof![3 => Just(10), 1 => 0..3_u32],
    ) -> Rules {
        let [health, active, disconnected, cpu, memory] = weights;
        Rules {
            reconnect_existing,
            single_session_per_user,
            min_health_score,
            weights: Weights { health, active, disconnected, cpu, memory },
            default_domain,
            max_sessions,
            max_pending_logons,
            ..Rules::default()
        }
    }
}

fn trust() -> impl Strategy<Value = Trust> {
    prop_oneof![3 => Just(Trust::Plain), 1 => Just(Trust::Doubtful)]
}

fn leases() -> impl Strategy<Value = LeaseRecord> {
    let lease = (pick(FARMS), pick(HOSTS), trust(), 0..3_u8, moment());
    vec(lease, 0..3).prop_map(|leases| {
        let mut record = LeaseRecord::default();
        for (at, (farm, host, trust, stage, when)) in leases.into_iter().enumerate() {
            let tunnel = TunnelId::from(at.to_string());
            // One that would give the user two hosts is refused.
            let _ = record.claim(&farm.into(), &host.into(), &tunnel, trust, when);
            if stage > 0 {
                record.stood(&tunnel, &user("ann"), secs(900), when);
            }
            if stage > 1 {
                record.end(&tunnel, secs(900), when);
            }
        }
        record
    })
}

prop_compose! {
    pub(super) fn case()(
        rules in rules(),
        // Which of the four hosts are in which farm; `gone` is in none.
        member in any::<[[bool; 2]; 4]>(),
        mut views in vec(view(), 5),
        missing in option::weighted(0.1, 0..5_usize),
        leases in leases(),
        who in pick(USERS),
        resource in pick(["erp", "office", "sage"]),
    ) -> Case {
        let mut world = farm("erp").farm("office");
        world = world.rules(|r| *r = rules).resource(Resource {
            farm_id: Some("office".into()),
            ..remote_app("sage", "||Sage")
        });
        for (at, in_farms) in member.iter().enumerate() {
            let farms = FARMS.iter().zip(in_farms).filter(|(_, is)| **is);
            let farm_ids: Vec<FarmId> = farms.map(|(farm, _)| (*farm).into()).collect();
            world = world.with(host(HOSTS[at]).gone().configured(|h| h.farm_ids = farm_ids));
        }
        let mut snapshot = world.snapshot();
        let views = HOSTS.iter().zip(views.drain(..));
        snapshot.hosts = views.map(|(id, v)| (HostId::from(*id), Arc::new(v.into()))).collect();
        if let Some(at) = missing {
            snapshot.hosts.remove(&HostId::from(HOSTS[at]));
        }
        Case { snapshot, leases, carriers: by_resource(resource), who, tried: BTreeSet::new() }
    }
}
