//! The parts at work, and their end in order: who places, who carries, who writes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::App;
use super::draining::drain;
use super::room::say_what_there_is_room_for;

use crate::api::{Api, Serving};
use crate::commands::Restarts;
use crate::supervisor;
use crate::tunnel;

/// How long tunnels that were told to end may take over it.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(10);

impl App {
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
            let gateway = &self.gateway;
            let (quiet, loud) = (Arc::clone(gateway.quiet()), Arc::clone(gateway.loud()));
            let pulse = watched.pulse.clone().run(move || {
                let (quiet, loud) = (Arc::clone(&quiet), Arc::clone(&loud));
                async move {
                    tokio::join!(quiet.answers(), loud.answers());
                }
            });
            background.spawn(stopped.clone().run_until_cancelled_owned(pulse));
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
        // What did not end in time is cut here as on the runtime.
        self.gateway.quiet().end();
        self.gateway.loud().end();
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
