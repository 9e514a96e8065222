//! Whether we are well, and what was counted, on a port of its own that asks
//! for no key: `GET /livez`, `/readyz?verbose`, `/metrics`.
//!
//! Health is about us. `/livez` fails only where the runtime of the tunnels, or a
//! thread that some of them have to themselves, is stuck: whoever restarts us for
//! it ends tunnels that are dead already.
//! `/readyz` fails before we listen and once we are to stop. A dead guacd, a
//! dead store, hosts that are all down and files with faults leave us ready and
//! are named as degraded: what is open, and what is passed through, goes on,
//! and no restart of ours would mend them.
//!
//! It runs on a thread and a runtime of its own, so that it answers where the
//! tunnels' runtime does not.

mod figures;
mod listener;
mod process;
mod pulse;
mod ready;
mod store;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::broker::{Decisions, Gate};
use crate::clock::Clock;
use crate::config::{Current, Degraded, Reload};
use crate::descriptors::Descriptors;
use crate::fleet::Fleet;
use crate::metrics::{self, Metrics};
use crate::placement::Timestamp;
use crate::store::Store;
use crate::tls::Certificates;
use crate::tunnel::{Limits, Pool, Tunnels};

pub use listener::{HealthError, HealthListener, HealthServing};
pub use pulse::Pulse;

/// What the store may take over one read before it counts as down.
const STORE_WITHIN: Duration = Duration::from_secs(1);

/// What the answers come from.
#[derive(Clone)]
pub struct Health {
    /// What was counted.
    pub metrics: Arc<Metrics>,
    /// The live picture.
    pub fleet: Arc<Fleet>,
    /// The open tunnels.
    pub tunnels: Arc<Tunnels>,
    /// How much is served at a time.
    pub limits: Arc<Limits>,
    /// The guacds that tunnels go to.
    pub pool: Arc<Pool>,
    /// Which of them are configured.
    pub config: Current,
    /// What was lost of decisions.
    pub decisions: Arc<Decisions>,
    /// Asked whether it answers; behind its meter.
    pub store: Arc<dyn Store>,
    /// What keeps placements waiting after the store was lost.
    pub gate: Arc<Gate>,
    /// Who is placed while it is away.
    pub degraded: Degraded,
    /// When certificates end.
    pub certificates: Arc<Certificates>,
    /// How the configuration and its files stand to each other.
    pub reload: Option<Reload>,
    /// Whether the tunnels' runtime moves.
    pub pulse: Pulse,
    /// Set once Guacamole is listened for.
    pub listening: Arc<AtomicBool>,
    /// Cancelled when nobody is served anew.
    pub stop: CancellationToken,
    /// What this process may have open.
    pub descriptors: Descriptors,
    /// When the process was set up.
    pub started: Timestamp,
    /// For ages.
    pub clock: Clock,
}

fn router(health: Health) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .fallback(async || told(StatusCode::NOT_FOUND, "nothing at this path\n".to_owned()))
        .with_state(Arc::new(health))
}

async fn live(State(health): State<Arc<Health>>) -> Response {
    match health.pulse.stuck() {
        None => told(StatusCode::OK, "alive\n".to_owned()),
        Some(span) => {
            let text = format!(
                "the tunnels' runtime has been stuck for {} s\n",
                span.as_secs()
            );
            told(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

async fn ready(State(health): State<Arc<Health>>, RawQuery(query): RawQuery) -> Response {
    health.ask_store().await;
    let verbose = query.is_some_and(|query| {
        let mut asked = query.split('&');
        asked.any(|part| part.split('=').next() == Some("verbose"))
    });
    let found = health.look();
    let status = match found.is_ready() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    told(status, found.tell(verbose))
}

async fn scrape(State(health): State<Arc<Health>>) -> Response {
    health.ask_store().await;
    let (page, snapshot) = health.page();
    match health.metrics.write(page, &snapshot.directory) {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => told(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the figures cannot be written\n".to_owned(),
        ),
    }
}

fn told(status: StatusCode, text: String) -> Response {
    let head = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    (status, head, text).into_response()
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}

impl Health {
    /// Asks the store something cheap, so that it is known how it is though
    /// nobody else asks it at the moment.
    async fn ask_store(&self) {
        let asked = self.store.after(None, 1);
        if timeout(STORE_WITHIN, asked).await.is_err() {
            self.metrics.store_is_silent();
        }
    }
}
