//! What happens in a step: connects, which are judged, and troubles.

use std::time::Duration;

use sessionguard::placement::{
    Candidate, Exclusion, HostId, LeaseRecord, Mode, Outcome, Reason, SessionState, TunnelId,
    UserKey,
};

use super::ask::Ask;
use super::breaker::Gate;
use super::day::{Checked, Day, Life};
use super::dice::Dice;
use super::expect::Ground;
use super::liar;
use super::model::Seat;
use super::scene::{PEOPLE, Scene};
use super::script::{Event, Fate, first_fate};
use super::timetable;
use super::verdict::{Rule, Violation, broken, judge, word};

impl Day {
    pub(super) fn happen(&mut self, event: Event) -> Checked {
        let index =
            |day: &mut Self| (!day.lives.is_empty()).then(|| day.dice.index(day.lives.len()));
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
                };
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

    /// Connects: decides, judges, takes the seat, claims. The host, where there
    /// is one.
    pub(super) fn connect(&mut self, ask: &Ask) -> Result<Option<HostId>, Violation> {
        let record = self.broker.read(&ask.request(&self.scene));
        self.connect_with(ask, &record, true)
    }

    /// Both read the lease before either has claimed it: the slower one's
    /// write will fail, and even what it decided before that is the same host.
    fn connect_twice(&mut self, ask: &Ask) -> Result<Option<HostId>, Violation> {
        let early = self.broker.read(&ask.request(&self.scene));
        self.connect_with(ask, &early, true)?;
        if self.scene.rules.max_tunnels_per_user.is_none() {
            self.connect_with(ask, &early, false)?;
        }
        self.connect(ask)
    }

    fn connect_with(
        &mut self,
        ask: &Ask,
        record: &LeaseRecord,
        seats: bool,
    ) -> Result<Option<HostId>, Violation> {
        let (now, request) = (self.now, ask.request(&self.scene));
        let ground = Ground {
            scene: &self.scene,
            model: &self.model,
            snapshot: &self.broker.snapshot,
            now,
        };
        let drawn = ground.draw(ask);
        let decision = (self.decide)(&self.broker.snapshot, &request, record, now);
        self.log
            .say(now, || format!("{ask:?} -> {:?}", decision.outcome));
        judge(&ground, ask, &drawn, &decision)?;
        let lie = liar::temptation(&ground, &drawn);
        if self.tally.decisions.is_multiple_of(16) {
            let again = (self.decide)(&self.broker.snapshot, &request, record, now);
            if again != decision {
                broken(Rule::SameAnswer, format!("{again:?}"))?;
            }
        }
        self.tally.decided(word(&decision.outcome));
        if let Some(lie) = lie {
            *self.tally.outcomes.entry(lie).or_default() += 1;
        }
        let barred = |c: &Candidate| c.exclusion == Some(Exclusion::Breaker);
        if decision.candidates.iter().any(barred) {
            self.tally.happened("newcomer kept out by a breaker");
        }
        let (Outcome::Placed(placement), true) = (&decision.outcome, seats) else {
            return Ok(None);
        };
        self.tunnels += 1;
        let id = TunnelId::from(format!("t{:06}", self.tunnels));
        let resource = drawn.resource.map(|resource| resource.id.clone());
        let (aim, key) = ((drawn.farm.unwrap().id.clone(), resource), drawn.key);
        if placement.reason == Reason::Score && self.model.gate(&placement.host, now) == Gate::Half
        {
            self.tally.happened("newcomer tries a half-open breaker");
        }
        let seat = Seat::new(key, aim, placement.host.clone(), ask.disagrees());
        self.model.seated(id.clone(), seat, now);
        if !self.broker.seat(&decision, placement, &id, now) {
            broken(
                Rule::OneHost,
                format!("the lease refuses {}", placement.host),
            )?;
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
        Ok(Some(placement.host.clone()))
    }

    /// What administrators and accidents do.
    fn trouble(&mut self, event: Event) {
        let now = self.now;
        let host = self.world.any_host(&mut self.dice);
        self.log.say(now, || format!("{event:?} {host}"));
        self.tally.troubles += 1;
        match event {
            Event::Crash => self.crash(&host),
            Event::Agent => self.world.machine(&host).mute = self.dice.chance(40),
            Event::ProbePath => self.world.machine(&host).probe_blocked = self.dice.chance(35),
            Event::Sick => self.world.machine(&host).sick = self.dice.chance(60),
            Event::Flap => {
                let until = now + self.dice.seconds(30, 400);
                self.world.machine(&host).flaps_until = until;
            }
            Event::Mode => {
                let mode = match self.dice.below(10) {
                    0..=5 => Mode::Online,
                    6..=7 => Mode::Drain,
                    _ => Mode::Maintenance,
                };
                let order = timetable::order(mode, now, &mut self.dice);
                self.model.ordered(&host, &order);
                self.broker.order(&host, order);
            }
            Event::MoveHost => self.configure(Scene::move_host),
            Event::SwapHost => self.configure(Scene::swap_host),
            Event::Switch if self.dice.chance(60) => self.configure(Scene::switch_farm),
            Event::Switch => self.configure(Scene::switch_resource),
            Event::Bound => self.configure(Scene::bound_host),
            Event::Kill => self.restart(true),
            _ => self.restart(false),
        }
    }

    fn configure(&mut self, change: fn(&mut Scene, &mut Dice)) {
        let before: Vec<_> = self.scene.hosts.iter().map(|h| h.id.clone()).collect();
        change(&mut self.scene, &mut self.dice);
        for host in self.scene.hosts.iter().filter(|h| !before.contains(&h.id)) {
            self.model.breakers.forget(&host.id);
        }
        self.broker.configure(self.scene.directory(), self.now);
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
            self.set_clock(self.now + Duration::from_secs(10));
            self.keep();
        }
        let now = match self.dice.below(10) {
            0 => self.now - self.dice.seconds(1, 4000),
            1 => self.now + self.dice.seconds(1, 4000),
            _ => self.now + self.dice.seconds(0, 20),
        };
        self.set_clock(now);
        self.world.replan(self.now);
        self.model.died(self.now);
        self.gone.clear();
        self.broker.restart(self.dice.chance(50), self.now);
        self.probe_all();
        self.tally.restarts += 1;
    }
}
