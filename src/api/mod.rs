//! Answers whoever asks the running broker: an administrator at the command
//! line, over the local admin socket; programs with a key, over TCP.
//!
//! | request below `/api/v1` | needs | answer |
//! |---|---|---|
//! | `GET /status` | read | the broker and every host |
//! | `GET /farms`, `/farms/{id}` | read | farms, and how full they are |
//! | `GET /hosts?farm=`, `/hosts/{id}` | read | hosts, and why they are out |
//! | `PATCH /hosts/{id}`, `/farms/{id}` | write | changes the mode of one host, or of a farm's hosts |
//! | `GET /resources?farm=`, `/resources/{id}` | read | what is published, and whether anybody asks for it |
//! | `GET /sessions?user=&host=&farm=` | read | reported sessions; of a user tunnels and leases, too |
//! | `GET /tunnels?user=&host=&farm=&limit=&after=`, `/tunnels/{id}` | read | open tunnels |
//! | `DELETE /tunnels/{id}`, `/tunnels?host=` | write | ends one, or all of a host |
//! | `GET /leases?user=&host=&farm=&limit=&after=`, `/leases/{key}` | read | leases |
//! | `DELETE /leases/{key}?farm=` | write | releases what lingers |
//! | `GET /decisions?user=&limit=`, `/decisions/{id}` | read | past decisions, newest first and in brief; one whole |
//! | `POST /explain` | read | what would be decided now; changes nothing |
//! | `GET /hosts/{id}/commands` | read | what its agent was asked to do, and what came of it |
//! | `POST /hosts/{id}/commands` | write | has its agent do something |
//! | `POST /agents/enroll` | a token | a host's key |
//! | `POST /agents/heartbeat` | agent | a host's state in, commands out |
//! | `POST /reload` | write | reads the configuration now |
//! | `GET /keys` | read | the keys, without what could be used of them |
//! | `POST /keys`, `DELETE /keys/{id}` | write | makes one, ends one |
//! | `POST /keys/{id}/approve` | write | lets a host that is alive enroll with a token |
//! | `POST /broker/resolve` | broker | places somebody who does not come through us |
//! | `POST /broker/tokens` | broker | the same as forms |
//! | `GET /whoami` | any | the caller's name, and what it may |
//! | `GET /openapi.json` | any | all of this, for programs |
//!
//! ```text
//! admin socket: uid ----------+
//!                             serve -> known -> guarded -> endpoint
//! address: limits, key (gate) +
//! ```
//!
//! The only room that serves HTTP; beside all this, on a port without a key, our
//! [`Health`] and what was counted. It runs on threads and runtimes of its own:
//! whatever is asked here, no tunnel waits for it. A listener says who asks
//! ([`Caller`]), each endpoint which [`Role`] it needs. Bodies over 64 KiB and
//! fields it does not know are refused; it decides nothing itself.

mod agents;
mod answer;
mod breaker;
mod brief;
mod caller;
mod commands;
mod decisions;
mod explain;
mod extract;
mod farms;
mod gate;
mod health;
mod hosts;
mod keys;
mod leases;
mod listener;
mod listing;
mod modes;
mod narrow;
mod openapi;
mod page;
mod rates;
mod record;
mod refused;
mod reload;
mod resolve;
mod resources;
mod serve;
mod sessions;
mod socket;
mod status;
mod tokens;
mod trail;
mod tunnels;
mod user;
mod whoami;
mod whole;
mod whose;

use std::sync::Arc;

use axum::{Router, middleware};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::audit::Audit;
use crate::broker::{Broker, Modes};
use crate::clock::Clock;
use crate::commands::{Commands, Restarts};
use crate::config::{Current, Reload};
use crate::fleet::Fleet;
use crate::keys::Keyring;
use crate::replicas::Predecessors;
use crate::reports::Intake;
use crate::tls::Certificates;
use crate::tunnel::{Limits, Pool, Tunnels};

pub use caller::{Caller, Role};
pub use health::{Health, HealthError, HealthListener, HealthServing, Pulse};
pub use listener::ApiListener;
pub use socket::{AdminSocket, Serving, SocketError};
pub use tunnels::answering;

/// Where every path begins.
const BASE: &str = "/api/v1";

/// What the answers come from.
#[derive(Debug)]
pub struct Api {
    /// Decides, and keeps what was decided.
    pub broker: Broker,
    /// Changes hosts' modes.
    pub modes: Modes,
    /// The live picture.
    pub fleet: Arc<Fleet>,
    /// Takes heartbeats in.
    pub intake: Intake,
    /// What agents are asked to do.
    pub commands: Commands,
    /// Restarts hosts that were drained for it.
    pub restarts: Restarts,
    /// The open tunnels.
    pub tunnels: Arc<Tunnels>,
    /// Where it is written down who changed what.
    pub trail: Option<Audit>,
    /// Those that we took over from and whose tunnels are still open.
    pub predecessors: Predecessors,
    /// How much is served at a time.
    pub limits: Arc<Limits>,
    /// The guacds that tunnels go to.
    pub pool: Arc<Pool>,
    /// The configuration in force.
    pub config: Current,
    /// The way to ask for a reload; `None` where the configuration came from
    /// no files.
    pub reload: Option<Reload>,
    /// Who may.
    pub keys: Keyring,
    /// What is shown and trusted on either leg.
    pub certificates: Arc<Certificates>,
    /// For ages.
    pub clock: Clock,
}

/// The endpoints: who may ask what. A new one is a line here.
fn endpoints() -> OpenApiRouter<Arc<Api>> {
    let (read, write) = (Role::AdminRead, Role::AdminWrite);
    let place = Role::Broker;
    let table = [
        (read, routes!(status::show)),
        (read, routes!(farms::list)),
        (read, routes!(farms::one)),
        (read, routes!(hosts::list)),
        (read, routes!(hosts::one)),
        (write, routes!(modes::of_host)),
        (write, routes!(modes::of_farm)),
        (read, routes!(resources::list)),
        (read, routes!(resources::one)),
        (read, routes!(sessions::list)),
        (read, routes!(tunnels::list)),
        (read, routes!(tunnels::one)),
        (write, routes!(tunnels::end_one)),
        (write, routes!(tunnels::end_of_host)),
        (read, routes!(leases::list)),
        (read, routes!(leases::one)),
        (write, routes!(leases::release)),
        (read, routes!(decisions::list)),
        (read, routes!(decisions::one)),
        (read, routes!(explain::explain)),
        (write, routes!(reload::reload)),
        (read, routes!(keys::list)),
        (write, routes!(keys::create)),
        (write, routes!(keys::revoke)),
        (write, routes!(keys::approve)),
        (place, routes!(resolve::resolve)),
        (place, routes!(tokens::tokens)),
        (read, routes!(commands::list)),
        (write, routes!(commands::give)),
        (Role::Enrollment, routes!(agents::enroll::enroll)),
        (Role::Agent, routes!(agents::heartbeat::heartbeat)),
    ];
    let open = OpenApiRouter::new()
        .routes(caller::open(routes!(openapi::show)))
        .routes(caller::open(routes!(whoami::show)));
    let table = table.into_iter();
    table.fold(open, |router, (role, routes)| {
        router.routes(caller::guarded(role, routes))
    })
}

/// The whole API, for requests that a listener has put a [`Caller`] into.
fn router(api: Arc<Api>) -> Router {
    let (router, document) = openapi::document(endpoints());
    let words = document.words();
    let endpoints = router
        .with_state(api)
        .fallback(answer::no_such_path)
        .layer(axum::Extension(document));
    // Around it whole: which methods a path has, a router says last of all.
    Router::new()
        .fallback_service(endpoints)
        .layer(middleware::from_fn(caller::known))
        .layer(middleware::from_fn_with_state(words, answer::uniform))
}
