//! Host modes that are changed at run time: an order is checked, written where
//! it outlives us, made known to the fleet in one step, and only then answered.
//! From the answer on no decision picks a host that it bars.

mod behind;
mod error;
mod line;
mod wish;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::audit::Audit;
use crate::clock::{Clock, rfc3339};
use crate::fleet::Fleet;
use crate::placement::{
    Actor, Directory, Effect, Emptied, FarmId, HostId, MOST_TIMED, Mode, Order, Orders, Snapshot,
    emptied,
};
use crate::store::{Document, Documents, Edit, Edited, Kind, StoreError, Version};

pub use error::ModeError;
use line::ModeChanged;
pub use wish::{Wish, WishError};

/// How often it is tried again where another broker writes the same hosts.
const TRIES: usize = 8;

/// The way to change hosts' modes.
#[derive(Clone)]
pub struct Modes {
    inner: Arc<Inner>,
}

struct Inner {
    documents: Arc<dyn Documents>,
    fleet: Arc<Fleet>,
    audit: Option<Audit>,
    clock: Clock,
    /// One change at a time: each is checked against what the last one left.
    turn: Mutex<()>,
}

/// Whose mode is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One host.
    Host(HostId),
    /// Every host that belongs to the farm now, all or none.
    Farm(FarmId),
}

/// What came of a change.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The order as it was given.
    pub order: Order,
    /// Each host it was given for, in id order.
    pub hosts: Vec<HostChanged>,
    /// Farms that it leaves without a usable host.
    pub emptied: Vec<Emptied>,
}

/// What came of a change for one host.
#[derive(Debug, Clone)]
pub struct HostChanged {
    /// Which host.
    pub host: HostId,
    /// Its mode before.
    pub before: Mode,
    /// Its mode now: another than ordered where the order is to come.
    pub mode: Mode,
    /// What became of earlier orders.
    pub effect: Effect,
    /// Whether its agent ever reported.
    pub has_agent: bool,
}

/// What is stored of one host.
#[derive(Default)]
struct Stored {
    version: Version,
    orders: Arc<Orders>,
}

impl Modes {
    /// Reads what was ordered before and makes it known to the fleet: to be
    /// done before anybody is placed.
    ///
    /// # Errors
    /// The store cannot be read, or holds what this release does not understand.
    pub async fn open(
        documents: Arc<dyn Documents>,
        fleet: Arc<Fleet>,
        audit: Option<Audit>,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let inner = Inner {
            documents,
            fleet,
            audit,
            clock,
            turn: Mutex::new(()),
        };
        inner.refresh().await?;
        let inner = Arc::new(inner);
        Ok(Self { inner })
    }

    /// The orders in a stored document.
    ///
    /// # Errors
    /// They are none that this release understands.
    pub fn read(document: &Document) -> Result<Orders, StoreError> {
        serde_json::from_str(&document.text).map_err(|error| StoreError::Failed {
            reason: format!("the mode of host {} cannot be read: {error}", document.id),
        })
    }

    /// Gives an order. Once it answers, the order holds, durably and for every
    /// decision from then on. Whoever stops waiting for the answer does not
    /// stop the change.
    ///
    /// # Errors
    /// Why nothing was changed; after [`ModeError::Store`] it may be.
    pub async fn change(
        &self,
        target: Target,
        wish: Wish,
        by: Actor,
    ) -> Result<Changed, ModeError> {
        let inner = Arc::clone(&self.inner);
        let change = tokio::spawn(async move { inner.change(&target, &wish, by).await });
        change.await.map_err(|_| ModeError::Stopping)?
    }
}

impl Inner {
    async fn change(&self, target: &Target, wish: &Wish, by: Actor) -> Result<Changed, ModeError> {
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let stored = self.stored().await?;
            let snapshot = self.fleet.snapshot();
            let hosts = hosts(&snapshot.directory, target)?;
            let now = self.clock.now();
            let order = wish.order(by.clone(), now)?;
            let (next, changed) = give(&snapshot, &stored, &hosts, order)?;
            if !changed.emptied.is_empty() && !wish.force {
                let emptied = changed.emptied;
                return Err(ModeError::LastHost { emptied, now });
            }
            match self.write(&stored, &next).await {
                Ok(Edited::Done) => {
                    let replaced = next.iter().map(|(id, orders)| {
                        let version = stored.get(id).map_or(Version::ABSENT, |s| s.version);
                        (id.clone(), (version, Arc::clone(orders)))
                    });
                    self.fleet.note_stored_orders(&replaced.collect());
                    self.tell(target, &changed);
                    return Ok(changed);
                }
                Ok(Edited::Conflict) => {}
                Err(error) => {
                    // Written or not: what is stored must be what is done. Where
                    // that cannot be read either, the next change finds out.
                    let _ = self.refresh().await;
                    return Err(error.into());
                }
            }
        }
        Err(ModeError::Contended)
    }

    async fn stored(&self) -> Result<BTreeMap<HostId, Stored>, StoreError> {
        let documents = self.documents.documents(Kind::Mode).await?;
        let read = documents.into_iter().map(|document| {
            let orders = Modes::read(&document)?;
            let stored = Stored {
                version: document.version,
                orders: Arc::new(orders),
            };
            Ok((document.id.into(), stored))
        });
        read.collect()
    }

    /// Makes what is stored known to the fleet.
    async fn refresh(&self) -> Result<(), StoreError> {
        let stored = self.stored().await?;
        let orders = stored.into_iter();
        let orders = orders.map(|(id, stored)| (id, (stored.version, stored.orders)));
        self.fleet.note_stored_orders(&orders.collect());
        Ok(())
    }

    async fn write(
        &self,
        stored: &BTreeMap<HostId, Stored>,
        next: &BTreeMap<HostId, Arc<Orders>>,
    ) -> Result<Edited, StoreError> {
        let edits = next.iter().map(|(id, orders)| {
            let text = serde_json::to_string(orders).map_err(|error| StoreError::Failed {
                reason: error.to_string(),
            })?;
            let version = stored.get(id).map_or(Version::ABSENT, |s| s.version);
            Ok(Edit {
                kind: Kind::Mode,
                id: id.to_string(),
                expected: Some(version),
                text: Some(text),
            })
        });
        let edits = edits.collect::<Result<_, StoreError>>()?;
        self.documents.edit(edits, true).await
    }

    /// One log line a change, an alarm a farm, and one line of the trail a host.
    fn tell(&self, target: &Target, changed: &Changed) {
        let Changed { order, hosts, .. } = changed;
        let ids: Vec<_> = hosts.iter().map(|host| host.host.as_str()).collect();
        info!(
            hosts = ids.join(","),
            mode = %order.mode,
            by = %order.by,
            reason = order.reason.as_deref(),
            from = order.from.map(rfc3339),
            until = order.until.map(rfc3339),
            "Host mode changed"
        );
        for emptied in &changed.emptied {
            warn!(
                farm = %emptied.farm,
                by = %order.by,
                from = rfc3339(emptied.at),
                "Farm has no usable host left"
            );
        }
        if let Some(audit) = &self.audit {
            for host in hosts {
                audit.tell(Arc::new(ModeChanged::of(target, changed, host)));
            }
        }
    }
}

/// The orders that the hosts would have, and what that would change.
fn give(
    snapshot: &Snapshot,
    stored: &BTreeMap<HostId, Stored>,
    hosts: &[HostId],
    order: Order,
) -> Result<(BTreeMap<HostId, Arc<Orders>>, Changed), ModeError> {
    let now = order.at;
    let mut next = BTreeMap::new();
    let mut changes = Vec::with_capacity(hosts.len());
    for id in hosts {
        let configured = snapshot.directory.host(id).map(|host| host.mode);
        let configured = configured.unwrap_or_default();
        let known = stored.get(id).map(|stored| &*stored.orders);
        let known = known.cloned().unwrap_or_default();
        let mode = |orders: &Orders| orders.at(now).map_or(configured, |order| order.mode);
        let (orders, effect) = known.give(configured, order.clone());
        if orders.timed() > MOST_TIMED {
            return Err(ModeError::TooManyTimed(id.clone()));
        }
        let view = snapshot.hosts.get(id);
        changes.push(HostChanged {
            host: id.clone(),
            before: mode(&known),
            mode: mode(&orders),
            effect,
            has_agent: view.is_some_and(|view| view.report.is_some()),
        });
        next.insert(id.clone(), Arc::new(orders));
    }
    let changed = Changed {
        emptied: emptied(snapshot, &next, now),
        order,
        hosts: changes,
    };
    Ok((next, changed))
}

/// The configured hosts that are meant.
fn hosts(directory: &Directory, target: &Target) -> Result<Vec<HostId>, ModeError> {
    match target {
        Target::Host(id) if directory.host(id).is_some() => Ok(vec![id.clone()]),
        Target::Host(id) => Err(ModeError::UnknownHost {
            nearest: nearest(id.as_str(), directory.hosts().map(|host| host.id.as_str())),
            id: id.clone(),
        }),
        Target::Farm(id) if directory.farm(id).is_some() => {
            let members: Vec<_> = directory.members(id).cloned().collect();
            match members.is_empty() {
                true => Err(ModeError::EmptyFarm(id.clone())),
                false => Ok(members),
            }
        }
        Target::Farm(id) => Err(ModeError::UnknownFarm {
            nearest: nearest(id.as_str(), directory.farms().map(|farm| farm.id.as_str())),
            id: id.clone(),
        }),
    }
}

/// The id that is spelled most alike, where one is at most a third away.
fn nearest<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let asked = asked.to_lowercase();
    let near = known.map(|id| (strsim::osa_distance(&asked, &id.to_lowercase()), id));
    let (distance, id) = near.min()?;
    (distance <= asked.chars().count().div_ceil(3)).then(|| id.to_owned())
}

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
