//! Leases: a claim is one conditional write.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::asking::{Answered, Statement};
use crate::placement::{LeaseKey, LeaseRecord, Standing, Timestamp};
use crate::store::{Footing, Replaced, StoreError, Version, Versioned};

const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

const READ: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, l.version, l.record \
    FROM (SELECT $1::text AS key) AS wanted \
    LEFT JOIN sessionguard.leases AS l ON l.key = wanted.key AND l.record IS NOT NULL";

const AFTER: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, version, record, key \
    FROM sessionguard.leases WHERE key > $1 COLLATE \"C\" AND record IS NOT NULL \
    ORDER BY key LIMIT $2";

pub(super) const CLAIM: &str =
    "SELECT outcome, written FROM sessionguard.claim($1, $2, $3, $4, $5, $6, $7, $8, $9)";

impl Postgres {
    /// Learns what the database's clock says.
    pub(super) async fn read_clock(&self) -> Result<(), StoreError> {
        let answered = self
            .asking
            .ask(Statement {
                sql: NOW,
                values: &[],
            })
            .await?;
        self.hear_clock(&answered)
    }

    /// The moment stands in the first column of every row.
    fn hear_clock(&self, answered: &Answered) -> Result<(), StoreError> {
        if let Some(row) = answered.rows.first() {
            let theirs = Timestamp::from_millis(number(self.column(row, 0)?));
            let (sent, received) = (answered.sent, answered.received);
            self.offset.heard(theirs, sent, received);
        }
        Ok(())
    }

    pub(super) async fn read_lease(&self, key: &LeaseKey) -> Result<Versioned, StoreError> {
        let answered = self
            .asking
            .ask(Statement {
                sql: READ,
                values: &[(&key.as_str(), Type::TEXT)],
            })
            .await?;
        self.hear_clock(&answered)?;
        let row = answered.rows.first();
        let found = row.map(|row| self.versioned(row)).transpose()?;
        Ok(found.flatten().unwrap_or_default())
    }

    pub(super) async fn leases_after(
        &self,
        key: Option<&LeaseKey>,
        most: usize,
    ) -> Result<Vec<(LeaseKey, Versioned)>, StoreError> {
        let after = key.map_or("", LeaseKey::as_str);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let answered = self
            .asking
            .ask(Statement {
                sql: AFTER,
                values: &[(&after, Type::TEXT), (&most, Type::INT8)],
            })
            .await?;
        self.hear_clock(&answered)?;
        let mut found = Vec::with_capacity(answered.rows.len());
        for row in &answered.rows {
            if let Some(versioned) = self.versioned(row)? {
                let key = LeaseKey::from_stored(self.column(row, 3)?);
                found.push((key, versioned));
            }
        }
        Ok(found)
    }

    pub(super) async fn replace_lease(
        &self,
        key: &LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Result<Replaced, StoreError> {
        if record.is_empty() && expected == Version::ABSENT {
            let found = self.read_lease(key).await?;
            return Ok(match found.version {
                Version::ABSENT => Replaced::Done(Version::ABSENT),
                _ => Replaced::Conflict,
            });
        }
        let json = match record.is_empty() {
            true => None,
            false => Some(encode(record.shifted(self.offset.millis()))?),
        };
        let (key, write) = (key.as_str(), Uuid::new_v4());
        let expected = i64::try_from(expected.0).unwrap_or(i64::MAX);
        let (host, [seen, seen_claims, room]) = stated(footing.as_ref());
        let statement = Statement {
            sql: CLAIM,
            values: &[
                (&key, Type::TEXT),
                (&expected, Type::INT8),
                (&json, Type::TEXT),
                (&write, Type::UUID),
                (&host, Type::TEXT),
                (&seen, Type::INT8),
                (&seen_claims, Type::INT8),
                (&room, Type::INT8),
                (&self.replica, Type::UUID),
            ],
        };
        let answered = self.asking.ask(statement).await?;
        let row = answered.rows.first();
        let row = row.ok_or_else(|| self.asking.whereabouts().silent())?;
        match self.column(row, 0)? {
            "done" => Ok(Replaced::Done(Version(number(self.column(row, 1)?)))),
            "behind" => Ok(Replaced::Behind),
            // Somebody wrote: the try that was lost, before another did, or
            // another alone. That cannot be told.
            _ if answered.in_doubt => Err(self.in_doubt()),
            _ => Ok(Replaced::Conflict),
        }
    }

    pub(super) fn in_doubt(&self) -> StoreError {
        let whereabouts = self.asking.whereabouts();
        StoreError::InDoubt {
            address: whereabouts.address,
            database: whereabouts.database,
        }
    }

    /// What a row that begins with moment, version and record says.
    fn versioned(&self, row: &Row) -> Result<Option<Versioned>, StoreError> {
        let version: Option<i64> = self.column(row, 1)?;
        let json: Option<&str> = self.column(row, 2)?;
        let Some((version, json)) = version.zip(json) else {
            return Ok(None);
        };
        Ok(Some(Versioned {
            version: Version(number(version)),
            record: self.decode(json)?,
        }))
    }

    /// A stored record, dated by our clock.
    pub(super) fn decode(&self, json: &str) -> Result<LeaseRecord, StoreError> {
        let record: LeaseRecord = serde_json::from_str(json).map_err(failed)?;
        Ok(record.shifted(self.offset.millis().saturating_neg()))
    }

    /// A column of a row, as the schema has it.
    pub(super) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
        &self,
        row: &'a Row,
        nth: usize,
    ) -> Result<T, StoreError> {
        let column = row.try_get(nth);
        column.map_err(|error| self.asking.whereabouts().said(&error))
    }
}

/// A footing as the claim takes it: the host, then what was seen of its standing
/// and the room there was.
pub(super) fn stated(footing: Option<&Footing>) -> (Option<&str>, [Option<i64>; 3]) {
    let Some(footing) = footing else {
        return (None, [None; 3]);
    };
    let Standing { version, claims } = footing.standing;
    let numbers = [version, claims, footing.room.into()];
    let numbers = numbers.map(|number| Some(i64::try_from(number).unwrap_or(i64::MAX)));
    (Some(footing.host.as_str()), numbers)
}

pub(super) fn encode(record: LeaseRecord) -> Result<String, StoreError> {
    serde_json::to_string(&record).map_err(failed)
}

pub(super) fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Failed {
        reason: error.to_string(),
    }
}

/// What the database counts is never negative.
pub(super) fn number(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
