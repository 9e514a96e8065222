//! A store in memory that several brokers of a test share, by the contract of
//! one that replicas share: each has a handle with a name of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::placement::{HostId, LeaseKey, LeaseRecord, Standing};
use crate::store::{
    Answer, Changed, Changes, Document, Documents, Edit, Edited, Footing, Kind, Mark, Replaced,
    Store, StoreError, Version, Versioned,
};

/// One replica's handle.
#[derive(Clone, Default)]
pub(super) struct Shared {
    me: u32,
    tables: Arc<Mutex<Tables>>,
    /// Nothing can be asked by this one.
    pub(super) broken: Arc<AtomicBool>,
    /// How many claims were refused for what others placed or ordered.
    pub(super) behind: Arc<AtomicUsize>,
    /// It tells of all there is as such, as after a lost connection.
    pub(super) whole: Arc<AtomicBool>,
}

#[derive(Default)]
struct Tables {
    last: u64,
    leases: BTreeMap<LeaseKey, Versioned>,
    documents: BTreeMap<(Kind, String), (Version, Option<String>)>,
    hosts: BTreeMap<HostId, Row>,
}

#[derive(Default, Clone, Copy)]
struct Row {
    version: u64,
    writer: Option<u32>,
    since: u64,
    ordered: u64,
    claims: u64,
}

impl Tables {
    fn next(&mut self) -> Version {
        self.last += 1;
        Version::nth(self.last)
    }

    fn advance(&mut self, host: &HostId, writer: Option<u32>) -> &mut Row {
        let row = self.hosts.entry(host.clone()).or_default();
        if row.writer != writer {
            row.since = row.version;
        }
        row.version += 1;
        row.writer = writer;
        row
    }
}

impl Shared {
    /// The handle of another replica.
    pub(super) fn another(&self, me: u32) -> Self {
        Self {
            me,
            tables: Arc::clone(&self.tables),
            behind: Arc::clone(&self.behind),
            ..Self::default()
        }
    }

    /// What an asynchronous standby had not heard of yet when it took over.
    pub(super) fn lose(&self, kind: Kind, id: &str) {
        let mut tables = self.tables.lock().unwrap();
        tables.documents.remove(&(kind, id.to_owned()));
    }

    pub(super) fn version(&self, kind: Kind, id: &str) -> Option<Version> {
        let tables = self.tables.lock().unwrap();
        let found = tables.documents.get(&(kind, id.to_owned()));
        found.map(|(version, _)| *version)
    }

    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&mut Tables) -> T) -> Answer<'static, T> {
        let answer = match self.broken.load(Ordering::SeqCst) {
            true => Err(StoreError::Failed {
                reason: "it is broken".to_owned(),
            }),
            false => Ok(ask(&mut self.tables.lock().unwrap())),
        };
        Box::pin(async move {
            tokio::task::yield_now().await;
            answer
        })
    }
}

impl Store for Shared {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, Versioned> {
        self.ask(|tables| {
            let found = tables.leases.get(key).cloned();
            found
                .filter(|known| !known.record.is_empty())
                .unwrap_or_default()
        })
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Answer<'a, Replaced> {
        self.ask(|tables| {
            let found = tables.leases.get(key);
            let found = found.filter(|known| !known.record.is_empty());
            if found.map_or(Version::ABSENT, |known| known.version) != expected {
                return Replaced::Conflict;
            }
            if let Some(footing) = footing {
                let (host, seen) = (footing.host, footing.standing);
                let row = tables.hosts.get(&host).copied().unwrap_or_default();
                let ours = row.writer == Some(self.me) && row.since <= seen.version;
                let filled = row.claims.saturating_sub(seen.claims) > footing.room.into();
                if !ours && (row.ordered > seen.version || filled) {
                    self.behind.fetch_add(1, Ordering::SeqCst);
                    return Replaced::Behind;
                }
                tables.advance(&host, Some(self.me)).claims += 1;
            }
            let version = tables.next();
            let known = Versioned { version, record };
            tables.leases.insert(key.clone(), known);
            Replaced::Done(version)
        })
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> Answer<'a, Vec<(LeaseKey, Versioned)>> {
        self.ask(move |tables| {
            let leases = tables.leases.iter();
            let leases = leases.filter(|(_, known)| !known.record.is_empty());
            leases
                .filter(|(known, _)| key.is_none_or(|key| *known > key))
                .map(|(key, known)| (key.clone(), known.clone()))
                .take(most)
                .collect()
        })
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl Documents for Shared {
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>> {
        self.ask(|tables| {
            let documents = tables.documents.iter().filter(|((of, _), _)| *of == kind);
            let documents = documents.filter_map(|((_, id), (version, text))| {
                Some(Document {
                    id: id.clone(),
                    version: *version,
                    text: text.clone()?,
                })
            });
            documents.collect()
        })
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        self.ask(|tables| {
            let (version, text) = tables.documents.get(&(kind, id.to_owned()))?;
            Some(Document {
                id: id.to_owned(),
                version: *version,
                text: text.clone()?,
            })
        })
    }

    fn edit(&self, edits: Vec<Edit>, _sync: bool) -> Answer<'_, Edited> {
        self.ask(|tables| {
            let fits = |edit: &Edit| {
                let found = tables.documents.get(&(edit.kind, edit.id.clone()));
                let found = found.filter(|(_, text)| text.is_some());
                let version = found.map_or(Version::ABSENT, |(version, _)| *version);
                edit.expected.is_none_or(|expected| expected == version)
            };
            if !edits.iter().all(fits) {
                return Edited::Conflict;
            }
            for edit in edits {
                if edit.kind == Kind::Mode {
                    let row = tables.advance(&HostId::from(edit.id.as_str()), Some(self.me));
                    row.ordered = row.version;
                }
                let version = tables.next();
                tables
                    .documents
                    .insert((edit.kind, edit.id), (version, edit.text));
            }
            Edited::Done
        })
    }
}

impl Changes for Shared {
    fn changes(&self, since: Mark) -> Answer<'_, Changed> {
        let whole = self.whole.swap(false, Ordering::SeqCst);
        self.ask(move |tables| {
            let leases = tables.leases.iter();
            let documents = tables.documents.iter();
            let documents = documents.map(|((kind, id), (version, text))| {
                let document = text.clone().map(|text| Document {
                    id: id.clone(),
                    version: *version,
                    text,
                });
                (*kind, id.clone(), document)
            });
            let hosts = tables.hosts.iter();
            Changed {
                leases: leases
                    .map(|(key, known)| (key.clone(), known.clone()))
                    .collect(),
                documents: documents.collect(),
                standings: hosts
                    .map(|(host, row)| {
                        let (version, claims) = (row.version, row.claims);
                        (host.clone(), Standing { version, claims })
                    })
                    .collect(),
                mark: since,
                whole,
            }
        })
    }
}
