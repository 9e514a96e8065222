//! The archive of decisions.

use std::borrow::Cow;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::asking::Statement;
use super::leases::number;
use crate::store::{Bounds, Kept, StoreError};

/// Decisions forgotten in one call at most.
const BATCH: i64 = 100;

// Of one that comes twice in a batch the later one stays.
const KEEP: &str = "WITH given AS ( \
        SELECT DISTINCT ON (id) id, json FROM unnest($1::uuid[], $2::text[]) \
            WITH ORDINALITY AS g (id, json, nth) ORDER BY id, nth DESC), \
    kept AS (INSERT INTO sessionguard.decisions (id, json, bytes) \
        SELECT id, json, octet_length(json) FROM given \
        ON CONFLICT (id) DO UPDATE SET json = excluded.json, bytes = excluded.bytes) \
    INSERT INTO sessionguard.decision_names (name, id) \
    SELECT DISTINCT name, id FROM unnest($3::text[], $4::uuid[]) AS n (name, id) \
    ON CONFLICT DO NOTHING";

const ONE: &str = "SELECT json FROM sessionguard.decisions WHERE id = $1";

const NEWEST: &str = "SELECT json FROM sessionguard.decisions ORDER BY id DESC LIMIT $1";

const NEWEST_OF: &str = "SELECT d.json FROM sessionguard.decision_names AS n \
    JOIN sessionguard.decisions AS d ON d.id = n.id \
    WHERE n.name = $2 ORDER BY n.id DESC LIMIT $1";

// Those that are too old are found by the index; to add up the others is only
// worth it where there are too many.
const PRUNE: &str = "WITH total AS ( \
        SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes FROM sessionguard.decisions), \
    beyond AS ( \
        SELECT id FROM ( \
            SELECT id, row_number() OVER newest AS nth, sum(bytes) OVER newest AS bytes \
            FROM sessionguard.decisions WINDOW newest AS (ORDER BY id DESC)) AS added \
        WHERE (SELECT rows > $2 OR bytes > $3 FROM total) AND (nth > $2 OR added.bytes > $3) \
        UNION SELECT id FROM sessionguard.decisions WHERE id < $1), \
    gone AS (DELETE FROM sessionguard.decisions WHERE id IN ( \
        SELECT id FROM beyond ORDER BY id LIMIT $4) RETURNING id) \
    SELECT count(*) FROM gone";

// By then every replica has heard that they are gone, and no write is in doubt.
const SWEEP: &str = "WITH leases AS (DELETE FROM sessionguard.leases \
        WHERE record IS NULL AND changed_at < now() - interval '1 day'), \
    documents AS (DELETE FROM sessionguard.documents \
        WHERE content IS NULL AND changed_at < now() - interval '1 day') \
    SELECT 1";

impl Postgres {
    pub(super) async fn keep_decisions(&self, decisions: Vec<Kept>) -> Result<(), StoreError> {
        let ids: Vec<_> = decisions
            .iter()
            .map(|kept| Uuid::from_u128(kept.id))
            .collect();
        let texts: Vec<_> = decisions.iter().map(|kept| bare(&kept.json)).collect();
        let named = decisions.iter().flat_map(|kept| {
            let id = Uuid::from_u128(kept.id);
            kept.names.iter().map(move |name| (bare(name), id))
        });
        let (names, of): (Vec<_>, Vec<_>) = named.unzip();
        self.asking
            .ask(Statement {
                sql: KEEP,
                values: &[
                    (&ids, Type::UUID_ARRAY),
                    (&texts, Type::TEXT_ARRAY),
                    (&names, Type::TEXT_ARRAY),
                    (&of, Type::UUID_ARRAY),
                ],
            })
            .await
            .map(drop)
    }

    pub(super) async fn read_decision(&self, id: u128) -> Result<Option<String>, StoreError> {
        let rows = self
            .asking
            .ask(Statement {
                sql: ONE,
                values: &[(&Uuid::from_u128(id), Type::UUID)],
            })
            .await?
            .rows;
        rows.first().map(|row| self.column(row, 0)).transpose()
    }

    pub(super) async fn newest_decisions(
        &self,
        name: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = match name.map(bare) {
            Some(name) => {
                self.asking
                    .ask(Statement {
                        sql: NEWEST_OF,
                        values: &[(&most, Type::INT8), (&name, Type::TEXT)],
                    })
                    .await?
                    .rows
            }
            None => {
                self.asking
                    .ask(Statement {
                        sql: NEWEST,
                        values: &[(&most, Type::INT8)],
                    })
                    .await?
                    .rows
            }
        };
        rows.iter().map(|row| self.column(row, 0)).collect()
    }

    /// Also takes away, once the archive is within its bounds, what is left of
    /// leases and documents that were removed long ago.
    pub(super) async fn prune_decisions(&self, bounds: Bounds) -> Result<usize, StoreError> {
        // A UUIDv7 begins with 48 bits of milliseconds.
        let since = Uuid::from_u128(u128::from(bounds.since.as_millis()) << 80);
        let [rows, bytes] =
            [bounds.rows, bounds.bytes].map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        let answered = self
            .asking
            .ask(Statement {
                sql: PRUNE,
                values: &[
                    (&since, Type::UUID),
                    (&rows, Type::INT8),
                    (&bytes, Type::INT8),
                    (&BATCH, Type::INT8),
                ],
            })
            .await?;
        let row = answered.rows.first();
        let gone = row.map(|row| self.column(row, 0)).transpose()?;
        let gone = usize::try_from(number(gone.unwrap_or_default())).unwrap_or(usize::MAX);
        if gone == 0 {
            self.asking
                .ask(Statement {
                    sql: SWEEP,
                    values: &[],
                })
                .await?;
        }
        Ok(gone)
    }
}

/// A text as the database takes it: any character but the first of all.
fn bare(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}
