//! An order as somebody wants it, before it is looked at.

use crate::clock::rfc3339;
use crate::placement::{Actor, Mode, Order, Timestamp};

/// Longest reason or message in characters.
const LONGEST: usize = 500;

/// What somebody wants a mode to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    /// The mode.
    pub mode: Mode,
    /// Why, for administrators.
    pub reason: Option<String>,
    /// What users may be told of it.
    pub message: Option<String>,
    /// When it is to begin; `None`: now.
    pub from: Option<Timestamp>,
    /// When it is to end by itself; `None`: never.
    pub until: Option<Timestamp>,
    /// Whether the host is to be restarted once nobody is on it.
    pub restart_when_drained: bool,
    /// Whether it is to be online after that restart.
    pub online_after_restart: bool,
    /// Whether it is to be done even if it leaves a farm without a usable host.
    pub force: bool,
}

/// Why an order makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// A text is there and says nothing.
    #[error("{name} is blank: leave it out")]
    Blank {
        /// Which text.
        name: &'static str,
    },
    /// A text is longer than a line should be.
    #[error("{name} has {length} characters, {LONGEST} are the most")]
    TooLong {
        /// Which text.
        name: &'static str,
        /// Its length in characters.
        length: usize,
    },
    /// A text could garble a log or a terminal.
    #[error("{name} holds a control character, such as a line break")]
    ControlCharacter {
        /// Which text.
        name: &'static str,
    },
    /// It would begin in the past.
    #[error("from lies in the past ({}): leave it out to begin now", rfc3339(*.0))]
    FromPast(Timestamp),
    /// It would be over already.
    #[error("until lies in the past ({})", rfc3339(*.0))]
    UntilPast(Timestamp),
    /// It would end before it began.
    #[error("until ({}) is not after from ({})", rfc3339(*until), rfc3339(*from))]
    EndsBeforeItBegins {
        /// The beginning.
        from: Timestamp,
        /// The end.
        until: Timestamp,
    },
    /// Only an empty host is restarted, and only drain empties one.
    #[error("restart_when_drained goes with the mode drain only")]
    RestartWithoutDrain,
    /// There would be no restart to be online after.
    #[error("online_after_restart goes with restart_when_drained only")]
    NoRestart,
}

impl Wish {
    /// The order that this is at `now`.
    pub(super) fn order(&self, by: Actor, now: Timestamp) -> Result<Order, WishError> {
        if self.restart_when_drained && self.mode != Mode::Drain {
            return Err(WishError::RestartWithoutDrain);
        }
        if self.online_after_restart && !self.restart_when_drained {
            return Err(WishError::NoRestart);
        }
        if let Some(from) = self.from.filter(|from| *from <= now) {
            return Err(WishError::FromPast(from));
        }
        match (self.from, self.until) {
            (_, Some(until)) if until <= now => return Err(WishError::UntilPast(until)),
            (Some(from), Some(until)) if until <= from => {
                return Err(WishError::EndsBeforeItBegins { from, until });
            }
            _ => {}
        }
        Ok(Order {
            mode: self.mode,
            by,
            reason: text("reason", self.reason.as_deref())?,
            message: text("message", self.message.as_deref())?,
            at: now,
            from: self.from,
            until: self.until,
            restart_when_drained: self.restart_when_drained,
            online_after_restart: self.online_after_restart,
        })
    }
}

fn text(name: &'static str, given: Option<&str>) -> Result<Option<String>, WishError> {
    let Some(text) = given.map(str::trim) else {
        return Ok(None);
    };
    let length = text.chars().count();
    if text.is_empty() {
        Err(WishError::Blank { name })
    } else if length > LONGEST {
        Err(WishError::TooLong { name, length })
    } else if text.chars().any(char::is_control) {
        Err(WishError::ControlCharacter { name })
    } else {
        Ok(Some(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn at(millis: u64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(1_000_000 + millis))
    }

    fn refused(wish: Wish) -> String {
        let by = Actor::User {
            uid: Some(0),
            name: None,
        };
        wish.order(by, NOW).unwrap_err().to_string()
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        let wish = Wish::default;
        let reason = |text: &str| Wish {
            reason: Some(text.to_owned()),
            ..wish()
        };
        let times = |from, until| Wish {
            from,
            until,
            ..wish()
        };
        for (wish, said) in [
            (reason("  "), "reason is blank"),
            (reason(&"ä".repeat(501)), "reason has 501 characters"),
            (reason("a\nb"), "reason holds a control character"),
            (reason("a\u{9b}b"), "reason holds a control character"),
            (times(at(0), None), "from lies in the past (1970"),
            (times(None, at(0)), "until lies in the past (1970"),
            (times(at(2), at(2)), "is not after from"),
            (times(at(3), at(2)), "is not after from"),
            (
                Wish {
                    restart_when_drained: true,
                    mode: Mode::Maintenance,
                    ..wish()
                },
                "goes with the mode drain only",
            ),
            (
                Wish {
                    online_after_restart: true,
                    mode: Mode::Drain,
                    ..wish()
                },
                "goes with restart_when_drained only",
            ),
        ] {
            let got = refused(wish);
            assert!(got.contains(said), "{got}");
        }
    }

    #[test]
    fn texts_are_kept_without_what_surrounds_them() {
        let wish = Wish {
            message: Some(format!("  {} ", "ä".repeat(500))),
            ..Wish::default()
        };
        let by = Actor::User {
            uid: Some(0),
            name: None,
        };
        let order = wish.order(by, NOW).unwrap();
        assert_eq!(order.message, Some("ä".repeat(500)));
    }
}
