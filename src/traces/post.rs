//! The way of a batch to the collector: one request, one connection. The one
//! file of the room that speaks HTTP.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// For the whole exchange.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer read; it says little.
const ANSWER: usize = 64 * 1024;

/// A client with a runtime of its own, on the thread that exports.
#[derive(Debug)]
pub(super) struct Post(Runtime);

impl Post {
    /// # Errors
    /// The system has no runtime for it.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Builder::new_current_thread().enable_all().build()?))
    }
}

impl HttpClient for Post {
    fn send_bytes<'us, 'whole>(
        &'us self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'whole>>
    where
        'us: 'whole,
        Self: 'whole,
    {
        // Its own clock counts the time.
        let exchanged = async { timeout(PATIENCE, sent(request)).await };
        Box::pin(async move { self.0.block_on(exchanged)? })
    }
}

async fn sent(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut parts, body) = request.into_parts();
    let authority = parts
        .uri
        .authority()
        .ok_or("the collector has no address")?;
    let stream = TcpStream::connect(authority.as_str()).await?;
    let host = HeaderValue::from_str(authority.as_str())?;
    parts.headers.insert(HOST, host);
    let path = parts.uri.path_and_query();
    parts.uri = path.map_or("/", |path| path.as_str()).parse()?;
    let (mut ask, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let asked = async {
        let answer = ask
            .send_request(Request::from_parts(parts, Full::new(body)))
            .await?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER).collect().await?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    };
    tokio::select! {
        answer = asked => answer,
        Err(error) = connection => Err(error.into()),
    }
}
