//! What only the store that replicas share promises: that it is one for all of
//! them, and that a database in trouble is told from one that said no.

use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::config::{HostPort, PostgresSettings, Secret};
use server::{PASSWORD, Server, USER};

#[allow(dead_code, reason = "the suite uses the rest of it")]
#[path = "../../../tests/support/postgres.rs"]
mod server;

fn settings(port: u16, database: &str) -> PostgresSettings {
    PostgresSettings {
        address: HostPort {
            host: "127.0.0.1".to_owned(),
            port,
        },
        database: database.to_owned(),
        user: USER.to_owned(),
        password: Some(Secret::password(PASSWORD).unwrap()),
        pool_size: 4,
        // The machine may be busy with other tests.
        connect_timeout: Duration::from_secs(10),
        query_timeout: Duration::from_secs(14),
        ..PostgresSettings::default()
    }
}

async fn open(settings: &PostgresSettings) -> Result<Postgres, StoreError> {
    Postgres::open(settings, None, Clock::start()).await
}

/// A store on an empty database.
pub(super) async fn fresh() -> Option<Arc<dyn Whole>> {
    let server = server::shared()?;
    let store = open(&settings(server.port, &server.database())).await;
    Some(Arc::new(store.unwrap()))
}

/// The same behind a pooler.
pub(super) async fn pooled() -> Option<Arc<dyn Whole>> {
    let (server, pooler) = (server::shared()?, server::shared_pooler()?);
    let store = open(&settings(pooler.port, &server.database())).await;
    Some(Arc::new(store.unwrap()))
}

/// Two replicas on an empty database.
pub(super) async fn two() -> Option<[Arc<Postgres>; 2]> {
    let server = server::shared()?;
    Some(two_on(&settings(server.port, &server.database())).await)
}

/// The same behind a pooler.
pub(super) async fn two_pooled() -> Option<[Arc<Postgres>; 2]> {
    let (server, pooler) = (server::shared()?, server::shared_pooler()?);
    Some(two_on(&settings(pooler.port, &server.database())).await)
}

async fn two_on(settings: &PostgresSettings) -> [Arc<Postgres>; 2] {
    let one = open(settings).await.unwrap();
    let other = open(settings).await.unwrap();
    [Arc::new(one), Arc::new(other)]
}

/// A database of the shared server, and how it is reached.
fn database() -> Option<(&'static Server, PostgresSettings)> {
    let server = server::shared()?;
    Some((server, settings(server.port, &server.database())))
}

mod claims;
mod doubt;
mod feed;
mod login;
mod together;
