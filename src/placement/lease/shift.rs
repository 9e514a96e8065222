//! A record as another clock dates it.

use super::LeaseRecord;
use crate::placement::Timestamp;

impl LeaseRecord {
    /// The same record with every moment in it later by so many milliseconds,
    /// earlier where that is negative: what one clock wrote, as another that is
    /// ahead by that much would have.
    #[must_use]
    pub fn shifted(mut self, millis: i64) -> Self {
        let shift = |at: &mut Timestamp| *at = at.shifted(millis);
        for lease in self.leases.values_mut() {
            lease.lingers_until.iter_mut().for_each(shift);
            for holder in &mut lease.holders {
                shift(&mut holder.until);
                holder.origin.iter_mut().for_each(|o| o.shift(shift));
            }
            lease
                .replaced
                .iter_mut()
                .for_each(|old| shift(&mut old.until));
        }
        self.history
            .values_mut()
            .for_each(|past| shift(&mut past.at));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::placement::{FarmId, HostId, Trust, TunnelId, UserKey};

    const HOUR: Duration = Duration::from_secs(3600);

    fn record(at: Timestamp) -> LeaseRecord {
        let (farm, user) = (FarmId::from("office"), UserKey::new("ann", "corp").unwrap());
        let mut record = LeaseRecord::default();
        for (host, tunnel) in [("a", "t1"), ("b", "t2")] {
            let (host, tunnel) = (HostId::from(host), TunnelId::from(tunnel));
            assert!(record.claim(&farm, &host, &tunnel, Trust::Plain, at));
            if tunnel == TunnelId::from("t1") {
                record.stood(&tunnel, &user, HOUR, at);
                record.end(&tunnel, HOUR, at);
            }
        }
        record
    }

    #[test]
    fn a_record_of_a_clock_that_is_ahead_is_that_of_a_later_moment() {
        let at = Timestamp::from_millis(1_800_000_000_000);
        let ahead = i64::try_from(HOUR.as_millis()).unwrap();
        let there = record(at).shifted(ahead);
        assert_eq!(there, record(at + HOUR));
        assert_ne!(there, record(at));
        assert_eq!(there.shifted(-ahead), record(at));
    }
}
