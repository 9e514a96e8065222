//! What becomes of a lease that nobody holds when a host's report lacks its
//! user. A lease that a tunnel holds is the tunnel's: no report moves it.

use std::time::Duration;

use super::{Lease, LeaseRecord, Past};
use crate::placement::hearing::was_left_by;
use crate::placement::ids::{FarmId, HostId};
use crate::placement::time::Timestamp;

impl LeaseRecord {
    /// The user signed out on `host` by the moment `taken`: leases left there
    /// before are released. History stays. False where there was none.
    pub fn sign_out(
        &mut self,
        host: &HostId,
        taken: Timestamp,
        lease: Duration,
        now: Timestamp,
    ) -> bool {
        self.expire(now);
        let before = self.leases.len();
        self.leases
            .retain(|_, known| !known.was_left_on(host, taken, lease));
        let mut released = self.leases.len() != before;
        for known in self.leases.values_mut() {
            // A claim that has not stood would put it back.
            let old = known
                .replaced
                .take_if(|old| &old.host == host && was_left_by(old.until, lease, taken));
            released |= old.is_some();
        }
        released
    }

    /// The user is on `to` and was not on `from` at the moment `taken`: leases
    /// left there before follow, in the farms that `to` is in. False where none
    /// did.
    pub fn follow(
        &mut self,
        (from, to): (&HostId, &HostId),
        in_farm: impl Fn(&FarmId) -> bool,
        taken: Timestamp,
        lease: Duration,
        now: Timestamp,
    ) -> bool {
        self.expire(now);
        let left = self.leases.iter_mut();
        let mut followed = false;
        for (farm, known) in left.filter(|(farm, _)| in_farm(farm)) {
            if known.was_left_on(from, taken, lease) {
                known.host = to.clone();
                let host = to.clone();
                self.history.insert(farm.clone(), Past { host, at: now });
                followed = true;
            }
        }
        followed
    }
}

impl Lease {
    /// Whether it lingers on that host, without a tunnel, since then or longer.
    fn was_left_on(&self, host: &HostId, taken: Timestamp, lease: Duration) -> bool {
        let until = self.lingers_until.filter(|_| self.holders.is_empty());
        &self.host == host && until.is_some_and(|until| was_left_by(until, lease, taken))
    }
}
