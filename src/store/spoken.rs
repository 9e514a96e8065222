//! What one process asks of a store that another one owns, in words that can be
//! sent: the embedded store's file belongs to one process, and while a new
//! version takes it over the old one still has tunnels with leases in it.

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{
    Archive, Bounds, Changed, Changes, Document, Documents, Edit, Edited, Footing, Kept, Kind,
    Mark, Movable, Replaced, Store, StoreError, Version, Versioned,
};
use crate::placement::{LeaseKey, LeaseRecord};

/// A call of the store. Each may be made twice: whoever does not know whether
/// it was made asks again, and hears of a conflict at worst.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Call {
    /// [`Store::read`]
    Read(LeaseKey),
    /// [`Store::replace`]
    Replace(LeaseKey, Version, Box<LeaseRecord>, Option<Footing>),
    /// [`Store::after`]
    After(Option<LeaseKey>, usize),
    /// [`Changes::changes`]
    Changes(Mark),
    /// [`Archive::keep`]
    Keep(Vec<Kept>, bool),
    /// [`Archive::decision`]
    Decision(u128),
    /// [`Archive::decisions`]
    Decisions(Option<String>, usize),
    /// [`Archive::prune`]
    Prune(Bounds),
    /// [`Documents::documents`]
    Documents(Kind),
    /// [`Documents::document`]
    Document(Kind, String),
    /// [`Documents::edit`]
    Edit(Vec<Edit>, bool),
}

/// What a call gave back; each is what its namesake gives.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the calls above say what these are")]
pub enum Told {
    Versioned(Box<Versioned>),
    Replaced(Replaced),
    Leases(Vec<(LeaseKey, Versioned)>),
    Changed(Box<Changed>),
    Done,
    Text(Option<String>),
    Texts(Vec<String>),
    Count(usize),
    Documents(Vec<Document>),
    Document(Option<Document>),
    Edited(Edited),
    /// The store failed, for this reason.
    Failed(String),
}

/// A call and whom to tell.
#[derive(Debug)]
pub struct Errand {
    /// What is asked.
    pub call: Call,
    /// Who waits for it.
    pub answer: oneshot::Sender<Told>,
}

/// Makes a call on behalf of another process: the `writer`th, from 1 on. `None`:
/// the store is not here (any more), and nothing was done.
pub async fn answer(store: &Movable, writer: u64, call: Call) -> Option<Told> {
    let store = store.here().await?;
    let told = match call {
        Call::Read(key) => store.read(&key).await.map(|it| Told::Versioned(it.into())),
        Call::Replace(key, expected, record, footing) => {
            let replaced = store.replace_as(writer, key, expected, (*record, footing));
            replaced.await.map(Told::Replaced)
        }
        Call::After(key, most) => store.after(key.as_ref(), most).await.map(Told::Leases),
        Call::Changes(since) => {
            let changed = store.changes(since).await;
            changed.map(|it| Told::Changed(it.into()))
        }
        Call::Keep(decisions, sync) => store.keep(decisions, sync).await.map(|()| Told::Done),
        Call::Decision(id) => store.decision(id).await.map(Told::Text),
        Call::Decisions(name, most) => {
            let decisions = store.decisions(name.as_deref(), most).await;
            decisions.map(Told::Texts)
        }
        Call::Prune(bounds) => store.prune(bounds).await.map(Told::Count),
        Call::Documents(kind) => store.documents(kind).await.map(Told::Documents),
        Call::Document(kind, id) => store.document(kind, &id).await.map(Told::Document),
        Call::Edit(edits, sync) => {
            let edited = store.edit_as(writer, edits, sync).await;
            edited.map(Told::Edited)
        }
    };
    Some(told.unwrap_or_else(|error| Told::Failed(error.to_string())))
}

/// What was told where something else was waited for.
pub(super) fn unexpected(told: Told) -> StoreError {
    let reason = match told {
        Told::Failed(reason) => reason,
        _ => "the sessionguard that took the store over answers something else".to_owned(),
    };
    StoreError::Failed { reason }
}
