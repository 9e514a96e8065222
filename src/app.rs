//! The one place where the parts are wired: configuration in, running broker
//! out. Sockets are bound while it is built, so that who built it can ask for
//! the ports before anything runs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::api::{
    AdminSocket, Api, ApiListener, Health, HealthError, HealthListener, Pulse, SocketError,
};
use crate::audit::{self, Audit};
use crate::broker::{Broker, CatchUp, Decisions, Keeper, Modes, Recorder};
use crate::clock::Clock;
use crate::commands::{Commands, Restarts};
use crate::config::{
    Apply, AuditTarget, Cause, Config, HostPort, InForce, LogLevel, Origin, Reload, Reloader,
    StoreKind,
};
use crate::descriptors::Descriptors;
use crate::entrance;
use crate::fleet::{Checks, Fleet, Prober};
use crate::follow::{self, Follower, GuestList};
use crate::keys::{Keyring, Uses};
use crate::metrics::{Metered, Metrics};
use crate::replicas::{Reached, Replicas};
use crate::reports::{Intake, Keeping};
use crate::shutdown::{Hangups, Shutdown};
use crate::store::{self, Opened, Store, StoreError};
use crate::tls::{self, Acceptor, Certificates};
use crate::tunnel::{self, Door, Gateway, Room};

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
    /// `None`: nobody else shares the store.
    following: Option<Following>,
}

/// What keeps up with other replicas.
type Following = (Follower<Stored>, GuestList<Stored>);
type Stored = Metered<Opened>;

/// What keeps up with the files a configuration came from.
#[derive(Debug)]
struct Reloading {
    reloader: Reloader,
    reload: Reload,
    hangups: Hangups,
}

/// Why a broker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}; {}", mend(error))]
    Listen {
        /// The address as configured.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] tls::Fault),
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The running broker could not be asked.
    #[error(transparent)]
    Admin(#[from] SocketError),
    /// Health and metrics could not be asked for.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The API's address cannot be listened on.
    #[error(
        "the API cannot listen on {address}: {error}; set listen in [api] to another address or to \"off\""
    )]
    Api {
        /// The address as configured.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The audit trail cannot be written.
    #[error(
        "cannot write the audit trail{}: {error}; set audit in [log]",
        place(target)
    )]
    Audit {
        /// Where it should go.
        target: AuditTarget,
        /// What the system said.
        error: io::Error,
    },
}

fn place(target: &AuditTarget) -> String {
    match target {
        AuditTarget::File(path) => format!(" {}", path.display()),
        AuditTarget::Off | AuditTarget::Stdout => String::new(),
    }
}

fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has it: a guacd, perhaps, that should move to the address in [guacd]"
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege",
        _ => "choose another in [[listen]]",
    }
}

impl App {
    /// Binds the listeners, opens the store and takes over the leases in it.
    ///
    /// # Errors
    /// What keeps it from starting; nothing runs then.
    pub async fn build(config: &Config, shutdown: Shutdown) -> Result<Self, StartError> {
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
        let store = store::open(&config.store, database.transpose()?, clock).await?;
        let store = Arc::new(Metered::new(store, Arc::clone(&metrics)));
        let sharing = store
            .is_shared()
            .then(|| (follow::replica(), CatchUp::default()));
        if let Some((me, _)) = &sharing {
            info!(replica = %me, "Other replicas may share the store");
            fleet.shares_as(me.clone());
        }
        let admin = config.admin_socket();
        let admin = admin.map(|path| AdminSocket::bind(&path)).transpose()?;
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
        let mut broker = broker.keeping(Arc::clone(&decisions));
        let commands = Commands::open(store.clone(), clock).await?;
        let (intake, keeping) = Intake::open(Arc::clone(&fleet), store.clone(), clock).await?;
        let following = sharing.map(|(me, catch_up)| {
            broker = broker.clone().following(catch_up.clone());
            commands.share();
            let follower = Follower {
                store: Arc::clone(&store),
                catch_up,
                fleet: Arc::clone(&fleet),
                broker: broker.clone(),
                intake: intake.clone(),
                keys: keys.clone(),
                commands: commands.clone(),
                clock,
            };
            let guests = GuestList {
                store: Arc::clone(&store),
                fleet: Arc::clone(&fleet),
                me,
                clock,
            };
            (follower, guests)
        });
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
        let replicas = match store.is_shared() {
            true => Some(Replicas::open(store.clone(), reached(&doors)).await?),
            false => None,
        };
        let gateway = gateway.beside(replicas.clone());
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
            following,
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
        if let Some(replicas) = self.replicas {
            background.spawn(replicas.run(self.shutdown.stop.clone()));
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
        let asked = [admin, listener].map(|served| {
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
        if let Some(reloading) = self.reloading {
            background.spawn(stopped.clone().run_until_cancelled_owned(reloading.run()));
        }
        let following = CancellationToken::new();
        let guests = self.following.map(|(follower, guests)| {
            background.spawn(follower.run(following.clone()));
            tokio::spawn(guests.run(recording.clone()))
        });
        let keeper = tokio::spawn(self.keeper.run());
        let (accepting, tunnels) = (TaskTracker::new(), TaskTracker::new());
        for door in self.doors {
            if let Ok(address) = door.listener.local_addr() {
                info!(%address, tls = door.tls.is_some(), "Listening");
            }
            let (gateway, stop) = (Arc::clone(&self.gateway), self.shutdown.stop.clone());
            accepting.spawn(tunnel::accept(gateway, door, tunnels.clone(), stop));
        }
        accepting.close();
        listening.store(true, Ordering::Relaxed);
        accepting.wait().await;
        tunnels.close();
        let patience = self.in_force.current().get().timeouts.drain;
        drain(&tunnels, &self.shutdown.end, patience).await;
        // With the last tunnel gone, and nobody asking, nobody can tell the
        // keeper anything more: it writes what it has and ends.
        drop(asked);
        drop(self.gateway);
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
        if let Some(guests) = guests
            && timeout(LAST_WORDS, guests).await.is_err()
        {
            warn!("Other replicas may count tunnels of this one for a while");
        }
        if let Some(audit) = self.audit {
            audit.finish().await;
        }
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

/// Where other replicas reach us, with the port the system chose.
fn reached(doors: &[Door]) -> Reached {
    let found = doors.iter().find_map(|door| {
        let advertised = door.settings.advertise.as_ref()?;
        let bound = door.listener.local_addr().ok()?.port();
        let address = HostPort {
            host: advertised.host.clone(),
            port: advertised.port.unwrap_or(bound),
        };
        Some((address, door.tls.clone()))
    });
    let (address, acceptor) = found.unzip();
    let acceptor = acceptor.flatten();
    Reached {
        address,
        certificate: Box::new(move || acceptor.as_ref().and_then(Acceptor::fingerprint)),
    }
}

fn say_what_there_is_room_for(descriptors: Descriptors, config: &Config, gateway: &Gateway) {
    let most = gateway.limits().most_tunnels();
    info!(
        descriptors = descriptors.limit(),
        reserve = descriptors.reserve(),
        max_tunnels = most,
        max_guacd_dials = config.limits.max_guacd_dials,
        "Room for tunnels"
    );
    if let Some(wanted) = config.limits.max_tunnels.filter(|wanted| *wanted > most) {
        warn!(
            wanted,
            most,
            "max_tunnels in [limits] is more than the hard limit of descriptors allows: raise that \
             to four times the tunnels (ulimit -Hn, LimitNOFILE=)"
        );
    }
}

/// Waits for the tunnels to end by themselves, then makes them.
async fn drain(tunnels: &TaskTracker, end: &CancellationToken, patience: Duration) {
    if !tunnels.is_empty() {
        info!(tunnels = tunnels.len(), patience = ?patience, "Waiting for open tunnels");
    }
    tokio::select! {
        () = tunnels.wait() => return,
        () = end.cancelled() => {}
        () = tokio::time::sleep(patience) => {
            info!(reason = "drain_timeout", "Ending open tunnels");
            end.cancel();
        }
    }
    if timeout(LAST_WORDS, tunnels.wait()).await.is_err() {
        warn!(
            tunnels = tunnels.len(),
            "Some tunnels did not end in time and are cut"
        );
    }
}
