//! What a record is worth to a user who is believed: tunnels of people who only
//! say to be that user are no part of it.
//!
//! One host a user is a promise to a person: the profile is loaded once. Whoever
//! merely names the user may be anybody, so a claim in doubt neither steers nor
//! bars the user, and the user's own claim elsewhere takes the lease from it.
//! Should it turn out to be the same person after all, it is believed without
//! the lease, and the lease stays where the believed tunnel is.

use std::borrow::Cow;

use super::{Lease, LeaseRecord};
use crate::placement::ids::{HostId, TunnelId};

impl LeaseRecord {
    /// The record as if no tunnel in doubt were there.
    pub fn without_doubt(&self) -> Cow<'_, Self> {
        let doubted = |lease: &Lease| lease.holders.iter().any(|holder| holder.doubtful);
        if !self.leases.values().any(doubted) {
            return Cow::Borrowed(self);
        }
        let mut record = self.clone();
        record.leases.values_mut().for_each(Lease::drop_doubtful);
        Cow::Owned(record)
    }
}

impl Lease {
    /// Whether another tunnel keeps a claim on `host` away: a believed one
    /// does; one in doubt keeps only others in doubt away.
    pub(super) fn is_held_elsewhere(
        &self,
        host: &HostId,
        tunnel: &TunnelId,
        doubtful: bool,
    ) -> bool {
        let mut others = self.holders.iter().filter(|h| &h.tunnel != tunnel);
        &self.host != host && others.any(|h| doubtful || !h.doubtful)
    }

    /// Tunnels in doubt go without this lease.
    pub(super) fn drop_doubtful(&mut self) {
        self.holders.retain(|holder| !holder.doubtful);
        self.put_down(None);
    }
}
