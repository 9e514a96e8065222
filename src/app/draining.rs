//! The wait for open tunnels.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::running::LAST_WORDS;
use crate::replicas::Predecessors;

/// Waits for the tunnels to end by themselves, then makes them. Processes that we
/// took over from are waited for alike: they have no other store than ours.
pub(super) async fn drain(
    tunnels: &TaskTracker,
    predecessors: &Predecessors,
    end: &CancellationToken,
    patience: Duration,
) {
    let processes = predecessors.count();
    if !tunnels.is_empty() || processes > 0 {
        info!(tunnels = tunnels.len(), processes, patience = ?patience, "Waiting for open tunnels");
    }
    let ended = async { tokio::join!(tunnels.wait(), predecessors.gone()) };
    tokio::select! {
        _ = ended => return,
        () = end.cancelled() => {}
        () = tokio::time::sleep(patience) => {
            info!(reason = "drain_timeout", "Ending open tunnels");
            end.cancel();
        }
    }
    let ended = async {
        predecessors.end_all().await;
        tokio::join!(tunnels.wait(), predecessors.gone())
    };
    if timeout(LAST_WORDS, ended).await.is_err() {
        warn!(
            tunnels = tunnels.len(),
            "Some tunnels did not end in time and are cut"
        );
    }
}
