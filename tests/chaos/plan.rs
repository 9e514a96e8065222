//! The faults of a run, drawn from a seed: the same seed gives the same faults at the same moments.

use std::fmt;
use std::time::Duration;

use super::history::{Farm, Host, Mode, Replica};
use crate::support::Dice;

/// How many there are of each.
pub(super) const REPLICAS: u8 = 3;
pub(super) const HOSTS: u8 = 12;
pub(super) const FARMS: u8 = 2;

/// Hosts that are not online at a time: the others have room for everybody.
const MOST_AWAY: usize = 2;

/// How often it is drawn again where an earlier fault is not over.
const TRIES: usize = 4;

/// What is done, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// `kill -9`; started again after that.
    Kill { replica: Replica, down: Duration },
    /// SIGSTOP, then SIGCONT.
    Pause { replica: Replica, span: Duration },
    /// The database is stopped and started again; `immediate`: as by a crash.
    Database { immediate: bool, down: Duration },
    /// Every connection of a replica to the database is reset.
    Cut { replica: Replica },
    /// Nothing goes from a replica to the database, or back, or either way.
    Stall {
        replica: Replica,
        out: bool,
        back: bool,
        span: Duration,
    },
    /// A host's mode is changed through a replica, and back to online later.
    Order {
        host: Host,
        mode: Mode,
        through: Replica,
        span: Duration,
    },
    /// A host joins a farm that is not its own or leaves it, at one replica after the other.
    Reload {
        host: Host,
        farm: Farm,
        apart: Duration,
    },
    /// A file appears that cannot be read, and goes.
    Spoil { span: Duration },
}

/// A fault and when it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) fault: Fault,
}

impl Fault {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "replica killed",
            Self::Pause { .. } => "replica stopped and continued",
            Self::Database {
                immediate: true, ..
            } => "database stopped at once",
            Self::Database { .. } => "database restarted",
            Self::Cut { .. } => "connections to the database reset",
            Self::Stall { .. } => "connections to the database stalled",
            Self::Order {
                mode: Mode::Maintenance,
                ..
            } => "maintenance",
            Self::Order { .. } => "drain",
            Self::Reload { .. } => "reload",
            Self::Spoil { .. } => "broken configuration",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.2} s  {:?}", self.at.as_secs_f64(), self.fault)
    }
}

/// What is occupied by an earlier fault, and until when.
struct Drawing {
    dice: Dice,
    replicas: [Duration; REPLICAS as usize],
    database: Duration,
    files: Duration,
    away: Vec<(Host, Duration)>,
}

/// A fault every few seconds for so long, the last one over before the end.
pub(super) fn draw(seed: u64, length: Duration) -> Vec<Step> {
    let mut drawing = Drawing {
        dice: Dice::of(seed),
        replicas: [Duration::ZERO; REPLICAS as usize],
        database: Duration::ZERO,
        files: Duration::ZERO,
        away: Vec::new(),
    };
    let mut steps = Vec::new();
    let mut at = Duration::from_secs(3);
    while at + Duration::from_secs(12) < length {
        // Another one where that cannot be had now.
        let fault = (0..TRIES).find_map(|_| drawing.fault(at));
        steps.extend(fault.map(|fault| Step { at, fault }));
        at += drawing.span(1000, 4000);
    }
    steps
}

impl Drawing {
    fn below(&mut self, bound: u64) -> u64 {
        (self.dice.roll() >> 16) % bound
    }

    fn span(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least))
    }

    fn replica(&mut self) -> Replica {
        u8::try_from(self.below(REPLICAS.into())).unwrap()
    }

    fn host(&mut self) -> Host {
        u8::try_from(self.below(HOSTS.into())).unwrap()
    }

    /// A replica that no earlier fault has; the database has it as well, where that is away.
    fn free(&mut self, now: Duration) -> Option<Replica> {
        let replica = self.replica();
        let is_free = self.replicas[usize::from(replica)] <= now && self.database <= now;
        is_free.then_some(replica)
    }

    /// Time to recover is what is seen between two faults of one kind.
    fn occupy(&mut self, replica: Replica, until: Duration) {
        self.replicas[usize::from(replica)] = until + Duration::from_secs(3);
    }

    fn fault(&mut self, now: Duration) -> Option<Fault> {
        self.away.retain(|(_, until)| *until > now);
        match self.below(20) {
            0..=3 => {
                let replica = self.free(now)?;
                let down = self.span(100, 3000);
                self.occupy(replica, now + down);
                Some(Fault::Kill { replica, down })
            }
            4..=6 => {
                let replica = self.free(now)?;
                let span = self.span(500, 8000);
                self.occupy(replica, now + span);
                Some(Fault::Pause { replica, span })
            }
            7..=8 => {
                let is_free = self.replicas.iter().all(|until| *until <= now);
                if !is_free || self.database > now {
                    return None;
                }
                let (immediate, down) = (self.below(2) == 0, self.span(100, 5000));
                self.database = now + down + Duration::from_secs(5);
                Some(Fault::Database { immediate, down })
            }
            9..=10 => {
                let replica = self.free(now)?;
                self.occupy(replica, now);
                Some(Fault::Cut { replica })
            }
            11..=12 => {
                let replica = self.free(now)?;
                let (out, back) = match self.below(3) {
                    0 => (true, true),
                    1 => (true, false),
                    _ => (false, true),
                };
                let span = self.span(500, 7000);
                self.occupy(replica, now + span);
                Some(Fault::Stall {
                    replica,
                    out,
                    back,
                    span,
                })
            }
            13..=17 => {
                let (host, through) = (self.host(), self.replica());
                let mode = match self.below(2) {
                    0 => Mode::Maintenance,
                    _ => Mode::Drain,
                };
                let is_away = self.away.iter().any(|(away, _)| *away == host);
                if is_away || self.away.len() >= MOST_AWAY {
                    return None;
                }
                let span = self.span(4000, 12000);
                // The way back may take a while.
                self.away.push((host, now + span + Duration::from_secs(5)));
                Some(Fault::Order {
                    host,
                    mode,
                    through,
                    span,
                })
            }
            18 => {
                if self.files > now {
                    return None;
                }
                let (host, apart) = (self.host(), self.span(0, 1500));
                let farm = u8::try_from(self.below(FARMS.into())).unwrap();
                self.files = now + 3 * apart + Duration::from_secs(5);
                Some(Fault::Reload { host, farm, apart })
            }
            _ => {
                if self.files > now {
                    return None;
                }
                let span = self.span(1000, 3000);
                self.files = now + span + Duration::from_secs(5);
                Some(Fault::Spoil { span })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_faults_again_and_another_others() {
        let minutes = Duration::from_secs(120);
        let plan = draw(7, minutes);
        assert_eq!(plan, draw(7, minutes));
        assert_ne!(plan, draw(8, minutes));
        // A longer run begins as the shorter one does.
        assert_eq!(draw(7, 2 * minutes)[..plan.len()], plan[..]);
    }

    #[test]
    fn every_kind_comes_and_one_every_few_seconds() {
        let plan = draw(1, Duration::from_secs(1800));
        let kinds: BTreeSet<_> = plan.iter().map(|step| step.fault.kind()).collect();
        assert_eq!(kinds.len(), 10, "{kinds:?}");
        assert!(plan.len() > 300, "{}", plan.len());
    }
}
