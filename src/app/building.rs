//! Configuration in, parts out: opened, bound and wired, none of them running.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use super::handing::Handing;
use super::listeners;
use super::room::reached;
use super::sharing::Sharing;
use super::{App, StartError};
use crate::api::{AdminSocket, Health, HealthListener, Pulse};
use crate::audit::Audit;
use crate::broker::{Broker, Decisions, Modes};
use crate::clock::Clock;
use crate::commands::Commands;
use crate::config::{Config, InForce, StoreKind};
use crate::descriptors::Descriptors;
use crate::entrance;
use crate::fleet::{Checks, Fleet, Prober};
use crate::follow;
use crate::keys::Keyring;
use crate::metrics::{Metered, Metrics};
use crate::replicas::{Predecessors, Replicas};
use crate::reports::Intake;
use crate::shutdown::Shutdown;
use crate::store::{self, Store};
use crate::succession::{Succession, TakeError, Taking};
use crate::tls::Certificates;
use crate::tunnel::{Gateway, Room};

impl App {
    /// Binds the listeners, opens the store and takes over the leases in it.
    ///
    /// # Errors
    /// What keeps it from starting; nothing runs then.
    pub async fn build(config: &Config, shutdown: Shutdown) -> Result<Self, StartError> {
        Self::build_after(None, config, shutdown).await
    }

    /// The same in the place of the broker that runs at the configuration's admin
    /// socket, where one does: with its listeners and its store. It goes on until
    /// this one runs.
    ///
    /// # Errors
    /// What keeps it from starting; the other one goes on as before then.
    pub async fn take_over(config: &Config, shutdown: Shutdown) -> Result<Self, StartError> {
        let path = config.admin_socket().ok_or(TakeError::NoSocket)?;
        let file = match config.store.kind {
            StoreKind::Embedded => Some(config.store.path.as_path()),
            StoreKind::Postgres => None,
        };
        let taking = Taking::begin(&path, file).await?;
        match &taking {
            Some(_) => info!("Taking over from the broker that runs"),
            None => info!("No broker runs that could be taken over from"),
        }
        let built = Self::build_after(taking, config, shutdown).await;
        entrance::decline();
        built
    }

    async fn build_after(
        mut taking: Option<Taking>,
        config: &Config,
        shutdown: Shutdown,
    ) -> Result<Self, StartError> {
        let descriptors = Descriptors::raise();
        let certificates = Arc::new(Certificates::default());
        certificates.load(config)?;
        let doors = listeners::doors(config, &certificates)?;
        let clock = Clock::start();
        let fleet = Fleet::new(Arc::clone(&config.directory));
        let health = config.health.listen.map(HealthListener::bind).transpose()?;
        let metrics = Arc::new(Metrics::default());
        let database = &config.store.postgres.tls;
        let database = match config.store.kind {
            StoreKind::Postgres => database.as_ref().map(|tls| certificates.database(tls)),
            StoreKind::Embedded => None,
        };
        if let (Some(taking), StoreKind::Embedded) = (&mut taking, config.store.kind) {
            taking.release_store().await?;
        }
        let store = store::open(&config.store, database.transpose()?, clock).await?;
        let movable = store.movable();
        if let (Some(movable), Some(_)) = (&movable, &taking) {
            // Leases in it are of tunnels that are open at the other process.
            movable.share();
        }
        let store = Arc::new(Metered::new(store, Arc::clone(&metrics)));
        let me = follow::replica();
        if store.is_shared() {
            fleet.shares_as(me.clone());
        }
        let admin = config.admin_socket();
        let taken = taking.as_mut().and_then(Taking::admin);
        let admin = admin.map(|path| match taken {
            Some(listener) => AdminSocket::taken(&path, listener),
            None => AdminSocket::bind(&path),
        });
        let mut admin = admin.transpose()?;
        let api = listeners::api(config, &certificates)?;
        let target = &config.log.audit;
        let audit = Audit::open(target).map_err(|error| StartError::Audit {
            target: target.clone(),
            error,
        })?;
        let (audit, writer) = audit.unzip();
        let secrets = &config.api.secrets;
        let (keys, uses) = Keyring::open(store.clone(), secrets, audit.clone(), clock).await?;
        let documents = Arc::clone(&store);
        let modes = Modes::open(documents, Arc::clone(&fleet), audit.clone(), clock).await?;
        let counted = Arc::clone(&metrics);
        let (decisions, recorder) = Decisions::stored(store.clone(), audit.clone(), clock, counted);
        let degraded = config.store.degraded;
        let opened = Broker::open_for(Arc::clone(&fleet), store.clone(), clock, degraded);
        let (broker, keeper) = opened.await?;
        let keeper = keeper.auditing(audit.clone());
        let broker = broker.keeping(Arc::clone(&decisions));
        let commands = Commands::open(store.clone(), clock).await?;
        let (intake, keeping) = Intake::open(Arc::clone(&fleet), store.clone(), clock).await?;
        let in_force = InForce::new(Arc::new(config.clone()));
        let checks = Checks::new(
            Arc::clone(&fleet),
            in_force.current(),
            clock,
            Arc::clone(&metrics),
        );
        let broker = broker.checking(Arc::clone(&checks));
        let gateway = Gateway::new(
            broker.clone(),
            in_force.current(),
            Arc::clone(&certificates),
            &shutdown,
            clock,
        );
        let gateway = gateway.within(Room {
            tunnels: descriptors.tunnels(),
            connections: descriptors.connections(),
        });
        // Processes that share a file find each other by the admin socket.
        let replicas = match store.is_shared() && movable.is_none() {
            true => Some(Replicas::open(store.clone(), reached(&doors)).await?),
            false => None,
        };
        let predecessors = Predecessors::default();
        let gateway = gateway.beside(replicas.clone());
        let gateway = gateway.after(predecessors.clone());
        let succession = match (&mut admin, config.admin_socket()) {
            (Some(admin), Some(path)) => {
                let succession = Succession {
                    listeners: listeners::again(&doors, api.as_ref(), health.as_ref())?,
                    admin: admin.listener().map_err(StartError::Socket)?,
                    store: movable.clone(),
                    guests: admin.processes(),
                    predecessors: predecessors.clone(),
                };
                let handing = Handing {
                    path,
                    store: movable.clone(),
                    clock,
                };
                Some((succession, handing))
            }
            _ => None,
        };
        let sharing = Arc::new(Sharing {
            me,
            store: Arc::clone(&store),
            movable,
            fleet: Arc::clone(&fleet),
            broker: broker.clone(),
            intake: intake.clone(),
            keys: keys.clone(),
            commands: commands.clone(),
            clock,
            following: CancellationToken::new(),
            telling: CancellationToken::new(),
            followers: TaskTracker::new(),
            tellers: TaskTracker::new(),
            begun: OnceLock::new(),
            rests: Arc::default(),
        });
        if store.is_shared() {
            sharing.begin();
        }
        let prober = Prober {
            checks,
            config: in_force.current(),
        };
        let watched = Health {
            metrics,
            fleet: Arc::clone(&fleet),
            tunnels: Arc::clone(gateway.tunnels()),
            limits: Arc::clone(gateway.limits()),
            pool: Arc::clone(gateway.pool()),
            config: in_force.current(),
            decisions,
            store,
            gate: broker.gate(),
            degraded,
            certificates: Arc::clone(&certificates),
            reload: None,
            pulse: Pulse::new(clock),
            listening: Arc::new(AtomicBool::new(false)),
            stop: shutdown.stop.clone(),
            descriptors,
            started: clock.now(),
            clock,
        };
        Ok(Self {
            descriptors,
            gateway: Arc::new(gateway),
            doors,
            certificates,
            prober,
            replicas,
            keeper,
            recorder,
            intake,
            keeping,
            commands,
            trail: audit,
            audit: writer,
            admin,
            api,
            keys,
            uses,
            health: health.map(|listener| (listener, watched)),
            broker,
            modes,
            clock,
            shutdown,
            fleet,
            in_force: Arc::new(in_force),
            reloading: None,
            sharing,
            succession,
            taking,
            predecessors,
        })
    }
}
