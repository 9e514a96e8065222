//! The running process: is taken over from, once, and until then answers whoever
//! comes by the admin socket and speaks no HTTP.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream as Bound};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::channel::Channel;
use super::message::{Hello, Kept, Socket, Wish, Word};
use super::serve::{Visit, serve};
use crate::replicas::Predecessors;
use crate::store::Movable;

/// How long somebody may take to say what they want.
const HELLO: Duration = Duration::from_secs(5);

/// How long the new process may take from one word to the next: its database may
/// be minutes behind.
const PATIENCE: Duration = Duration::from_secs(300);

/// The same while it has the store's file and nobody is placed.
const WITHOUT_STORE: Duration = Duration::from_secs(8);

/// Between two tries to open the file again.
const AGAIN: Duration = Duration::from_secs(1);

/// What can be taken over, and who is beside us.
#[derive(Debug)]
pub struct Succession {
    /// The listening sockets.
    pub listeners: Vec<TcpListener>,
    /// The admin socket.
    pub admin: Option<UnixListener>,
    /// The embedded store; `None` where it is a database.
    pub store: Option<Movable>,
    /// Who came by the admin socket and speaks no HTTP.
    pub guests: mpsc::Receiver<Bound>,
    /// Those that we took over from.
    pub predecessors: Predecessors,
}

/// We were taken over from.
#[derive(Debug)]
pub struct Given {
    by: Option<i32>,
    channel: Channel,
    /// Those that are beside us so far.
    visits: TaskTracker,
    leaving: CancellationToken,
}

impl Given {
    fn new(by: Option<i32>, channel: Channel) -> Self {
        Self {
            by,
            channel,
            visits: TaskTracker::new(),
            leaving: CancellationToken::new(),
        }
    }

    /// The process that did; `None` where the system does not know.
    pub fn by(&self) -> Option<i32> {
        self.by
    }

    /// Tells the new process that we accept no more, and waits until those that
    /// are beside us go there.
    pub async fn stopped(self) {
        // Where it is gone it need not know.
        let _ = self.channel.send(&Word::Stopped).await;
        // By now whoever dials the admin socket reaches the new process. What they
        // asked is answered, so that they know what was done.
        self.leaving.cancel();
        let _ = timeout(HELLO, self.visits.wait()).await;
    }
}

/// What is given, and what becomes of it.
#[derive(Debug)]
struct Estate {
    listeners: Vec<TcpListener>,
    admin: Option<UnixListener>,
    store: Option<Movable>,
}

/// A process that is being given everything, until it has it or does not.
type Giving = Pin<Box<dyn Future<Output = Option<Given>> + Send>>;

impl Succession {
    /// Answers until somebody has taken over; from `stop` on there is no listener
    /// to be had any more. `share` is called before the first process writes to
    /// our store.
    pub async fn run(mut self, stop: &CancellationToken, share: impl Fn()) -> Given {
        let (leaving, visits) = (CancellationToken::new(), TaskTracker::new());
        let mut estate = Arc::new(Estate {
            listeners: self.listeners,
            admin: self.admin,
            store: self.store.clone(),
        });
        let kept = Kept::of(self.store.as_ref().map(Movable::path));
        let mut greetings = JoinSet::new();
        let mut giving: Option<Giving> = None;
        let mut number = 0;
        let given = loop {
            let greeted = tokio::select! {
                given = until(giving.as_mut()) => {
                    giving = None;
                    match given {
                        Some(given) => break given,
                        None => continue,
                    }
                }
                () = stop.cancelled(), if !estate.listeners.is_empty() => {
                    // Closed with the last process that is being given them.
                    estate = Arc::new(Estate {
                        listeners: Vec::new(),
                        admin: estate.admin.as_ref().and_then(|it| it.try_clone().ok()),
                        store: self.store.clone(),
                    });
                    continue;
                }
                Some(guest) = self.guests.recv() => {
                    greetings.spawn(timeout(HELLO, greet(guest)));
                    continue;
                }
                Some(greeted) = greetings.join_next() => greeted,
                else => {
                    // The admin socket is served no more, and nobody will come.
                    std::future::pending::<()>().await;
                    continue;
                }
            };
            let Ok(Ok(Ok((channel, hello)))) = greeted else {
                continue;
            };
            match hello {
                Hello::TakeOver { .. } if giving.is_some() => {
                    let reason = "another process is taking over at this moment".to_owned();
                    let _ = channel.send(&Word::Refused { reason }).await;
                }
                Hello::TakeOver { store } => {
                    giving = Some(Box::pin(Arc::clone(&estate).give(channel, store)));
                }
                Hello::Beside { store, joins } => {
                    number += 1;
                    if self.store.is_some() {
                        share();
                    }
                    let visit = Visit {
                        number,
                        joins,
                        // Of another store it has no leases here.
                        is_known: store == kept,
                        store: self.store.clone(),
                        predecessors: self.predecessors.clone(),
                    };
                    visits.spawn(serve(channel, visit, leaving.clone()));
                }
            }
        };
        if let Some(store) = &self.store {
            store.part();
        }
        visits.close();
        Given {
            visits,
            leaving,
            ..given
        }
    }
}

async fn until(giving: Option<&mut Giving>) -> Option<Given> {
    match giving {
        Some(giving) => giving.await,
        None => std::future::pending().await,
    }
}

impl Estate {
    /// Gives everything to whoever is at the other end, or goes on as before.
    async fn give(self: Arc<Self>, mut channel: Channel, theirs: Kept) -> Option<Given> {
        let by = channel.peer();
        let ours = Kept::of(self.store.as_ref().map(Movable::path));
        if theirs != ours {
            let reason = format!(
                "its store is {}, the new one's is {}: only the same can be taken over, so stop it first",
                named(&ours),
                named(&theirs)
            );
            warn!(by, reason, "Another process may not take over");
            let _ = channel.send(&Word::Refused { reason }).await;
            return None;
        }
        info!(by, "Another process takes over");
        let mut has_store = false;
        let ready = self.hand_over(&mut channel, &mut has_store).await;
        match ready {
            Ok(()) => return Some(Given::new(by, channel)),
            Err(error) => {
                warn!(by, %error, "The other process did not take over: this one goes on as before");
            }
        }
        // Its descriptors are closed with it, its lock on the file perhaps a moment later.
        drop(channel);
        while let (true, Some(store)) = (has_store, &self.store) {
            match store.take_back().await {
                Ok(()) => break,
                Err(error) => {
                    warn!(%error, "The store cannot be opened again, trying again");
                    sleep(AGAIN).await;
                }
            }
        }
        None
    }

    /// Until the other process is ready. `has_store` is set once it may have the
    /// store's file.
    async fn hand_over(&self, channel: &mut Channel, has_store: &mut bool) -> io::Result<()> {
        let tcp = self.listeners.iter().map(|it| (Socket::Tcp, it.as_fd()));
        let admin = self.admin.iter().map(|it| (Socket::Admin, it.as_fd()));
        let (sockets, given): (Vec<_>, Vec<_>) = tcp.chain(admin).unzip();
        let offer = Word::Offer { sockets };
        channel.speaker().send(&offer, &given).await?;
        loop {
            let patience = match has_store {
                true => WITHOUT_STORE,
                false => PATIENCE,
            };
            match timeout(patience, channel.next()).await?? {
                Wish::Ready => return Ok(()),
                Wish::Release => {
                    if let Some(store) = &self.store {
                        store.release().await.map_err(io::Error::other)?;
                    }
                    *has_store = self.store.is_some();
                    channel.send(&Word::Released).await?;
                }
            }
        }
    }
}

async fn greet(guest: Bound) -> io::Result<(Channel, Hello)> {
    let mut channel = Channel::answer(UnixStream::from_std(guest)?).await?;
    let hello = channel.next().await?;
    Ok((channel, hello))
}

fn named(kept: &Kept) -> String {
    match kept {
        Kept::File(path) => path.display().to_string(),
        Kept::Database => "a database".to_owned(),
    }
}
