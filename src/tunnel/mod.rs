//! The data path: one Guacamole connection from accept to close.
//!
//! Accept, handshake, resolve, place, rewrite, attempt, relay; a file a step, the
//! story in `Gateway::serve`, the end of it in `relay`. Nothing of a handshake is ever copied through: what
//! guacd reads was parsed here and encoded anew. Parameter values are never
//! logged, at any level.

mod accept;
mod ask;
mod attempts;
mod dial;
mod ids;
mod joins;
mod lane;
mod limits;
mod line;
mod liveness;
mod loud;
mod open;
mod outcome;
mod place;
mod pool;
mod quiet;
mod refuse;
mod registry;
mod relay;
mod resolve;
mod rewrite;
mod secure;
mod stop;
mod told;
mod trace;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arcstr::ArcStr;
use guac_protocol::{ConnectionId, Event, Instruction, Rest, Select, Side};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

use crate::broker::{Broker, Hold};
use crate::clock::Clock;
use crate::config;
use crate::entrance::Pass;
use crate::metrics::{Metrics, Phase};
use crate::placement::{HostId, TunnelId};
use crate::replicas::{Predecessors, Replicas};
use crate::shutdown::Shutdown;
use crate::tls::{Certificates, Stream};

use accept::Reception;
pub use accept::{Door, accept};
use attempts::{Errand, Placed};
use joins::Seat;
pub use limits::{Limits, Load, Room};
use line::Line;
pub use loud::Loud;
pub use open::{Facts, Kind, Open, Totals, Tunnels};
use outcome::Outcome;
use pool::Dialled;
pub use pool::{GuacdStanding, Pool};
pub use quiet::Quiet;
use registry::{Owned, Registered, Registry};
use relay::Relay;
use resolve::Intent;
use stop::Stop;

/// How long dialling guacd and its `args` may take together. It answers at once
/// unless it is ill, and a refusal must still find the page waiting.
const ARGS_WITHIN: Duration = Duration::from_secs(8);

/// What all our own waiting may come to, from `select` to guacd's `ready`: the
/// page waits 15 s from the click on, and a refusal must be written and read,
/// too. Guacamole's own time between `args` and `connect` is not counted.
const READY_WITHIN: Duration = Duration::from_secs(13);

/// How long a join may wait for the desktop of the tunnel it wants a seat in;
/// what is left of [`READY_WITHIN`] is for guacd.
const JOIN_WITHIN: Duration = Duration::from_secs(9);

/// How long another replica may take over the `args` of a connection that it
/// has: as long as a join waits there, and a moment for the way.
const REPLICA_WITHIN: Duration = Duration::from_secs(11);

/// What every tunnel shares.
#[derive(Debug)]
pub struct Gateway {
    broker: Broker,
    /// Where guacd is and how long a placement may take; each connection goes
    /// by what is in force when it comes.
    config: config::Current,
    /// How guacds are known that speak TLS.
    certificates: Arc<Certificates>,
    registry: Arc<Registry>,
    pool: Arc<Pool>,
    /// Who else may have the tunnel that is to be joined; `None` where nobody
    /// shares our store.
    replicas: Option<Arc<Replicas>>,
    /// Those on this machine that have tunnels of an earlier version.
    predecessors: Predecessors,
    tunnels: Arc<Tunnels>,
    quiet: Arc<Quiet>,
    loud: Arc<Loud>,
    limits: Arc<Limits>,
    metrics: Arc<Metrics>,
    /// Cancelled when nobody is served anew.
    stop: CancellationToken,
    /// Cancelled when open tunnels must end.
    end: CancellationToken,
}

/// How far a handshake came.
enum Shaken {
    /// To guacd's `ready`.
    Ready(Box<Ready>),
    /// To a place on a host, which is still to be tried.
    Placed(Box<(Errand, Placed)>),
}

/// Guacamole's and guacd's, and what was read of both beyond the handshake.
type Sockets = (Stream, Dialled, Rest);

/// What a tunnel has once its handshake is over.
struct Ready {
    hold: Option<Hold>,
    /// The id Guacamole was given; kept for as long as it may be joined.
    issued: Option<Registered>,
}

impl Gateway {
    /// A gateway to guacd, until `shutdown`.
    pub fn new(
        broker: Broker,
        config: config::Current,
        certificates: Arc<Certificates>,
        shutdown: &Shutdown,
        clock: Clock,
    ) -> Self {
        let metrics = Arc::clone(broker.decisions().metrics());
        Self {
            pool: Pool::new(Arc::clone(&certificates), Arc::clone(&metrics)),
            replicas: None,
            predecessors: Predecessors::default(),
            metrics,
            broker,
            limits: Limits::new(config.clone(), Room::UNKNOWN),
            config,
            certificates,
            registry: Arc::default(),
            tunnels: Tunnels::new(clock),
            quiet: Arc::default(),
            loud: Arc::default(),
            stop: shutdown.stop.clone(),
            end: shutdown.end.clone(),
        }
    }

    /// The same with no more than there is room for.
    #[must_use]
    pub fn within(self, room: Room) -> Self {
        let limits = Limits::new(self.config.clone(), room);
        Self { limits, ..self }
    }

    /// The same beside these replicas.
    #[must_use]
    pub fn beside(self, replicas: Option<Arc<Replicas>>) -> Self {
        let tag = replicas.as_ref().map(|replicas| replicas.me());
        Self {
            registry: Arc::new(Registry::of(tag)),
            replicas,
            ..self
        }
    }

    /// The same after these processes, which have tunnels of their own.
    #[must_use]
    pub fn after(self, predecessors: Predecessors) -> Self {
        Self {
            predecessors,
            ..self
        }
    }

    /// Those that have tunnels of an earlier version.
    pub fn predecessors(&self) -> &Predecessors {
        &self.predecessors
    }

    /// Connection ids that this process gave out: whether one is among them.
    pub fn issued(&self) -> impl Fn(&str) -> bool + Send + Sync + use<> {
        let registry = Arc::clone(&self.registry);
        move |id| ConnectionId::parse(id).is_some_and(|id| registry.knows(&id))
    }

    /// The guacds that tunnels go to.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How much is served at a time.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The tunnels that are open.
    pub fn tunnels(&self) -> &Arc<Tunnels> {
        &self.tunnels
    }

    /// The threads of quiet tunnels.
    pub fn quiet(&self) -> &Arc<Quiet> {
        &self.quiet
    }

    /// The runtime of loud tunnels.
    pub fn loud(&self) -> &Arc<Loud> {
        &self.loud
    }

    /// Shakes hands with one connection of Guacamole; what is left to be done with
    /// it then, where it was served.
    async fn serve(
        self: &Arc<Self>,
        socket: TcpStream,
        reception: &Reception,
        pass: Pass,
    ) -> Option<Box<Relay>> {
        let listen = &reception.settings;
        let id = TunnelId::from(Uuid::now_v7().to_string());
        let peer = socket.peer_addr().ok();
        let mut outcome = Outcome::new(self.tunnels.entry(id, peer));
        let open = Arc::clone(outcome.entry().open());
        let first_byte_by = Instant::now() + listen.first_byte_timeout;
        let opened = secure::open(socket, reception, first_byte_by);
        // Who has not said a word yet has nothing to be waited for.
        let stream = self.stop.run_until_cancelled(Box::pin(opened)).await??;
        let mut line = Line::new(stream);
        let shaken = self.shake_hands(&mut line, (reception, first_byte_by), &pass, &mut outcome);
        // Boxed, here and below: what waits for a word shall be small, and each
        // wrapper round a future may keep it twice.
        let shaken = match open.told().unless_told(Box::pin(shaken)).await {
            Some(shaken) => shaken,
            None => Err(outcome.entry().told_to_end()),
        };
        let served = match shaken {
            Ok(Shaken::Ready(ready)) => line.into_sockets().map(|sockets| (sockets, *ready)),
            Ok(Shaken::Placed(errand)) => {
                let sought = self.seek(line, errand, &mut outcome);
                match Box::pin(sought).await {
                    Ok(served) => served,
                    Err(stop) => {
                        self.conclude(&outcome, &stop);
                        return None;
                    }
                }
            }
            Err(stop) => {
                let answered = refuse::answer(line.give_up(), &stop, outcome.tunnel());
                Box::pin(answered).await;
                self.conclude(&outcome, &stop);
                return None;
            }
        };
        match served {
            Ok((sockets, ready)) => {
                let gateway = Arc::clone(self);
                Some(Relay::new(sockets, ready, outcome, gateway, pass))
            }
            Err(error) => {
                let side = Side::Guacd;
                self.conclude(&outcome, &Stop::Socket { side, error });
                None
            }
        }
    }

    /// Seeks a desktop for a connection that was placed; where there is none that
    /// was told.
    async fn seek(
        &self,
        line: Line,
        placed: Box<(Errand, Placed)>,
        outcome: &mut Outcome,
    ) -> Result<io::Result<(Sockets, Ready)>, Stop> {
        let (errand, placed) = *placed;
        let open = Arc::clone(outcome.entry().open());
        let ((given_up, guacd), stop) = match line.into_waiting() {
            Err(broken) => {
                let (given_up, stop) = *broken;
                ((given_up, None), stop)
            }
            Ok(mut waiting) => {
                let span = outcome.trace.connection();
                let attempts = self.attempts(&mut waiting, &errand, placed, outcome);
                let attempts = attempts.instrument(span);
                let sought = open.told().unless_told(Box::pin(attempts)).await;
                match sought.unwrap_or_else(|| Err(outcome.entry().told_to_end())) {
                    Ok(ready) => {
                        return Ok(waiting.into_sockets().map(|sockets| (sockets, ready)));
                    }
                    Err(stop) => (waiting.give_up(), stop),
                }
            }
        };
        let answered = refuse::answer(given_up, &stop, outcome.tunnel());
        tokio::join!(answered, async {
            if let Some(guacd) = guacd {
                refuse::close(guacd).await;
            }
        });
        Err(stop)
    }

    /// The last of a tunnel: its line in the log, and a look at a host that may
    /// have lost it.
    fn conclude(&self, outcome: &Outcome, stop: &Stop) {
        outcome.log(stop);
        if let (Some(host), true) = (outcome.stood_on(), stop.may_be_the_hosts()) {
            self.look_at(&host);
        }
    }

    /// Has a host asked now, whatever comes of it: the picture learns of it, and
    /// whoever is placed next.
    fn look_at(&self, host: &HostId) {
        let (broker, host) = (self.broker.clone(), host.clone());
        tokio::spawn(async move { broker.check(&host).await });
    }

    /// From the first byte to guacd's `ready`, or to a place that is to be tried.
    async fn shake_hands(
        &self,
        line: &mut Line,
        (reception, first_byte_by): (&Reception, Instant),
        pass: &Pass,
        outcome: &mut Outcome,
    ) -> Result<Shaken, Stop> {
        let first = line.first_byte(first_byte_by);
        let first = self.stop.run_until_cancelled(first);
        // Who is not listed is told nothing.
        let first = self.end.run_until_cancelled(first).await.flatten();
        first.unwrap_or(Err(Stop::NothingSent))?;
        outcome.entry().list();
        let span = outcome.begin_trace();
        let agreed = self.agree(line, reception, pass, outcome);
        Box::pin(agreed.instrument(span)).await
    }

    /// The same from `select` on.
    async fn agree(
        &self,
        line: &mut Line,
        reception: &Reception,
        pass: &Pass,
        outcome: &mut Outcome,
    ) -> Result<Shaken, Stop> {
        let listen = &reception.settings;
        let mut lap = self.metrics.handshake();
        let started = timeout(listen.handshake_timeout, line.event()).await;
        let select = match started.map_err(|_| Stop::HandshakeTimeout)?? {
            Event::Selected(select) => select,
            other => return Err(Stop::unexpected(&other)),
        };
        lap.done(Phase::Select);
        // Whoever asks for a tunnel gets it or is told why not.
        pass.keep();
        outcome.counted = Some(self.limits.tunnel()?);
        let deadline = Instant::now() + listen.handshake_timeout;
        let config = self.config.get();
        let asking = Instant::now();
        let seat = match &select {
            Select::Protocol(_) if reception.joins_only => return Err(Stop::UnknownJoin),
            Select::Protocol(_) => None,
            Select::Join(id) => {
                let within = JOIN_WITHIN.min(listen.handshake_timeout);
                Some(self.seat_in(line, id, within).await?)
            }
        };
        let waited = asking.elapsed();
        let replica = match &seat {
            Some(Seat::Elsewhere(elsewhere)) => Some(elsewhere.owner.address.to_string()),
            Some(Seat::Here(_)) | None => None,
        };
        let within = match replica {
            Some(_) => REPLICA_WITHIN,
            None => ARGS_WITHIN,
        };
        let within = within.min(listen.handshake_timeout);
        let within = within.min(READY_WITHIN.saturating_sub(waited));
        let turn_by = Instant::now() + within / 2;
        let asked = self.ask_guacd(line, (&select, seat), &config, turn_by);
        let asked = timeout(within, Box::pin(asked)).await;
        asked.map_err(|_| match &replica {
            Some(address) => Stop::ReplicaUnreachable {
                address: address.clone(),
                reason: "it does not answer".to_owned(),
            },
            None => Stop::GuacdSilent,
        })??;
        let spent = asking.elapsed();
        lap.done(Phase::Args);
        let read = timeout_at(deadline, line.settings()).await;
        let mut parameters = read.map_err(|_| Stop::HandshakeTimeout)??;
        lap.done(Phase::Connect);
        let login = Some(line.user_name()).filter(|login| !login.is_empty());
        let login = login.map(ArcStr::from);
        outcome.entry().note(|facts| facts.login = login);
        let now = Instant::now();
        let latest = now + READY_WITHIN.saturating_sub(spent);
        let intent = {
            let source = listen.source.as_deref();
            let (added, login) = (line.is_widened(), line.user_name());
            Intent::read(&select, &mut parameters, added, login, source)
        };
        let placement = config.timeouts.placement;
        let by = latest.min(now + placement);
        let placed = self.settle(&intent, (&parameters, replica), line, by, outcome);
        let placed = Box::pin(placed).await?;
        lap.done(Phase::Placement);
        if let (Intent::Place(Ok(request)), Some(placed), Select::Protocol(protocol)) =
            (&intent, placed, &select)
        {
            let deadline = placed.attempt_deadline();
            let deadline = deadline.unwrap_or(config.attempts.deadline);
            let errand = Errand {
                request: request.clone(),
                parameters,
                settings: line.take_said(),
                protocol: protocol.clone(),
                guacd: config.guacd.clone(),
                stall: config.limits.stall,
                most: config.attempts.most,
                deadline: now + deadline.saturating_sub(spent),
                placement,
            };
            return Ok(Shaken::Placed(Box::new((errand, placed))));
        }
        let answered = timeout_at(latest, async {
            line.tell_connect(&parameters).await?;
            line.event().await
        });
        let answered = answered.await;
        let guacd_id = match answered.map_err(|_| Stop::GuacdSilent)?? {
            Event::Ready(id) => id,
            other => return Err(Stop::unexpected(&other)),
        };
        lap.done(Phase::Ready);
        let issued = match intent {
            Intent::Join(id) => {
                line.tell_guacamole(&Instruction::ready(&id)).await?;
                None
            }
            Intent::Place(_) | Intent::PassThrough(_) => {
                let Some(guacd) = line.guacd().and_then(Dialled::member).cloned() else {
                    return Err(Stop::Closed(Side::Guacd));
                };
                let issued = self.registry.issue(Owned {
                    guacd_id,
                    guacd,
                    tunnel: outcome.tunnel().clone(),
                });
                line.tell_guacamole(&Instruction::ready(issued.id()))
                    .await?;
                Some(issued)
            }
        };
        Ok(Shaken::Ready(Box::new(Ready { hold: None, issued })))
    }
}
