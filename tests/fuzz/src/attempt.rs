//! The attempts at a desktop, with both sides hostile and a caller who feeds,
//! steps and starts over in any order: every answer is the one that a model of
//! the written rules gives, it stays what it was, and what is handed to the
//! relay is what was said.

mod model;
mod script;

use std::path::Path;

use guac_protocol::{Attempt, Progress, Rest, Side};

use super::stream::recordings;
use model::Model;
use script::{Act, Script};

/// Most that is kept of Guacamole.
const BUDGET: usize = 65_536;
/// So much output of guacd is a desktop.
const DESKTOP: usize = 131_072;

/// A [`Script`]. Counts the times that something was known for good.
pub fn run(input: &[u8]) -> usize {
    let mut play = Play::new();
    play.settle();
    for act in Script::new(input) {
        match act {
            Act::Feed(from, bytes) => {
                if !play.feed(from, &bytes) {
                    break;
                }
            }
            Act::End => {
                play.attempt.end_of_guacd();
                play.model.end_of_guacd();
            }
            Act::Again => {
                play.attempt.again();
                play.model.again();
                (play.known, play.last_read) = (None, Some(0));
                play.settle();
            }
            Act::Step => play.step(),
            Act::Settle => play.settle(),
        }
        play.stays_within_bounds();
    }
    play.settle();
    play.hands_over()
}

struct Play {
    attempt: Attempt,
    model: Model,
    /// What was known last, until the attempt is made again; an error as it
    /// prints.
    known: Option<Result<Progress, String>>,
    /// Size of guacd's last read, as long as it is read only while nothing is
    /// known, as the tunnel does.
    last_read: Option<usize>,
    reached: usize,
}

impl Play {
    fn new() -> Self {
        let nothing = Rest {
            to_guacd: Vec::new(),
            to_guacamole: Vec::new(),
        };
        Self {
            attempt: Attempt::new(nothing).expect("nothing is no fault"),
            model: Model::new(),
            known: None,
            last_read: Some(0),
            reached: 0,
        }
    }

    /// Whether Guacamole may still be listened to.
    fn feed(&mut self, from: Side, bytes: &[u8]) -> bool {
        let fed = self.attempt.feed(from, bytes);
        let expected = self.model.feed(from, bytes);
        assert_eq!(
            fed.is_ok(),
            expected.is_ok(),
            "{from}: {fed:?} {expected:?}"
        );
        if let (Err(error), Err(fault)) = (&fed, expected) {
            assert!(fault.is(error), "{from}: {error:?}, not {fault:?}");
            assert_eq!(self.attempt.feed(from, b"3.nop;").as_ref(), Err(error));
        }
        if from == Side::Guacd {
            let unknown = self.known == Some(Ok(Progress::Pending));
            self.last_read = self.last_read.filter(|_| unknown).map(|_| bytes.len());
            if !matches!(&self.known, Some(known) if is_final(known)) {
                self.known = None;
            }
            return true;
        }
        fed.is_ok()
    }

    fn step(&mut self) {
        let step = self.attempt.step();
        match (&step, self.model.step()) {
            (Ok(progress), Ok(expected)) => assert_eq!(*progress, expected),
            (Err(error), Err(fault)) => assert!(fault.is(error), "{error:?}, not {fault:?}"),
            (step, expected) => panic!("{step:?}, not {expected:?}"),
        }
        let step = step.map_err(|error| error.to_string());
        if let Some(known) = self.known.as_ref().filter(|known| is_final(known)) {
            let left = step == Ok(Progress::Left);
            assert!(left || step == *known, "{known:?}, then {step:?}");
        } else if is_final(&step) {
            self.reached += 1;
        }
        self.known = Some(step);
    }

    /// As the tunnel does before it reads on.
    fn settle(&mut self) {
        // `args` and `ready` are all that may be said before what is final.
        for _ in 0..4 {
            self.step();
            match &self.known {
                Some(Ok(Progress::Args(_) | Progress::Ready(_))) => {}
                _ => return,
            }
        }
        panic!("it never asks for more");
    }

    fn stays_within_bounds(&self) {
        assert_eq!(self.attempt.has_left(), self.model.has_left());
        assert_eq!(self.attempt.room(), BUDGET - self.model.kept());
        assert!(format!("{:?}", self.attempt).len() < 120);
    }

    fn hands_over(self) -> usize {
        let rest = self.attempt.into_rest();
        assert!(rest.to_guacamole == self.model.held_back());
        assert!(rest.to_guacd.len() <= BUDGET);
        if let Some(kept) = self.model.to_be_relayed() {
            assert!(rest.to_guacd == kept);
        }
        if let Some(last_read) = self.last_read {
            assert!(rest.to_guacamole.len() < DESKTOP.max(BUDGET) + last_read.max(1));
        }
        self.reached
    }
}

/// Whether it must stay so until the attempt is made again.
fn is_final(known: &Result<Progress, String>) -> bool {
    let passing = matches!(
        known,
        Ok(Progress::Pending | Progress::Args(_) | Progress::Ready(_))
    );
    !passing
}

pub fn seeds(traces: &Path) -> Vec<Vec<u8>> {
    let mut seeds = script::seeds();
    for [guacamole, guacd] in recordings(traces) {
        // As it goes after `connect`: `args` is not asked for any more.
        let ready = guacd.windows(6).position(|six| six == b"5.read");
        let connect = guacamole.windows(8).position(|eight| eight == b"7.connec");
        let behind = connect.and_then(|at| {
            let end = guacamole[at..].iter().position(|byte| *byte == b';')?;
            Some(&guacamole[at + end + 1..])
        });
        if let Some(ready) = ready {
            let both = [
                (Side::Guacamole, behind.unwrap_or_default()),
                (Side::Guacd, &guacd[ready..]),
            ];
            seeds.push(script::written(&both));
        }
    }
    seeds
}
