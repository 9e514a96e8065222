//! Which heartbeat is newer: a host's starts in the order we heard of them, and
//! the last number of each.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::placement::ReportNumber;

/// Starts of a host that are remembered: two months of a restart a night, and a
/// few kilobytes. A heartbeat kept for longer than that would be taken for one
/// of a new start.
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
    /// Where a heartbeat stands. `outlived`: nothing has been heard of the last
    /// start for a while, and this heartbeat was made after the last one by the
    /// host's own clock. An earlier start that goes on counting is the living
    /// one then: what we took for its successor was a straggler.
    pub(super) fn stand(
        &mut self,
        boot: Option<&str>,
        seq: Option<u64>,
        outlived: bool,
    ) -> Standing {
        let Some(boot) = boot else {
            // A number alone may begin anew at any time.
            return Standing::News(None);
        };
        let Some(at) = self.known.iter().position(|known| known.id == boot) else {
            return self.begin(boot, seq);
        };
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

    fn news(boot: u64, seq: u64) -> Standing {
        Standing::News(Some(ReportNumber { boot, seq }))
    }

    #[test]
    fn of_one_start_only_a_higher_number_is_news() {
        let mut boots = Boots::default();
        let mut stand = |seq| boots.stand(Some("a"), Some(seq), false);
        assert_eq!(stand(5), news(1, 5));
        assert_eq!(stand(5), STALE, "replayed");
        assert_eq!(stand(7), news(1, 7));
        assert_eq!(stand(6), STALE, "reordered");
        assert_eq!(stand(8), news(1, 8));
    }

    #[test]
    fn a_start_that_another_followed_is_over() {
        let mut boots = Boots::default();
        assert_eq!(boots.stand(Some("a"), Some(5), false), news(1, 5));
        assert_eq!(boots.stand(Some("b"), Some(1), false), news(2, 1));
        assert_eq!(boots.stand(Some("a"), Some(5), true), STALE, "replayed");
        assert_eq!(boots.stand(Some("a"), Some(6), false), RIVAL);
        assert_eq!(boots.stand(Some("a"), None, false), STALE);
        assert_eq!(boots.stand(Some("b"), Some(2), false), news(2, 2));
    }

    #[test]
    fn a_start_that_outlives_its_successor_was_none_before_it() {
        let mut boots = Boots::default();
        assert_eq!(boots.stand(Some("a"), Some(5), false), news(1, 5));
        assert_eq!(boots.stand(Some("late"), Some(900), false), news(2, 900));
        assert_eq!(boots.stand(Some("a"), Some(6), true), news(3, 6));
        assert_eq!(boots.stand(Some("late"), Some(900), true), STALE);
        assert_eq!(boots.stand(Some("a"), Some(7), false), news(3, 7));
    }

    #[test]
    fn who_does_not_count_is_taken_as_it_comes() {
        let mut boots = Boots::default();
        for _ in 0..2 {
            assert_eq!(boots.stand(None, None, false), Standing::News(None));
            assert_eq!(boots.stand(None, Some(3), false), Standing::News(None));
            assert_eq!(boots.stand(Some("a"), None, false), Standing::News(None));
        }
        assert_eq!(boots.stand(Some("b"), None, false), Standing::News(None));
        assert_eq!(boots.stand(Some("a"), None, false), STALE);
    }

    #[test]
    fn few_starts_are_remembered_and_written_down_as_they_are() {
        let mut boots = Boots::default();
        for nth in 0..100 {
            boots.stand(Some(&nth.to_string()), Some(1), false);
        }
        assert_eq!(boots.known.len(), REMEMBERED);
        assert_eq!(boots.stand(Some("40"), Some(1), false), STALE, "replayed");
        let text = serde_json::to_string(&boots).unwrap();
        let mut back: Boots = serde_json::from_str(&text).unwrap();
        assert_eq!(back, boots);
        assert_eq!(back.stand(Some("99"), Some(1), false), STALE);
        assert_eq!(back.stand(Some("new"), Some(1), false), news(101, 1));
    }
}
