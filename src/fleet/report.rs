//! Takes a host's report over into the live picture, and says what it means.

use std::sync::Arc;

use super::Fleet;
use crate::placement::{
    Finding, HostId, Report, Timestamp, Trust, findings, is_silent, most_at_first,
};

impl Fleet {
    /// Takes over what a host's agent reports. What that means for our tunnels
    /// is in the picture at once; what it means for leases is for whoever
    /// writes them. `None` where a newer report is known, or nothing of the
    /// host at all.
    pub fn note_report(
        &self,
        host: &HostId,
        report: Report,
        now: Timestamp,
    ) -> Option<Vec<Finding>> {
        self.take_report(host, report, None, now)
    }

    /// The same of what a host said last before we started, which was heard
    /// first at `since`: whoever is in it is no news.
    pub fn note_kept_report(
        &self,
        host: &HostId,
        report: Report,
        since: Timestamp,
        now: Timestamp,
    ) -> Option<Vec<Finding>> {
        self.take_report(host, report, Some(since), now)
    }

    fn take_report(
        &self,
        host: &HostId,
        report: Report,
        known_since: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Vec<Finding>> {
        self.change_if(|state| {
            let was_silent = is_silent(&state.snapshot, host, now);
            let mut news = false;
            let people = Arc::clone(&state.snapshot.people);
            let is_first = || {
                let view = state.snapshot.hosts.get(host);
                known_since.is_none() && view.is_some_and(|view| view.report.is_none())
            };
            let most = is_first().then(|| most_at_first(&state.snapshot, host, now));
            state.host(host, |view| {
                view.heard_since = view.heard_since.or(known_since);
                news = view.hear(report, most.flatten(), |user| people.was_on(user, host));
                if news && was_silent {
                    view.usable_since = Some(now);
                }
            });
            if !news {
                return (false, None);
            }
            let found = findings(&state.snapshot, host, now);
            for finding in &found {
                match finding {
                    Finding::Shown(tunnel) => {
                        state.tunnel(host, tunnel, |known| known.trust = Trust::Plain);
                    }
                    Finding::Tagged {
                        tunnel, user, key, ..
                    } => state.tunnel(host, tunnel, |known| {
                        known.user = Some(user.clone());
                        known.key = Some(key.clone());
                    }),
                    Finding::Moved { .. } | Finding::SignedOut { .. } => {}
                }
            }
            (true, Some(found))
        })
    }
}
