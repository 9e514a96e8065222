//! The local admin socket: a Unix socket that only root and the user the broker
//! runs as may use.
//!
//! The file's mode keeps others out, and every caller's credentials are asked
//! of the system besides: a mode can be changed by a hasty hand. Whoever is
//! turned away is told so.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as Bound, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::caller::{Caller, Role};
use super::{Api, router, serve, user};
use crate::entrance::{self, Beyond, Pass, Places};

/// Callers served at a time; more wait.
const CALLERS: usize = 32;

/// For the first byte.
const FIRST: Duration = Duration::from_secs(10);

/// Other processes of ours that may wait to be heard.
const PROCESSES: usize = 64;

/// The socket, bound and not served yet. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct AdminSocket {
    listener: Option<Bound>,
    path: PathBuf,
    /// Who owns the file: the user we run as.
    owner: u32,
    /// The file that is ours, so that a successor's is left alone.
    inode: u64,
    /// Where callers go that speak no HTTP.
    processes: Option<mpsc::Sender<UnixStream>>,
    /// Cancelled where the file is another process's by now.
    stays: CancellationToken,
}

/// A socket that is being served, until this is dropped.
#[derive(Debug)]
pub struct Serving {
    pub(super) stop: CancellationToken,
    /// Cancelled where the socket's file is to stay.
    pub(super) stays: CancellationToken,
    // INVARIANT: `Some` until dropped.
    pub(super) thread: Option<JoinHandle<()>>,
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another broker is listening there.
    #[error(
        "the admin socket {} is another running broker's: give each its own with socket in [api], or add --take-over to replace that one",
        path.display()
    )]
    InUse {
        /// Its path.
        path: PathBuf,
    },
    /// Something else is there.
    #[error(
        "the admin socket {} cannot be made: something that is no socket is there",
        path.display()
    )]
    NoSocket {
        /// Its path.
        path: PathBuf,
    },
    /// The system refuses.
    #[error(
        "the admin socket {} cannot be made: {error}; set socket in [api] to another path or to \"off\"",
        path.display()
    )]
    System {
        /// Its path.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
}

impl AdminSocket {
    /// Binds the socket. What a process that died left there is replaced; what
    /// a living one listens on is not.
    ///
    /// # Errors
    /// It is in use, or cannot be made there.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let path = path.to_owned();
        match make(&path) {
            Ok((listener, owner, inode)) => Ok(Self {
                listener: Some(listener),
                path,
                owner,
                inode,
                processes: None,
                stays: CancellationToken::new(),
            }),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::AddrInUse => SocketError::InUse { path },
                io::ErrorKind::AlreadyExists => SocketError::NoSocket { path },
                _ => SocketError::System { path, error },
            }),
        }
    }

    /// A socket that another process has bound and hands to us.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn taken(path: &Path, listener: Bound) -> Result<Self, SocketError> {
        let looked = listener.set_nonblocking(true);
        let looked = looked.and_then(|()| fs::symlink_metadata(path));
        let made = looked.map_err(|error| SocketError::System {
            path: path.to_owned(),
            error,
        })?;
        Ok(Self {
            listener: Some(listener),
            path: path.to_owned(),
            owner: made.uid(),
            inode: made.ino(),
            processes: None,
            stays: CancellationToken::new(),
        })
    }

    /// The same socket, to be handed to another process.
    ///
    /// # Errors
    /// What the system says.
    pub fn listener(&self) -> io::Result<Option<Bound>> {
        self.listener.as_ref().map(Bound::try_clone).transpose()
    }

    /// Those who come and speak no HTTP: other processes of ours, which are
    /// root's or the same user's.
    pub fn processes(&mut self) -> mpsc::Receiver<UnixStream> {
        let (processes, heard) = mpsc::channel(PROCESSES);
        self.processes = Some(processes);
        heard
    }

    /// Serves callers on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn serve(self, api: Arc<Api>) -> io::Result<Serving> {
        let stop = CancellationToken::new();
        let stays = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stopped, file) = (stop.clone(), stays.clone());
        let thread = thread::Builder::new().name("api".to_owned());
        let thread = thread.spawn(move || {
            let served = self.run(router(api), file);
            runtime.block_on(stopped.run_until_cancelled(served));
            // Who is being answered at this moment is hung up on.
        })?;
        Ok(Serving {
            stop,
            stays,
            thread: Some(thread),
        })
    }

    async fn run(mut self, router: Router, stays: CancellationToken) {
        self.stays = stays;
        let listener = self.listener.take().map(UnixListener::from_std);
        let listener = match listener {
            Some(Ok(listener)) => listener,
            Some(Err(error)) => {
                warn!(%error, "The admin socket cannot be served");
                return;
            }
            None => return,
        };
        debug!(path = %self.path.display(), "Admin socket ready");
        let places = Places::new("admin socket", CALLERS, Beyond::Wait);
        let receive = |stream: tokio::net::UnixStream, ()| {
            let credentials = stream.peer_cred();
            let uid = credentials.map(|credentials| credentials.uid()).ok();
            let (caller, router) = (self.caller(uid), router.clone());
            let processes = self.processes.clone();
            Some(move |pass: Pass| async move {
                if !caller.roles.is_empty() {
                    pass.keep();
                    let first = timeout(FIRST, entrance::first_byte(&stream)).await;
                    if let Ok(Ok(Some(0))) = first {
                        let heard = processes.zip(stream.into_std().ok());
                        if let Some((processes, stream)) = heard {
                            // A crowd of them comes again.
                            let _ = processes.try_send(stream);
                        }
                        return;
                    }
                }
                serve::connection(stream, router, |_| Ok(Some(caller.clone()))).await;
            })
        };
        let callers = TaskTracker::new();
        entrance::accept("admin socket", &listener, &places, &callers, receive).await;
    }

    /// Root and whom we run as may do everything, others nothing.
    fn caller(&self, uid: Option<u32>) -> Caller {
        let owns = uid.is_some_and(|uid| uid == 0 || uid == self.owner);
        if !owns {
            warn!(uid, "A stranger was turned away from the admin socket");
        }
        Caller {
            actor: user::actor(uid),
            roles: if owns { Role::ALL } else { &[] },
            host: None,
        }
    }
}

/// The listener, the file's owner and its inode. `AddrInUse`: a living process
/// listens there; `AlreadyExists`: something that is no socket is there.
fn make(path: &Path) -> io::Result<(Bound, u32, u64)> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
            }
            Err(error) => return Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = Bound::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let made = fs::symlink_metadata(path)?;
    Ok((listener, made.uid(), made.ino()))
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        if !self.stays.is_cancelled() && there.is_ok_and(|there| there.ino() == self.inode) {
            // One that stays is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Serving {
    /// Ends it where another process has the socket by now: the file stays.
    pub fn hand_over(self) {
        self.stays.cancel();
    }
}

/// Waits until the socket is gone, so that whoever comes next finds its place
/// free.
impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // One that panicked has let go of the socket as well.
            let _ = thread.join();
        }
    }
}
