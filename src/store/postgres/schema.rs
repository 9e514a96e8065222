//! The schema, brought up to date at the start: numbered steps, each done once,
//! all in one transaction. A lock that ends with the transaction lets one
//! replica at a time do it, so that it works through a pooler as well.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};
use tracing::{info, warn};

use super::asking::{Asking, Statement};
use crate::store::StoreError;

/// The steps, in order; the first has the number 1. What was released is never
/// changed: a new step goes on from there.
pub(super) const STEPS: &[&str] = &[
    include_str!("../migrations/0001_first.sql"),
    include_str!("../migrations/0002_hosts.sql"),
    include_str!("../migrations/0003_room.sql"),
];

/// For all steps together, however much there is to change.
const PATIENCE: Duration = Duration::from_secs(60);

/// The oldest release that has what the schema needs.
const OLDEST: i32 = 130_000;

const FACTS: &str = "SELECT current_setting('server_version_num')::int, \
    current_setting('server_encoding'), current_setting('synchronous_commit'), \
    to_regclass('sessionguard.schema') IS NOT NULL";

const NUMBER: &str = "SELECT coalesce(max(number), 0) FROM sessionguard.schema";

/// The number of the lock, known to nobody else: "sguard" in ASCII.
const BEGIN: &str = "BEGIN; SELECT pg_advisory_xact_lock(126888188146276)";

const PREPARE: &str = "DO $$ BEGIN \
        IF to_regnamespace('sessionguard') IS NULL THEN CREATE SCHEMA sessionguard; END IF; \
    END $$; \
    CREATE TABLE IF NOT EXISTS sessionguard.schema ( \
        number integer PRIMARY KEY, \
        since timestamptz NOT NULL DEFAULT clock_timestamp())";

/// Why the schema stays as it is.
enum Halt {
    Said(Error),
    Newer(i32),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

/// The number of the last step there is.
pub(super) fn known() -> i32 {
    i32::try_from(STEPS.len()).unwrap_or(i32::MAX)
}

/// Looks whether the database can be used, and makes what is missing.
pub(super) async fn bring_up_to_date(asking: &Asking) -> Result<(), StoreError> {
    let facts = asking
        .ask(Statement {
            sql: FACTS,
            values: &[],
        })
        .await?;
    let said = |error: &Error| asking.whereabouts().said(error);
    let Some(row) = facts.rows.first() else {
        return Err(asking.whereabouts().silent());
    };
    let release: i32 = row.try_get(0).map_err(|error| said(&error))?;
    let encoding: &str = row.try_get(1).map_err(|error| said(&error))?;
    let commits: &str = row.try_get(2).map_err(|error| said(&error))?;
    let begun: bool = row.try_get(3).map_err(|error| said(&error))?;
    if release < OLDEST {
        let reason = format!("it is PostgreSQL {}", release / 10_000);
        return Err(asking
            .whereabouts()
            .unusable(reason, "13 is the oldest release that will do"));
    }
    if encoding != "UTF8" {
        let reason = format!("its encoding is {encoding}");
        let help = "create the database with ENCODING 'UTF8' TEMPLATE template0";
        return Err(asking.whereabouts().unusable(reason, help));
    }
    if commits == "off" {
        warn!(
            database = asking.whereabouts().database,
            "The database answers before a change is on its disk (synchronous_commit = off): a \
             crash there may forget who is on which host"
        );
    }
    if begun && number(asking).await? == known() {
        return Ok(());
    }
    let link = asking.lend().await?;
    let client = link.client()?;
    link.owes_answer(true);
    let stepped = timeout(PATIENCE, step(client)).await;
    match stepped {
        Ok(Ok(())) => {
            link.owes_answer(false);
            Ok(())
        }
        // The connection is given up, and the transaction with it.
        Ok(Err(Halt::Newer(found))) => {
            let whereabouts = asking.whereabouts();
            Err(StoreError::NewerDatabase {
                address: whereabouts.address,
                database: whereabouts.database,
                found,
                known: known(),
            })
        }
        Ok(Err(Halt::Said(error))) => Err(said(&error)),
        Err(_) => Err(asking.whereabouts().silent()),
    }
}

async fn number(asking: &Asking) -> Result<i32, StoreError> {
    let found = asking
        .ask(Statement {
            sql: NUMBER,
            values: &[],
        })
        .await?;
    let row = found.rows.first();
    let number = row.map(|row| row.try_get(0)).transpose();
    let number = number.map_err(|error| asking.whereabouts().said(&error))?;
    Ok(number.unwrap_or_default())
}

async fn step(client: &Client) -> Result<(), Halt> {
    client.batch_execute(BEGIN).await?;
    client.batch_execute(PREPARE).await?;
    let row = client.query_typed_one(NUMBER, &[]).await?;
    let found: i32 = row.try_get(0)?;
    if found > known() {
        return Err(Halt::Newer(found));
    }
    for (number, sql) in (1..).zip(STEPS) {
        if number <= found {
            continue;
        }
        client.batch_execute(sql).await?;
        let done = "INSERT INTO sessionguard.schema (number) VALUES ($1)";
        client.query_typed(done, &[(&number, Type::INT4)]).await?;
        info!(
            schema = number,
            "The database's schema was brought up to date"
        );
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}
