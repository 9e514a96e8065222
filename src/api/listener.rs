//! The API over TCP. It has threads of its own, so that a flood here takes
//! processor time from tunnels as any other program would, and never a place in
//! their queue.

use std::io;
use std::net::{SocketAddr, TcpListener as Bound};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::caller::{Caller, Peer, Role};
use super::gate::{Gate, Limits};
use super::socket::Serving;
use super::{Api, page, router, serve};
use crate::entrance::{self, Beyond, Pass, Places};
use crate::tls::{Acceptor, Stream};

/// Threads that answer.
const WORKERS: usize = 2;
/// For the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// For answers under way, once it is to stop.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The API's address, bound and not served yet.
#[derive(Debug)]
pub struct ApiListener {
    listener: Bound,
    /// For TLS; `None` where it speaks plain text.
    tls: Option<Acceptor>,
}

impl ApiListener {
    /// Binds the address, for TLS where there is what that needs.
    ///
    /// # Errors
    /// What the system says: it may be in use.
    pub fn bind(address: SocketAddr, tls: Option<Acceptor>) -> io::Result<Self> {
        let listener = entrance::listen(address)?;
        Ok(Self { listener, tls })
    }

    /// The same socket, to be handed to another process.
    ///
    /// # Errors
    /// What the system says.
    pub fn listener(&self) -> io::Result<Bound> {
        self.listener.try_clone()
    }

    /// Serves callers on threads of its own, so many connections at a time.
    /// Where there are more, those that have not shown an accepted key yet are
    /// closed first, and with keys alone the next ones wait.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn serve(self, api: Arc<Api>, connections: usize) -> io::Result<Serving> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("api-worker")
            .enable_all()
            .build()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("api-listener".to_owned());
        let thread = thread.spawn(move || {
            let gate = Gate::new(api.keys.clone(), Limits::default());
            let places = Places::new("API", connections, Beyond::Wait);
            let served = self.run(page::beside(router(api)), gate, places);
            runtime.block_on(stopped.run_until_cancelled(served));
            runtime.shutdown_timeout(LAST_WORDS);
        })?;
        Ok(Serving {
            stop,
            stays: CancellationToken::new(),
            thread: Some(thread),
        })
    }

    async fn run(self, router: Router, gate: Arc<Gate>, places: Arc<Places>) {
        let listener = match TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => {
                warn!(%error, "The API cannot be served");
                return;
            }
        };
        if let Ok(address) = listener.local_addr() {
            info!(%address, tls = self.tls.is_some(), "API ready");
        }
        let receive = |stream: TcpStream, peer: SocketAddr| {
            let Some(guest) = gate.enter(peer.ip()) else {
                debug!(address = %peer.ip(), "Too many connections to the API from one address");
                return None;
            };
            let (router, gate) = (router.clone(), Arc::clone(&gate));
            let tls = self.tls.clone();
            Some(move |pass: Pass| async move {
                if let Some(stream) = opened(stream, tls, peer).await {
                    let router = router.layer(axum::Extension(Peer(peer.ip())));
                    let who = |asked: &Request<Incoming>| match asked.uri().path() {
                        path if page::is_page(path) => gate.pass(peer.ip()).map(|()| None),
                        path => {
                            let caller = gate.admit(peer.ip(), path, asked.headers());
                            Ok(Some(caller.inspect(|caller| stay(&pass, caller))?))
                        }
                    };
                    serve::connection(stream, router, who).await;
                }
                drop(guest);
            })
        };
        let callers = TaskTracker::new();
        entrance::accept("API", &listener, &places, &callers, receive).await;
    }
}

/// Whoever shows a key keeps its place; an enrollment token is shown later.
fn stay(pass: &Pass, caller: &Caller) {
    if !caller.roles.contains(&Role::Enrollment) {
        pass.keep();
    }
}

/// A connection ready for HTTP; `None` where there was no TLS to be had.
async fn opened(socket: TcpStream, tls: Option<Acceptor>, peer: SocketAddr) -> Option<Stream> {
    // An answer is small and complete: it need not wait to be joined by more.
    // Where that cannot be had it is only slower.
    let _ = socket.set_nodelay(true);
    let Some(tls) = tls else {
        return Some(Stream::from(socket));
    };
    let address = peer.ip();
    match timeout(HANDSHAKE, tls.accept(socket)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err((error, _))) => {
            debug!(%address, %error, "No TLS with a caller of the API");
            None
        }
        Err(_) => {
            debug!(%address, "A caller of the API was too slow for TLS");
            None
        }
    }
}
