//! Replicas of the broker on one PostgreSQL database, one directly and one through pgbouncer, and
//! what becomes of them when it is silent.

use std::thread;

use crate::support::postgres::{self, PASSWORD, Server, USER};
use crate::support::{
    Broker, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, eventually, instruction,
};

/// Why a user is placed who has a tunnel open, at whichever replica.
const NEIGHBOUR: &str = "tunnel already open there";

const VARIABLE: &str = "SESSIONGUARD_DATABASE_PASSWORD";

fn ann() -> Visit {
    Visit::office("ann")
}

/// A site whose store is that database.
pub(super) fn on(site: Site, port: u16, database: &str) -> Site {
    let store = format!(
        "[store]\nkind = \"postgres\"\nreplicated = true\naddress = \"127.0.0.1:{port}\"\n\
         database = \"{database}\"\nuser = \"{USER}\"\n\
         connect_timeout = \"5s\"\nquery_timeout = \"5s\"\n"
    );
    site.with(store).knowing(VARIABLE, PASSWORD)
}

fn stage(server: &Server, database: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, 3, |site| on(site, server.port, database))
}

/// Another replica before the same guacd and hosts.
fn beside(stage: &Stage, port: u16, database: &str) -> (Site, Broker) {
    let hosts: Vec<_> = stage.hosts.iter().map(ScriptedHost::address).collect();
    let site = on(Stage::site(stage.guacd.address(), &hosts), port, database);
    let broker = site.start();
    (site, broker)
}

#[test]
fn a_user_gets_one_host_whichever_replica_is_asked() {
    let (Some(server), Some(pooler)) = (postgres::shared(), postgres::shared_pooler()) else {
        return;
    };
    let port = pooler.port;
    let database = server.database();
    let mut stage = stage(server, &database);
    let (_site, other) = beside(&stage, port, &database);
    // While the tunnel is open, on both, and each time once more.
    let (_visitor, peer) = stage.desktop(&ann());
    let first = stage.host_of(&peer);
    let mut open = Vec::new();
    let one = std::mem::replace(&mut stage.broker, other);
    for _ in 0..3 {
        let (visitor, peer) = stage.desktop(&ann());
        assert_eq!(stage.host_of(&peer), first);
        open.push((visitor, peer));
    }
    assert_eq!(stage.broker.placed("ann")["reason"], NEIGHBOUR);
    for broker in [&one, &stage.broker] {
        let said = format!("{:?}", broker.said());
        assert!(said.contains("ann") && !said.contains(PASSWORD));
    }
    // The other one starts anew; it takes no tunnel of its neighbour for its own.
    stage.broker = one;
    let (_site, other) = beside(&stage, port, &database);
    stage.broker.kill();
    stage.broker = other;
    let (_visitor, peer) = stage.tunnel(&ann());
    assert_eq!(stage.host_of(&peer), first);
    assert_eq!(stage.broker.placed("ann")["reason"], NEIGHBOUR);
}

#[test]
fn two_replicas_asked_in_the_same_moment_choose_one_host() {
    let (Some(server), Some(pooler)) = (postgres::shared(), postgres::shared_pooler()) else {
        return;
    };
    let port = pooler.port;
    let database = server.database();
    let stage = stage(server, &database);
    let (_site, other) = beside(&stage, port, &database);
    for round in 0..5 {
        let user = format!("user{round}");
        let visits = [stage.broker.address(), other.address()].map(|address| {
            let visit = Visit::office(&user);
            thread::spawn(move || {
                let mut visitor = crate::support::Visitor::dial(address);
                visitor.click(&visit);
                visitor.ready();
                visitor
            })
        });
        let peers = [stage.guacd.ready(), stage.guacd.ready()];
        let [one, another] = peers.map(|peer| stage.host_of(&peer));
        assert_eq!(one, another, "{user}");
        for visit in visits {
            visit.join().unwrap();
        }
    }
}

#[test]
fn a_silent_database_holds_up_no_tunnel_and_is_used_again_when_it_is_back() {
    let Some(server) = postgres::server() else {
        return;
    };
    let stage = stage(&server, "postgres");
    let (mut visitor, mut peer) = stage.desktop(&ann());
    server.freeze();
    let refusal = Visit::office("bob").refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    // guacd saw that one come and go.
    drop(stage.guacd.next());
    assert!(!refusal.text.contains(PASSWORD), "{}", refusal.text);
    for _ in 0..10 {
        peer.wire.say(&instruction(b"4.blob,1.1,4.eA==;")).unwrap();
        visitor.hear("blob");
    }
    let (status, ready) = stage.broker.health("/readyz?verbose");
    assert_eq!(
        (status, ready.contains("degraded: store")),
        (200, true),
        "{ready}"
    );
    server.thaw();
    eventually("the store is well", || {
        let (_, ready) = stage.broker.health("/readyz?verbose");
        ready.contains("store: ok").then_some(())
    });
    let (_visitor, _peer) = stage.tunnel(&Visit::office("carl"));
}

#[test]
fn a_database_that_cannot_be_used_is_said_at_the_start() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = on(Stage::site(guacd.address(), &[]), server.port, "nowhere");
    let config = site.write();
    let output = std::process::Command::new(crate::support::BINARY)
        .args(["serve", "--config"])
        .arg(&config)
        .env(VARIABLE, PASSWORD)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("nowhere") && said.contains("create the database"),
        "{said}"
    );
    assert!(!said.contains(PASSWORD), "{said}");
}
