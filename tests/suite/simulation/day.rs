//! One seed's day: the world goes on, things happen, the broker decides, the
//! shadow watches.

use std::time::Duration;

use sessionguard::placement::{
    Decision, HostId, LeaseRecord, Mode, Outcome, Request, SessionState, Snapshot, Timestamp,
    TunnelId, UserKey,
};

use super::ask::Ask;
use super::broker::Broker;
use super::dice::Dice;
use super::expect::Ground;
use super::model::{Model, Seat};
use super::replay::Log;
use super::scene::{PEOPLE, Scene};
use super::script::{Event, Fate, first_fate, last_fate, pause};
use super::sweep;
use super::tally::Tally;
use super::verdict::{Rule, Violation, broken, judge, word};
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
    pub(super) lives: Vec<Life>,
    pub(super) tally: Tally,
    pub(super) log: Log,
    tunnels: u64,
}

/// A tunnel as its user lives it.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) id: TunnelId,
    ask: Ask,
    /// The account that logs on.
    account: UserKey,
    pub(super) host: HostId,
    pub(super) stands: bool,
    fate: Fate,
    at: Timestamp,
}

type Checked = Result<(), Violation>;

impl Day {
    pub(super) fn new(seed: u64, decide: Decide, log: Log) -> Self {
        let mut dice = Dice::new(seed);
        let scene = Scene::new(&mut dice);
        Self::at(scene, dice, decide, log)
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
        self.now = self.now + span;
        self.latest = self.latest.max(self.now);
        let news = self.world.pass(self.now, &mut self.dice);
        self.hear(news);
        self.fulfil();
        self.keep();
        Ok(())
    }

    pub(super) fn hear(&mut self, news: Vec<News>) {
        for item in news {
            match item {
                News::Probe(host, answers) => self.broker.probed(&host, answers, self.now),
                News::Report(host, report) => {
                    let count = report.sessions.len();
                    self.log.say(self.now, || format!("{host} reports {count} sessions"));
                    self.tally.reports += 1;
                    self.broker.reported(&host, report);
                }
            }
        }
    }

    fn probe_all(&mut self) {
        let news = self.world.probe_all(self.now);
        self.hear(news);
    }

    fn keep(&mut self) {
        let lease = self.scene.rules.lease;
        for written in self.broker.keep(self.now) {
            self.model.written(&written, lease, self.now);
        }
    }

    fn fulfil(&mut self) {
        let now = self.now;
        let due: Vec<_> = self.lives.iter().filter(|life| life.at <= now).cloned().collect();
        for life in due {
            // Somebody's signing out may have ended it meanwhile.
            if self.lives.iter().any(|l| l.id == life.id) {
                self.meet(life);
            }
        }
    }

    fn meet(&mut self, life: Life) {
        match life.fate {
            Fate::Stand if self.world.machine(&life.host).up => self.stand(life),
            Fate::Stand | Fate::GiveUp => self.end(&life),
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
        self.log.say(now, || format!("{} of {} stands on {}", life.id, life.account, life.host));
        self.broker.stood(&life.id, &life.host, lag, now);
        self.model.stood(&life.id, now);
        let state = match self.dice.chance(80) {
            true => SessionState::Active,
            false => SessionState::Connected,
        };
        self.world.machine(&life.host).log_on(&life.account, state, now);
        let (fate, after) = last_fate(&mut self.dice);
        let life = self.lives.iter_mut().find(|l| l.id == life.id).unwrap();
        (life.stands, life.fate, life.at) = (true, fate, now + after);
        self.tally.stood += 1;
    }

    /// The tunnel is gone, for whatever reason.
    fn end(&mut self, life: &Life) {
        let (now, lag) = (self.now, self.lag());
        self.log.say(now, || format!("{} of {} ends on {}", life.id, life.account, life.host));
        self.broker.ended(&life.id, &life.host, lag, now);
        self.model.ended(&life.id);
        self.lives.retain(|l| l.id != life.id);
        self.tally.never_stood += usize::from(!life.stands);
    }

    fn leave(&mut self, life: &Life) {
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

    fn happen(&mut self, event: Event) -> Checked {
        let index = |day: &mut Self| (!day.lives.is_empty()).then(|| day.dice.index(day.lives.len()));
        match event {
            Event::Connect => {
                let ask = Ask::roll(&self.scene, &mut self.dice);
                self.connect(&ask)?;
            }
            Event::Another | Event::Twice => {
                let Some(at) = index(self) else { return Ok(()) };
                let ask = self.lives[at].ask.again(&self.scene, &mut self.dice);
                match event {
                    Event::Twice => self.connect_twice(&ask)?,
                    _ => self.connect(&ask)?,
                }
            }
            Event::Rush => {
                for _ in 0..self.dice.between(5, 20) {
                    let ask = Ask::roll(&self.scene, &mut self.dice);
                    self.connect(&ask)?;
                }
            }
            Event::Close | Event::LogOff => {
                let Some(at) = index(self) else { return Ok(()) };
                let mut life = self.lives[at].clone();
                life.fate = match (life.stands, event) {
                    (false, _) => Fate::GiveUp,
                    (true, Event::Close) => Fate::Leave,
                    (true, _) => Fate::LogOff,
                };
                self.meet(life);
            }
            Event::Console => {
                let host = self.world.any_host(&mut self.dice);
                let account = self.dice.pick(&PEOPLE).account();
                let now = self.now;
                let machine = self.world.machine(&host);
                if machine.up {
                    machine.log_on(&account, SessionState::Active, now);
                }
            }
            Event::Reap => {
                let host = self.world.any_host(&mut self.dice);
                let sessions = &mut self.world.machine(&host).sessions;
                sessions.retain(|s| s.state != SessionState::Disconnected);
            }
            Event::Nothing => {}
            other => self.trouble(other),
        }
        Ok(())
    }

    /// Connects: decides, judges, takes the seat, claims.
    pub(super) fn connect(&mut self, ask: &Ask) -> Checked {
        let record = self.broker.read(&ask.request(&self.scene));
        self.connect_with(ask, &record, true)
    }

    /// Both read the lease before either has claimed it: the slower one's
    /// write will fail, and even what it decided before that is the same host.
    fn connect_twice(&mut self, ask: &Ask) -> Checked {
        let early = self.broker.read(&ask.request(&self.scene));
        self.connect_with(ask, &early, true)?;
        if self.scene.rules.max_tunnels_per_user.is_none() {
            self.connect_with(ask, &early, false)?;
        }
        self.connect(ask)
    }

    fn connect_with(&mut self, ask: &Ask, record: &LeaseRecord, seats: bool) -> Checked {
        let (now, request) = (self.now, ask.request(&self.scene));
        let ground = Ground {
            scene: &self.scene,
            model: &self.model,
            snapshot: &self.broker.snapshot,
            now,
        };
        let drawn = ground.draw(ask);
        let decision = (self.decide)(&self.broker.snapshot, &request, record, now);
        self.log.say(now, || format!("{ask:?} -> {:?}", decision.outcome));
        judge(&ground, ask, &drawn, &decision)?;
        if self.tally.decisions.is_multiple_of(16) {
            let again = (self.decide)(&self.broker.snapshot, &request, record, now);
            if format!("{again:?}") != format!("{decision:?}") {
                return broken(Rule::SameAnswer, format!("{again:?}"));
            }
        }
        self.tally.decided(word(&decision.outcome));
        let (Outcome::Placed(placement), true) = (&decision.outcome, seats) else {
            return Ok(());
        };
        self.tunnels += 1;
        let id = TunnelId::from(format!("t{:06}", self.tunnels));
        let (farm, key) = (drawn.farm.unwrap().id.clone(), drawn.key);
        let seat = Seat::new(key, farm, placement.host.clone(), ask.disagrees());
        self.model.seated(id.clone(), seat, now);
        if !self.broker.seat(&decision, placement, &id, now) {
            return broken(Rule::OneHost, format!("the lease refuses {}", placement.host));
        }
        let (fate, after) = first_fate(&mut self.dice);
        let guest = || UserKey::new(&format!("guest{}", self.tunnels), "corp").unwrap();
        self.lives.push(Life {
            id,
            ask: *ask,
            account: ask.person.map_or_else(guest, |person| person.account()),
            host: placement.host.clone(),
            stands: false,
            fate,
            at: now + after,
        });
        Ok(())
    }

    /// What administrators and accidents do.
    fn trouble(&mut self, event: Event) {
        let now = self.now;
        let host = self.world.any_host(&mut self.dice);
        self.log.say(now, || format!("{event:?} {host}"));
        self.tally.troubles += 1;
        match event {
            Event::Crash => self.crash(&host),
            Event::Agent => self.world.machine(&host).mute ^= true,
            Event::ProbePath => self.world.machine(&host).probe_blocked ^= true,
            Event::Mode => {
                let modes = [Mode::Online, Mode::Online, Mode::Drain, Mode::Maintenance];
                let mode = *self.dice.pick(&modes);
                self.broker.set_mode(&host, mode, now);
            }
            Event::MoveHost => self.configure(Scene::move_host),
            Event::Switch if self.dice.chance(60) => self.configure(Scene::switch_farm),
            Event::Switch => self.configure(Scene::switch_resource),
            Event::Bound => self.configure(Scene::bound_host),
            Event::Kill => self.restart(true),
            _ => self.restart(false),
        }
    }

    fn configure(&mut self, change: fn(&mut Scene, &mut Dice)) {
        change(&mut self.scene, &mut self.dice);
        self.broker.configure(self.scene.directory());
    }

    fn crash(&mut self, host: &HostId) {
        let back = self.now + self.dice.seconds(5, 200);
        self.world.machine(host).crash(back);
        let there = |l: &&Life| l.stands && l.host == *host;
        let lost: Vec<_> = self.lives.iter().filter(there).cloned().collect();
        for life in lost {
            self.end(&life);
        }
    }

    /// Every tunnel goes with the process. Its successor may find the wall
    /// clock set to another time.
    fn restart(&mut self, killed: bool) {
        for life in self.lives.clone() {
            self.leave(&life);
        }
        if !killed {
            self.now = self.now + Duration::from_secs(10);
            self.keep();
        }
        self.model.died();
        self.now = match self.dice.below(10) {
            0 => self.now - self.dice.seconds(1, 4000),
            1 => self.now + self.dice.seconds(1, 4000),
            _ => self.now + self.dice.seconds(0, 20),
        };
        self.latest = self.latest.max(self.now);
        self.world.replan(self.now);
        self.broker.restart(self.dice.chance(50), self.now);
        self.probe_all();
        self.tally.restarts += 1;
    }
}
