//! The list of our tunnels that no lease record tells of, for other replicas:
//! their users are not known yet, or not believed, or on the way past us.
//!
//! It is written [`LATE`] after a change at most, so that what other replicas
//! count of such tunnels is off by those of the last half second. Nobody who is
//! known by name is counted that way.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::fleet::{Fleet, Guest};
use crate::placement::{RENEWAL, ReplicaId};
use crate::store::{Document, Documents, Edit, Kind, StoreError};

/// Between two writings.
const LATE: Duration = Duration::from_millis(250);

/// As it is stored, under the replica's id.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    tunnels: Vec<Guest>,
}

/// The task that writes it.
pub struct GuestList<S> {
    /// Where to.
    pub store: Arc<S>,
    /// Whose tunnels.
    pub fleet: Arc<Fleet>,
    /// Who we are.
    pub me: ReplicaId,
    /// For ages.
    pub clock: Clock,
}

impl<S: Documents> GuestList<S> {
    /// Runs until it is told to stop, and then takes the list away.
    pub async fn run(self, stop: CancellationToken) {
        let mut told: Vec<Guest> = Vec::new();
        // Renewed in time it is never taken for that of a replica that is gone.
        let (mut renewed, mut failing) = (Instant::now(), false);
        while !stop.is_cancelled() {
            let seen = self.fleet.snapshot().generation;
            let guests = self.fleet.guests(self.clock.now());
            let same = guests.len() == told.len()
                && guests
                    .iter()
                    .zip(&told)
                    .all(|(one, other)| one.is_like(other));
            let due = !guests.is_empty() && renewed.elapsed() >= RENEWAL;
            if !same || due {
                match self.write(&guests).await {
                    Ok(()) => {
                        (told, renewed) = (guests, Instant::now());
                        if failing {
                            info!("Tunnels without a lease are told to other replicas again");
                        }
                        failing = false;
                    }
                    Err(error) => {
                        if !failing {
                            warn!(%error, "Tunnels without a lease cannot be told to other replicas");
                        }
                        failing = true;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(LATE) => {}
            }
            tokio::select! {
                () = stop.cancelled() => break,
                _ = timeout(RENEWAL / 3, self.fleet.newer_than(seen)) => {}
            }
        }
        if !told.is_empty()
            && let Err(error) = self.write(&[]).await
        {
            debug!(%error, "The list of tunnels without a lease is left to run out");
        }
    }

    /// Nobody else writes this one.
    async fn write(&self, guests: &[Guest]) -> Result<(), StoreError> {
        let text = match guests {
            [] => None,
            guests => {
                let tunnels = guests.to_vec();
                let text = serde_json::to_string(&Stored { tunnels });
                Some(text.map_err(|error| StoreError::Failed {
                    reason: error.to_string(),
                })?)
            }
        };
        let edit = Edit {
            kind: Kind::Guests,
            id: self.me.to_string(),
            expected: None,
            text,
        };
        self.store.edit(vec![edit], false).await.map(|_| ())
    }
}

/// The tunnels of such a list.
pub(super) fn read(document: &Document) -> Result<Vec<Guest>, serde_json::Error> {
    let stored: Stored = serde_json::from_str(&document.text)?;
    Ok(stored.tunnels)
}

impl<S> std::fmt::Debug for GuestList<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestList").finish_non_exhaustive()
    }
}
