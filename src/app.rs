//! The one place where the parts are wired: configuration in, running broker
//! out. Sockets are bound while it is built, so that who built it can ask for
//! the ports before anything runs.

mod building;
mod draining;
mod handing;
mod listeners;
mod room;
mod running;
mod sharing;
mod start_error;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::api::{AdminSocket, ApiListener, Health, HealthListener};
use crate::audit::{self, Audit};
use crate::broker::{Broker, Keeper, Modes, Recorder};
use crate::clock::Clock;
use crate::commands::Commands;
use crate::config::{Apply, Cause, InForce, LogLevel, Origin, Reload, Reloader};
use crate::descriptors::Descriptors;
use crate::fleet::{Fleet, Prober};
use crate::keys::{Keyring, Uses};
use crate::metrics::Metered;
use crate::replicas::{Predecessors, Replicas};
use crate::reports::{Intake, Keeping};
use crate::shutdown::{Hangups, Shutdown};
use crate::store::Opened;
use crate::succession::{Succession, Taking};
use crate::tls::Certificates;
use crate::tunnel::{Door, Gateway};

use handing::Handing;
use sharing::Sharing;
pub use start_error::StartError;

/// A broker that is ready to run.
#[derive(Debug)]
pub struct App {
    descriptors: Descriptors,
    gateway: Arc<Gateway>,
    doors: Vec<Door>,
    certificates: Arc<Certificates>,
    prober: Prober,
    /// Who else shares the store; `None` where nobody can.
    replicas: Option<Arc<Replicas>>,
    keeper: Keeper,
    recorder: Recorder,
    intake: Intake,
    keeping: Keeping,
    commands: Commands,
    trail: Option<Audit>,
    audit: Option<audit::Writer>,
    admin: Option<AdminSocket>,
    api: Option<ApiListener>,
    keys: Keyring,
    uses: Uses,
    health: Option<(HealthListener, Health)>,
    broker: Broker,
    modes: Modes,
    clock: Clock,
    shutdown: Shutdown,
    fleet: Arc<Fleet>,
    in_force: Arc<InForce>,
    reloading: Option<Reloading>,
    sharing: Arc<Sharing>,
    predecessors: Predecessors,
    /// Where it is another process's turn.
    succession: Option<(Succession, Handing)>,
    /// Where it is ours.
    taking: Option<Taking>,
}

type Stored = Metered<Opened>;

/// What keeps up with the files a configuration came from.
#[derive(Debug)]
struct Reloading {
    reloader: Reloader,
    reload: Reload,
    hangups: Hangups,
}

impl App {
    /// From now on follows the files that its configuration was loaded from,
    /// and looks at them at every SIGHUP. `log_at` changes what is logged. The
    /// handle is for whoever else asks.
    pub fn follow(
        &mut self,
        origin: Origin,
        hangups: Hangups,
        log_at: impl Fn(LogLevel) + Send + 'static,
    ) -> Reload {
        let (fleet, in_force) = (Arc::clone(&self.fleet), Arc::clone(&self.in_force));
        let clock = self.clock;
        let (intake, keys) = (self.intake.clone(), self.keys.clone());
        // The fleet first: a prober that is told of a new host finds it there.
        let apply: Apply = Box::new(move |config| {
            let generation = fleet.apply(Arc::clone(&config.directory), clock.now());
            in_force.set(Arc::clone(config));
            intake.configured();
            keys.configure(&config.api.secrets);
            log_at(config.log.level);
            generation
        });
        let generation = self.fleet.snapshot().configuration;
        let loaded = self.in_force.current().get();
        let (reloader, reload) = Reloader::new(origin, loaded, generation, apply);
        let reloader = reloader.minding(self.certificates.clone());
        self.reloading = Some(Reloading {
            reloader,
            reload: reload.clone(),
            hangups,
        });
        reload
    }

    /// Where it listens, with the ports the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let bound = self.doors.iter();
        bound
            .filter_map(|door| door.listener.local_addr().ok())
            .collect()
    }
}

impl Reloading {
    /// Runs until it is dropped.
    async fn run(self) {
        let (reload, mut hangups) = (self.reload, self.hangups);
        let ask = async {
            loop {
                hangups.next().await;
                reload.now(Cause::Signal).await;
            }
        };
        tokio::join!(self.reloader.run(), ask);
    }
}
