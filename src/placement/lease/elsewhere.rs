//! What a record tells of tunnels that are open at other replicas: as much as
//! it takes to count them as if they were open here.

use serde::{Deserialize, Serialize};

use super::{CLAIM, Holder, Lease, LeaseRecord};
use crate::placement::aim::Trust;
use crate::placement::ids::{FarmId, HostId, ReplicaId, ResourceId, TunnelId};
use crate::placement::lease_key::LeaseKey;
use crate::placement::snapshot::TunnelView;
use crate::placement::time::Timestamp;

/// Where a tunnel is open, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// At which replica.
    pub replica: ReplicaId,
    /// The resource it was placed for; `None` where any host would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceId>,
    /// When it was placed.
    pub since: Timestamp,
    /// When its RDP connection stood; `None` while pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood: Option<Timestamp>,
}

/// A tunnel that is open at another replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// On which host.
    pub host: HostId,
    /// When its hold expires unless renewed.
    pub until: Timestamp,
    /// As it counts there.
    pub tunnel: TunnelView,
}

impl Origin {
    pub(super) fn shift(&mut self, shift: impl Fn(&mut Timestamp)) {
        shift(&mut self.since);
        self.stood.iter_mut().for_each(shift);
    }
}

impl LeaseRecord {
    /// Tells others where a tunnel that holds a lease here is open. When it
    /// stood is kept where that is known already.
    pub fn tell_origin(&mut self, tunnel: &TunnelId, origin: &Origin) {
        for holder in self.holders_of(tunnel) {
            let known = holder.origin.as_ref().and_then(|known| known.stood);
            let stood = known.or(origin.stood);
            let origin = origin.clone();
            holder.origin = Some(Origin { stood, ..origin });
        }
    }

    pub(super) fn note_stood(&mut self, tunnel: &TunnelId, now: Timestamp) {
        for holder in self.holders_of(tunnel) {
            if let Some(origin) = &mut holder.origin {
                origin.stood.get_or_insert(now);
            }
        }
    }

    fn holders_of(&mut self, tunnel: &TunnelId) -> impl Iterator<Item = &mut Holder> {
        let holders = self.leases.values_mut().flat_map(|l| &mut l.holders);
        holders.filter(move |holder| &holder.tunnel == tunnel)
    }

    /// The tunnels of this key that are open at other replicas than `me`.
    pub fn elsewhere(&self, key: &LeaseKey, me: &ReplicaId, now: Timestamp) -> Vec<Elsewhere> {
        let leases = self.leases.iter();
        let held = leases.flat_map(|(farm, lease)| {
            let holders = lease.holders.iter();
            holders.map(move |holder| (farm, lease, holder))
        });
        let open = held.filter(|(_, _, holder)| {
            let is_mine = holder.origin.as_ref().is_some_and(|o| &o.replica == me);
            !is_mine && holder.until > now
        });
        open.map(|(farm, lease, holder)| holder.seen_from_elsewhere(key, farm, lease))
            .collect()
    }
}

impl Holder {
    fn seen_from_elsewhere(&self, key: &LeaseKey, farm: &FarmId, lease: &Lease) -> Elsewhere {
        // One of a release that did not tell: placed no later than its claim.
        let untold = self.until - CLAIM;
        let origin = self.origin.as_ref();
        let since = origin.map_or(untold, |origin| origin.since);
        let stood = origin.map_or(Some(untold), |origin| origin.stood.or(Some(since)));
        Elsewhere {
            host: lease.host.clone(),
            until: self.until,
            tunnel: TunnelView {
                tunnel: self.tunnel.clone(),
                user: Some(key.user()),
                key: Some(key.clone()),
                trust: match self.doubtful {
                    true => Trust::Doubtful,
                    false => Trust::Plain,
                },
                farm: farm.clone(),
                resource: origin.and_then(|origin| origin.resource.clone()),
                since,
                stood: stood.filter(|_| self.stood),
                elsewhere: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::placement::UserKey;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn ann() -> (UserKey, LeaseKey) {
        let user = UserKey::new("ann", "corp").unwrap();
        let key = LeaseKey::of_user(&user);
        (user, key)
    }

    fn origin(replica: &str) -> Origin {
        Origin {
            replica: replica.into(),
            resource: Some("desktop".into()),
            since: NOW,
            stood: None,
        }
    }

    fn claimed(tunnel: &str, replica: &str, trust: Trust) -> LeaseRecord {
        let mut record = LeaseRecord::default();
        let tunnel = TunnelId::from(tunnel);
        assert!(record.claim(&"office".into(), &"a".into(), &tunnel, trust, NOW));
        record.tell_origin(&tunnel, &origin(replica));
        record
    }

    #[test]
    fn others_count_a_tunnel_as_the_replica_does_that_has_it() {
        let (user, key) = ann();
        let mut record = claimed("t1", "one", Trust::Plain);
        assert!(record.elsewhere(&key, &"one".into(), NOW).is_empty());
        let told = record.elsewhere(&key, &"two".into(), NOW);
        let pending = TunnelView {
            tunnel: "t1".into(),
            key: Some(key.clone()),
            user: Some(user.clone()),
            trust: Trust::Plain,
            farm: "office".into(),
            resource: Some("desktop".into()),
            since: NOW,
            stood: None,
            elsewhere: true,
        };
        assert_eq!(told.len(), 1);
        assert_eq!(
            (&told[0].host, &told[0].tunnel),
            (&HostId::from("a"), &pending)
        );
        let later = NOW + Duration::from_secs(3);
        record.stood(&"t1".into(), &user, HOUR, later);
        record.stood(&"t1".into(), &user, HOUR, later + HOUR / 3);
        let told = record.elsewhere(&key, &"two".into(), later + HOUR / 3);
        assert_eq!(told[0].tunnel.stood, Some(later), "the first time counts");
        assert_eq!(told[0].until, later + HOUR / 3 + HOUR);
        record.end(&"t1".into(), HOUR, later);
        assert!(record.elsewhere(&key, &"two".into(), later).is_empty());
    }

    #[test]
    fn what_a_killed_replica_left_runs_out_by_itself() {
        let (_, key) = ann();
        let record = claimed("t1", "one", Trust::Doubtful);
        let told = record.elsewhere(&key, &"two".into(), NOW + CLAIM / 2);
        assert_eq!(told[0].tunnel.trust, Trust::Doubtful);
        assert!(
            record
                .elsewhere(&key, &"two".into(), NOW + CLAIM)
                .is_empty()
        );
    }

    #[test]
    fn a_holder_of_a_release_that_told_no_origin_counts_all_the_same() {
        let (_, key) = ann();
        let mut record = LeaseRecord::default();
        assert!(record.claim(
            &"office".into(),
            &"a".into(),
            &"t1".into(),
            Trust::Plain,
            NOW
        ));
        let text = serde_json::to_string(&record).unwrap();
        assert!(!text.contains("origin"), "{text}");
        let told = record.elsewhere(&key, &"two".into(), NOW);
        assert_eq!((told[0].tunnel.since, told[0].tunnel.stood), (NOW, None));
    }

    #[test]
    fn an_origin_is_read_back_and_goes_by_the_other_clock() {
        let record = claimed("t1", "one", Trust::Plain);
        let text = serde_json::to_string(&record).unwrap();
        let back: LeaseRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(back, record);
        let (_, key) = ann();
        let shifted = record.shifted(1000);
        let told = shifted.elsewhere(&key, &"two".into(), NOW);
        assert_eq!(told[0].tunnel.since, NOW + Duration::from_secs(1));
    }
}
