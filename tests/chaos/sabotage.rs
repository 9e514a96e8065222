//! What the checker is worth: with a claim in the database that writes whatever it is asked to
//! write, without its condition, a run must be found guilty.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::checker;
use super::run::{bounds, runtime, seed};
use super::world::World;
use crate::support::postgres;

/// The claim without its condition: neither the version of the lease nor what others placed on the
/// host matters.
const BROKEN: &str = "
    CREATE OR REPLACE FUNCTION sessionguard.claim(
        wanted text, expected bigint, content text, writing uuid,
        placed_on text, seen bigint, replica uuid,
        OUT outcome text, OUT written bigint
    ) LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO sessionguard.leases AS l (key, record, write)
        VALUES (wanted, content, writing)
        ON CONFLICT (key) DO UPDATE
        SET version = nextval('sessionguard.versions'), record = excluded.record,
            write = excluded.write, transaction = excluded.transaction,
            changed_at = clock_timestamp()
        RETURNING l.version INTO written;
        outcome := 'done';
    END $$;";

/// How long everybody works.
const LENGTH: Duration = Duration::from_secs(25);

#[test]
#[ignore = "takes a while: tests/chaos/run"]
fn a_broken_claim_is_noticed() {
    let Some(server) = postgres::server_with("-c fsync=off") else {
        return;
    };
    let (seed, bounds) = (seed(), bounds());
    println!("seed {seed}: a claim without its condition");
    let violations = runtime().block_on(async {
        let (world, ledger) = World::begin(server, bounds).await;
        world.sql(BROKEN);
        let agents = world.agents(seed);
        let people = world.people(bounds.users, seed);
        sleep(LENGTH).await;
        world.go_home();
        for person in people {
            person.await.unwrap();
        }
        world.end();
        for agent in agents {
            agent.await.unwrap();
        }
        let _ = ledger.await.unwrap();
        world.end_processes();
        let world = Arc::clone(&world);
        checker::judge(&world.history.take(), &bounds.rules())
    });
    let two_hosts = violations.iter().filter(|it| it.invariant == "I1").count();
    let all = violations.len();
    println!("seed {seed}: {all} violations noticed, {two_hosts} of them of I1");
    let first = violations.iter().find(|it| it.invariant == "I1");
    println!("{}", first.map(ToString::to_string).unwrap_or_default());
    assert!(
        two_hosts > 0,
        "seed {seed}: nobody was on two hosts in {all} violations"
    );
}
