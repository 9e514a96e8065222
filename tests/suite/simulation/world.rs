//! The truth: what the machines really do, whatever the broker believes. Their
//! agents tell of it late, out of order or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use sessionguard::placement::{
    HostId, Report, ReportNumber, Session, SessionState, Timestamp, UserKey,
};

use super::dice::Dice;
use super::liar;
use super::scene::{ALIAS, Scene};

/// How often agents report and we probe.
const EVERY: Duration = Duration::from_secs(10);

/// Every machine, and the reports on their way from them.
pub(super) struct World {
    pub(super) machines: BTreeMap<HostId, Machine>,
    flights: Vec<Flight>,
    /// How badly reports travel: percent late, percent lost.
    weather: (u64, u64),
}

/// One machine.
pub(super) struct Machine {
    pub(super) up: bool,
    back: Timestamp,
    has_agent: bool,
    /// The agent runs but nobody hears it.
    pub(super) mute: bool,
    /// Something between us and the machine swallows our probes.
    pub(super) probe_blocked: bool,
    /// It fails every logon, though it answers.
    pub(super) sick: bool,
    /// Until then it answers one probe and not the other.
    pub(super) flaps_until: Timestamp,
    /// It reports users without their domain.
    bare: bool,
    /// It reports users who are not there.
    lies: bool,
    health: u8,
    listens: bool,
    /// Its figures stay as they are.
    steady: bool,
    lacks_app: bool,
    cpu: Option<f64>,
    memory: Option<f64>,
    pub(super) sessions: Vec<Session>,
    next_report: Timestamp,
    next_probe: Timestamp,
    boots: u64,
    sent: u64,
}

struct Flight {
    due: Timestamp,
    host: HostId,
    report: Report,
}

/// What reaches the broker.
pub(super) enum News {
    Probe(HostId, bool),
    Report(HostId, Report),
}

impl World {
    pub(super) fn new(scene: &Scene, now: Timestamp, dice: &mut Dice) -> Self {
        let weather = *dice.pick(&[(0, 0), (5, 5), (20, 10), (50, 30)]);
        let agents = *dice.pick(&[0, 70, 100]);
        let machines = scene.hosts.iter();
        let machines = machines.map(|host| {
            let has_agent = dice.chance(agents);
            (host.id.clone(), Machine::new(has_agent, now, dice))
        });
        Self {
            machines: machines.collect(),
            flights: Vec::new(),
            weather,
        }
    }

    /// On most days one of the agents is a liar.
    pub(super) fn choose_liar(&mut self, dice: &mut Dice) {
        let machines = self.machines.values_mut();
        let mut agents: Vec<_> = machines.filter(|machine| machine.has_agent).collect();
        if !agents.is_empty() && dice.chance(75) {
            let at = dice.index(agents.len());
            agents[at].lies = true;
        }
    }

    /// Lets time pass up to `now`; says what arrives meanwhile, in order.
    pub(super) fn pass(&mut self, now: Timestamp, dice: &mut Dice) -> Vec<News> {
        let mut news = Vec::new();
        for (host, machine) in &mut self.machines {
            machine.boot(now);
            if machine.next_probe <= now {
                machine.next_probe = now + EVERY;
                let away = machine.flaps_until > now && dice.chance(50);
                let answers = machine.up && machine.listens && !machine.probe_blocked && !away;
                news.push(News::Probe(host.clone(), answers));
            }
            let speaks = machine.has_agent && machine.up && !machine.mute;
            if !speaks || machine.next_report > now {
                continue;
            }
            machine.next_report = now + EVERY;
            machine.sent += 1;
            machine.drift(dice);
            let (late, lost) = self.weather;
            if dice.chance(lost) {
                continue;
            }
            let slowest = if dice.chance(late) { 45 } else { 1 };
            let due = now + dice.seconds(0, slowest);
            let mut report = machine.report(now);
            if machine.lies {
                liar::tell(&mut report, machine.bare, now, dice);
            }
            self.flights.push(Flight {
                due,
                host: host.clone(),
                report,
            });
        }
        self.land(now, &mut news);
        news
    }

    /// In whatever order they come: an older report may arrive after a newer one.
    fn land(&mut self, now: Timestamp, news: &mut Vec<News>) {
        self.flights.retain_mut(|flight| {
            if flight.due > now {
                return true;
            }
            let report = Report {
                received: now,
                ..flight.report.clone()
            };
            news.push(News::Report(flight.host.clone(), report));
            false
        });
    }

    /// What a first round of probes finds.
    pub(super) fn probe_all(&mut self, now: Timestamp) -> Vec<News> {
        let all = self.machines.iter_mut().map(|(host, machine)| {
            machine.next_probe = now + EVERY;
            let answers = machine.up && machine.listens && !machine.probe_blocked;
            News::Probe(host.clone(), answers)
        });
        all.collect()
    }

    /// The clock was set: what was planned by it is planned anew.
    pub(super) fn replan(&mut self, now: Timestamp) {
        for machine in self.machines.values_mut() {
            machine.next_probe = machine.next_probe.min(now + EVERY);
            machine.next_report = machine.next_report.min(now + EVERY);
            machine.back = machine.back.min(now + Duration::from_secs(200));
            machine.flaps_until = now;
        }
        for flight in &mut self.flights {
            flight.due = flight.due.min(now);
            flight.report.taken = flight.report.taken.min(now);
        }
    }

    pub(super) fn machine(&mut self, host: &HostId) -> &mut Machine {
        self.machines.get_mut(host).unwrap()
    }

    pub(super) fn any_host(&self, dice: &mut Dice) -> HostId {
        let at = dice.index(self.machines.len());
        self.machines.keys().nth(at).unwrap().clone()
    }
}

impl Machine {
    fn new(has_agent: bool, now: Timestamp, dice: &mut Dice) -> Self {
        let mut machine = Self {
            up: true,
            back: now,
            has_agent,
            mute: false,
            probe_blocked: false,
            sick: false,
            flaps_until: now,
            bare: dice.chance(20),
            lies: false,
            health: 100,
            listens: true,
            steady: false,
            lacks_app: dice.chance(15),
            cpu: None,
            memory: None,
            sessions: Vec::new(),
            next_report: now + dice.seconds(0, 10),
            next_probe: now,
            boots: 1,
            sent: 0,
        };
        machine.drift(dice);
        machine
    }

    /// Figures move; some of them are nonsense.
    fn drift(&mut self, dice: &mut Dice) {
        if dice.chance(20) && !self.steady {
            self.health = u8::try_from(dice.between(40, 110)).unwrap();
            self.listens = dice.chance(98);
            self.cpu = dice.percentage();
            self.memory = dice.percentage();
        }
    }

    fn report(&self, now: Timestamp) -> Report {
        let shown = |session: &Session| Session {
            user: if self.bare {
                UserKey::new(session.user.user(), "").unwrap()
            } else {
                session.user.clone()
            },
            ..session.clone()
        };
        Report {
            received: now,
            health: self.health,
            rdp_listener_ok: self.listens,
            cpu_percent: self.cpu,
            memory_used_percent: self.memory,
            sessions: self.sessions.iter().map(shown).collect(),
            missing_remote_apps: self
                .lacks_app
                .then(|| ALIAS.to_lowercase())
                .into_iter()
                .collect(),
            order: Some(ReportNumber {
                boot: self.boots,
                seq: self.sent,
            }),
            taken: now,
            overclaims: false,
        }
    }

    /// Power is gone, and with it every session.
    pub(super) fn crash(&mut self, back: Timestamp) {
        self.up = false;
        self.boots += 1;
        self.back = back;
        self.sessions.clear();
    }

    fn boot(&mut self, now: Timestamp) {
        self.up |= self.back <= now;
    }

    pub(super) fn log_on(&mut self, user: &UserKey, state: SessionState, now: Timestamp) {
        match self.sessions.iter_mut().find(|s| s.user == *user) {
            Some(session) => (session.state, session.latest) = (state, now),
            None => self.sessions.push(Session {
                user: user.clone(),
                state,
                latest: now,
                client_name: None,
            }),
        }
    }

    pub(super) fn leave(&mut self, user: &UserKey) {
        if let Some(session) = self.sessions.iter_mut().find(|s| s.user == *user) {
            session.state = SessionState::Disconnected;
        }
    }

    pub(super) fn log_off(&mut self, user: &UserKey) {
        self.sessions.retain(|s| s.user != *user);
    }

    /// A sound machine with these users at work on it.
    pub(super) fn furnish(&mut self, users: Vec<UserKey>, now: Timestamp) {
        (self.has_agent, self.bare, self.lacks_app) = (true, false, false);
        (self.listens, self.steady, self.health) = (true, true, 100);
        let load = u32::try_from(users.len()).unwrap() * 4;
        (self.cpu, self.memory) = (Some(load.into()), Some(load.into()));
        for user in users {
            self.log_on(&user, SessionState::Active, now);
        }
    }
}
