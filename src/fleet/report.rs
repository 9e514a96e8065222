//! Takes a host's report over into the live picture, and says what it means.

use std::sync::Arc;

use super::Fleet;
use crate::placement::{Finding, HostId, Report, Timestamp, Trust, findings, is_silent};

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
        self.change_if(|state| {
            let was_silent = is_silent(&state.snapshot, host, now);
            let mut news = false;
            let people = Arc::clone(&state.snapshot.people);
            state.host(host, |view| {
                news = view.hear(report, |user| people.was_on(user, host));
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
