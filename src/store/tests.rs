//! The contract, run on every store, and what only the embedded one promises.

use std::sync::Arc;

use super::*;
use crate::placement::{FarmId, HostId, Standing, Timestamp, Trust, TunnelId, UserKey};

mod commits;
mod contract;
mod embedded;
mod journal;
mod postgres;

fn key(user: &str) -> LeaseKey {
    LeaseKey::of_user(&UserKey::new(user, "corp").unwrap())
}

fn record(host: &str, tunnel: &str) -> LeaseRecord {
    let mut record = LeaseRecord::default();
    let now = Timestamp::from_millis(1_000);
    let farm = FarmId::from("office");
    assert!(record.claim(
        &farm,
        &HostId::from(host),
        &TunnelId::from(tunnel),
        Trust::Plain,
        now
    ));
    record
}

/// All that a store does.
trait Whole: Store + Documents + Archive + Changes {}

impl<T: Store + Documents + Archive + Changes> Whole for T {}

fn embedded() -> (tempfile::TempDir, Arc<dyn Whole>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("leases.redb")).unwrap();
    (folder, Arc::new(store))
}
