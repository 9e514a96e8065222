//! One picture: what is placed, ordered, reported and asked for at one replica counts, binds and is
//! known at the others. Real brokers on one real PostgreSQL database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::admin::{answered, get, request, socket};
use super::asking::asked;
use super::replicas::on;
use crate::support::postgres::{self, Server};
use crate::support::{
    Broker, Names, ScriptedAgent, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, Visitor,
    eventually, new_key, session,
};

/// So many replicas before one guacd and so many hosts; the first is the stage's own.
struct Replicas {
    stage: Stage,
    others: Vec<(Site, Broker)>,
}

impl Replicas {
    fn start(server: &Server, replicas: usize, hosts: usize, settings: &str) -> Self {
        let database = server.database();
        // A machine under load must not make anything slow look silent or full.
        let toml = format!(
            "[broker]\nslow_start = \"0s\"\noffline_after_seconds = 600\n\
             placement_timeout = \"14s\"\n{settings}"
        );
        let site = |site: Site| on(site.with(toml.clone()), server.port, &database);
        let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
        let stage = Stage::adjusted(guacd, hosts, site);
        let addresses: Vec<_> = stage.hosts.iter().map(ScriptedHost::address).collect();
        let others = (1..replicas).map(|_| {
            let site = site(Stage::site(stage.guacd.address(), &addresses));
            let broker = site.start();
            (site, broker)
        });
        let others = others.collect();
        Self { stage, others }
    }

    fn brokers(&self) -> Vec<&Broker> {
        let others = self.others.iter().map(|(_, broker)| broker);
        std::iter::once(&self.stage.broker).chain(others).collect()
    }

    /// The second one's.
    fn other(&self) -> (&Site, &Broker) {
        let (site, broker) = &self.others[0];
        (site, broker)
    }

    /// Has everybody click at once, each at the next replica in turn, and returns once it is
    /// decided what becomes of each.
    fn burst(&self, users: usize) -> Vec<Visitor> {
        let brokers = self.brokers();
        let clicks: Vec<_> = (0..users)
            .map(|nth| {
                let address = brokers[nth % brokers.len()].address();
                thread::spawn(move || {
                    let mut visitor = Visitor::dial(address);
                    visitor.click(&Visit::office(&format!("user{nth}")));
                    visitor
                })
            })
            .collect();
        let visitors = clicks.into_iter().map(|click| click.join().unwrap());
        let visitors = visitors.collect();
        eventually("everybody is told", || {
            let told = brokers
                .iter()
                .map(|broker| broker.lines("Placed").len() + broker.lines("Refused").len());
            (told.sum::<usize>() == users).then_some(())
        });
        visitors
    }

    /// Where users were placed, by all replicas.
    fn placed(&self) -> Vec<String> {
        let brokers = self.brokers();
        let lines = brokers.iter().flat_map(|broker| broker.lines("Placed"));
        let mut hosts: Vec<_> = lines
            .map(|line| line["host"].as_str().unwrap().to_owned())
            .collect();
        hosts.sort();
        hosts
    }
}

fn host(site: &Site, id: &str) -> Value {
    get(site, &format!("/api/v1/hosts/{id}"))
}

/// Who is reported where.
fn reported(site: &Site) -> Vec<String> {
    let told = get(site, "/api/v1/sessions");
    let sessions = told["sessions"].as_array().unwrap().iter();
    sessions
        .map(|s| {
            format!(
                "{} {}",
                s["host"].as_str().unwrap(),
                s["user"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn a_burst_over_two_replicas_fills_every_host_and_none_beyond_its_sessions() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let settings = "max_sessions = 4\nmax_pending_logons = 100\n";
    let replicas = Replicas::start(server, 2, 3, settings);
    let _visitors = replicas.burst(30);
    let expected = ["rds1", "rds2", "rds3"].map(|host| [host; 4]).concat();
    assert_eq!(replicas.placed(), expected);
    // Both count all of them, each once.
    for site in [&replicas.stage.site, replicas.other().0] {
        for id in ["rds1", "rds2", "rds3"] {
            eventually("all are counted", || {
                let told = host(site, id);
                (told["occupancy"]["users"] == 4 && told["tunnels"] == 4).then_some(())
            });
        }
    }
}

#[test]
fn logons_under_way_at_one_replica_hold_up_the_next_at_another() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let replicas = Replicas::start(server, 2, 1, "max_pending_logons = 1\n");
    let stage = &replicas.stage;
    let (_ann, mut of_ann) = stage.tunnel(&Visit::office("ann"));
    let (_, other) = replicas.other();
    let mut bob = Visit::office("bob").at(other);
    assert_eq!(bob.wire.within(Duration::from_millis(900)), b"");
    assert!(other.lines("Placed").is_empty());
    of_ann.stand();
    bob.ready();
    assert_eq!(other.placed("bob")["host"], "rds1");
}

#[test]
fn three_replicas_asked_in_the_same_moment_choose_one_host() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let replicas = Replicas::start(server, 3, 4, "");
    for round in 0..5 {
        let user = format!("user{round}");
        let clicks: Vec<_> = replicas
            .brokers()
            .iter()
            .map(|broker| {
                let (address, visit) = (broker.address(), Visit::office(&user));
                thread::spawn(move || {
                    let mut visitor = Visitor::dial(address);
                    visitor.click(&visit);
                    visitor.ready();
                    visitor
                })
            })
            .collect();
        let visitors: Vec<_> = clicks.into_iter().map(|c| c.join().unwrap()).collect();
        let brokers = replicas.brokers();
        let mut hosts: Vec<_> = brokers
            .iter()
            .map(|broker| broker.placed(&user)["host"].clone())
            .collect();
        hosts.dedup();
        assert_eq!(hosts.len(), 1, "{user}: {hosts:?}");
        drop(visitors);
    }
}

#[test]
fn after_a_maintenance_is_acknowledged_no_replica_decides_for_that_host() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let replicas = Replicas::start(server, 2, 2, "max_pending_logons = 1000\n");
    let (_, other) = replicas.other();
    for (round, barred) in ["rds1", "rds2", "rds1"].into_iter().enumerate() {
        let acknowledged = AtomicBool::new(false);
        let (over, address) = (AtomicBool::new(false), other.address());
        let clicked = thread::scope(|scope| {
            let (acknowledged, over) = (&acknowledged, &over);
            let hammering: Vec<_> = (0..4)
                .map(|thread| {
                    scope.spawn(move || {
                        let (mut users, mut after) = (Vec::new(), 0);
                        while !over.load(Ordering::SeqCst) && users.len() < 200 {
                            let user = format!("user{round}x{thread}x{}", users.len());
                            // Whoever clicks from now on is decided on after it.
                            let is_after = acknowledged.load(Ordering::SeqCst);
                            let mut visitor = Visitor::dial(address);
                            visitor.click(&Visit::office(&user));
                            visitor.ready();
                            after += usize::from(is_after);
                            users.push((user, is_after));
                            if after == 10 {
                                break;
                            }
                        }
                        users
                    })
                })
                .collect();
            other.wait("Placed", |line| {
                let user = line["user"].as_str().unwrap_or_default();
                user.starts_with(&format!("user{round}x"))
            });
            let site = &replicas.stage.site;
            let (code, _, said) = asked(site, &["maintenance", barred]);
            assert_eq!(code, 0, "{said}");
            acknowledged.store(true, Ordering::SeqCst);
            let users = hammering.into_iter().flat_map(|it| it.join().unwrap());
            let users: Vec<_> = users.collect();
            over.store(true, Ordering::SeqCst);
            users
        });
        let after = clicked.iter().filter(|(_, is_after)| *is_after);
        let after: Vec<_> = after.map(|(user, _)| user.clone()).collect();
        assert!(after.len() >= 4, "{}", after.len());
        for user in after {
            assert_ne!(other.placed(&user)["host"], barred, "{user}");
        }
        let (code, _, said) = asked(&replicas.stage.site, &["online", barred]);
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn a_wait_for_a_maintenance_waits_for_placements_at_other_replicas() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let replicas = Replicas::start(server, 2, 1, "");
    let stage = &replicas.stage;
    let (_ann, mut of_ann) = stage.tunnel(&Visit::office("ann"));
    let (site, _) = replicas.other();
    eventually("it is known", || {
        (host(site, "rds1")["pending"] == 1).then_some(())
    });
    let order = [
        "maintenance",
        "rds1",
        "--force",
        "--wait",
        "--timeout",
        "2s",
    ];
    let (code, _, said) = asked(site, &order);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("1 placements under way"), "{said}");
    of_ann.stand();
    let order = [
        "maintenance",
        "rds1",
        "--force",
        "--wait",
        "--timeout",
        "60s",
    ];
    let (code, _, said) = asked(site, &order);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_heartbeat_a_mode_and_a_key_at_one_replica_are_known_at_the_other() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let replicas = Replicas::start(server, 2, 2, "");
    let (one, other) = (&replicas.stage.site, replicas.other().0);
    let mut agent = ScriptedAgent::of(one, "rds1");
    agent.reports(&[session("ann", "Active", 5)]);
    eventually("the heartbeat is known", || {
        (reported(other) == ["rds1 ann"]).then_some(())
    });
    // The agent moves, and what it said before is older there as well.
    let mut moved = ScriptedAgent::of(other, "rds1");
    let replayed = moved.next(&[session("bob", "Active", 5)]);
    let (status, told) = moved.send(&replayed.to_string());
    assert_eq!((status, &told["taken"]), (200, &json!(false)), "{told}");
    moved.reports(&[session("carl", "Active", 5)]);
    for site in [one, other] {
        eventually("the newer one is known", || {
            (reported(site) == ["rds1 carl"]).then_some(())
        });
    }

    let (code, _, said) = asked(other, &["drain", "rds2", "--reason", "new disks"]);
    assert_eq!(code, 0, "{said}");
    eventually("the mode is known", || {
        (host(one, "rds2")["mode"] == "drain").then_some(())
    });

    let key = new_key(one, "agent", Some("rds1"));
    let id = key.rsplit_once('_').unwrap().0.to_owned();
    let state = |site: &Site| {
        let told = get(site, "/api/v1/keys");
        let keys = told["keys"].as_array().unwrap().clone();
        let found = keys
            .into_iter()
            .find(|known| id.ends_with(known["id"].as_str().unwrap()));
        found.map(|key| key["state"].as_str().unwrap().to_owned())
    };
    eventually("the key is good there", || {
        (state(other).as_deref() == Some("valid")).then_some(())
    });
    let short = id.rsplit_once('_').map_or(id.as_str(), |(_, id)| id);
    let path = format!("/api/v1/keys/{short}");
    let (status, told) = answered(&socket(other), &request("DELETE", &path, ""));
    assert_eq!(status, 200, "{told}");
    eventually("the key is revoked here", || {
        (state(one).as_deref() == Some("revoked")).then_some(())
    });
}

#[test]
fn a_command_given_at_one_replica_is_handed_out_at_the_other_and_answered_back() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let replicas = Replicas::start(server, 2, 1, "");
    let (one, other) = (&replicas.stage.site, replicas.other().0);
    let mut agent = ScriptedAgent::of(other, "rds1");
    agent.reports(&[]);
    eventually("the agent is known", || {
        host(one, "rds1")["report_age_seconds"]
            .is_number()
            .then_some(())
    });
    let message = [
        "sessions",
        "message",
        "rds1",
        "--all",
        "--text",
        "Back at nine",
    ];
    let (code, _, said) = asked(one, &message);
    assert_eq!(code, 0, "{said}");
    let command = eventually("it is handed out", || {
        let told = agent.reports(&[]);
        told["commands"].as_array().unwrap().first().cloned()
    });
    let path = "/api/v1/hosts/rds1/commands";
    let state = |site: &Site| get(site, path)["commands"][0]["state"].clone();
    eventually("that is known where it was given", || {
        (state(one) == "delivered").then_some(())
    });
    agent.differs = json!({ "command_results": [
        { "id": command["id"], "type": "message", "ok": true, "message": "1 sessions" }
    ] });
    assert_eq!(agent.reports(&[])["commands"], json!([]));
    eventually("the answer is known where it was given", || {
        let told = get(one, path)["commands"][0].clone();
        (told["state"] == "done" && told["answer"] == "1 sessions").then_some(())
    });
    assert_eq!(agent.reports(&[])["commands"], json!([]), "handed out once");
}

#[test]
fn what_a_killed_replica_had_placed_counts_until_it_runs_out() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let mut replicas = Replicas::start(server, 2, 1, "max_sessions = 1\n");
    let (_site, other) = replicas.others.remove(0);
    let mut ann = Visitor::dial(other.address());
    ann.click(&Visit::office("ann"));
    ann.ready();
    other.kill();
    // It never stood: nobody holds it, and yet somebody may be there.
    let refusal = Visit::office("bob").refused_at(&replicas.stage.broker);
    assert_eq!(refusal.code, 0x201, "{}", refusal.text);
    drop(ann);
    let site = &replicas.stage.site;
    let until = std::time::Instant::now() + Duration::from_secs(90);
    while host(site, "rds1")["tunnels"] != 0 {
        assert!(std::time::Instant::now() < until, "it never runs out");
        thread::sleep(Duration::from_millis(200));
    }
    let mut bob = Visit::office("bob").at(&replicas.stage.broker);
    bob.ready();
}
