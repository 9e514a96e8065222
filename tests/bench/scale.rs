//! How the time for one decision grows with hosts, with sessions that agents
//! report, and with leases that linger: a newcomer, who is compared with all. And
//! how the time grows until what an agent reports is in the picture.

#![allow(
    clippy::panic,
    reason = "a benchmark that cannot be set up has no figure"
)]

mod farm;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use sessionguard::fleet::Fleet;
use sessionguard::placement::{
    Carriers, Claims, HostId, HostView, LeaseKey, LeaseRecord, Outcome, People, Probe, Report,
    Request, Session, SessionState, Snapshot, Timestamp, UserKey, decide,
};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// The farm that sessions and leases are spread over.
const HOSTS: u32 = 1_000;

/// What is known of a farm: evenly spread over its hosts.
#[derive(Clone, Copy, Default)]
struct Size {
    hosts: u32,
    sessions: u32,
    leases: u32,
}

fn user(nth: u32) -> Option<UserKey> {
    UserKey::new(&format!("user{nth}"), "corp")
}

/// The numbers below `total` that fall to one host.
fn share(total: u32, size: Size, host: u32) -> impl Iterator<Item = u32> {
    (host..total).step_by(size.hosts as usize)
}

fn session(nth: u32) -> Option<Session> {
    let states = [SessionState::Active, SessionState::Disconnected];
    let state = *states.get(nth as usize / HOSTS as usize % 2)?;
    user(nth).map(|user| Session {
        user,
        state,
        latest: NOW,
        client_name: None,
    })
}

fn view(size: Size, host: u32) -> HostView {
    let report = Report {
        received: NOW,
        health: 100,
        rdp_listener_ok: true,
        cpu_percent: Some(f64::from(host % 97)),
        memory_used_percent: Some(f64::from(host % 89)),
        sessions: share(size.sessions, size, host)
            .filter_map(session)
            .collect(),
        missing_remote_apps: Vec::new(),
        order: None,
        taken: NOW,
        overclaims: false,
    };
    let until = NOW + Duration::from_secs(900);
    let lingering = share(size.leases, size, host).filter_map(user);
    HostView {
        probe: Probe::Answering { since: NOW },
        // Where sessions are not reported, leases stand for them.
        report: (size.leases == 0).then(|| Arc::new(report)),
        lingering: Arc::new(
            lingering
                .map(|user| (LeaseKey::of_user(&user), until))
                .collect(),
        ),
        ..HostView::default()
    }
}

fn snapshot(size: Size) -> Snapshot {
    let config = farm::loaded(&farm::toml("", size.hosts, 1));
    let hosts = (0..size.hosts).map(|at| {
        let id = format!("rds-{at}").into();
        (id, Arc::new(view(size, at).into()))
    });
    let mut people = People::default();
    let known = (0..size.sessions.max(size.leases)).filter_map(user);
    known.for_each(|user| people.remember(&user, &"rds-0".into(), NOW));
    Snapshot {
        generation: 1,
        directory: config.directory,
        hosts: hosts.collect(),
        people: Arc::new(people),
        ..Snapshot::default()
    }
}

fn newcomer() -> Request {
    Request {
        carriers: Carriers {
            resource: Some("desktop-0".into()),
            ..Carriers::default()
        },
        claims: Claims {
            username: "newcomer".into(),
            domain: "corp".into(),
            ..Claims::default()
        },
        ..Request::default()
    }
}

fn decision(group: &mut BenchmarkGroup<'_, WallTime>, count: u32, size: Size) {
    let (snapshot, request, leases) = (snapshot(size), newcomer(), LeaseRecord::default());
    // What is measured is a decision that places somebody.
    let decided = decide(&snapshot, &request, &leases, NOW);
    assert!(
        matches!(decided.outcome, Outcome::Placed(_)),
        "{:?}",
        decided.outcome
    );
    group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
        bencher.iter(|| decide(black_box(&snapshot), &request, &leases, NOW));
    });
}

/// The reports of one host after another, each published by itself.
fn publication(group: &mut BenchmarkGroup<'_, WallTime>, hosts: u32) {
    let size = Size {
        hosts,
        sessions: 20 * hosts,
        ..Size::default()
    };
    let fleet = Fleet::new(farm::loaded(&farm::toml("", hosts, 1)).directory);
    let reports = (0..hosts).map(|at| {
        let report = view(size, at).report;
        (format!("rds-{at}").into(), report)
    });
    let mut reports: Vec<(HostId, _)> = reports
        .filter_map(|(host, report)| Some((host, Arc::unwrap_or_clone(report?))))
        .collect();
    assert_eq!(reports.len(), hosts as usize);
    let mut now = NOW;
    let mut at = 0;
    group.bench_function(BenchmarkId::from_parameter(hosts), |bencher| {
        bencher.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                at = (at + 1) % reports.len();
                now = now + Duration::from_millis(1);
                let Some((host, report)) = reports.get_mut(at) else {
                    panic!("no such host");
                };
                (report.received, report.taken) = (now, now);
                let report = report.clone();
                let start = Instant::now();
                let taken = fleet.note_report(host, report, now);
                spent += start.elapsed();
                assert!(taken.is_some());
            }
            spent
        });
    });
}

fn scales(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide, hosts without sessions");
    group.sample_size(20);
    for hosts in [10, 100, 1_000, 10_000] {
        let size = Size {
            hosts,
            ..Size::default()
        };
        decision(&mut group, hosts, size);
    }
    group.finish();
    let mut group = criterion.benchmark_group("decide, 1,000 hosts, sessions reported");
    group.sample_size(20);
    for sessions in [1_000, 10_000, 100_000] {
        let size = Size {
            hosts: HOSTS,
            sessions,
            ..Size::default()
        };
        decision(&mut group, sessions, size);
    }
    group.finish();
    let mut group = criterion.benchmark_group("decide, 1,000 hosts, leases lingering");
    group.sample_size(10);
    for leases in [10_000, 100_000, 1_000_000] {
        let size = Size {
            hosts: HOSTS,
            leases,
            ..Size::default()
        };
        decision(&mut group, leases, size);
    }
    group.finish();
    let mut group = criterion.benchmark_group("publish, a report of 20 sessions, hosts");
    group.sample_size(20);
    for hosts in [10, 100, 1_000, 10_000] {
        publication(&mut group, hosts);
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    scales(&mut criterion);
    criterion.final_summary();
}
