//! What tests have the database do on purpose.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::Postgres;
use super::changes::CHANGES;
use super::leases::{CLAIM, encode, stated};
use super::pool::Lent;
use super::schema::STEPS;
use crate::placement::{LeaseKey, LeaseRecord};
use crate::store::Footing;

/// A transaction that has not ended.
pub(in crate::store) struct Begun(Lent);

impl Begun {
    pub(in crate::store) async fn commit(self) {
        self.0
            .client()
            .unwrap()
            .batch_execute("COMMIT")
            .await
            .unwrap();
        self.0.owes_answer(false);
    }
}

impl Postgres {
    async fn begin(&self, how: &str) -> Lent {
        let link = self.asking.lend().await.unwrap();
        // Dropped in the middle of it the connection is given up.
        link.owes_answer(true);
        link.client().unwrap().batch_execute(how).await.unwrap();
        link
    }

    /// Keeps everybody from writing the record until what it gives is dropped.
    pub(in crate::store) async fn hold_lease(&self, key: &LeaseKey) -> impl Drop + use<> {
        let link = self.begin("BEGIN").await;
        let lock = "SELECT 1 FROM sessionguard.leases WHERE key = $1 FOR UPDATE";
        let values: [(&(dyn ToSql + Sync), Type); 1] = [(&key.as_str(), Type::TEXT)];
        link.client()
            .unwrap()
            .query_typed(lock, &values)
            .await
            .unwrap();
        link
    }

    /// Claims a lease that is not there, and does not commit.
    pub(in crate::store) async fn begin_claim(
        &self,
        key: &LeaseKey,
        record: &LeaseRecord,
        footing: Option<&Footing>,
    ) -> Begun {
        let link = self.begin("BEGIN").await;
        let json = encode(record.clone()).unwrap();
        let (host, [seen, seen_claims, room]) = stated(footing);
        let values: [(&(dyn ToSql + Sync), Type); 9] = [
            (&key.as_str(), Type::TEXT),
            (&0_i64, Type::INT8),
            (&json, Type::TEXT),
            (&Uuid::new_v4(), Type::UUID),
            (&host, Type::TEXT),
            (&seen, Type::INT8),
            (&seen_claims, Type::INT8),
            (&room, Type::INT8),
            (&self.replica, Type::UUID),
        ];
        let done = link
            .client()
            .unwrap()
            .query_typed(CLAIM, &values)
            .await
            .unwrap();
        assert_eq!(done[0].get::<_, &str>(0), "done");
        Begun(link)
    }

    /// Lets every claim pass from now on, whatever it has seen.
    pub(in crate::store) async fn break_claims(&self) {
        let all = STEPS.concat();
        let begins = all.rfind("CREATE FUNCTION sessionguard.claim(").unwrap();
        let claim = &all[begins..];
        let claim = &claim[..claim.find("$$;").unwrap() + 3];
        let broken = claim
            .replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
            .replace("standing.version > seen", "false");
        assert!(broken.contains("is_behind := false"), "{broken}");
        let link = self.begin(&broken).await;
        link.owes_answer(false);
    }

    /// Whether a database that takes no writes refuses to tell of changes.
    pub(in crate::store) async fn tells_nothing_read_only(&self) -> bool {
        let link = self.begin("BEGIN READ ONLY").await;
        let asked = link
            .client()
            .unwrap()
            .query_typed(CHANGES, &[(&1_i64, Type::INT8)]);
        let error = asked.await.map(|_| ()).unwrap_err();
        error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// How the database goes about telling what changed since a transaction.
    pub(in crate::store) fn explained(since: u64) -> String {
        format!(
            "EXPLAIN {}",
            CHANGES.replace("$1", &format!("{since}::bigint"))
        )
    }
}
