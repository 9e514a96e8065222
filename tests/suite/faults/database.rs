//! The database that replicas share, in trouble: whoever has a desktop never notices, nobody is
//! placed by a guess, and everything is as it was soon after it is back.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::thread;
use std::time::Instant;

use super::super::metrics::Scraped;
use super::*;
use crate::support::postgres::{self, PASSWORD, Server, USER};
use crate::support::{Dns, skipped};

const VARIABLE: &str = "SESSIONGUARD_DATABASE_PASSWORD";

/// The page waits 15 s.
const BUDGET: Duration = Duration::from_secs(14);
/// By when it is used again on a machine under load; what it took is told.
const BACK: Duration = Duration::from_secs(10);

/// Ann has a desktop, and Eve had one.
struct Scene {
    stage: Stage,
    visitor: Visitor,
    peer: GuacdPeer,
    host: String,
    where_eve_was: String,
}

fn store(address: SocketAddr, settings: &str) -> String {
    let patience = match settings.contains("query_timeout") {
        true => "",
        false => "query_timeout = \"2s\"\n",
    };
    format!(
        "[store]\nkind = \"postgres\"\nreplicated = true\naddress = \"{address}\"\n\
         database = \"postgres\"\nuser = \"{USER}\"\n\
         connect_timeout = \"2s\"\n{patience}{settings}"
    )
}

impl Scene {
    fn before(network: &FaultProxy, settings: &str) -> Self {
        Self::populated(Self::stage(&store(network.address(), settings), |site| {
            site
        }))
    }

    fn stage(store: &str, adjust: impl FnOnce(Site) -> Site) -> Stage {
        Stage::adjusted(polite(), 3, |site| {
            let audit = site.folder().join("audit.jsonl");
            let site = site.with(store).knowing(VARIABLE, PASSWORD);
            adjust(site.with(format!("[log]\naudit = {audit:?}\n")))
        })
    }

    fn populated(stage: Stage) -> Self {
        let (visitor, peer) = stage.desktop(&Visit::office("ann"));
        let host = stage.host_of(&peer);
        wait_for_lease(&stage.site, "ann", &format!("{host} live"));
        let where_eve_was = serves(&stage, "eve");
        wait_for_lease(&stage.site, "eve", &format!("{where_eve_was} lingering"));
        Self {
            stage,
            visitor,
            peer,
            host,
            where_eve_was,
        }
    }

    fn carries(&mut self) {
        assert_carries(&mut self.visitor, &mut self.peer);
    }

    /// The host somebody is served by, or what they are told; and how long that took.
    fn tries(&self, user: &str) -> (Result<String, (u16, String)>, Duration) {
        let start = Instant::now();
        let mut visitor = Visit::office(user).at(&self.stage.broker);
        visitor.ready();
        let spent = start.elapsed();
        let mut peer = self.stage.guacd.next();
        if peer.outcome.is_err() {
            return (Err(visitor.farewell()), spent);
        }
        peer.stand();
        visitor.hear_past_nops("sync");
        (Ok(self.stage.host_of(&peer)), spent)
    }

    fn assert_refused(&self, user: &str) {
        let (told, spent) = self.tries(user);
        let (code, text) = told.expect_err("nobody is placed");
        assert_eq!(code, 0x208, "{text}");
        assert!(spent < BUDGET, "{user}: {spent:?}");
        assert!(text.contains("store"), "{text}");
        for secret in ["127.0.0.1", "127.0.0.2", "postgres", USER, PASSWORD] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    /// What must hold while it is away.
    fn lives_without_it(&mut self) {
        self.carries();
        self.assert_refused("newcomer");
        self.carries();
        self.assert_refused("eve");
        self.says_so();
        self.carries();
    }

    fn says_so(&self) {
        let ready = eventually("the store is away", || {
            let (status, ready) = self.stage.broker.health("/readyz?verbose");
            assert_eq!(status, 200, "{ready}");
            ready.contains("store: degraded: ").then_some(ready)
        });
        assert!(ready.contains("nobody new is placed"), "{ready}");
        assert!(ready.contains("last written "), "{ready}");
        let away = eventually("the figures say so", || {
            let scraped = Scraped::of(&self.stage.broker);
            let is_down = scraped.get("store_up") == Some(0.0);
            let is_held = scraped.get("placements_held") == Some(1.0);
            (is_down || is_held).then_some(scraped)
        });
        assert!(
            away.get("store_connections_max")
                .is_some_and(|most| most >= 1.0)
        );
        assert_eq!(self.stage.broker.health("/livez").0, 200);
    }

    /// What must hold once it is back, which it is since that moment.
    fn is_well_again(&mut self, what: &str, since: Instant) {
        let mut nth = 0;
        let mut refused = Vec::new();
        loop {
            nth += 1;
            match self.tries(&format!("late{nth}")).0 {
                Ok(_) => break,
                Err(told) => refused.push((since.elapsed(), told)),
            }
            assert!(since.elapsed() < BACK, "not placed again: {refused:?}");
        }
        let spent = since.elapsed();
        let _ = writeln!(
            std::io::stderr(),
            "MEASURED: {what}: users are placed again after {} ms",
            spent.as_millis()
        );
        assert!(spent < BACK, "{spent:?}: {refused:?}");
        // By then, and not a moment later, who is where is in it.
        let live = format!("{} live", self.host);
        assert_eq!(leases(&self.stage.site, "ann"), [live]);
        self.carries();
        assert_eq!(self.tries("eve").0, Ok(self.where_eve_was.clone()));
        eventually("the store is well", || {
            let (_, ready) = self.stage.broker.health("/readyz?verbose");
            ready.contains("store: ok").then_some(())
        });
        let scraped = Scraped::of(&self.stage.broker);
        assert_eq!(scraped.get("placements_held"), Some(0.0));
        self.carries();
    }

    fn regained(&self) -> f64 {
        let scraped = Scraped::of(&self.stage.broker);
        scraped.get("store_regained_total").unwrap()
    }
}

/// Connections that do nothing but be there.
struct Crowd(Vec<Child>);

impl Crowd {
    fn of(server: &Server, count: usize, sql: &str) -> Self {
        let programs = postgres::programs().unwrap();
        let hold = |_| {
            Command::new(programs.join("psql"))
                .args(["-h", "127.0.0.1", "-p", &server.port.to_string()])
                .args(["-U", USER, "-d", "postgres", "-Atqc", sql])
                .env("PGPASSWORD", PASSWORD)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        };
        Self((0..count).map(hold).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn stopped_it_costs_no_tunnel_places_nobody_and_is_used_again_once_it_runs() {
    let Some(mut server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "");
    server.stop(true);
    scene.lives_without_it();
    server.start_again();
    scene.is_well_again("stopped", Instant::now());
    // In the log there is what the page is not told.
    let said = format!("{:?}", scene.stage.broker.said());
    assert!(said.contains("postgres") && !said.contains(PASSWORD));
}

#[test]
fn restarted_it_costs_a_user_who_comes_meanwhile_no_more_than_a_slow_click() {
    let Some(mut server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "query_timeout = \"5s\"\n");
    server.stop(false);
    let address = scene.stage.broker.address();
    let coming = thread::spawn(move || {
        let mut visitor = Visitor::dial(address);
        visitor.click(&Visit::office("bob"));
        visitor.ready();
        visitor
    });
    server.start_again();
    let since = Instant::now();
    let mut bob = coming.join().unwrap();
    let mut peer = scene.stage.guacd.next();
    peer.outcome.as_ref().expect("placed, though late");
    peer.stand();
    bob.hear_past_nops("sync");
    scene.is_well_again("restarted", since);
}

#[test]
fn hung_it_costs_no_tunnel_places_nobody_and_is_used_again_once_it_answers() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "");
    server.freeze();
    scene.lives_without_it();
    server.thaw();
    scene.is_well_again("hung", Instant::now());
}

#[test]
fn slow_it_makes_users_wait_and_too_slow_it_turns_them_away_in_time() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "");
    network.delay(Duration::from_millis(100), Duration::from_millis(50), 7);
    let (served, spent) = scene.tries("patient");
    assert!(served.is_ok() && spent < BUDGET, "{served:?} {spent:?}");
    scene.carries();
    network.delay(Duration::from_millis(1500), Duration::ZERO, 7);
    scene.lives_without_it();
    network.delay(Duration::ZERO, Duration::ZERO, 7);
    scene.is_well_again("slow", Instant::now());
}

#[test]
fn connections_lost_in_the_middle_of_claims_leave_everybody_with_one_host() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "query_timeout = \"5s\"\n");
    // So that something is always under way.
    network.delay(Duration::from_millis(10), Duration::from_millis(10), 11);
    for round in 0..10 {
        let user = format!("user{round}");
        let visits = [0, 1].map(|_| {
            let (address, user) = (scene.stage.broker.address(), user.clone());
            thread::spawn(move || {
                let mut visitor = Visitor::dial(address);
                visitor.click(&Visit::office(&user));
                visitor.ready();
                visitor
            })
        });
        thread::sleep(Duration::from_millis(7 * round));
        network.reset();
        let visitors = visits.map(|visit| visit.join().unwrap());
        let peers = [scene.stage.guacd.next(), scene.stage.guacd.next()];
        let hosts = peers.each_ref().map(|peer| {
            if peer.outcome.is_err() {
                let why = scene.stage.broker.wait("Refused", |_| true);
                panic!("{user} is placed, whatever was lost: {why}");
            }
            scene.stage.host_of(peer)
        });
        assert_eq!(hosts[0], hosts[1], "{user}");
        // Which is whose is not known here.
        let mut peers = peers;
        peers.iter_mut().for_each(GuacdPeer::stand);
        for mut visitor in visitors {
            visitor.hear_past_nops("sync");
        }
        scene.carries();
    }
    network.delay(Duration::ZERO, Duration::ZERO, 11);
    scene.is_well_again("cut in the middle", Instant::now());
}

#[test]
fn rows_deleted_behind_its_back_are_there_again_before_anybody_is_placed() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "");
    let regained = scene.regained();
    network.cut();
    scene.lives_without_it();
    server.psql("postgres", "DELETE FROM sessionguard.leases");
    network.lead_to(server.address());
    scene.is_well_again("rows lost", Instant::now());
    assert!(scene.regained() > regained);
}

#[test]
fn failed_over_to_a_standby_that_lost_the_last_claims_it_is_told_them_again_first() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let stage = Scene::stage(&store(network.address(), ""), |site| site);
    // What it knows is the schema; then it hears no more.
    let Some(standby) = postgres::standby_of(&server, "127.0.0.1", postgres::free_port()) else {
        return;
    };
    let mut scene = Scene::populated(stage);
    network.lead_to(standby.address());
    let since = Instant::now();
    network.reset();
    scene.is_well_again("failed over, claims lost", since);
    let lost = standby.psql("postgres", "SELECT count(*) FROM sessionguard.leases");
    assert!(lost.parse::<u32>().unwrap() >= 2, "{lost}");
}

#[test]
fn an_old_primary_that_turned_read_only_is_left_for_the_next_address_of_the_name() {
    if Dns::start().is_none() {
        return skipped("root and a mount namespace");
    }
    let (first, second) = ("127.0.0.2", "127.0.0.3");
    let port = postgres::free_port();
    let Some(server) = postgres::server_at(first, port) else {
        return;
    };
    let address = format!("db.example.test:{port}");
    let store = store(server.address(), "").replace(&server.address().to_string(), &address);
    let stage = Scene::stage(&store, |mut site| {
        let hosts = site.folder().join("hosts");
        let names = format!("{first} db.example.test\n{second} db.example.test\n");
        std::fs::write(&hosts, names).unwrap();
        site.mounting = Some(format!("mount --bind {} /etc/hosts;", hosts.display()));
        site.with("[store]\ntls = false\n")
    });
    let mut scene = Scene::populated(stage);
    let Some(standby) = postgres::standby_of(&server, second, port) else {
        return;
    };
    server.psql(
        "postgres",
        "ALTER SYSTEM SET default_transaction_read_only = on",
    );
    let since = Instant::now();
    server.psql("postgres", "SELECT pg_reload_conf()");
    scene.is_well_again("the old primary is read-only", since);
    let row = "SELECT count(*) FROM sessionguard.leases WHERE key LIKE '%late%'";
    assert_ne!(standby.psql("postgres", row), "0");
    assert_eq!(server.psql("postgres", row), "0");
}

#[test]
fn a_pool_that_is_exhausted_turns_everybody_away_in_time_and_says_so() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "pool_size = 2\n");
    // Whatever is asked waits, and holds its connection.
    let lock = "BEGIN; LOCK TABLE sessionguard.leases IN ACCESS EXCLUSIVE MODE; \
                SELECT pg_sleep(600)";
    let locked = Crowd::of(&server, 1, lock);
    let held = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                AND relation = 'sessionguard.leases'::regclass";
    eventually("the lock", || {
        (server.psql("postgres", held) == "1").then_some(())
    });
    let address = scene.stage.broker.address();
    let crowd: Vec<_> = (0..20)
        .map(|nth| {
            thread::spawn(move || {
                let start = Instant::now();
                let mut visitor = Visitor::dial(address);
                visitor.click(&Visit::office(&format!("user{nth}")));
                visitor.ready();
                (visitor.farewell(), start.elapsed())
            })
        })
        .collect();
    eventually("calls that wait for a connection", || {
        let scraped = Scraped::of(&scene.stage.broker);
        let waiting = scraped.get("store_calls_waiting")? > 0.0;
        let in_use = scraped.get("store_connections{state=\"in-use\"}")?;
        // One that was given up leaves before the next is opened in its place.
        (waiting || in_use == 2.0).then_some(())
    });
    for coming in crowd {
        let ((code, text), spent) = coming.join().unwrap();
        assert_eq!(code, 0x208, "{text}");
        assert!(spent < BUDGET, "{spent:?}");
        drop(scene.stage.guacd.next());
    }
    scene.lives_without_it();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
    server.psql("postgres", end);
    let since = Instant::now();
    drop(locked);
    scene.is_well_again("pool exhausted", since);
}

#[test]
fn a_database_without_a_connection_to_spare_is_used_again_once_it_has_one() {
    let Some(mut server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "");
    network.cut();
    server.stop(false);
    server.start_with(
        "-c max_connections=5 -c superuser_reserved_connections=0 -c max_wal_senders=0 \
         -c client_connection_check_interval=100",
    );
    let crowd = Crowd::of(&server, 12, "SELECT pg_sleep(600)");
    eventually("no connection to spare", || {
        server.log().contains("too many clients").then_some(())
    });
    network.lead_to(server.address());
    scene.lives_without_it();
    let since = Instant::now();
    drop(crowd);
    scene.is_well_again("too many connections", since);
    let said = format!("{:?}", scene.stage.broker.said());
    assert!(said.contains("raise max_connections"), "why, in the log");
}

#[test]
fn forty_users_by_one_connection_are_all_served_and_nothing_locks_up() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "pool_size = 1\nquery_timeout = \"10s\"\n");
    let address = scene.stage.broker.address();
    let crowd: Vec<_> = (0..40)
        .map(|nth| {
            thread::spawn(move || {
                let mut visitor = Visitor::dial(address);
                // Two of each, so that they claim the same record.
                visitor.click(&Visit::office(&format!("user{}", nth / 2)));
                visitor.ready();
                visitor
            })
        })
        .collect();
    let mut peers = Vec::new();
    for _ in 0..40 {
        let mut peer = scene.stage.guacd.next();
        peer.outcome.as_ref().expect("placed");
        peer.stand();
        peers.push(peer);
    }
    for coming in crowd {
        coming.join().unwrap().hear_past_nops("sync");
    }
    scene.carries();
    assert!(!server.log().contains("deadlock"), "{}", server.log());
}

#[test]
fn a_full_disk_of_the_database_turns_newcomers_away_in_time_and_is_over_once_there_is_room() {
    let Some(server) = postgres::server_on_small_disk() else {
        return;
    };
    let small = server.small_disk();
    server.psql(
        "postgres",
        &format!(
            "CREATE TABLESPACE small LOCATION '{}'",
            small.inside.display()
        ),
    );
    server.psql(
        "postgres",
        "ALTER DATABASE postgres SET default_tablespace = small",
    );
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "");
    let filler = small.outside.join("filler");
    let full = std::fs::write(&filler, vec![1; 32 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    // There is room for some of them in what is there.
    let mut nth = 0;
    let (code, text) = eventually("somebody who is turned away", || {
        nth += 1;
        let (told, spent) = scene.tries(&format!("newcomer{nth}-{}", "x".repeat(60)));
        assert!(spent < BUDGET, "{spent:?}");
        scene.carries();
        told.err()
    });
    assert_eq!(code, 0x208, "{text}");
    assert!(!text.contains("postgres"), "{text}");
    scene.carries();
    assert_eq!(scene.stage.broker.health("/livez").0, 200);
    std::fs::remove_file(&filler).unwrap();
    scene.is_well_again("disk full", Instant::now());
    let said = format!("{:?}", scene.stage.broker.said());
    assert!(said.contains("make room on its disk"), "why, in the log");
}

#[test]
fn degraded_users_with_a_lease_go_back_to_its_host_and_nobody_else_is_placed() {
    let Some(server) = postgres::server() else {
        return;
    };
    let network = FaultProxy::before(server.address());
    let mut scene = Scene::before(&network, "degraded = \"existing-lease\"\n");
    network.cut();
    scene.carries();
    let (back, spent) = scene.tries("eve");
    assert_eq!(back, Ok(scene.where_eve_was.clone()));
    assert!(spent < BUDGET, "{spent:?}");
    // Beside a tunnel that stands, too; and somebody new nowhere.
    let (mut visitor, peer) = scene.stage.desktop(&Visit::office("ann"));
    assert_eq!(scene.stage.host_of(&peer), scene.host);
    scene.assert_refused("newcomer");
    scene.carries();
    let degraded = |line: &Value| {
        line["reason"]
            .as_str()
            .unwrap_or_default()
            .contains("degraded")
    };
    let placed = scene
        .stage
        .broker
        .wait("Placed", |line| line["user"] == "eve" && degraded(line));
    let (_, ready) = scene.stage.broker.health("/readyz?verbose");
    assert!(
        ready.contains("only users with a lease as last known are placed"),
        "{ready}"
    );
    let scraped = Scraped::of(&scene.stage.broker);
    assert_eq!(scraped.get("placements_degraded_total"), Some(2.0));
    let trail = scene.stage.site.folder().join("audit.jsonl");
    eventually("the trail says so", || {
        let text = std::fs::read_to_string(&trail).unwrap();
        let mut lines = text.lines();
        let about_eve = |line: &&str| line.contains("eve") && line.contains("degraded");
        lines.find(about_eve).map(drop)
    });
    network.lead_to(server.address());
    scene.is_well_again("degraded", Instant::now());
    // Who came meanwhile is in it now.
    visitor.wire.send(b"3.key,5.65307,1.1;").unwrap();
    let id = placed["decision_id"].as_str().unwrap();
    let told = get(&scene.stage.site, &format!("/api/v1/decisions/{id}"));
    assert!(told.to_string().contains("degraded"), "{told}");
}
