//! A host that is alive and has a key is enrolled anew only once an
//! administrator approves: whoever found a token would take its place.

use tracing::{info, warn};

use super::change::{TRIES, contended, edit, whole};
use super::keyring::Keyring;
use super::line::Act;
use super::record::Record;
use super::{KeyError, KeyId, Listed, RequestError, Role};
use crate::placement::{Actor, Timestamp};
use crate::store::Edited;

impl Keyring {
    /// Whether an enrollment with this token was approved.
    pub fn is_approved(&self, token: &KeyId) -> bool {
        let ring = self.inner.ring.load();
        let entry = ring.get(token.as_str());
        entry.is_some_and(|entry| entry.record.approved_at.is_some())
    }

    /// Notes that an enrollment with this token waits for approval; once, however
    /// often it is asked for. `who` is what the host says of itself.
    ///
    /// # Errors
    /// It cannot be written down.
    pub async fn ask_approval(&self, token: &KeyId, who: &str) -> Result<(), KeyError> {
        let waits = |record: &Record| record.asked_at.is_some();
        if let Some(entry) = self.inner.ring.load().get(token.as_str())
            && waits(&entry.record)
        {
            return Ok(());
        }
        let (keyring, token, who) = (self.clone(), token.clone(), who.to_owned());
        whole(async move {
            let ask = |record: &mut Record, now| {
                let is_news = !waits(record);
                record.asked_at.get_or_insert(now);
                is_news
            };
            let (listed, is_news) = keyring.amend(token, ask).await?;
            if is_news {
                let (key, host) = (&listed.id, listed.role.host());
                let host = host.map(ToString::to_string);
                warn!(%key, host, who, "An enrollment waits for approval");
            }
            Ok(())
        })
        .await
    }

    /// Lets a host that is alive be enrolled with this token. One that was
    /// approved before stays as it is. Takes an id or a whole token, of which
    /// only the id is looked at.
    ///
    /// # Errors
    /// It is no token that is good, or cannot be written down.
    pub async fn approve(&self, id: &str, actor: Actor) -> Result<Listed, KeyError> {
        if let Some(id) = self.configured(id.trim()) {
            return Err(KeyError::NoToken { id });
        }
        let id = KeyId::read(id).ok_or(RequestError::NotAnId)?;
        let keyring = self.clone();
        whole(async move {
            let by = actor.to_string();
            let approve = |record: &mut Record, now| {
                let is_news = record.approved_at.is_none();
                if is_news {
                    record.approved_at = Some(now);
                    record.approved_by = Some(by.clone());
                }
                is_news
            };
            let (listed, is_news) = keyring.amend(id, approve).await?;
            if is_news {
                let ring = keyring.inner.ring.load();
                if let Some(entry) = ring.get(listed.id.as_str()) {
                    keyring.tell(Act::Approved, &entry.id, &entry.record, &actor);
                }
                info!(key = %listed.id, role = %listed.role, %actor, "Enrollment approved");
            }
            Ok(listed)
        })
        .await
    }

    /// Changes what is kept of a token that is good; whether that was news.
    async fn amend(
        &self,
        id: KeyId,
        change: impl Fn(&mut Record, Timestamp) -> bool + Send,
    ) -> Result<(Listed, bool), KeyError> {
        let inner = &self.inner;
        let _writing = inner.writing.lock().await;
        for _ in 0..TRIES {
            let Some((version, mut record)) = self.stored(&id).await? else {
                let near = self.near(&id);
                return Err(KeyError::Unknown { id, near });
            };
            let now = inner.clock.now();
            let is_good = record.ended_at().is_none_or(|end| end > now);
            if !is_good || !matches!(record.role, Role::Enrollment(_)) {
                return Err(KeyError::NoToken { id });
            }
            let is_news = change(&mut record, now);
            if is_news {
                let edit = edit(&id, version, &record);
                if inner.store.edit(vec![edit], true).await? == Edited::Conflict {
                    continue;
                }
            }
            inner.publish([(id.clone(), record)]);
            let ring = inner.ring.load();
            let listed = ring.get(id.as_str()).map(|entry| ring.listed(entry, now));
            let listed = listed.ok_or(KeyError::Unknown { id, near: None })?;
            return Ok((listed, is_news));
        }
        Err(contended().into())
    }
}
