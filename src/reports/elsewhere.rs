//! What other replicas heard of hosts, beside what we did: the newest heartbeat
//! counts, wherever it came in.

use std::cmp::Ordering;
use std::sync::Arc;

use tracing::{debug, warn};

use super::intake::{Hosts, Intake, Kept};
use super::last::Read;
use crate::broker::Broker;
use crate::placement::HostId;
use crate::store::{Document, Version};

impl Intake {
    /// Takes over what was written of hosts, by whomever; `whole`: it is all
    /// there is, and may be old.
    pub fn follow(&self, broker: &Broker, told: Vec<(HostId, Option<Document>)>, whole: bool) {
        for (host, document) in self.news_among(told) {
            match serde_json::from_str::<Kept>(&document.text) {
                Ok(theirs) => self.hear_elsewhere(broker, &host, (document.version, theirs), whole),
                Err(error) => {
                    warn!(%host, %error, "A report that another replica stored cannot be read");
                }
            }
        }
    }

    /// What is of another writing than we know of.
    fn news_among(&self, told: Vec<(HostId, Option<Document>)>) -> Vec<(HostId, Document)> {
        let mut hosts = self.inner.lock();
        let told = told.into_iter().filter_map(|(host, document)| {
            let known = hosts.known.get_mut(&host);
            let Some(document) = document else {
                // Of a host that nobody configures for long: what we heard stays.
                known.into_iter().for_each(|known| known.version = None);
                return None;
            };
            let version = known.and_then(|known| known.version);
            (version != Some(document.version)).then_some((host, document))
        });
        told.collect()
    }

    fn hear_elsewhere(
        &self,
        broker: &Broker,
        host: &HostId,
        (version, mut theirs): (Version, Kept),
        late: bool,
    ) {
        let (inner, now) = (&self.inner, self.inner.clock.now());
        let directory = Arc::clone(&inner.fleet.snapshot().directory);
        let mut hosts = inner.lock();
        let Hosts { known, due } = &mut *hosts;
        let known = known.entry(host.clone()).or_default();
        known.version = Some(version);
        match theirs.compare(&known.kept) {
            Ordering::Greater => {}
            Ordering::Equal => return known.kept.boots.learn(&theirs.boots),
            Ordering::Less => {
                // They will hear of ours.
                known.kept.boots.learn(&theirs.boots);
                if directory.host(host).is_some() && due.note(host, false, now) {
                    inner.news.notify_one();
                }
                return;
            }
        }
        due.drop(host);
        theirs.boots.learn(&known.kept.boots);
        if let Some(last) = &mut theirs.last {
            last.date(late, now);
            let before = known.kept.last.as_ref().and_then(|last| last.order);
            // Heard apart, two starts may have got one number.
            if last.order.is_some_and(|order| Some(order) <= before) {
                last.order = theirs.boots.outrank();
                if due.note(host, false, now) {
                    inner.news.notify_one();
                }
            }
        }
        known.kept = theirs;
        let configured = directory.host(host).is_some();
        let last = known.kept.last.as_ref().filter(|_| configured);
        let Some(last) = last else {
            return;
        };
        if let Some(Read { report, .. }) = last.read(&directory, host) {
            let received = report.received;
            let taken = broker.hear_elsewhere(host, report, known.kept.since);
            debug!(%host, taken, "Heartbeat was heard at another replica");
            known.kept.is_in_the_picture(inner, host, received);
        }
    }
}

impl Hosts {
    /// Which writing of a host ours is to replace; `None`: whatever there is,
    /// since nobody else writes.
    pub(super) fn expected(&self, host: &HostId) -> Option<Version> {
        let known = self.known.get(host);
        let version = known.and_then(|known| known.version);
        self.due
            .is_shared()
            .then_some(version.unwrap_or(Version::ABSENT))
    }

    /// What to write of a host where this is stored, and in the place of which
    /// version; `None` where that is as new as ours.
    pub(super) fn beside(
        &mut self,
        host: &HostId,
        stored: Option<&Document>,
    ) -> Option<(Version, String)> {
        let known = self.known.get_mut(host)?;
        let version = stored.map_or(Version::ABSENT, |stored| stored.version);
        let theirs = stored.and_then(|stored| serde_json::from_str::<Kept>(&stored.text).ok());
        if let Some(theirs) = theirs {
            match known.kept.compare(&theirs) {
                Ordering::Greater => known.kept.boots.learn(&theirs.boots),
                // It is ours, of which we have not been told yet.
                Ordering::Equal => {
                    known.version = Some(version);
                    return None;
                }
                // It is taken over as soon as we are told of it.
                Ordering::Less => return None,
            }
        }
        let text = serde_json::to_string(&known.kept).ok()?;
        Some((version, text))
    }
}

impl Kept {
    /// Which of both is of the newer heartbeat: by its number where the agent
    /// counts, else by its arrival.
    fn compare(&self, other: &Self) -> Ordering {
        let (Some(ours), Some(theirs)) = (&self.last, &other.last) else {
            return self.last.is_some().cmp(&other.last.is_some());
        };
        let counted = ours.order.is_some() && theirs.order.is_some();
        let by_number = self.boots.compare(&other.boots).filter(|_| counted);
        by_number.unwrap_or_else(|| ours.received.cmp(&theirs.received))
    }
}
