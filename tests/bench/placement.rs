//! Time for one decision in a large farm: 1,000 hosts, 20,000 sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::Criterion;
use sessionguard::placement::{
    Aim, Carriers, Claims, Directory, Farm, FarmId, FarmOverrides, Host, HostId, HostView,
    LeaseKey, LeaseRecord, Mode, ParameterValues, People, Probe, Report, Request, Resource,
    ResourceKind, Rules, Session, SessionState, Snapshot, Timestamp, Trust, TunnelId, TunnelView,
    UserKey, decide,
};

const HOSTS: u32 = 1_000;
const USERS_A_HOST: u32 = 20;
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// What is known of each host's twenty users.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// Agents report them all.
    Sessions,
    /// Agents report them all, and ten of each twenty came through us.
    SessionsAndTunnels,
    /// No agents: twenty tunnels and twenty leases that linger.
    TunnelsAndLeases,
}

fn user(host: u32, nth: u32) -> Option<UserKey> {
    UserKey::new(&format!("user{host}x{nth}"), "corp")
}

fn host_id(at: u32) -> HostId {
    format!("rds-{at:04}").into()
}

fn farm_id() -> FarmId {
    "office".into()
}

fn directory() -> Directory {
    let hosts = (0..HOSTS).map(|at| Host {
        id: host_id(at),
        address: format!("rds-{at:04}.example.com"),
        port: 3389,
        farm_ids: vec![farm_id()],
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: Some(100),
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    });
    let farm = Farm {
        id: farm_id(),
        name: "Office".into(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    };
    let resource = Resource {
        id: "desktop".into(),
        name: "Desktop".into(),
        kind: ResourceKind::Desktop,
        farm_id: Some(farm_id()),
        enabled: true,
        guacamole_connection_id: None,
        guacamole_connection_name: None,
        source: None,
        hostnames: Vec::new(),
        load_balance_info: None,
        attempt_deadline: None,
        keep_parameters: BTreeSet::new(),
        parameters: ParameterValues::default(),
    };
    Directory::new(Rules::default(), hosts, [farm], [resource])
}

fn report(host: u32) -> Report {
    let states = [
        SessionState::Active,
        SessionState::Disconnected,
        SessionState::Connected,
    ];
    let sessions = (0..USERS_A_HOST).zip(states.into_iter().cycle());
    let sessions = sessions.filter_map(|(nth, state)| {
        Some(Session {
            user: user(host, nth)?,
            state,
            latest: NOW,
            client_name: None,
        })
    });
    Report {
        received: NOW,
        health: 100,
        rdp_listener_ok: true,
        cpu_percent: Some(f64::from(host % 97)),
        memory_used_percent: Some(f64::from(host % 89)),
        sessions: sessions.collect(),
        missing_remote_apps: Vec::new(),
        order: None,
        taken: NOW,
        overclaims: false,
    }
}

fn tunnels(host: u32, count: u32) -> Vec<Arc<TunnelView>> {
    let tunnel = |nth| TunnelView {
        trust: Trust::Plain,
        tunnel: format!("t{host}x{nth}").into(),
        key: user(host, nth).as_ref().map(LeaseKey::of_user),
        user: user(host, nth),
        farm: farm_id(),
        resource: None,
        since: NOW,
        stood: Some(NOW),
        elsewhere: false,
    };
    (0..count).map(tunnel).map(Arc::new).collect()
}

fn view(host: u32, known: Known) -> HostView {
    let mut view = HostView {
        probe: Probe::Answering { since: NOW },
        ..HostView::default()
    };
    if known != Known::TunnelsAndLeases {
        view.report = Some(Arc::new(report(host)));
    }
    view.tunnels = match known {
        Known::Sessions => Vec::new(),
        Known::SessionsAndTunnels => tunnels(host, USERS_A_HOST / 2),
        Known::TunnelsAndLeases => tunnels(host, USERS_A_HOST),
    };
    if known == Known::TunnelsAndLeases {
        let users = (USERS_A_HOST..2 * USERS_A_HOST).filter_map(|nth| user(host, nth));
        let until = NOW + Duration::from_secs(900);
        let lingering = users.map(|u| (LeaseKey::of_user(&u), until));
        view.lingering = Arc::new(lingering.collect());
    }
    view
}

fn snapshot(known: Known) -> Snapshot {
    let hosts = (0..HOSTS).map(|at| (host_id(at), Arc::new(view(at, known).into())));
    let mut people = People::default();
    for at in 0..HOSTS {
        for user in (0..USERS_A_HOST).filter_map(|nth| user(at, nth)) {
            people.remember(&user, &host_id(at), NOW);
        }
    }
    Snapshot {
        generation: 1,
        directory: Arc::new(directory()),
        hosts: hosts.collect(),
        people: Arc::new(people),
        ..Snapshot::default()
    }
}

fn request(username: &str) -> Request {
    Request {
        carriers: Carriers {
            resource: Some("desktop".into()),
            ..Carriers::default()
        },
        claims: Claims {
            username: username.into(),
            domain: "corp".into(),
            ..Claims::default()
        },
        ..Request::default()
    }
}

fn lease(stands: bool) -> LeaseRecord {
    let mut record = LeaseRecord::default();
    let (tunnel, span) = (TunnelId::from("t"), Duration::from_secs(900));
    assert!(record.claim(&farm_id(), &host_id(HOSTS / 2), &tunnel, Trust::Plain, NOW));
    if let Some(user) = user(0, 0) {
        record.stood(&tunnel, &user, span, NOW);
    }
    if !stands {
        record.end(&tunnel, span, NOW);
    }
    record
}

fn decisions(criterion: &mut Criterion) {
    let reported = snapshot(Known::Sessions);
    let mixed = snapshot(Known::SessionsAndTunnels);
    let agentless = snapshot(Known::TunnelsAndLeases);
    let none = LeaseRecord::default();
    let (newcomer, known) = (request("newcomer"), request("user500x19"));
    let cases = [
        ("newcomer, agents", &reported, &newcomer, none.clone()),
        (
            "newcomer, agents and tunnels",
            &mixed,
            &newcomer,
            none.clone(),
        ),
        ("newcomer, no agents", &agentless, &newcomer, none.clone()),
        ("back to a session", &mixed, &known, none.clone()),
        ("back by a lease", &agentless, &newcomer, lease(false)),
        ("open tunnel in the store", &mixed, &newcomer, lease(true)),
        ("open tunnel of ours alone", &agentless, &known, none),
    ];
    let mut group = criterion.benchmark_group("decide, 1,000 hosts, 20,000 sessions");
    group.sample_size(30);
    for (name, snapshot, request, leases) in &cases {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| decide(black_box(snapshot), request, leases, NOW));
        });
    }
    group.bench_function("aim alone", |bencher| {
        bencher.iter(|| Aim::take(black_box(&mixed), &newcomer).is_ok());
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decisions(&mut criterion);
    criterion.final_summary();
}
