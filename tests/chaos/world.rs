//! Everything outside the brokers, and their processes: guacd, hosts with their agents, users, the
//! database and the network before it, and what is done to all of them.

mod agents;
mod faults;
mod files;
mod guacd;
mod hosts;
mod http;
mod ledger;
mod replica;
mod visits;
mod wire;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::history::{History, Members, Moment, OrderId, User};
use super::plan::{HOSTS, REPLICAS};
use crate::support::FaultProxy;
use crate::support::postgres::{PASSWORD, Server};
use files::Files;
use guacd::Guacd;
use hosts::Hosts;
use ledger::Ledger;
use replica::Process;
use visits::Person;

/// How large it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) users: User,
    /// On one host.
    pub(super) max_sessions: usize,
    pub(super) lease: Duration,
    /// Of a hundred clicks so many are made at every replica in the same moment.
    pub(super) together: u64,
}

pub(super) struct World {
    pub(super) history: Arc<History>,
    pub(super) counts: Counts,
    hosts: Arc<Hosts>,
    replicas: Vec<Arc<Process>>,
    /// Between each replica and the database.
    proxies: Vec<FaultProxy>,
    server: Arc<Mutex<Server>>,
    members: Mutex<Members>,
    orders: AtomicU32,
    /// Users go home.
    over: AtomicBool,
    /// Agents are silent, the ledger is closed.
    ended: AtomicBool,
}

/// What users saw.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) clicks: AtomicU32,
    pub(super) open: AtomicUsize,
    pub(super) placed: AtomicUsize,
    pub(super) refused: AtomicUsize,
    pub(super) let_down: AtomicUsize,
}

impl World {
    /// All replicas are up once it is there.
    pub(super) async fn begin(server: Server, bounds: Bounds) -> (Arc<Self>, JoinHandle<Ledger>) {
        for role in replica::roles() {
            let sql = format!("CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{PASSWORD}'");
            server.psql("postgres", &sql);
        }
        let history = Arc::<History>::default();
        let hosts = Hosts::start(Arc::clone(&history)).await;
        let guacd = Guacd::new(Arc::clone(&history), Arc::clone(&hosts));
        let database = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
        let (mut replicas, mut proxies) = (Vec::new(), Vec::new());
        for replica in 0..REPLICAS {
            let proxy = FaultProxy::before(database);
            let address = guacd.listen(replica).await;
            let shared = (&history, &hosts);
            let files = Files::new(replica, shared, bounds, address, proxy.address());
            replicas.push(Process::start(files, replica, &history));
            proxies.push(proxy);
        }
        let world = Arc::new(Self {
            counts: Counts::default(),
            hosts,
            replicas,
            proxies,
            members: Mutex::new(files::first_members()),
            orders: AtomicU32::new(0),
            over: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            history,
            server: Arc::new(Mutex::new(server)),
        });
        world.all_up(Duration::from_secs(60)).await;
        let server = world.server.lock().unwrap();
        server.psql("postgres", ledger::TRIGGERS);
        let ledger = Ledger::new(&world.history, server.port);
        drop(server);
        let keeping = Arc::clone(&world);
        let ledger = tokio::spawn(ledger.keep(move || keeping.is_ended()));
        (world, ledger)
    }

    /// A statement of the database's owner.
    pub(super) fn sql(&self, statement: &str) -> String {
        self.server.lock().unwrap().psql("postgres", statement)
    }

    /// Waits until every replica takes connections.
    pub(super) async fn all_up(&self, patience: Duration) {
        let until = Instant::now() + patience;
        for process in &self.replicas {
            while !visits::is_reachable(process.address()) {
                let words = process.last_words();
                assert!(
                    Instant::now() < until,
                    "replica {} does not come up: {words}",
                    process.replica
                );
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub(super) fn agents(self: &Arc<Self>, seed: u64) -> Vec<JoinHandle<()>> {
        let agents = (0..HOSTS).map(|host| tokio::spawn(agents::run(Arc::clone(self), host, seed)));
        agents.collect()
    }

    pub(super) fn people(self: &Arc<Self>, bounds: Bounds, seed: u64) -> Vec<JoinHandle<()>> {
        let works = |user| Person::of(self, user, seed).work(bounds.together);
        let people = (0..bounds.users).map(|user| tokio::spawn(works(user)));
        people.collect()
    }

    /// Everybody asks until there is a desktop; who got none within this time.
    pub(super) async fn everybody_asks(
        self: &Arc<Self>,
        users: User,
        patience: Duration,
    ) -> Vec<User> {
        let asking = (0..users).map(|user| {
            let person = Person::of(self, user, 0);
            (user, tokio::spawn(person.insist(patience)))
        });
        let mut without = Vec::new();
        for (user, asking) in asking.collect::<Vec<_>>() {
            if !asking.await.unwrap() {
                without.push(user);
            }
        }
        without
    }

    /// Faults are over: every host is online and in its farms again.
    pub(super) async fn mend(&self) {
        let members = Arc::new(files::first_members());
        self.write(&members, Duration::ZERO).await;
        for host in 0..HOSTS {
            self.online(host, 0).await;
        }
    }

    pub(super) fn go_home(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn next_order(&self) -> OrderId {
        self.orders.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn sessions(&self) -> usize {
        self.hosts.sessions()
    }

    /// How often the replicas logged each message, and their panics.
    pub(super) fn said(&self) -> (BTreeMap<String, u64>, Vec<String>) {
        let (mut said, mut panics) = (BTreeMap::new(), Vec::new());
        for process in &self.replicas {
            let (theirs, their_panics) = process.said();
            for (message, count) in theirs {
                *said.entry(message).or_default() += count;
            }
            panics.extend(their_panics);
        }
        (said, panics)
    }

    /// Keeps what the replicas logged.
    pub(super) fn keep_logs(&self, folder: &Path) {
        for process in &self.replicas {
            let name = format!("replica{}.jsonl", process.replica);
            std::fs::copy(process.files.path().join("log.jsonl"), folder.join(name)).unwrap();
        }
    }

    pub(super) fn end_processes(&self) {
        for process in &self.replicas {
            process.end();
        }
    }
}

/// What of the leases still holds at a moment, for people.
pub(super) fn unended(ledger: &Ledger, now: Moment) -> Vec<String> {
    let unended = ledger.unended(now).into_iter();
    unended
        .map(|(user, record)| format!("user {user}: {record:?}"))
        .collect()
}
