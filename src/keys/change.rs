//! Making and revoking keys: written first, then in force, then answered.

use std::future::Future;
use std::sync::Arc;

use tracing::info;

use super::digest::Digest;
use super::keyring::Keyring;
use super::line::{Act, Line};
use super::listed::Listed;
use super::record::Record;
use super::request::Wanted;
use super::{CreateRequest, Created, KeyError, KeyId, RequestError, Role, text};
use crate::config::Secret;
use crate::placement::{Actor, Directory, Timestamp};
use crate::store::{Edit, Edited, Kind, StoreError, Version};

/// Keys there may be, those that ended among them.
const MOST: usize = 10_000;
/// Tries of a change that somebody else's comes in between.
pub(super) const TRIES: u32 = 8;

/// A key that is to be written.
pub(super) struct Draft {
    pub(super) id: KeyId,
    pub(super) key: Secret,
    pub(super) record: Record,
}

impl Keyring {
    /// Makes a key.
    ///
    /// # Errors
    /// It was asked for wrongly, or cannot be made; nothing was changed, but
    /// where the store fails it may have been made and is then of no use.
    pub async fn create(
        &self,
        request: CreateRequest,
        actor: Actor,
        directory: &Directory,
    ) -> Result<Created, KeyError> {
        let wanted = request.check(self.inner.clock.now(), directory)?;
        let keyring = self.clone();
        whole(async move { keyring.make(wanted, &actor).await }).await
    }

    async fn make(&self, wanted: Wanted, actor: &Actor) -> Result<Created, KeyError> {
        let _writing = self.inner.writing.lock().await;
        self.refuse_surplus(&wanted.role)?;
        for _ in 0..TRIES {
            let draft = self.draft(&wanted, actor)?;
            let written = self.inner.store.edit(vec![draft.edit()], true).await?;
            if written == Edited::Done {
                return Ok(self.made(draft, wanted.warnings, actor, Act::Created));
            }
        }
        Err(contended().into())
    }

    /// A third key of one host would leave open which of the others it replaces.
    fn refuse_surplus(&self, role: &Role) -> Result<(), KeyError> {
        let ring = self.inner.ring.load();
        if ring.len() >= MOST {
            return Err(KeyError::TooMany { limit: MOST });
        }
        let Role::Agent(host) = role else {
            return Ok(());
        };
        match ring.good_of(host, self.inner.clock.now()).as_slice() {
            [first, second, ..] => Err(KeyError::TwoAlready {
                role: role.clone(),
                first: first.id.clone(),
                second: second.id.clone(),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn draft(&self, wanted: &Wanted, actor: &Actor) -> Result<Draft, KeyError> {
        let (id, key) = text::make(&wanted.role)?;
        let newest = match &wanted.role {
            Role::Agent(host) => self.inner.ring.load().newest_of(host),
            _ => None,
        };
        // The newer key is the one made later, whatever the clock says.
        let after = newest.map_or(0, |newest| newest.as_millis().saturating_add(1));
        let now = self.inner.clock.now().max(Timestamp::from_millis(after));
        let record = Record {
            role: wanted.role.clone(),
            digest: Digest::of(key.expose()),
            label: wanted.label.clone(),
            created_by: actor.to_string(),
            created_at: now,
            expires_at: wanted.expires_at,
            revoked_by: None,
            revoked_at: None,
            used_at: None,
            asked_at: None,
            approved_at: None,
            approved_by: None,
        };
        Ok(Draft { id, key, record })
    }

    pub(super) fn made(
        &self,
        draft: Draft,
        warnings: Vec<String>,
        actor: &Actor,
        act: Act,
    ) -> Created {
        let Draft { id, key, record } = draft;
        let (role, expires_at) = (record.role.clone(), record.expires_at);
        info!(key = %id, %role, label = record.label, %actor, "Key created");
        self.tell(act, &id, &record, actor);
        self.inner.publish([(id.clone(), record)]);
        Created {
            id,
            role,
            expires_at,
            key,
            warnings,
        }
    }

    /// Ends a key at once. One that was revoked before stays as it is. Takes an
    /// id or a whole key, of which only the id is looked at.
    ///
    /// # Errors
    /// There is no such key, or it cannot be written that it has ended.
    pub async fn revoke(&self, id: &str, actor: Actor) -> Result<Listed, KeyError> {
        if let Some(id) = self.configured(id.trim()) {
            return Err(KeyError::Configured { id });
        }
        let id = KeyId::read(id).ok_or(RequestError::NotAnId)?;
        let keyring = self.clone();
        whole(async move { keyring.end(id, &actor).await }).await
    }

    async fn end(&self, id: KeyId, actor: &Actor) -> Result<Listed, KeyError> {
        let inner = &self.inner;
        let _writing = inner.writing.lock().await;
        for _ in 0..TRIES {
            let Some((version, mut record)) = self.stored(&id).await? else {
                let near = self.near(&id);
                return Err(KeyError::Unknown { id, near });
            };
            let is_news = record.revoked_at.is_none();
            if is_news {
                record.revoked_at = Some(inner.clock.now());
                record.revoked_by = Some(actor.to_string());
                let edit = edit(&id, version, &record);
                if inner.store.edit(vec![edit], true).await? == Edited::Conflict {
                    continue;
                }
                info!(key = %id, role = %record.role, label = record.label, %actor, "Key revoked");
                self.tell(Act::Revoked, &id, &record, actor);
            }
            inner.publish([(id.clone(), record)]);
            let ring = inner.ring.load();
            let entry = ring.get(id.as_str());
            let listed = entry.map(|entry| ring.listed(entry, inner.clock.now()));
            return listed.ok_or(KeyError::Unknown { id, near: None });
        }
        Err(contended().into())
    }

    /// A key as it is in the store; one that cannot be read counts as none.
    pub(super) async fn stored(&self, id: &KeyId) -> Result<Option<(Version, Record)>, StoreError> {
        let document = self.inner.store.document(Kind::Key, id.as_str()).await?;
        let known = document.and_then(|document| {
            let record = Record::read(&document.text)?;
            Some((document.version, record))
        });
        Ok(known)
    }

    /// The known id that differs least.
    pub(super) fn near(&self, id: &KeyId) -> Option<KeyId> {
        const SLIPS: usize = 3;
        let ring = self.inner.ring.load();
        let known = ring.entries().map(|entry| &entry.id);
        let distances =
            known.map(|known| (strsim::osa_distance(id.as_str(), known.as_str()), known));
        let near = distances.filter(|(distance, _)| *distance <= SLIPS).min();
        near.map(|(_, known)| known.clone())
    }

    pub(super) fn tell(&self, act: Act, id: &KeyId, record: &Record, actor: &Actor) {
        if let Some(audit) = &self.audit {
            let at = self.inner.clock.now();
            audit.tell(Arc::new(Line::new(at, act, id, record, actor)));
        }
    }
}

impl Draft {
    pub(super) fn edit(&self) -> Edit {
        edit(&self.id, Version::ABSENT, &self.record)
    }
}

pub(super) fn edit(id: &KeyId, expected: Version, record: &Record) -> Edit {
    Edit {
        kind: Kind::Key,
        id: id.to_string(),
        expected: Some(expected),
        text: Some(record.text()),
    }
}

pub(super) fn contended() -> StoreError {
    StoreError::Failed {
        reason: "somebody else changed the key each time".to_owned(),
    }
}

/// Runs to its end even where whoever asked has left: a key that is revoked on
/// disk must not stay good in memory.
pub(super) async fn whole<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<KeyError> + Send + 'static,
{
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|_| Err(KeyError::from(StoreError::Closed).into()))
}
