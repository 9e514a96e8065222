//! One connection of a caller, whatever it came in by: the loop is hyper's, the
//! router decides.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::answer::Failure;
use super::caller::Caller;

/// For a request's head to arrive.
const HEAD: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 32 * 1024;
/// The longest a caller may stay, and what an answer under way then gets.
const STAY: Duration = Duration::from_secs(120);
const LAST_ANSWER: Duration = Duration::from_secs(30);

/// Serves it to its end. `who` says who asks, from the head of each request, or
/// why that one is turned away; nobody, of what is there for everybody.
pub(super) async fn connection<I>(
    io: I,
    router: Router,
    who: impl Fn(&Request<Incoming>) -> Result<Option<Caller>, Failure>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        let who = who(&request);
        let known = request.extensions_mut();
        match who {
            Ok(caller) => drop(caller.and_then(|caller| known.insert(caller))),
            Err(failure) => drop(known.insert(failure)),
        }
        router.call(request)
    });
    stay(io, service, STAY).await;
}

/// The same where nobody asks who asks, for so long at most.
pub(super) async fn anybody<I>(io: I, router: Router, longest: Duration)
where
    I: AsyncRead + AsyncWrite + Unpin + Send,
{
    stay(io, TowerToHyperService::new(router), longest).await;
}

async fn stay<I, S>(io: I, service: S, longest: Duration)
where
    I: AsyncRead + AsyncWrite + Unpin + Send,
    S: Service<Request<Incoming>, Response = Response>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LARGEST_HEAD);
    let mut served = pin!(http.serve_connection(TokioIo::new(io), service));
    // A caller that breaks off harms nobody but itself.
    if timeout(longest, served.as_mut()).await.is_err() {
        // What is being answered is answered, and nothing more is taken.
        served.as_mut().graceful_shutdown();
        let _ = timeout(LAST_ANSWER, served).await;
    }
}
