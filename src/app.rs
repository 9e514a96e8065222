//! The one place where the parts are wired: configuration in, running broker
//! out. Sockets are bound while it is built, so that who built it can ask for
//! the ports before anything runs.

mod draining;
mod handing;
mod room;
mod sharing;
mod start_error;

use std::net::{SocketAddr, TcpListener as Bound};
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::api::{AdminSocket, Api, ApiListener, Health, HealthListener, Pulse, Serving};
use crate::audit::{self, Audit};
use crate::broker::{Broker, Decisions, Keeper, Modes, Recorder};
use crate::clock::Clock;
use crate::commands::{Commands, Restarts};
use crate::config::{Apply, Cause, Config, InForce, LogLevel, Origin, Reload, Reloader, StoreKind};
use crate::descriptors::Descriptors;
use crate::entrance;
use crate::fleet::{Checks, Fleet, Prober};
use crate::follow;
use crate::keys::{Keyring, Uses};
use crate::metrics::{Metered, Metrics};
use crate::replicas::{Predecessors, Replicas};
use crate::reports::{Intake, Keeping};
use crate::shutdown::{Hangups, Shutdown};
use crate::store::{self, Opened, Store};
use crate::succession::{Succession, TakeError, Taking};
use crate::supervisor;
use crate::tls::Certificates;
use crate::tunnel::{self, Door, Gateway, Room};

use draining::drain;
use handing::Handing;
use room::{reached, say_what_there_is_room_for};
use sharing::Sharing;
pub use start_error::StartError;

/// How long tunnels that were told to end may take over it.
const LAST_WORDS: Duration = Duration::from_secs(10);

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
        let mut doors = Vec::with_capacity(config.listen.len());
        for listen in &config.listen {
            let address = listen.address;
            let bound = entrance::listen(address).and_then(TcpListener::from_std);
            let listener = bound.map_err(|error| StartError::Listen { address, error })?;
            let tls = listen.tls.as_ref().map(|tls| certificates.acceptor(tls));
            doors.push(Door {
                listener,
                settings: listen.clone(),
                tls: tls.transpose()?,
                joins_only: false,
            });
        }
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
        let api = match config.api.listen {
            Some(address) => {
                let tls = config.api.tls.as_ref();
                let tls = tls.map(|tls| certificates.acceptor(tls)).transpose()?;
                let bound = ApiListener::bind(address, tls);
                Some(bound.map_err(|error| StartError::Api { address, error })?)
            }
            None => None,
        };
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
        let mut listeners = Vec::new();
        for door in &doors {
            let same = door.listener.as_fd().try_clone_to_owned();
            listeners.push(Bound::from(same.map_err(StartError::Socket)?));
        }
        let asked = api.iter().map(ApiListener::listener);
        let asked = asked.chain(health.iter().map(HealthListener::listener));
        listeners.extend(
            asked
                .collect::<Result<Vec<_>, _>>()
                .map_err(StartError::Socket)?,
        );
        let succession = match (&mut admin, config.admin_socket()) {
            (Some(admin), Some(path)) => {
                let succession = Succession {
                    listeners,
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

    /// Runs until it is told to stop and its tunnels have ended.
    pub async fn run(self) {
        say_what_there_is_room_for(
            self.descriptors,
            &self.in_force.current().get(),
            &self.gateway,
        );
        let background = TaskTracker::new();
        let stopped = CancellationToken::new();
        let (mut listening, mut health) = (Arc::default(), None);
        if let Some((listener, mut watched)) = self.health {
            watched.reload = self.reloading.as_ref().map(|it| it.reload.clone());
            listening = Arc::clone(&watched.listening);
            let pulse = watched.pulse.clone();
            background.spawn(stopped.clone().run_until_cancelled_owned(pulse.run()));
            let serving = listener.serve(watched);
            health = serving
                .inspect_err(|error| warn!(%error, "Health and metrics cannot be served"))
                .ok();
        }
        background.spawn(stopped.clone().run_until_cancelled_owned(self.prober.run()));
        background.spawn(stopped.clone().run_until_cancelled_owned(self.uses.run()));
        // Others find us for as long as joins of our tunnels can be made.
        let present = self.shutdown.stop.child_token();
        if let Some(replicas) = self.replicas {
            background.spawn(replicas.run(present.clone()));
        }
        let restarts = Restarts {
            commands: self.commands.clone(),
            modes: self.modes.clone(),
            fleet: Arc::clone(&self.fleet),
            clock: self.clock,
        };
        let api = Arc::new(Api {
            broker: self.broker,
            modes: self.modes,
            fleet: self.fleet,
            intake: self.intake,
            commands: self.commands,
            restarts,
            tunnels: Arc::clone(self.gateway.tunnels()),
            predecessors: self.predecessors,
            limits: Arc::clone(self.gateway.limits()),
            pool: Arc::clone(self.gateway.pool()),
            trail: self.trail,
            config: self.in_force.current(),
            reload: self
                .reloading
                .as_ref()
                .map(|reloading| reloading.reload.clone()),
            keys: self.keys,
            clock: self.clock,
            certificates: self.certificates,
        });
        // A broker that cannot be asked still places.
        let admin = self.admin.map(|socket| socket.serve(Arc::clone(&api)));
        let callers = self.descriptors.callers();
        let listener = self.api.map(|it| it.serve(Arc::clone(&api), callers));
        let mut asked = [admin, listener].map(|served| {
            let served = served.transpose();
            served.unwrap_or_else(|error| {
                warn!(%error, "The running broker cannot be asked");
                None
            })
        });
        drop(api);
        let recording = CancellationToken::new();
        let recorder = tokio::spawn(self.recorder.run(recording.clone()));
        let keeping = tokio::spawn(self.keeping.run(recording.clone()));
        // Files that another process goes by are none of ours.
        let reloads = stopped.child_token();
        if let Some(reloading) = self.reloading {
            background.spawn(reloads.clone().run_until_cancelled_owned(reloading.run()));
        }
        let keeper = tokio::spawn(self.keeper.run());
        let (accepting, tunnels) = (TaskTracker::new(), TaskTracker::new());
        let (closing, joining) = (self.shutdown.stop.child_token(), CancellationToken::new());
        let settings = self.doors.first().map(|door| door.settings.clone());
        for door in self.doors {
            if let Ok(address) = door.listener.local_addr() {
                info!(%address, tls = door.tls.is_some(), "Listening");
            }
            let (gateway, closing) = (Arc::clone(&self.gateway), closing.clone());
            accepting.spawn(tunnel::accept(gateway, door, tunnels.clone(), closing));
        }
        accepting.close();
        listening.store(true, Ordering::Relaxed);
        if let Some(taking) = self.taking {
            match taking.ready().await {
                Ok(()) => info!("Took over"),
                Err(error) => warn!(%error, "The other process ended before it had handed over"),
            }
        }
        let patience = self.in_force.current();
        let predecessors = self.gateway.predecessors().clone();
        let draining = async {
            closing.cancelled().await;
            accepting.wait().await;
            tunnels.close();
            let patience = patience.get().timeouts.drain;
            drain(&tunnels, &predecessors, &self.shutdown.end, patience).await;
        };
        let mut draining = pin!(draining);
        if let Some((succession, handing)) = self.succession {
            let share = Arc::clone(&self.sharing);
            let succession = succession.run(&self.shutdown.stop, || share.begin());
            let given = tokio::select! {
                given = Box::pin(succession) => Some(given),
                () = &mut draining => None,
            };
            if let Some(given) = given {
                closing.cancel();
                accepting.wait().await;
                reloads.cancel();
                let served = asked.iter_mut().filter_map(Option::take);
                served.for_each(Serving::hand_over);
                drop(health.take());
                let joins = handing.joins(settings, &self.gateway, &tunnels, &joining);
                let joins = joins.await;
                share.rests.store(true, Ordering::Relaxed);
                if handing.store.is_some() {
                    share.begin();
                }
                let beside = handing.beside(joins, &self.gateway);
                background.spawn(beside.run(stopped.clone()));
                supervisor::handed_over(given.by());
                given.stopped().await;
                info!("Handed over: this process goes on until its tunnels have ended");
                draining.await;
            }
        } else {
            draining.await;
        }
        // With the last tunnel gone, and nobody asking, nobody can tell the
        // keeper anything more: it writes what it has and ends.
        drop(asked);
        joining.cancel();
        present.cancel();
        drop(self.gateway);
        let sharing = (self.sharing.following.clone(), self.sharing.telling.clone());
        let (following, telling) = sharing;
        let (followers, tellers) = (self.sharing.followers.clone(), self.sharing.tellers.clone());
        drop(self.sharing);
        following.cancel();
        if timeout(LAST_WORDS, keeper).await.is_err() {
            warn!("The last leases could not be written; they run out by themselves");
        }
        recording.cancel();
        if timeout(LAST_WORDS, recorder).await.is_err() {
            warn!("The last decisions could not be stored");
        }
        if timeout(LAST_WORDS, keeping).await.is_err() {
            warn!("The last reports could not be stored; agents will report again");
        }
        telling.cancel();
        tellers.close();
        if timeout(LAST_WORDS, tellers.wait()).await.is_err() {
            warn!("Other replicas may count tunnels of this one for a while");
        }
        if let Some(audit) = self.audit {
            audit.finish().await;
        }
        followers.close();
        followers.wait().await;
        stopped.cancel();
        background.close();
        background.wait().await;
        drop(health);
        info!("Stopped");
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
