//! What an administrator asks of leases and users.

use super::Broker;
use crate::placement::{Claims, FarmId, HostId, LeaseKey, LeaseRecord, TunnelId, UserKey};
use crate::store::StoreError;

/// What became of leases that were to be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// These are released, each with its host.
    Done(Vec<(FarmId, HostId)>),
    /// There is none.
    Nothing,
    /// These tunnels rely on them still; nothing was released.
    InUse(Vec<TunnelId>),
}

impl Broker {
    /// Who somebody is by the identity rules, where no farm has its own say.
    pub fn known_as(&self, claims: &Claims) -> Option<UserKey> {
        let snapshot = self.fleet.snapshot();
        let rules = snapshot.directory.rules();
        let home = rules.default_domain.as_deref();
        claims.who(rules, home, &snapshot.people).user
    }

    /// At most so many lease records whose keys come after this one, in key
    /// order; some may hold nothing but history.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn leases(
        &self,
        after: Option<&LeaseKey>,
        most: usize,
    ) -> Result<Vec<(LeaseKey, LeaseRecord)>, StoreError> {
        let known = self.leases.store.after(after, most).await?;
        let records = known.into_iter();
        Ok(records.map(|(key, known)| (key, known.record)).collect())
    }

    /// One key's lease record; an empty one where none is stored.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn lease(&self, key: &LeaseKey) -> Result<LeaseRecord, StoreError> {
        Ok(self.leases.read(key).await?.record)
    }

    /// Releases a key's leases, or one farm's alone, durably; all or none.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn release(
        &self,
        key: &LeaseKey,
        farm: Option<&FarmId>,
    ) -> Result<Released, StoreError> {
        loop {
            let known = self.leases.read(key).await?;
            let (mut record, now) = (known.record, self.clock.now());
            let meant = record.views(now);
            let meant = meant.filter(|view| farm.is_none_or(|farm| view.farm == farm));
            let meant: Vec<_> = meant
                .map(|view| (view.farm.clone(), view.host.clone()))
                .collect();
            if meant.is_empty() {
                return Ok(Released::Nothing);
            }
            let holders = meant.iter().flat_map(|(farm, _)| record.holders(farm, now));
            let holders: Vec<_> = holders.cloned().collect();
            if !holders.is_empty() {
                return Ok(Released::InUse(holders));
            }
            for (farm, _) in &meant {
                record.release(farm, now);
            }
            if self
                .leases
                .write(key, known.version, record, None)
                .await?
                .is_done()
            {
                return Ok(Released::Done(meant));
            }
        }
    }
}
