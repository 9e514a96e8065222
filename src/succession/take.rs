//! The new process: takes over what the running one has.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use super::channel::Channel;
use super::message::{Hello, Kept, Socket, Wish, Word};
use crate::entrance;

/// How long the running process may take over a word: it closes a file.
const WITHIN: Duration = Duration::from_secs(15);

/// A taking over that was begun. Dropped before [`Self::ready`], the running
/// process goes on as if nothing had been.
#[derive(Debug)]
pub struct Taking {
    path: PathBuf,
    channel: Channel,
    admin: Option<UnixListener>,
}

/// Why nothing can be taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// There is no socket to ask by.
    #[error("nothing can be taken over without an admin socket: set socket in [api] to a path")]
    NoSocket,
    /// The running process does not answer as it should.
    #[error(
        "the running broker at {} cannot be taken over from: {error}; a release before this way of upgrading has to be stopped first",
        path.display()
    )]
    Broken {
        /// The admin socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It does not want to.
    #[error("the running broker at {} refuses to be taken over from: {reason}", path.display())]
    Refused {
        /// The admin socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Taking {
    /// Asks the broker that runs at this admin socket for its listeners; from now
    /// on they are found by whoever listens on their addresses. `file` is the
    /// embedded store's, `None` where it is a database. `None`: nobody is there.
    ///
    /// # Errors
    /// It refuses, or cannot.
    pub async fn begin(path: &Path, file: Option<&Path>) -> Result<Option<Self>, TakeError> {
        let channel = match Channel::dial(path).await {
            Ok(channel) => channel,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(broken(path, error)),
        };
        let mut taking = Self {
            path: path.to_owned(),
            channel,
            admin: None,
        };
        let hello = Hello::TakeOver {
            store: Kept::of(file),
        };
        taking.send(&hello).await?;
        let Word::Offer { sockets } = taking.hear().await? else {
            return Err(taking.out_of_turn());
        };
        let mut listeners = Vec::new();
        for (socket, given) in sockets.into_iter().zip(taking.channel.take_sockets()) {
            match socket {
                Socket::Tcp => listeners.push(TcpListener::from(given)),
                Socket::Admin => taking.admin = Some(UnixListener::from(given)),
            }
        }
        entrance::offer(listeners);
        Ok(Some(taking))
    }

    /// The admin socket, to be served from now on. Once.
    pub fn admin(&mut self) -> Option<UnixListener> {
        self.admin.take()
    }

    /// Has the running process close the store's file.
    ///
    /// # Errors
    /// It does not.
    pub async fn release_store(&mut self) -> Result<(), TakeError> {
        self.send(&Wish::Release).await?;
        match self.hear().await? {
            Word::Released => Ok(()),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Has the running process accept no more: we do.
    ///
    /// # Errors
    /// It does not say that it stopped: it is gone, or will be.
    pub async fn ready(mut self) -> Result<(), TakeError> {
        self.send(&Wish::Ready).await?;
        match self.hear().await? {
            Word::Stopped => Ok(()),
            _ => Err(self.out_of_turn()),
        }
    }

    async fn send(&self, message: &impl serde::Serialize) -> Result<(), TakeError> {
        let sent = self.channel.send(message).await;
        sent.map_err(|error| broken(&self.path, error))
    }

    async fn hear(&mut self) -> Result<Word, TakeError> {
        let heard = timeout(WITHIN, self.channel.next()).await;
        let heard = heard.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match heard.map_err(|error| broken(&self.path, error))? {
            Word::Refused { reason } => Err(TakeError::Refused {
                path: self.path.clone(),
                reason,
            }),
            word => Ok(word),
        }
    }

    fn out_of_turn(&self) -> TakeError {
        broken(&self.path, io::ErrorKind::InvalidData.into())
    }
}

fn broken(path: &Path, error: io::Error) -> TakeError {
    TakeError::Broken {
        path: path.to_owned(),
        error,
    }
}

impl Kept {
    /// Of the embedded store's file, `None` where it is a database.
    pub(super) fn of(file: Option<&Path>) -> Self {
        match file {
            // The same file by any of its names.
            Some(file) => Self::File(file.canonicalize().unwrap_or_else(|_| file.to_owned())),
            None => Self::Database,
        }
    }
}
