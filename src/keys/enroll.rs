//! An enrollment token is exchanged for its host's key, once.

use super::change::{TRIES, contended, edit, whole};
use super::keyring::Keyring;
use super::line::Act;
use super::record::Record;
use super::request::Wanted;
use super::{Created, EnrollError, KeyError, KeyId, Rejected, Role};
use crate::placement::{Actor, HostId, Timestamp};
use crate::store::{Edit, Edited, StoreError, Version};

/// A key that ends in the same write.
struct Surplus {
    id: KeyId,
    version: Version,
    record: Record,
}

impl Keyring {
    /// Exchanges a token for a key of the host that it was made for. That it is
    /// used and that the key exists is one conditional write: of two that come
    /// at the same instant, on one replica or on two, one gets a key.
    ///
    /// Where the host has two keys, the one less lately used ends with it.
    /// Whether a host that is alive may enroll anew is the caller's to decide,
    /// by [`Keyring::verify`], before this.
    ///
    /// # Errors
    /// The token is not accepted, or the store fails.
    pub async fn enroll(&self, token: &str) -> Result<Created, EnrollError> {
        let identity = self.verify(token)?;
        let Role::Enrollment(host) = identity.role else {
            return Err(Rejected.into());
        };
        let keyring = self.clone();
        whole(async move { keyring.exchange(identity.key, host).await }).await
    }

    async fn exchange(&self, token: KeyId, host: HostId) -> Result<Created, EnrollError> {
        let failed = |error: StoreError| EnrollError::from(KeyError::from(error));
        let inner = &self.inner;
        let _writing = inner.writing.lock().await;
        let actor = Actor::Key {
            id: token.to_string(),
        };
        for _ in 0..TRIES {
            let now = inner.clock.now();
            let stored = self.stored(&token).await.map_err(failed)?;
            let (version, mut used) = stored.ok_or(Rejected)?;
            if used.ended_at().is_some_and(|end| end <= now) {
                // Perhaps another replica's doing, of which we learn here.
                inner.publish([(token, used)]);
                return Err(Rejected.into());
            }
            used.used_at = Some(now);
            let wanted = Wanted {
                role: Role::Agent(host.clone()),
                label: used.label.clone(),
                expires_at: None,
                warnings: Vec::new(),
            };
            let draft = self.draft(&wanted, &actor)?;
            let surplus = self.surplus(&host, now, &actor).await.map_err(failed)?;
            let mut edits: Vec<Edit> = vec![edit(&token, version, &used), draft.edit()];
            let ended = surplus
                .iter()
                .map(|old| edit(&old.id, old.version, &old.record));
            edits.extend(ended);
            if inner.store.edit(edits, true).await.map_err(failed)? == Edited::Conflict {
                continue;
            }
            inner.publish([(token, used)]);
            for old in surplus {
                tracing::info!(key = %old.id, role = %old.record.role, %actor, "Key revoked");
                self.tell(Act::Revoked, &old.id, &old.record, &actor);
                inner.publish([(old.id, old.record)]);
            }
            return Ok(self.made(draft, Vec::new(), &actor, Act::Enrolled));
        }
        Err(failed(contended()))
    }

    /// What the host has beyond one key beside the new one: those used least
    /// lately, so that an agent whose answer is lost on the way goes on with
    /// the key it has.
    async fn surplus(
        &self,
        host: &HostId,
        now: Timestamp,
        actor: &Actor,
    ) -> Result<Vec<Surplus>, StoreError> {
        let ids = {
            let ring = self.inner.ring.load();
            let mut good = ring.good_of(host, now);
            good.sort_by_key(|entry| {
                (
                    entry.last_used(),
                    entry.first_used(),
                    entry.record.created_at,
                )
            });
            good.pop();
            good.into_iter()
                .map(|entry| entry.id.clone())
                .collect::<Vec<_>>()
        };
        let mut surplus = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some((version, mut record)) = self.stored(&id).await? {
                record.revoked_at = Some(now);
                record.revoked_by = Some(actor.to_string());
                surplus.push(Surplus {
                    id,
                    version,
                    record,
                });
            }
        }
        Ok(surplus)
    }
}
