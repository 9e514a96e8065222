//! The process that took over, towards one that goes on beside it: makes its
//! calls of the store, and asks it what only it knows.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info};

use super::channel::Channel;
use super::message::{New, Old};
use crate::replicas::Predecessors;
use crate::store::{self, Movable};

/// Questions that may wait to be sent.
const QUESTIONS: usize = 64;

/// Who came.
pub(super) struct Visit {
    /// The how manieth: what it writes is known by that.
    pub(super) number: u64,
    pub(super) joins: Option<SocketAddr>,
    /// Its store is ours.
    pub(super) is_known: bool,
    pub(super) store: Option<Movable>,
    pub(super) predecessors: Predecessors,
}

/// Until it goes, or `leaving`: then every call that was read is answered first.
pub(super) async fn serve(mut channel: Channel, visit: Visit, leaving: CancellationToken) {
    let by = channel.peer();
    if !visit.is_known {
        let reason = "it has another store".to_owned();
        let _ = channel.send(&New::Refused { reason }).await;
        return;
    }
    let (asked, mut questions) = mpsc::channel(QUESTIONS);
    let there = visit.predecessors.add(visit.joins, asked);
    if channel.send(&New::Welcome).await.is_err() {
        return;
    }
    info!(
        process = by,
        "A process whose tunnels go on is beside this one"
    );
    let speaker = channel.speaker();
    let (calls, mut waiting) = (
        TaskTracker::new(),
        HashMap::<u64, oneshot::Sender<Value>>::new(),
    );
    let mut last = 0;
    let ended = loop {
        tokio::select! {
            () = leaving.cancelled() => break None,
            message = channel.next() => match message {
                Ok(Old::Call(number, call)) => {
                    let (store, speaker) = (visit.store.clone(), speaker.clone());
                    let writer = visit.number;
                    calls.spawn(async move {
                        let Some(store) = store else { return };
                        if let Some(told) = store::answer(&store, writer, *call).await {
                            // It is gone: it asks again, elsewhere.
                            let _ = speaker.send(&New::Told(number, told.into()), &[]).await;
                        }
                    });
                }
                Ok(Old::Answer(number, value)) => {
                    if let Some(answer) = waiting.remove(&number) {
                        let _ = answer.send(value);
                    }
                }
                Err(error) => break Some(error),
            },
            Some((question, answer)) = questions.recv() => {
                last += 1;
                waiting.retain(|_, answer| !answer.is_closed());
                waiting.insert(last, answer);
                if let Err(error) = speaker.send(&New::Ask(last, question), &[]).await {
                    break Some(error);
                }
            }
        }
    };
    drop(there);
    calls.close();
    calls.wait().await;
    match ended {
        None => {
            let _ = speaker.send(&New::Leaving, &[]).await;
        }
        Some(error) => debug!(process = by, %error, "A process beside this one has gone"),
    }
}
