//! A store whose every call is counted and timed; what it does is another's.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Metrics, Operation, Stored};
use crate::placement::{LeaseKey, LeaseRecord};
use crate::store::{
    Answer, Archive, Bounds, Changed, Changes, Connections, Document, Documents, Edit, Edited,
    Footing, Kept, Kind, Losses, Mark, Replaced, Store, Version, Versioned,
};

/// A store behind its meter.
#[derive(Debug)]
pub struct Metered<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S: Sync> Metered<S> {
    /// Counts the calls of this store there.
    pub fn new(inner: S, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics }
    }

    fn timed<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        answer: Answer<'a, T>,
    ) -> Answer<'a, T> {
        self.judged(operation, answer, |_| Stored::Done)
    }

    /// A call that is given up before it is answered is not counted.
    fn judged<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        answer: Answer<'a, T>,
        judge: fn(&T) -> Stored,
    ) -> Answer<'a, T> {
        let began = Instant::now();
        Box::pin(async move {
            let answered = answer.await;
            let came = answered.as_ref().map_or(Stored::Failed, judge);
            self.metrics.stored(operation, began.elapsed(), came);
            answered
        })
    }
}

impl<S: Store> Store for Metered<S> {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, Versioned> {
        self.timed(Operation::Read, self.inner.read(key))
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Answer<'a, Replaced> {
        let answer = self.inner.replace(key, expected, record, footing);
        self.judged(Operation::Replace, answer, |replaced| match replaced {
            Replaced::Done(_) => Stored::Done,
            Replaced::Conflict | Replaced::Behind => Stored::Conflict,
        })
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> Answer<'a, Vec<(LeaseKey, Versioned)>> {
        self.timed(Operation::List, self.inner.after(key, most))
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn is_far(&self) -> bool {
        self.inner.is_far()
    }

    fn losses(&self) -> Losses {
        self.inner.losses()
    }

    fn connections(&self) -> Option<Connections> {
        self.inner.connections()
    }
}

impl<S: Changes> Changes for Metered<S> {
    fn changes(&self, since: Mark) -> Answer<'_, Changed> {
        self.timed(Operation::Changes, self.inner.changes(since))
    }
}

impl<S: Archive> Archive for Metered<S> {
    fn keep(&self, decisions: Vec<Kept>, sync: bool) -> Answer<'_, ()> {
        self.timed(Operation::KeepDecisions, self.inner.keep(decisions, sync))
    }

    fn decision(&self, id: u128) -> Answer<'_, Option<String>> {
        self.timed(Operation::ReadDecision, self.inner.decision(id))
    }

    fn decisions<'a>(&'a self, name: Option<&'a str>, most: usize) -> Answer<'a, Vec<String>> {
        self.timed(Operation::ListDecisions, self.inner.decisions(name, most))
    }

    fn prune(&self, bounds: Bounds) -> Answer<'_, usize> {
        self.timed(Operation::PruneDecisions, self.inner.prune(bounds))
    }
}

impl<S: Documents> Documents for Metered<S> {
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>> {
        self.timed(Operation::ListDocuments, self.inner.documents(kind))
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        self.timed(Operation::ReadDocument, self.inner.document(kind, id))
    }

    fn edit(&self, edits: Vec<Edit>, sync: bool) -> Answer<'_, Edited> {
        let answer = self.inner.edit(edits, sync);
        self.judged(Operation::EditDocuments, answer, |edited| match edited {
            Edited::Done => Stored::Done,
            Edited::Conflict => Stored::Conflict,
        })
    }
}
