//! One seed's day: the world goes on, things happen, the broker decides, the
//! shadow watches.

use std::time::Duration;

use sessionguard::placement::{
    Decision, HostId, LeaseRecord, Request, SessionState, Snapshot, Timestamp, TunnelId, UserKey,
};

use super::ask::Ask;
use super::broker::Broker;
use super::dice::Dice;
use super::model::Model;
use super::replay::Log;
use super::scene::Scene;
use super::script::{Event, Fate, last_fate, pause};
use super::sightings::Gone;
use super::sweep;
use super::tally::Tally;
use super::verdict::Violation;
use super::world::{News, World};

/// The function under test.
pub(super) type Decide = fn(&Snapshot, &Request, &LeaseRecord, Timestamp) -> Decision;

/// Everything of one day.
pub(super) struct Day {
    pub(super) decide: Decide,
    pub(super) dice: Dice,
    pub(super) now: Timestamp,
    /// The latest moment ever reached: clocks are set back, leases are not.
    pub(super) latest: Timestamp,
    pub(super) scene: Scene,
    pub(super) world: World,
    pub(super) broker: Broker,
    pub(super) model: Model,
    pub(super) gone: Gone,
    pub(super) lives: Vec<Life>,
    pub(super) tally: Tally,
    pub(super) log: Log,
    pub(super) tunnels: u64,
}

/// A tunnel as its user lives it.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) id: TunnelId,
    pub(super) ask: Ask,
    /// The account that logs on.
    pub(super) account: UserKey,
    pub(super) host: HostId,
    pub(super) stands: bool,
    pub(super) fate: Fate,
    pub(super) at: Timestamp,
}

pub(super) type Checked = Result<(), Violation>;

impl Day {
    pub(super) fn new(seed: u64, decide: Decide, log: Log) -> Self {
        let mut dice = Dice::new(seed);
        let scene = Scene::new(&mut dice);
        let mut day = Self::at(scene, dice, decide, log);
        day.world.choose_liar(&mut day.dice);
        day
    }

    /// A day in a given scene.
    pub(super) fn at(scene: Scene, mut dice: Dice, decide: Decide, log: Log) -> Self {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let world = World::new(&scene, now, &mut dice);
        let mut day = Self {
            broker: Broker::new(scene.directory()),
            decide,
            now,
            latest: now,
            world,
            model: Model::default(),
            gone: Gone::new(),
            lives: Vec::new(),
            tally: Tally::default(),
            log,
            tunnels: 0,
            scene,
            dice,
        };
        day.probe_all();
        day
    }

    pub(super) fn step(&mut self) -> Checked {
        let pause = pause(&mut self.dice);
        self.pass(pause)?;
        let event = Event::roll(&mut self.dice);
        self.happen(event)?;
        sweep::after_step(self)
    }

    /// Time passes, in ticks that keep every promise about how often things
    /// are done.
    pub(super) fn pass(&mut self, mut span: Duration) -> Checked {
        const TICK: Duration = Duration::from_secs(30);
        while span > TICK {
            self.tick(Duration::from_secs(12))?;
            span -= Duration::from_secs(12);
        }
        self.tick(span)
    }

    fn tick(&mut self, span: Duration) -> Checked {
        self.set_clock(self.now + span);
        let news = self.world.pass(self.now, &mut self.dice);
        self.hear(news)?;
        self.fulfil();
        self.keep();
        Ok(())
    }

    pub(super) fn set_clock(&mut self, now: Timestamp) {
        self.now = now;
        self.latest = self.latest.max(now);
    }

    pub(super) fn hear(&mut self, news: Vec<News>) -> Checked {
        for item in news {
            match item {
                News::Probe(host, answers) => self.hear_probe(&host, answers),
                News::Report(host, report) => {
                    let count = report.sessions.len();
                    self.log
                        .say(self.now, || format!("{host} reports {count} sessions"));
                    self.hear_report(&host, report)?;
                }
            }
        }
        Ok(())
    }

    fn hear_probe(&mut self, host: &HostId, answers: bool) {
        self.broker.probed(host, answers, self.now);
        // Hosts out of the configuration are not asked.
        let configured = self.scene.hosts.iter().any(|known| known.id == *host);
        if configured && self.model.probed(host, answers, self.now) {
            self.log
                .say(self.now, || format!("{host} flaps: its breaker opens"));
            self.tally.happened("breaker opened by a flapping probe");
        }
    }

    pub(super) fn probe_all(&mut self) {
        let news = self.world.probe_all(self.now);
        let heard = self.hear(news);
        heard.expect("a probe breaks no rule");
    }

    pub(super) fn keep(&mut self) {
        let lease = self.scene.rules.lease;
        for written in self.broker.keep(self.now) {
            self.model.written(&written, lease, self.now);
        }
    }

    fn fulfil(&mut self) {
        let now = self.now;
        let due: Vec<_> = self
            .lives
            .iter()
            .filter(|life| life.at <= now)
            .cloned()
            .collect();
        for life in due {
            // Somebody's signing out may have ended it meanwhile.
            if self.lives.iter().any(|l| l.id == life.id) {
                self.meet(life);
            }
        }
    }

    pub(super) fn meet(&mut self, life: Life) {
        match life.fate {
            Fate::Stand => {
                let machine = self.world.machine(&life.host);
                if machine.up && !machine.sick {
                    self.stand(life);
                } else {
                    self.fail(&life);
                }
            }
            Fate::GiveUp => self.end(&life),
            Fate::Leave => self.leave(&life),
            Fate::LogOff => self.log_off(&life),
        }
    }

    fn lag(&mut self) -> Duration {
        match self.dice.below(10) {
            0 => self.dice.seconds(0, 5),
            _ => Duration::ZERO,
        }
    }

    fn stand(&mut self, life: Life) {
        let (now, lag) = (self.now, self.lag());
        self.log.say(now, || {
            format!("{} of {} stands on {}", life.id, life.account, life.host)
        });
        self.broker.stood(&life.id, &life.host, lag, now);
        self.model.stood(&life.id, now);
        let state = match self.dice.chance(80) {
            true => SessionState::Active,
            false => SessionState::Connected,
        };
        self.world
            .machine(&life.host)
            .log_on(&life.account, state, now);
        let (fate, after) = last_fate(&mut self.dice);
        let life = self.lives.iter_mut().find(|l| l.id == life.id).unwrap();
        (life.stands, life.fate, life.at) = (true, fate, now + after);
        self.tally.stood += 1;
    }

    /// The machine fails the attempt.
    fn fail(&mut self, life: &Life) {
        let now = self.now;
        self.log.say(now, || {
            format!("{} of {} fails on {}", life.id, life.account, life.host)
        });
        self.broker.attempt_failed(&life.id, &life.host, now);
        if self.model.attempt_failed(&life.id, now) {
            self.log
                .say(now, || format!("the breaker of {} opens", life.host));
            self.tally.happened("breaker opened by attempts");
        }
        self.end(life);
    }

    /// The tunnel is gone, for whatever reason.
    pub(super) fn end(&mut self, life: &Life) {
        let (now, lag) = (self.now, self.lag());
        self.log.say(now, || {
            format!("{} of {} ends on {}", life.id, life.account, life.host)
        });
        self.broker.ended(&life.id, &life.host, lag, now);
        self.model.ended(&life.id);
        self.lives.retain(|l| l.id != life.id);
        self.tally.never_stood += usize::from(!life.stands);
    }

    pub(super) fn leave(&mut self, life: &Life) {
        self.end(life);
        let same = |l: &Life| l.stands && l.host == life.host && l.account == life.account;
        if !self.lives.iter().any(same) {
            self.world.machine(&life.host).leave(&life.account);
        }
    }

    fn log_off(&mut self, life: &Life) {
        let same = |l: &&Life| l.stands && l.host == life.host && l.account == life.account;
        let all: Vec<_> = self.lives.iter().filter(same).cloned().collect();
        for life in all {
            self.end(&life);
        }
        self.world.machine(&life.host).log_off(&life.account);
    }
}
