//! The feed: what was changed since a moment, in one statement and so as of one
//! snapshot.
//!
//! Every row names the transaction that wrote it. A snapshot's oldest running
//! transaction is where the next look begins: all before it have ended and were
//! seen, whatever order they ended in. What a transaction elsewhere holds up by
//! running for long only comes again.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::Postgres;
use super::asking::{Answered, Statement};
use super::leases::number;
use crate::placement::{HostId, LeaseKey, Standing, Timestamp};
use crate::store::{Changed, Document, Kind, Mark, StoreError, Version, Versioned};

/// One row about the moment, then what changed. Where everything is wanted,
/// nobody has to be told what was removed. A database that takes no writes any
/// more, whose rows are old therefore, refuses to lock even no row at all.
pub(super) const CHANGES: &str = "WITH writable AS ( \
        SELECT number FROM sessionguard.schema WHERE false FOR UPDATE) \
    SELECT 'moment', NULL::text, NULL::text, \
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint, NULL::text, \
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
        (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, \
        (SELECT count(*) FROM writable) \
    UNION ALL SELECT 'lease', NULL, key, version, record, NULL, NULL, NULL \
        FROM sessionguard.leases WHERE transaction >= $1 AND ($1 > 0 OR record IS NOT NULL) \
    UNION ALL SELECT 'document', kind, id, version, content, NULL, NULL, NULL \
        FROM sessionguard.documents WHERE transaction >= $1 AND ($1 > 0 OR content IS NOT NULL) \
    UNION ALL SELECT 'standing', NULL, host, version, NULL, claims, NULL, NULL \
        FROM sessionguard.hosts WHERE transaction >= $1 AND version > 0";

/// Half of the time that removed rows are kept. Whoever asks from an earlier
/// moment on may not be told of them any more.
const TRUSTED: u64 = 12 * 3600 * 1000;

/// What the row about the moment says.
struct Moment {
    transaction: u64,
    server: i64,
    at: u64,
}

impl Postgres {
    /// Everything, where the server, or a connection to it, is not what it was:
    /// what it told may have been lost with it.
    pub(super) async fn read_changes(&self, since: Mark) -> Result<Changed, StoreError> {
        let deadline = self.asking.deadline();
        let mut since = since;
        loop {
            let losses = self.asking.losses().count();
            if since.losses != losses {
                since = Mark::default();
            }
            let from = i64::try_from(since.transaction).unwrap_or(i64::MAX);
            let statement = Statement {
                sql: CHANGES,
                values: &[(&from, Type::INT8)],
            };
            let answered = self.asking.ask_until(statement, deadline).await?;
            let moment = self.moment(&answered)?;
            let is_whole = since.transaction == 0;
            let is_continued = since.server == moment.server
                && moment.at.saturating_sub(since.at) <= TRUSTED
                && self.asking.losses().count() == losses;
            if !is_whole && !is_continued {
                since = Mark::default();
                continue;
            }
            let mut changed = Changed {
                mark: Mark {
                    transaction: moment.transaction,
                    server: moment.server,
                    at: moment.at,
                    losses,
                },
                whole: is_whole,
                ..Changed::default()
            };
            for row in &answered.rows {
                self.tell(row, &mut changed)?;
            }
            return Ok(changed);
        }
    }

    fn moment(&self, answered: &Answered) -> Result<Moment, StoreError> {
        for row in &answered.rows {
            if self.column::<&str>(row, 0)? != "moment" {
                continue;
            }
            let at = number(self.column(row, 5)?);
            let (sent, received) = (answered.sent, answered.received);
            self.offset
                .heard(Timestamp::from_millis(at), sent, received);
            return Ok(Moment {
                transaction: number(self.column(row, 3)?),
                server: self.column(row, 6)?,
                at,
            });
        }
        Err(self.asking.whereabouts().silent())
    }

    fn tell(&self, row: &Row, changed: &mut Changed) -> Result<(), StoreError> {
        let what: &str = self.column(row, 0)?;
        if what == "moment" {
            return Ok(());
        }
        let id: &str = self.column(row, 2)?;
        let version = number(self.column(row, 3)?);
        let content: Option<&str> = self.column(row, 4)?;
        match what {
            "lease" => {
                let record = content.map(|json| self.decode(json)).transpose()?;
                let versioned = Versioned {
                    version: Version(version),
                    record: record.unwrap_or_default(),
                };
                let key = LeaseKey::from_stored(id.to_owned());
                changed.leases.push((key, versioned));
            }
            "document" => {
                // One of a newer release is none of ours.
                if let Some(kind) = Kind::from_stored(self.column(row, 1)?) {
                    let document = content.map(|text| Document {
                        id: id.to_owned(),
                        version: Version(version),
                        text: text.to_owned(),
                    });
                    changed.documents.push((kind, id.to_owned(), document));
                }
            }
            _ => {
                let claims = number(self.column(row, 5)?);
                let standing = Standing { version, claims };
                changed.standings.push((HostId::from(id), standing));
            }
        }
        Ok(())
    }
}
