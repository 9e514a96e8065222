//! Answers whoever asks the running broker: an administrator at the command
//! line, over the local admin socket.
//!
//! | request | answer |
//! |---|---|
//! | `POST /api/v1/explain` | what would be decided now; changes nothing |
//! | `GET /api/v1/decisions?user=&limit=` | past decisions, newest first |
//! | `GET /api/v1/decisions/{id}` | one of them |
//! | `GET /api/v1/status` | the broker and every host |
//! | `POST /api/v1/reload` | reads the configuration now |
//!
//! The only room that serves HTTP. It runs on a thread and a runtime of its
//! own: whatever is asked here, no tunnel waits for it. It refuses whoever is
//! neither the user it runs as nor root, bodies over 64 KiB and fields it does
//! not know, and decides nothing itself.

mod answer;
mod decisions;
mod explain;
mod query;
mod reload;
mod socket;
mod status;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request};
use tracing::debug;

use crate::broker::Broker;
use crate::clock::Clock;
use crate::config::{Current, Reload};
use crate::fleet::Fleet;

use answer::{Answer, Failure};
pub use socket::{AdminSocket, Serving, SocketError};

/// What the answers come from.
#[derive(Debug)]
pub struct Api {
    /// Decides, and keeps what was decided.
    pub broker: Broker,
    /// The live picture.
    pub fleet: Arc<Fleet>,
    /// The configuration in force.
    pub config: Current,
    /// The way to ask for a reload; `None` where the configuration came from
    /// no files.
    pub reload: Option<Reload>,
    /// For ages.
    pub clock: Clock,
}

/// Whether a caller may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// Root, or whom we run as.
    Admin,
    /// Anybody else.
    Stranger,
}

impl Api {
    async fn answer(&self, caller: Caller, request: Request<Incoming>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answered = match caller {
            Caller::Admin => self.route(request).await,
            Caller::Stranger => Err(Failure::forbidden()),
        };
        answered.unwrap_or_else(|failure| {
            debug!(%method, path, error = failure.text(), "Admin request failed");
            failure.into_answer()
        })
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Failure> {
        let path = request.uri().path().to_owned();
        let Some(path) = path.strip_prefix("/api/v1/") else {
            return Err(Failure::no_such_path());
        };
        let (get, post) = (Method::GET, Method::POST);
        match (path, request.method()) {
            ("explain", method) if method == post => self.explain(request).await,
            ("reload", method) if method == post => self.reload().await,
            ("status", method) if method == get => Ok(self.status()),
            ("decisions", method) if method == get => self.decisions(request.uri()).await,
            ("explain" | "reload", _) => Err(Failure::wrong_method("POST")),
            ("status" | "decisions", _) => Err(Failure::wrong_method("GET")),
            (path, method) => match path.strip_prefix("decisions/") {
                Some(id) if method == get => self.decision(id).await,
                Some(_) => Err(Failure::wrong_method("GET")),
                None => Err(Failure::no_such_path()),
            },
        }
    }
}
