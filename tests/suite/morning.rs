//! The black hole: a farm of loaded hosts and an empty one on which everybody
//! would be placed, and everybody comes at once.
//!
//! Ten seconds of a morning pass in four here: logons and heartbeats take less
//! time than at work, and their order is the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::admin::get;
use crate::support::{
    Asker, Broker, ClosedPort, Names, ScriptedAgent, ScriptedGuacd, ScriptedHost, Site, Stage,
    Visit, Visitor, eventually, new_key, session,
};

const LOADED: usize = 50;
/// The one behind them.
const EMPTY: &str = "rds51";
const USERS: u32 = 60;
/// In which they all come.
const MORNING: Duration = Duration::from_secs(4);
/// From one heartbeat of a host to its next.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// From a placement until its desktop appears.
const LOGON: Duration = Duration::from_millis(1200);
/// Logons that may be under way on a host.
const CAP: u64 = 10;
const SLOW_START: Duration = Duration::from_secs(8);
/// What one active session takes off a host's score.
const A_SESSION: f64 = 20.0;

/// Who has a desktop, by the port of the host.
type Desktops = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// A host that reports.
struct Reporter {
    agent: ScriptedAgent,
    asker: Asker,
    port: String,
    /// Who has been there since before.
    crowd: Vec<Value>,
}

struct Morning {
    guacd: Mutex<ScriptedGuacd>,
    site: Site,
    broker: Broker,
    /// Ids by port.
    ids: BTreeMap<String, String>,
    _hosts: Vec<ScriptedHost>,
    desktops: Desktops,
    reporters: Mutex<Vec<Reporter>>,
    /// Where the empty host was off until now: when it still was.
    off_until: Option<Instant>,
}

/// What became of it.
struct Evening {
    /// Scores before anybody came.
    scores: BTreeMap<String, f64>,
    /// Who came, host by host.
    newcomers: BTreeMap<String, u32>,
    /// Whether the empty host was seen with as many logons under way as may be.
    was_at_cap: bool,
}

/// Ends what runs beside the visitors, even where one of them fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A desktop appears only after a while.
fn slow_guacd(desktops: &Desktops) -> ScriptedGuacd {
    let (names, desktops) = (Names::rdp("1.6.0"), Arc::clone(desktops));
    ScriptedGuacd::playing(move |peer| {
        peer.shake_hands(&names)?;
        thread::sleep(LOGON);
        let (port, user) = (peer.value("port"), peer.value("username"));
        let mut desktops = desktops.lock().unwrap();
        let there = desktops.entry(port.to_owned()).or_default();
        there.push(user.to_owned());
        drop(desktops);
        peer.stand();
        Ok(())
    })
}

impl Reporter {
    fn of(site: &Site, broker: &Broker, nth: usize, port: u16) -> Self {
        let mut agent = ScriptedAgent::of(site, &format!("rds{nth}"));
        let is_empty = agent.host == EMPTY;
        // Scores of many heights, so that there is an order to keep.
        let (sessions, cpu, free) = match is_empty {
            true => (0, 1, 900),
            false => (40 + nth % 3, 50 + nth * 3 % 8 * 5, 400),
        };
        agent.differs = json!({ "server": {
            "hostname": agent.host, "cpu_percent": cpu,
            "memory_total": 1000, "memory_available": free,
        } });
        let crowd = (0..sessions).map(|n| session(&format!("old{nth}-{n}"), "Active", 600));
        let key = new_key(site, "agent", Some(&agent.host));
        Self {
            asker: Asker::of(broker).with(&key),
            port: port.to_string(),
            crowd: crowd.collect(),
            agent,
        }
    }

    fn report(&mut self, desktops: &Desktops) {
        let mut sessions = self.crowd.clone();
        let newcomers = desktops.lock().unwrap().get(&self.port).cloned();
        let newcomers = newcomers.unwrap_or_default();
        sessions.extend(newcomers.iter().map(|user| session(user, "Active", 0)));
        let body = self.agent.next(&sessions).to_string();
        let told = self.asker.report(&self.agent.host, &body);
        assert_eq!(told.status, 200, "{told:?}");
        assert_eq!(told.json()["taken"], true, "{told:?}");
    }
}

impl Morning {
    /// The empty host has been on for long, or was switched on just now.
    fn of(just_on: bool) -> Self {
        let desktops = Desktops::default();
        let guacd = slow_guacd(&desktops);
        let mut hosts: Vec<_> = (0..LOADED).map(|_| ScriptedHost::up()).collect();
        let closed = ClosedPort::new();
        let mut addresses: Vec<_> = hosts.iter().map(ScriptedHost::address).collect();
        addresses.push(closed.address());
        let mut closed = Some(closed);
        if !just_on {
            hosts.extend(closed.take().map(ClosedPort::listen));
        }
        // A machine under load must make neither agents silent nor hosts dead.
        let site = Stage::site(guacd.address(), &addresses).with(format!(
            "[broker]\noffline_after_seconds = 600\nmax_pending_logons = {CAP}\n\
             slow_start = \"{}s\"\n[probe]\ninterval = \"4s\"\ntimeout = \"4s\"\n",
            SLOW_START.as_secs()
        ));
        let broker = site.start();
        let ports = addresses.iter().zip(1..);
        let mut reporters: Vec<_> = ports
            .map(|(address, nth)| Reporter::of(&site, &broker, nth, address.port()))
            .collect();
        for reporter in &mut reporters {
            reporter.report(&desktops);
        }
        let off_until = closed.map(|closed| {
            broker.wait("Host does not answer RDP", |line| line["host"] == EMPTY);
            hosts.push(closed.listen());
            let mut off_at = Instant::now();
            eventually("a host that answers", || {
                let asked = Instant::now();
                let host = get(&site, &format!("/api/v1/hosts/{EMPTY}"));
                let answers = host["probe"] == "answering";
                if !answers {
                    off_at = asked;
                }
                answers.then_some(())
            });
            off_at
        });
        let ids = reporters
            .iter()
            .map(|one| (one.port.clone(), one.agent.host.clone()));
        let morning = Self {
            guacd: Mutex::new(guacd),
            site,
            broker,
            ids: ids.collect(),
            _hosts: hosts,
            desktops,
            reporters: Mutex::new(reporters),
            off_until,
        };
        eventually("hosts that take newcomers", || {
            let all = morning.hosts();
            let ready = |host: &Value| {
                host["newcomer"][0]["exclusion"].is_null() && host["agent"].is_object()
            };
            all.iter().all(ready).then_some(())
        });
        morning
    }

    fn hosts(&self) -> Vec<Value> {
        let told = get(&self.site, "/api/v1/hosts");
        told["hosts"].as_array().unwrap().clone()
    }

    /// Most logons that may be under way on that host by now, by our own count.
    fn cap_of(&self, host: &str) -> u64 {
        match self.off_until.filter(|_| host == EMPTY) {
            None => CAP,
            Some(at) => {
                let passed = at.elapsed().min(SLOW_START).as_millis();
                let grown = u128::from(CAP - 1) * passed / SLOW_START.as_millis();
                1 + u64::try_from(grown).unwrap()
            }
        }
    }

    /// Looks once; whether the empty host is at its cap.
    fn sample(&self) -> bool {
        let hosts = self.hosts();
        let mut is_at_cap = false;
        for host in &hosts {
            let (id, occupancy) = (host["id"].as_str().unwrap(), &host["occupancy"]);
            let pending = occupancy["pending"].as_u64().unwrap();
            let cap = occupancy["pending_cap"].as_u64().unwrap();
            assert!(pending <= cap, "{id}: {occupancy}");
            let (lawful, told) = (self.cap_of(id), occupancy);
            assert!(cap <= lawful, "{id}: {lawful} are the most now, {told}");
            is_at_cap |= id == EMPTY && pending == cap;
        }
        is_at_cap
    }

    /// Everybody logs on, while hosts report and somebody watches.
    fn pass(&self) -> Evening {
        let scores = self.hosts().into_iter().map(|host| {
            let score = host["newcomer"][0]["score"].as_f64();
            (host["id"].as_str().unwrap().to_owned(), score.unwrap())
        });
        let scores: BTreeMap<_, _> = scores.collect();
        let over = AtomicBool::new(false);
        let (visitors, was_at_cap) = thread::scope(|scope| {
            let stop = Stop(&over);
            let goes_on = || !over.load(Ordering::SeqCst);
            let reports = scope.spawn(move || {
                let mut reporters = self.reporters.lock().unwrap();
                let pause = HEARTBEAT / u32::try_from(reporters.len()).unwrap();
                let mut due = Instant::now();
                for at in (0..reporters.len()).cycle() {
                    if !goes_on() {
                        return;
                    }
                    reporters[at].report(&self.desktops);
                    due += pause;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            });
            let watch = scope.spawn(move || {
                let mut was_at_cap = false;
                while goes_on() {
                    was_at_cap |= self.sample();
                    thread::sleep(Duration::from_millis(10));
                }
                was_at_cap
            });
            let visitors: Vec<_> = (0..USERS)
                .map(|nth| {
                    thread::sleep(MORNING / USERS);
                    scope.spawn(move || self.log_on(nth))
                })
                .collect();
            let visitors: Vec<_> = visitors
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect();
            eventually("logons that are seen", || {
                let pending = |host: &Value| host["occupancy"]["pending"] != 0;
                (!self.hosts().iter().any(pending)).then_some(())
            });
            drop(stop);
            reports.join().unwrap();
            (visitors, watch.join().unwrap())
        });
        assert_eq!(self.broker.lines("Placed").len(), visitors.len());
        assert_eq!(self.broker.lines("Refused").len(), 0);
        let mut newcomers: BTreeMap<_, _> = scores.keys().map(|id| (id.clone(), 0)).collect();
        let guacd = self.guacd.lock().unwrap();
        for _ in &visitors {
            let peer = guacd.ready();
            *newcomers.get_mut(&self.ids[peer.value("port")]).unwrap() += 1;
        }
        Evening {
            scores,
            newcomers,
            was_at_cap,
        }
    }

    /// Gets a desktop, whatever it takes; stays.
    fn log_on(&self, nth: u32) -> Visitor {
        let mut visitor = Visit::office(&format!("user{nth}")).at(&self.broker);
        visitor.ready();
        visitor.hear_past_nops("sync");
        visitor
    }

    /// Whoever was placed elsewhere was so because the empty host was at its cap.
    fn assert_the_empty_host_got_what_it_could_take(&self) {
        let decisions = eventually("decisions", || {
            let told = get(&self.site, "/api/v1/decisions?limit=500");
            let decisions = told["decisions"].as_array().unwrap().clone();
            (decisions.len() == USERS as usize).then_some(decisions)
        });
        for made in decisions {
            assert_eq!(made["outcome"], "placed", "{made}");
            let id = made["id"].as_str().unwrap();
            let made = get(&self.site, &format!("/api/v1/decisions/{id}"));
            let candidates = made["decision"]["candidates"].as_array().unwrap();
            let find = |id: &Value| candidates.iter().find(|one| one["host"] == *id).unwrap();
            let empty = find(&json!(EMPTY));
            let occupancy = |one: &Value, name: &str| one["occupancy"][name].as_u64().unwrap();
            if made["host"] != EMPTY {
                assert_eq!(empty["exclusion"], "logons-pending", "{empty}");
                assert_eq!(
                    occupancy(empty, "pending"),
                    occupancy(empty, "pending_cap"),
                    "{empty}"
                );
            }
            let chosen = find(&made["host"]);
            assert!(
                occupancy(chosen, "pending") < occupancy(chosen, "pending_cap"),
                "{chosen}"
            );
        }
    }
}

impl Evening {
    fn on_the_empty_host(&self) -> u32 {
        self.newcomers[EMPTY]
    }

    /// Among loaded hosts nobody came to one where another would have been better:
    /// with a better score a host has at most one newcomer less than a worse one,
    /// and one more for each session that its score is ahead.
    fn assert_the_spread_follows_the_score(&self) {
        for (worse, &came) in &self.newcomers {
            for (better, &came_there) in &self.newcomers {
                if came == 0 || better == EMPTY {
                    continue;
                }
                let ahead = (self.scores[better] - self.scores[worse]) / A_SESSION;
                assert!(
                    f64::from(came_there) >= f64::from(came) - 1.0 + ahead - 1e-6,
                    "{worse} got {came} at {}, {better} got {came_there} at {}",
                    self.scores[worse],
                    self.scores[better],
                );
            }
        }
    }
}

fn passes(just_on: bool) -> Evening {
    let morning = Morning::of(just_on);
    let evening = morning.pass();
    assert_eq!(evening.newcomers.values().sum::<u32>(), USERS);
    assert!(evening.was_at_cap, "its cap never mattered");
    morning.assert_the_empty_host_got_what_it_could_take();
    evening.assert_the_spread_follows_the_score();
    evening
}

#[test]
fn an_empty_host_draws_no_more_logons_at_a_time_than_it_may_have() {
    let evening = passes(false);
    let there = evening.on_the_empty_host();
    assert!(
        there >= 10,
        "as many as it may have at once came at first: {there}"
    );
}

#[test]
fn a_host_that_was_just_switched_on_fills_slowly() {
    let evening = passes(true);
    let there = evening.on_the_empty_host();
    assert!((1..USERS).contains(&there), "{there}");
}
