//! What the checker is worth: with a claim in the database that writes what it must not write, a
//! run must be found guilty.

use std::time::Duration;

use tokio::time::sleep;

use super::checker::{self, Violation};
use super::run::{bounds, runtime, seed};
use super::world::{Bounds, World};
use crate::support::postgres;

/// The claim without any condition: neither the version of the lease nor what others placed on the
/// host matters.
const UNCONDITIONAL: &str = "
    CREATE OR REPLACE FUNCTION sessionguard.claim(
        wanted text, expected bigint, content text, writing uuid,
        placed_on text, seen bigint, seen_claims bigint, room bigint, replica uuid,
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

/// What in the claim looks at what others placed on the host, and what stands there instead.
const STANDING: (&str, &str) = ("IF NOT is_behind THEN", "IF true THEN");

/// How long everybody works.
const LENGTH: Duration = Duration::from_secs(20);

#[test]
#[ignore = "takes a while: tests/chaos/run"]
fn a_broken_claim_is_noticed() {
    let all = Bounds {
        together: 100,
        ..bounds()
    };
    let break_it = |world: &World| drop(world.sql(UNCONDITIONAL));
    is_noticed("a claim without its condition", "I1", all, break_it);
}

#[test]
#[ignore = "takes a while: tests/chaos/run"]
fn a_claim_that_does_not_look_at_its_host_is_noticed() {
    let few = Bounds {
        // Nobody has a seat to spare, so that each that is free is asked for at every replica.
        max_sessions: usize::from(bounds().users) / 2 / usize::from(super::plan::HOSTS),
        ..bounds()
    };
    let break_it = |world: &World| {
        // A release before has one with fewer arguments, which calls it.
        let claim = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'claim' \
                     ORDER BY pronargs DESC LIMIT 1";
        let claim = world.sql(claim);
        let (condition, instead) = STANDING;
        let broken = claim.replace(condition, instead);
        assert_ne!(claim, broken, "the claim reads otherwise than it did");
        world.sql(&broken);
    };
    is_noticed("a claim without its standing", "I14", few, break_it);
}

fn is_noticed(what: &str, invariant: &str, bounds: Bounds, break_it: impl FnOnce(&World)) {
    let Some(server) = postgres::server_with("-c fsync=off") else {
        return;
    };
    let seed = seed();
    println!("seed {seed}: {what}");
    let found = runtime().block_on(run(server, bounds, seed, break_it));
    let theirs: Vec<_> = found
        .iter()
        .filter(|it| it.invariant == invariant)
        .collect();
    println!(
        "{} violations of {invariant}, {} in all",
        theirs.len(),
        found.len()
    );
    println!(
        "{}",
        theirs.first().map(ToString::to_string).unwrap_or_default()
    );
    assert!(!theirs.is_empty(), "seed {seed}: {what} was not noticed");
}

async fn run(
    server: postgres::Server,
    bounds: Bounds,
    seed: u64,
    break_it: impl FnOnce(&World),
) -> Vec<Violation> {
    let (world, ledger) = World::begin(server, bounds).await;
    break_it(&world);
    let agents = world.agents(seed);
    let people = world.people(bounds, seed);
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
    checker::judge(&world.history.take(), &bounds.rules())
}
