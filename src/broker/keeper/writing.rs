//! What the keeper knows, as it is written into lease records.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Claim, Kept, Leases};
use crate::broker::leases::changed;
use crate::placement::{HostId, LeaseRecord, Timestamp, Trust};
use crate::store::StoreError;

impl Leases {
    /// Removes from every record what has run out.
    pub(in crate::broker) async fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut pages = self.pages();
        while let Some(page) = pages.next(self).await? {
            let expire = |record: &mut LeaseRecord| record.expire(now);
            let outdated = page
                .into_iter()
                .filter(|(_, known)| changed(&known.record, expire).is_some());
            let keys = outdated.map(|(key, _)| key);
            self.update_all(keys, expire).await?;
        }
        Ok(())
    }

    /// Writes what is known of a tunnel at `asked`. Where another tunnel holds
    /// the lease on another host, that.
    pub(super) async fn tell(
        &self,
        kept: &Kept,
        lease: Duration,
        asked: Instant,
    ) -> Result<Option<HostId>, StoreError> {
        let now = self.clock.now();
        let Kept { claim, state, .. } = kept;
        let Claim {
            farm,
            host,
            tunnel,
            user,
            ..
        } = &**claim;
        let confirmed = state.is_confirmed(asked);
        let elsewhere = Mutex::new(None);
        let written = self.update(&claim.key, |record| {
            let mut found = None;
            // Believed once, it stays so, even where its hold has run out.
            let trust = match state.doubtful && !confirmed {
                true => Trust::Doubtful,
                false => Trust::Plain,
            };
            if confirmed {
                record.confirm(tunnel);
            }
            let counts = state.stood.is_some() || state.ended.is_none();
            if counts && !record.tunnels(now).any(|known| known == tunnel) {
                // Its hold ran out while we were stopped or the store was away,
                // or in doubt it went without one. Where another tunnel holds
                // the lease elsewhere it still does.
                if !record.claim(farm, host, tunnel, trust, now) {
                    found = record.view(farm, now).map(|view| view.host.clone());
                }
                claim.tell_origin(record);
            }
            if state.stood.is_some() {
                record.stood(tunnel, user, lease, now);
            } else if state.ended.is_none() {
                record.renew_claim(tunnel, now);
            }
            if state.ended.is_some() {
                record.end(tunnel, lease, now);
            }
            *elsewhere.lock().unwrap_or_else(PoisonError::into_inner) = found;
        });
        written.await?;
        Ok(elsewhere
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner))
    }
}
