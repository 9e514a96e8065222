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
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::caller::Peer;
use super::gate::{Gate, Limits};
use super::socket::Serving;
use super::{Api, page, router, serve};
use crate::tls::{Acceptor, Stream};

/// Threads that answer.
const WORKERS: usize = 2;
/// Connections served at a time; more wait.
const CONNECTIONS: usize = 512;
/// For the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After a failed accept.
const PAUSE: Duration = Duration::from_millis(100);
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
        let listener = Bound::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, tls })
    }

    /// Serves callers on threads of its own.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn serve(self, api: Arc<Api>) -> io::Result<Serving> {
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
            let served = self.run(page::beside(router(api)), gate);
            runtime.block_on(stopped.run_until_cancelled(served));
            runtime.shutdown_timeout(LAST_WORDS);
        })?;
        Ok(Serving {
            stop,
            thread: Some(thread),
        })
    }

    async fn run(self, router: Router, gate: Arc<Gate>) {
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
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "The API cannot accept");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(guest) = gate.enter(peer.ip()) else {
                debug!(address = %peer.ip(), "Too many connections to the API from one address");
                continue;
            };
            let (router, gate) = (router.clone(), Arc::clone(&gate));
            let tls = self.tls.clone();
            tokio::spawn(async move {
                if let Some(stream) = opened(stream, tls, peer).await {
                    let router = router.layer(axum::Extension(Peer(peer.ip())));
                    let who = |asked: &Request<Incoming>| match asked.uri().path() {
                        path if page::is_page(path) => gate.pass(peer.ip()).map(|()| None),
                        path => gate.admit(peer.ip(), path, asked.headers()).map(Some),
                    };
                    serve::connection(stream, router, who).await;
                }
                drop((guest, place));
            });
        }
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
