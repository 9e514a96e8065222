//! What was written since a moment, for processes that share the file through
//! its owner while one takes it over from another.
//!
//! In memory alone: who asks by a mark of another opening of the file is told
//! everything. Nothing is noted before somebody asks for the first time, so that
//! a broker that is alone pays nothing for it.

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::WriteTransaction;
use uuid::Uuid;

use super::leases::{self, LEASES};
use super::versions::Versions;
use super::{Writer, documents, failed};
use crate::placement::{HostId, LeaseKey, Standing};
use crate::store::{Changed, Footing, Kind, Mark, StoreError, Version, Versioned};

/// Writings remembered at most; who has not heard of more is told everything.
const REMEMBERED: usize = 65_536;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Item {
    Lease(LeaseKey),
    Document(Kind, String),
}

#[derive(Debug)]
pub(super) struct Feed {
    /// Of what is written.
    pub(super) versions: Versions,
    /// Which opening of the file it tells of.
    opening: i64,
    /// The last number that was given out. A moment in microseconds at first, so
    /// that those of the next opening are higher.
    last: u64,
    /// The last writing of each item by its number, with the version of what was
    /// removed.
    log: BTreeMap<u64, (Item, Version)>,
    latest: HashMap<Item, u64>,
    /// Up to this number something was forgotten.
    forgotten: u64,
    standings: HashMap<HostId, Stand>,
    /// Whether anybody asked yet.
    is_asked: bool,
}

/// What was claimed or ordered on a host.
#[derive(Debug)]
struct Stand {
    standing: Standing,
    /// The version of the last order.
    ordered: u64,
    writer: Writer,
    /// From here on all was this writer's, who need not be told of its own.
    since: u64,
}

impl Feed {
    pub(super) fn new() -> Self {
        let moment = SystemTime::now().duration_since(UNIX_EPOCH);
        let moment = moment.unwrap_or_default().as_micros();
        let (_, opening) = Uuid::new_v4().as_u64_pair();
        Self {
            versions: Versions::default(),
            opening: i64::from_be_bytes(opening.to_be_bytes()),
            last: u64::try_from(moment).unwrap_or_default(),
            log: BTreeMap::new(),
            latest: HashMap::new(),
            forgotten: 0,
            standings: HashMap::new(),
            is_asked: false,
        }
    }

    /// An item was written; `version` is that of the writing, where the item may
    /// be gone by it.
    pub(super) fn wrote(&mut self, item: Item, version: Version) {
        if !self.is_asked {
            return;
        }
        self.last += 1;
        if let Some(before) = self.latest.insert(item.clone(), self.last) {
            self.log.remove(&before);
        }
        self.log.insert(self.last, (item, version));
        if self.log.len() > REMEMBERED
            && let Some((number, (item, _))) = self.log.pop_first()
        {
            self.latest.remove(&item);
            self.forgotten = number;
        }
    }

    /// Whether somebody else gave an order for the host that the writer had not
    /// seen, or placed more there than it had room for.
    pub(super) fn is_behind(&self, seen: &Footing, writer: Writer) -> bool {
        let stand = self.standings.get(&seen.host);
        stand.is_some_and(|stand| {
            let Footing { standing, room, .. } = seen;
            let is_own = stand.writer == writer && stand.since <= standing.version;
            let more = stand.standing.claims.saturating_sub(standing.claims);
            let is_filled = more > u64::from(*room);
            stand.standing.version > standing.version
                && !is_own
                && (stand.ordered > standing.version || is_filled)
        })
    }

    /// Somebody is placed on a host.
    pub(super) fn claimed(&mut self, host: &HostId, writer: Writer) {
        if let Some(stand) = self.advance(host, writer) {
            stand.standing.claims += 1;
        }
    }

    /// An order is given for a host.
    pub(super) fn ordered(&mut self, host: &HostId, writer: Writer) {
        if let Some(stand) = self.advance(host, writer) {
            stand.ordered = stand.standing.version;
        }
    }

    fn advance(&mut self, host: &HostId, writer: Writer) -> Option<&mut Stand> {
        if !self.is_asked {
            return None;
        }
        self.last += 1;
        let version = self.last;
        // Claims of earlier openings are not known: whoever counted them has to
        // look again.
        let stand = self.standings.entry(host.clone()).or_insert(Stand {
            standing: Standing {
                version: 0,
                claims: version,
            },
            ordered: 0,
            writer,
            since: 0,
        });
        if stand.writer != writer {
            stand.since = stand.standing.version;
            stand.writer = writer;
        }
        stand.standing.version = version;
        Some(stand)
    }

    /// All that was written since.
    pub(super) fn since(
        &mut self,
        transaction: &WriteTransaction,
        since: Mark,
    ) -> Result<Changed, StoreError> {
        let is_continued =
            self.is_asked && since.server == self.opening && since.transaction >= self.forgotten;
        self.is_asked = true;
        let mut changed = Changed {
            mark: Mark {
                transaction: self.last,
                server: self.opening,
                ..Mark::default()
            },
            whole: !is_continued,
            ..Changed::default()
        };
        let from = if is_continued { since.transaction } else { 0 };
        let standings = self.standings.iter();
        let standings = standings.filter(|(_, stand)| stand.standing.version > from);
        changed.standings = standings
            .map(|(host, stand)| (host.clone(), stand.standing))
            .collect();
        if !is_continued {
            changed.leases = leases::all(transaction)?;
            for kind in Kind::ALL {
                let all = documents::all(transaction, kind)?.into_iter();
                let all = all.map(|document| (kind, document.id.clone(), Some(document)));
                changed.documents.extend(all);
            }
            return Ok(changed);
        }
        let leases = transaction.open_table(LEASES).map_err(failed)?;
        for (item, version) in self.log.range(from + 1..).map(|(_, written)| written) {
            match item {
                Item::Lease(key) => {
                    let mut found = leases::read(&leases, key.as_str())?;
                    if found.version == Version::ABSENT {
                        found = Versioned {
                            version: *version,
                            ..found
                        };
                    }
                    changed.leases.push((key.clone(), found));
                }
                Item::Document(kind, id) => {
                    let found = documents::one(transaction, *kind, id)?;
                    changed.documents.push((*kind, id.clone(), found));
                }
            }
        }
        Ok(changed)
    }
}
