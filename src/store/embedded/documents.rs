//! The documents' table and the calls on it.

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::feed::{Feed, Item};
use super::{Commit, Pending, Reply, Writer, failed, later};
use crate::placement::HostId;
use crate::store::documents::{Document, Edit, Edited, Kind};
use crate::store::{StoreError, Version};

/// Kind and id to version and text.
pub(super) const DOCUMENTS: TableDefinition<'_, (&str, &str), (u64, &str)> =
    TableDefinition::new("documents");

pub(super) enum Call {
    All {
        kind: Kind,
        answer: Reply<Vec<Document>>,
    },
    One {
        kind: Kind,
        id: String,
        answer: Reply<Option<Document>>,
    },
    Edit {
        edits: Vec<Edit>,
        sync: bool,
        writer: Writer,
        answer: Reply<Edited>,
    },
}

impl Call {
    pub(super) fn needs(&self) -> Commit {
        match self {
            Self::All { .. } | Self::One { .. } => Commit::Nothing,
            Self::Edit { sync: true, .. } => Commit::Now,
            Self::Edit { .. } => Commit::Later,
        }
    }

    pub(super) fn apply(
        self,
        transaction: &WriteTransaction,
        pending: &mut Vec<Pending>,
        feed: &mut Feed,
    ) -> Result<(), StoreError> {
        match self {
            Self::All { kind, answer } => later(all(transaction, kind), answer, pending),
            Self::One { kind, id, answer } => later(one(transaction, kind, &id), answer, pending),
            Self::Edit {
                edits,
                writer,
                answer,
                ..
            } => later(edit(transaction, feed, &edits, writer), answer, pending),
        }
    }

    pub(super) fn refuse(self, error: StoreError) {
        // A caller that left needs no answer.
        match self {
            Self::All { answer, .. } => drop(answer.send(Err(error))),
            Self::One { answer, .. } => drop(answer.send(Err(error))),
            Self::Edit { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

pub(super) fn all(transaction: &WriteTransaction, kind: Kind) -> Result<Vec<Document>, StoreError> {
    let rows = transaction.open_table(DOCUMENTS).map_err(failed)?;
    let mut found = Vec::new();
    for row in rows.range((kind.as_str(), "")..).map_err(failed)? {
        let (key, stored) = row.map_err(failed)?;
        let (of, id) = key.value();
        if of != kind.as_str() {
            break;
        }
        found.push(document(id, stored.value()));
    }
    Ok(found)
}

pub(super) fn one(
    transaction: &WriteTransaction,
    kind: Kind,
    id: &str,
) -> Result<Option<Document>, StoreError> {
    let rows = transaction.open_table(DOCUMENTS).map_err(failed)?;
    let row = rows.get((kind.as_str(), id)).map_err(failed)?;
    Ok(row.map(|row| document(id, row.value())))
}

fn document(id: &str, (version, text): (u64, &str)) -> Document {
    Document {
        id: id.to_owned(),
        version: Version(version),
        text: text.to_owned(),
    }
}

/// Looks at every version before it changes anything: the transaction is shared
/// with other calls and cannot be taken back for this one.
fn edit(
    transaction: &WriteTransaction,
    feed: &mut Feed,
    edits: &[Edit],
    writer: Writer,
) -> Result<Edited, StoreError> {
    let mut rows = transaction.open_table(DOCUMENTS).map_err(failed)?;
    for edit in edits {
        let key = (edit.kind.as_str(), edit.id.as_str());
        let stored = rows
            .get(key)
            .map_err(failed)?
            .map_or(0, |row| row.value().0);
        if edit.expected.is_some_and(|expected| expected.0 != stored) {
            return Ok(Edited::Conflict);
        }
    }
    for edit in edits {
        let key = (edit.kind.as_str(), edit.id.as_str());
        match &edit.text {
            Some(text) => {
                let version = feed.versions.next(transaction)?;
                rows.insert(key, (version, text.as_str())).map_err(failed)?;
            }
            None => drop(rows.remove(key).map_err(failed)?),
        }
        feed.wrote(
            Item::Document(edit.kind, edit.id.clone()),
            Version::default(),
        );
        if edit.kind == Kind::Mode {
            feed.ordered(&HostId::from(edit.id.as_str()), writer);
        }
    }
    Ok(Edited::Done)
}
