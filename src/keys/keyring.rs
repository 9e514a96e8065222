//! The keys in force, and who somebody is by one of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, Notify};
use tracing::{debug, info, warn};

use super::digest::Digest;
use super::listed::{Listed, State};
use super::record::Record;
use super::ring::{Entry, Ring};
use super::uses::Uses;
use super::{Identity, KeyId, Rejected, Role, text};
use crate::audit::Audit;
use crate::clock::Clock;
use crate::config::{Configured, Purpose, Secrets};
use crate::placement::Timestamp;
use crate::store::{Documents, Edit, Kind, StoreError};

/// How long keys that have ended are still listed.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// All keys; clones are one.
#[derive(Clone)]
pub struct Keyring {
    pub(super) inner: Arc<Inner>,
    pub(super) audit: Option<Audit>,
}

pub(super) struct Inner {
    pub(super) store: Arc<dyn Documents>,
    pub(super) ring: ArcSwap<Ring>,
    configured: ArcSwap<Vec<ConfiguredKey>>,
    /// No key's hash: unknown ids are compared with it.
    nobodys: Digest,
    /// Held while a change is written and put in force.
    pub(super) writing: Mutex<()>,
    pub(super) clock: Clock,
    /// An agent's key was used for the first time.
    pub(super) fresh: Notify,
}

struct ConfiguredKey {
    id: KeyId,
    role: Role,
    digest: Digest,
    place: String,
}

impl ConfiguredKey {
    /// `None`: a secret that is nobody's key to us.
    fn of(configured: &Configured) -> Option<Self> {
        let (id, role) = match configured.purpose {
            Purpose::BrokerKey => ("configured-broker", Role::Broker),
            Purpose::AdminKey => ("configured-admin", Role::AdminWrite),
            Purpose::DatabasePassword => return None,
        };
        Some(Self {
            id: KeyId::named(id),
            role,
            digest: Digest::of(configured.secret.expose()),
            place: configured.place.to_string(),
        })
    }
}

impl Keyring {
    /// Takes over the keys in the store and those that are configured. What is
    /// given back as well must run beside it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        store: Arc<dyn Documents>,
        secrets: &Secrets,
        audit: Option<Audit>,
        clock: Clock,
    ) -> Result<(Self, Uses), StoreError> {
        let mut records = Vec::new();
        for document in store.documents(Kind::Key).await? {
            let known = KeyId::read(&document.id).zip(Record::read(&document.text));
            match known {
                Some(known) => records.push(known),
                None => warn!(
                    key = document.id,
                    "A stored key cannot be read and is not accepted"
                ),
            }
        }
        let ring = without_past(records.into_iter().collect(), &*store, clock.now()).await?;
        let configured = configured(secrets, &ring);
        if ring.len() + configured.len() > 0 {
            info!(
                stored = ring.len(),
                configured = configured.len(),
                "Keys loaded"
            );
        }
        let inner = Arc::new(Inner {
            store,
            ring: ArcSwap::from_pointee(ring),
            configured: ArcSwap::from_pointee(configured),
            nobodys: Digest::of(""),
            writing: Mutex::new(()),
            clock,
            fresh: Notify::new(),
        });
        let uses = Uses::of(Arc::clone(&inner));
        Ok((Self { inner, audit }, uses))
    }

    /// Who presents this key. Takes as long for a known id as for an unknown
    /// one, and says nothing about why a key is not accepted.
    ///
    /// # Errors
    /// It is not accepted.
    pub fn verify(&self, presented: &str) -> Result<Identity, Rejected> {
        let inner = &*self.inner;
        let (ring, digest) = (inner.ring.load(), Digest::of(presented));
        let entry = text::id_of(presented).and_then(|id| ring.get(id));
        let stored = entry.map_or(&inner.nobodys, |entry| &entry.record.digest);
        let fits = bool::from(stored.fits(&digest));
        // Every one of them, whether an earlier one fits or not.
        let mut configured = None;
        let all = inner.configured.load();
        for key in all.iter() {
            if key.digest.fits(&digest).into() {
                configured = Some(key);
            }
        }
        match entry {
            // The store has the last word on its own keys: one that was revoked
            // there is not good because somebody configured it as well.
            Some(entry) => inner.judge(&ring, entry, fits),
            None => configured.map(ConfiguredKey::identity).ok_or(Rejected),
        }
    }

    /// Every key, good or not: the configured ones first, the others by role,
    /// host and age.
    pub fn list(&self) -> Vec<Listed> {
        let (ring, now) = (self.inner.ring.load(), self.inner.clock.now());
        let mut stored: Vec<_> = ring
            .entries()
            .map(|entry| ring.listed(entry, now))
            .collect();
        stored.sort_by(|a, b| {
            let order = |key: &Listed| {
                let host = key.role.host().cloned();
                (key.role.word(), host, key.created_at, key.id.clone())
            };
            order(a).cmp(&order(b))
        });
        let configured = self.inner.configured.load();
        let configured = configured.iter().map(ConfiguredKey::listed);
        configured.chain(stored).collect()
    }

    /// Whether a configured key has this id.
    pub(super) fn configured(&self, id: &str) -> Option<KeyId> {
        let configured = self.inner.configured.load();
        let mut ids = configured.iter().map(|key| &key.id);
        ids.find(|known| known.as_str() == id).cloned()
    }

    /// Takes other configured keys over: from now on these are good, and those
    /// before them no more.
    pub fn configure(&self, secrets: &Secrets) {
        let inner = &*self.inner;
        let keys = configured(secrets, &inner.ring.load());
        let before = inner.configured.load();
        let same = |key: &ConfiguredKey| {
            let mut before = before.iter();
            before.any(|old| old.id == key.id && old.digest.fits(&key.digest).into())
        };
        let exchanged: Vec<_> = keys.iter().filter(|key| !same(key)).collect();
        if exchanged.is_empty() && keys.len() == before.len() {
            return;
        }
        let taken = exchanged.iter().map(|key| key.id.as_str());
        let taken = taken.collect::<Vec<_>>().join(" ");
        let count = keys.len();
        inner.configured.store(Arc::new(keys));
        info!(
            configured = count,
            exchanged = taken,
            "Configured keys exchanged"
        );
    }
}

/// The configured keys; says which of them is one of the store's.
fn configured(secrets: &Secrets, ring: &Ring) -> Vec<ConfiguredKey> {
    let keys = secrets
        .iter()
        .filter_map(|secret| Some((secret, ConfiguredKey::of(secret)?)));
    let mut configured = Vec::new();
    for (secret, key) in keys {
        let id = text::id_of(secret.secret.expose()).filter(|id| ring.get(id).is_some());
        if let Some(id) = id {
            warn!(
                key = id,
                configured = %key.id,
                "A configured key is one of the store, which alone says what it is good for"
            );
        }
        configured.push(key);
    }
    configured
}

impl Inner {
    fn judge(&self, ring: &Ring, entry: &Entry, fits: bool) -> Result<Identity, Rejected> {
        let now = self.clock.now();
        let state = ring.state(entry, now);
        if !fits {
            return Err(Rejected);
        }
        if !state.is_good() {
            debug!(key = %entry.id, role = %entry.record.role, ?state, "A key that has ended was presented");
            return Err(Rejected);
        }
        // What a token is used for is known where it is exchanged.
        if !matches!(entry.record.role, Role::Enrollment(_)) && entry.use_at(now) {
            self.fresh.notify_one();
        }
        Ok(Identity {
            key: entry.id.clone(),
            role: entry.record.role.clone(),
        })
    }

    /// Puts records in force that were written down.
    pub(super) fn publish(&self, records: impl IntoIterator<Item = (KeyId, Record)>) {
        let records: Vec<_> = records.into_iter().collect();
        self.ring.rcu(|ring| ring.with(records.clone()));
    }
}

impl ConfiguredKey {
    fn identity(&self) -> Identity {
        Identity {
            key: self.id.clone(),
            role: self.role.clone(),
        }
    }

    fn listed(&self) -> Listed {
        Listed {
            id: self.id.clone(),
            role: self.role.clone(),
            label: String::new(),
            state: State::Valid,
            created_by: self.place.clone(),
            created_at: None,
            expires_at: None,
            revoked_at: None,
            revoked_by: None,
            last_used: None,
        }
    }
}

/// Removes the keys that ended long ago. An older key of a host goes before or
/// with the newer one that replaced it, and so never comes back.
async fn without_past(
    ring: Ring,
    store: &dyn Documents,
    now: Timestamp,
) -> Result<Ring, StoreError> {
    let (past, kept): (Vec<_>, Vec<_>) = ring
        .entries()
        .partition(|entry| ring.is_past(entry, now, KEPT));
    if past.is_empty() {
        return Ok(ring);
    }
    let edits = past.iter().map(|entry| Edit {
        kind: Kind::Key,
        id: entry.id.to_string(),
        expected: None,
        text: None,
    });
    store.edit(edits.collect(), true).await?;
    let kept = kept
        .into_iter()
        .map(|entry| (entry.id.clone(), entry.record.clone()));
    Ok(kept.collect())
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").finish_non_exhaustive()
    }
}
