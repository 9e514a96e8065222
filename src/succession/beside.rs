//! The process that was taken over from, for as long as it has tunnels: its
//! leases are in a store that another process owns, and that one asks it what
//! only it knows.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::channel::Channel;
use super::message::{Hello, Kept, New, Old};
use crate::replicas::Question;
use crate::store::{Call, Errand, Movable, Told};

/// Between two tries to reach whoever serves the admin socket.
const AGAIN: Duration = Duration::from_millis(25);

/// How long it may take to say whether we are welcome.
const WELCOME: Duration = Duration::from_secs(5);

/// Calls that may wait; more wait with their caller.
const CALLS: usize = 256;

/// What answers for us.
pub type Own = Arc<dyn Fn(&Question) -> Value + Send + Sync>;

/// The task that stays in touch.
pub struct Beside {
    /// The admin socket.
    pub path: PathBuf,
    /// The embedded store; `None` where it is a database.
    pub store: Option<Movable>,
    /// Where we take joins of our tunnels.
    pub joins: Option<SocketAddr>,
    /// What answers for us.
    pub own: Own,
}

/// Calls by their number that were not answered yet.
type Unanswered = BTreeMap<u64, Errand>;

/// Why the way ended.
enum End {
    /// Somebody else takes over there.
    Leaving,
    /// It is lost.
    Lost(io::Error),
}

impl Beside {
    /// Runs until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.stay()).await;
    }

    async fn stay(self) {
        let (way, mut errands) = mpsc::channel(CALLS);
        if let Some(store) = &self.store {
            store.settle(way.clone());
        }
        let (mut unanswered, mut number, mut is_said) = (Unanswered::new(), 0, false);
        loop {
            match self.reach().await {
                Ok(channel) => {
                    if is_said {
                        info!("The process that took over is reached again");
                    }
                    is_said = false;
                    let ended = self.talk(channel, &mut errands, &mut unanswered, &mut number);
                    if let End::Lost(error) = ended.await {
                        warn!(%error, "The process that took over is lost");
                        is_said = true;
                        if let Some(store) = &self.store {
                            store.lost();
                        }
                    }
                }
                Err(error) => {
                    if !is_said {
                        debug!(%error, "The process that took over cannot be reached yet");
                    }
                    sleep(AGAIN).await;
                }
            }
        }
    }

    async fn reach(&self) -> io::Result<Channel> {
        let reached = timeout(WELCOME, async {
            let mut channel = Channel::dial(&self.path).await?;
            let hello = Hello::Beside {
                store: Kept::of(self.store.as_ref().map(Movable::path)),
                joins: self.joins,
            };
            channel.send(&hello).await?;
            match channel.next().await? {
                New::Welcome => Ok(channel),
                New::Refused { reason } => Err(io::Error::other(reason)),
                New::Told(..) | New::Ask(..) | New::Leaving => {
                    Err(io::ErrorKind::InvalidData.into())
                }
            }
        });
        reached
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn talk(
        &self,
        mut channel: Channel,
        errands: &mut mpsc::Receiver<Errand>,
        unanswered: &mut Unanswered,
        number: &mut u64,
    ) -> End {
        let speaker = channel.speaker();
        // Whatever became of them: each may be made twice.
        unanswered.retain(|_, errand| !errand.answer.is_closed());
        for (number, errand) in unanswered.iter() {
            if let Err(error) = channel.send(&called(*number, &errand.call)).await {
                return End::Lost(error);
            }
        }
        loop {
            tokio::select! {
                message = channel.next() => match message {
                    Ok(New::Told(number, told)) => answer(unanswered, number, *told),
                    Ok(New::Ask(number, question)) => {
                        let answer = Old::Answer(number, (self.own)(&question));
                        if let Err(error) = speaker.send(&answer, &[]).await {
                            return End::Lost(error);
                        }
                    }
                    Ok(New::Leaving) => return End::Leaving,
                    Ok(New::Welcome | New::Refused { .. }) => {}
                    Err(error) => return End::Lost(error),
                },
                Some(errand) = errands.recv() => {
                    *number += 1;
                    let call = called(*number, &errand.call);
                    unanswered.retain(|_, errand| !errand.answer.is_closed());
                    unanswered.insert(*number, errand);
                    if let Err(error) = speaker.send(&call, &[]).await {
                        return End::Lost(error);
                    }
                }
            }
        }
    }
}

fn called(number: u64, call: &Call) -> Old {
    Old::Call(number, Box::new(call.clone()))
}

fn answer(unanswered: &mut Unanswered, number: u64, told: Told) {
    if let Some(errand) = unanswered.remove(&number) {
        // Who waited may have left.
        let _ = errand.answer.send(told);
    }
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
