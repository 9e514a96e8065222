//! Which heartbeat is newer: a host's starts in the order we heard of them, and
//! the last number of each.

use std::cmp::Ordering;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::placement::ReportNumber;

/// Starts of a host that are remembered: two months of a restart a night, and a
/// few kilobytes. A heartbeat kept for longer than that is told from one of a
/// new start by the moment it was made.
const REMEMBERED: usize = 64;

/// The starts of one host, the last one at the end. What tells them apart is
/// only compared: it says nothing of which came first, so that the first
/// heartbeat of each does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Boots {
    known: VecDeque<Boot>,
    /// How many there have been.
    count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Boot {
    id: String,
    ordinal: u64,
    seq: u64,
}

/// A heartbeat beside the last one of its host that was news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Beside {
    /// Whether it was made before or after that, by the host's own clock;
    /// `None` where one of them does not say when it was made.
    pub(super) made: Option<Ordering>,
    /// Nothing has been news for a while.
    pub(super) silent: bool,
}

/// Where a heartbeat stands among its host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the newest; `None` where the agent does not count, so that its
    /// arrival does.
    News(Option<ReportNumber>),
    /// A newer one is known, or this very one.
    Stale {
        /// It is of another start than the last one, and was never heard: that
        /// start is alive.
        rival: bool,
    },
}

impl Boots {
    /// Where a heartbeat stands.
    ///
    /// An earlier start that goes on counting while the last one is silent is
    /// the living one: what we took for its successor was a straggler. A start
    /// nobody knows whose heartbeat is older than the last one is a straggler
    /// itself, unless the last start is silent: then the host's clock was set
    /// back over its restart.
    pub(super) fn stand(
        &mut self,
        boot: Option<&str>,
        seq: Option<u64>,
        beside: Beside,
    ) -> Standing {
        let Some(boot) = boot else {
            // A number alone may begin anew at any time.
            return Standing::News(None);
        };
        let Some(at) = self.known.iter().position(|known| known.id == boot) else {
            if beside.made == Some(Ordering::Less) && !beside.silent {
                return Standing::Stale {
                    rival: seq.is_some(),
                };
            }
            return self.begin(boot, seq);
        };
        let outlived = beside.made == Some(Ordering::Greater) && beside.silent;
        let is_last = at + 1 == self.known.len();
        let Some(known) = self.known.get_mut(at) else {
            return Standing::Stale { rival: false };
        };
        let counts_on = seq.is_none_or(|seq| seq > known.seq);
        if !counts_on || !(is_last || outlived) {
            let rival = !is_last && seq.is_some() && counts_on;
            return Standing::Stale { rival };
        }
        if is_last {
            known.seq = seq.unwrap_or(known.seq);
            let ordinal = known.ordinal;
            return Standing::News(order(ordinal, seq));
        }
        self.known.remove(at);
        self.begin(boot, seq)
    }

    /// Which of two that were kept of one host, by replicas that heard it apart,
    /// is of the newer heartbeat; `None` where that cannot be told by counting.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        let (ours, theirs) = self.known.back().zip(other.known.back())?;
        match ours.id == theirs.id {
            true => Some(ours.seq.cmp(&theirs.seq)),
            false => Some(self.count.cmp(&other.count)).filter(|order| order.is_ne()),
        }
    }

    /// Learns of starts that another replica heard of: they came before our last
    /// one, and are over.
    pub(super) fn learn(&mut self, other: &Self) {
        let last = self.known.pop_back();
        for start in &other.known {
            if last.as_ref().is_some_and(|last| last.id == start.id) {
                continue;
            }
            match self.known.iter_mut().find(|known| known.id == start.id) {
                Some(known) => known.seq = known.seq.max(start.seq),
                None => self.known.push_back(start.clone()),
            }
        }
        self.known.extend(last);
        self.count = self.count.max(other.count);
        while self.known.len() > REMEMBERED {
            self.known.pop_front();
        }
    }

    /// Has the last start counted after all that either knows of, and gives its
    /// number.
    pub(super) fn outrank(&mut self) -> Option<ReportNumber> {
        self.count += 1;
        let last = self.known.back_mut()?;
        last.ordinal = self.count;
        Some(ReportNumber {
            boot: last.ordinal,
            seq: last.seq,
        })
    }

    fn begin(&mut self, boot: &str, seq: Option<u64>) -> Standing {
        self.count += 1;
        self.known.push_back(Boot {
            id: boot.to_owned(),
            ordinal: self.count,
            seq: seq.unwrap_or_default(),
        });
        while self.known.len() > REMEMBERED {
            self.known.pop_front();
        }
        Standing::News(order(self.count, seq))
    }
}

fn order(boot: u64, seq: Option<u64>) -> Option<ReportNumber> {
    seq.map(|seq| ReportNumber { boot, seq })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Standing = Standing::Stale { rival: false };
    const RIVAL: Standing = Standing::Stale { rival: true };

    const SOON: Beside = Beside {
        made: Some(Ordering::Greater),
        silent: false,
    };
    const OUTLIVED: Beside = Beside {
        silent: true,
        ..SOON
    };

    fn news(boot: u64, seq: u64) -> Standing {
        Standing::News(Some(ReportNumber { boot, seq }))
    }

    #[test]
    fn of_one_start_only_a_higher_number_is_news() {
        let mut boots = Boots::default();
        let mut stand = |seq| boots.stand(Some("a"), Some(seq), SOON);
        assert_eq!(stand(5), news(1, 5));
        assert_eq!(stand(5), STALE, "replayed");
        assert_eq!(stand(7), news(1, 7));
        assert_eq!(stand(6), STALE, "reordered");
        assert_eq!(stand(8), news(1, 8));
    }

    #[test]
    fn a_start_that_another_followed_is_over() {
        let mut boots = Boots::default();
        assert_eq!(boots.stand(Some("a"), Some(5), SOON), news(1, 5));
        assert_eq!(boots.stand(Some("b"), Some(1), SOON), news(2, 1));
        assert_eq!(boots.stand(Some("a"), Some(5), OUTLIVED), STALE, "replayed");
        assert_eq!(boots.stand(Some("a"), Some(6), SOON), RIVAL);
        assert_eq!(boots.stand(Some("a"), None, SOON), STALE);
        assert_eq!(boots.stand(Some("b"), Some(2), SOON), news(2, 2));
    }

    #[test]
    fn a_start_that_outlives_its_successor_was_none_before_it() {
        let mut boots = Boots::default();
        assert_eq!(boots.stand(Some("a"), Some(5), SOON), news(1, 5));
        assert_eq!(boots.stand(Some("late"), Some(900), SOON), news(2, 900));
        assert_eq!(boots.stand(Some("a"), Some(6), OUTLIVED), news(3, 6));
        assert_eq!(boots.stand(Some("late"), Some(900), OUTLIVED), STALE);
        assert_eq!(boots.stand(Some("a"), Some(7), SOON), news(3, 7));
    }

    #[test]
    fn who_does_not_count_is_taken_as_it_comes() {
        let mut boots = Boots::default();
        for _ in 0..2 {
            assert_eq!(boots.stand(None, None, SOON), Standing::News(None));
            assert_eq!(boots.stand(None, Some(3), SOON), Standing::News(None));
            assert_eq!(boots.stand(Some("a"), None, SOON), Standing::News(None));
        }
        assert_eq!(boots.stand(Some("b"), None, SOON), Standing::News(None));
        assert_eq!(boots.stand(Some("a"), None, SOON), STALE);
    }

    #[test]
    fn few_starts_are_remembered_and_written_down_as_they_are() {
        let mut boots = Boots::default();
        for nth in 0..100 {
            boots.stand(Some(&nth.to_string()), Some(1), SOON);
        }
        assert_eq!(boots.known.len(), REMEMBERED);
        assert_eq!(boots.stand(Some("40"), Some(1), SOON), STALE, "replayed");
        let text = serde_json::to_string(&boots).unwrap();
        let mut back: Boots = serde_json::from_str(&text).unwrap();
        assert_eq!(back, boots);
        assert_eq!(back.stand(Some("99"), Some(1), SOON), STALE);
        assert_eq!(back.stand(Some("new"), Some(1), SOON), news(101, 1));
    }

    fn heard(starts: &[(&str, u64)]) -> Boots {
        let mut boots = Boots::default();
        for (start, seq) in starts {
            boots.stand(Some(start), Some(*seq), SOON);
        }
        boots
    }

    #[test]
    fn of_two_replicas_the_one_knows_more_that_heard_the_later_heartbeat() {
        let compare = |one: &[_], other: &[_]| heard(one).compare(&heard(other));
        assert_eq!(
            compare(&[("a", 5)], &[("a", 4)]),
            Some(Ordering::Greater),
            "of one start"
        );
        assert_eq!(
            compare(&[("a", 9)], &[("a", 9), ("b", 1)]),
            Some(Ordering::Less),
            "a later start"
        );
        assert_eq!(
            compare(&[("x", 1), ("a", 5)], &[("a", 5)]),
            Some(Ordering::Equal)
        );
        assert_eq!(compare(&[("a", 1)], &[("b", 1)]), None);
        assert_eq!(compare(&[], &[("b", 1)]), None);
    }

    #[test]
    fn what_another_replica_heard_is_over_and_no_number_is_given_twice() {
        let mut boots = heard(&[("a", 5), ("b", 2)]);
        boots.learn(&heard(&[("a", 7), ("c", 3)]));
        assert_eq!(boots.stand(Some("a"), Some(6), SOON), STALE, "heard there");
        assert_eq!(boots.stand(Some("a"), Some(8), SOON), RIVAL, "it is over");
        assert_eq!(boots.stand(Some("a"), Some(7), OUTLIVED), STALE, "replayed");
        assert_eq!(boots.stand(Some("c"), Some(3), OUTLIVED), STALE, "replayed");
        assert_eq!(boots.stand(Some("b"), Some(3), SOON), news(2, 3));
        assert_eq!(
            boots.outrank(),
            Some(ReportNumber { boot: 3, seq: 3 }),
            "before all of both"
        );
        assert_eq!(boots.stand(Some("b"), Some(4), SOON), news(3, 4));
        assert_eq!(boots.stand(Some("new"), Some(1), SOON), news(4, 1));
    }

    #[test]
    fn a_start_that_was_forgotten_is_not_taken_for_a_new_one() {
        let mut boots = Boots::default();
        for nth in 0..100 {
            boots.stand(Some(&nth.to_string()), Some(1), SOON);
        }
        let older = Beside {
            made: Some(Ordering::Less),
            silent: false,
        };
        assert_eq!(boots.stand(Some("3"), Some(2), older), RIVAL);
        assert_eq!(boots.stand(Some("3"), None, older), STALE);
        assert_eq!(boots.stand(Some("99"), Some(2), SOON), news(100, 2));
    }

    #[test]
    fn a_host_whose_clock_was_set_back_is_back_once_its_last_start_is_silent() {
        let mut boots = Boots::default();
        let back = |silent| Beside {
            made: Some(Ordering::Less),
            silent,
        };
        assert_eq!(boots.stand(Some("a"), Some(5), SOON), news(1, 5));
        assert_eq!(boots.stand(Some("b"), Some(1), back(false)), RIVAL);
        assert_eq!(boots.stand(Some("b"), Some(2), back(true)), news(2, 2));
        assert_eq!(boots.stand(Some("b"), Some(3), SOON), news(2, 3));
    }

    #[test]
    fn one_that_does_not_say_when_it_was_made_begins_a_new_start() {
        let mut boots = Boots::default();
        let untold = Beside::default();
        let same = Beside {
            made: Some(Ordering::Equal),
            silent: false,
        };
        assert_eq!(boots.stand(Some("a"), Some(5), untold), news(1, 5));
        assert_eq!(boots.stand(Some("b"), Some(1), untold), news(2, 1));
        assert_eq!(boots.stand(Some("c"), Some(1), same), news(3, 1));
    }
}
