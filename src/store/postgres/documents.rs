//! Documents: edits are all or none in one statement, a function of the schema.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::asking::Statement;
use super::leases::number;
use crate::store::{Document, Edit, Edited, Kind, StoreError, Version};

const OF_KIND: &str = "SELECT id, version, content FROM sessionguard.documents \
    WHERE kind = $1 AND content IS NOT NULL ORDER BY id";

const ONE: &str = "SELECT id, version, content FROM sessionguard.documents \
    WHERE kind = $1 AND id = $2 AND content IS NOT NULL";

const EDIT: &str = "SELECT sessionguard.edit($1, $2, $3, $4, $5, $6)";

impl Postgres {
    pub(super) async fn documents_of(&self, kind: Kind) -> Result<Vec<Document>, StoreError> {
        let rows = self
            .asking
            .ask(Statement {
                sql: OF_KIND,
                values: &[(&kind.as_str(), Type::TEXT)],
            })
            .await?
            .rows;
        rows.iter().map(|row| self.document_in(row)).collect()
    }

    pub(super) async fn read_document(
        &self,
        kind: Kind,
        id: &str,
    ) -> Result<Option<Document>, StoreError> {
        let rows = self
            .asking
            .ask(Statement {
                sql: ONE,
                values: &[(&kind.as_str(), Type::TEXT), (&id, Type::TEXT)],
            })
            .await?
            .rows;
        rows.first().map(|row| self.document_in(row)).transpose()
    }

    fn document_in(&self, row: &Row) -> Result<Document, StoreError> {
        Ok(Document {
            id: self.column(row, 0)?,
            version: Version(number(self.column(row, 1)?)),
            text: self.column(row, 2)?,
        })
    }

    pub(super) async fn edit_documents(&self, edits: Vec<Edit>) -> Result<Edited, StoreError> {
        let kinds: Vec<_> = edits.iter().map(|edit| edit.kind.as_str()).collect();
        let ids: Vec<_> = edits.iter().map(|edit| edit.id.as_str()).collect();
        let expected = edits.iter().map(|edit| edit.expected);
        let version = |version: Version| i64::try_from(version.0).unwrap_or(i64::MAX);
        let expected: Vec<_> = expected.map(|expected| expected.map(version)).collect();
        let contents: Vec<_> = edits.iter().map(|edit| edit.text.as_deref()).collect();
        let write = Uuid::new_v4();
        let statement = Statement {
            sql: EDIT,
            values: &[
                (&kinds, Type::TEXT_ARRAY),
                (&ids, Type::TEXT_ARRAY),
                (&expected, Type::INT8_ARRAY),
                (&contents, Type::TEXT_ARRAY),
                (&write, Type::UUID),
                (&self.replica, Type::UUID),
            ],
        };
        // Whatever there is may have become newer since: what was lost must not
        // be written over it.
        let answered = match expected.contains(&None) {
            true => self.asking.ask_once(statement).await?,
            false => self.asking.ask(statement).await?,
        };
        let row = answered.rows.first();
        match row.map(|row| self.column(row, 0)).transpose()? {
            Some(true) => Ok(Edited::Done),
            _ if answered.in_doubt => Err(self.in_doubt()),
            _ => Ok(Edited::Conflict),
        }
    }
}
