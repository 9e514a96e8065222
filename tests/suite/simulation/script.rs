//! What may happen next, and how likely.

use std::time::Duration;

use super::dice::Dice;

/// One step of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Somebody connects.
    Connect,
    /// Somebody with a tunnel opens one more.
    Another,
    /// One user connects twice in the same instant.
    Twice,
    /// Many connect at once.
    Rush,
    /// A browser tab is closed.
    Close,
    /// Somebody signs out of Windows.
    LogOff,
    /// Somebody logs on past the broker.
    Console,
    /// An administrator signs out a session that was left.
    Reap,
    /// A machine loses its power, or reboots.
    Crash,
    /// An agent falls silent, or is heard again.
    Agent,
    /// Probes are swallowed on the way, or come through again.
    ProbePath,
    /// A machine fails every logon though it answers, or is well again.
    Sick,
    /// A machine answers now and then for a while.
    Flap,
    /// A host gets another mode.
    Mode,
    /// A host joins or leaves a farm.
    MoveHost,
    /// A host is taken out of the configuration, or put back.
    SwapHost,
    /// A farm or a resource is switched off or on.
    Switch,
    /// A host gets other bounds.
    Bound,
    /// The process is killed and started again.
    Kill,
    /// The process is told to stop and started again.
    Stop,
    /// Nothing.
    Nothing,
}

impl Event {
    pub(super) fn roll(dice: &mut Dice) -> Self {
        match dice.below(1000) {
            0..=339 => Self::Connect,
            340..=429 => Self::Another,
            430..=459 => Self::Twice,
            460..=464 => Self::Rush,
            465..=564 => Self::Close,
            565..=604 => Self::LogOff,
            605..=619 => Self::Console,
            620..=629 => Self::Reap,
            630..=638 => Self::Crash,
            639..=650 => Self::Agent,
            651..=660 => Self::ProbePath,
            661..=685 => Self::Mode,
            686..=695 => Self::MoveHost,
            696..=705 => Self::Switch,
            706..=715 => Self::Bound,
            716..=718 => Self::Kill,
            719..=720 => Self::Stop,
            721..=724 => Self::SwapHost,
            725..=734 => Self::Sick,
            735..=739 => Self::Flap,
            _ => Self::Nothing,
        }
    }
}

/// How much time passes before a step: mostly little, now and then a pause.
pub(super) fn pause(dice: &mut Dice) -> Duration {
    match dice.below(1000) {
        0..=449 => Duration::ZERO,
        450..=899 => dice.seconds(0, 3),
        900..=995 => dice.seconds(3, 14),
        // The process was frozen for a while.
        996..=997 => dice.seconds(15, 25),
        // A quiet hour, tick by tick.
        _ => dice.seconds(100, 1200),
    }
}

/// What becomes of a tunnel next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its RDP connection stands.
    Stand,
    /// It ends before that: a wrong password, a closed tab.
    GiveUp,
    /// It closes and leaves its session.
    Leave,
    /// Its user signs out.
    LogOff,
}

/// What becomes of a tunnel that was just placed, and when.
pub(super) fn first_fate(dice: &mut Dice) -> (Fate, Duration) {
    match dice.below(100) {
        0..=71 => (Fate::Stand, dice.seconds(0, 12)),
        72..=79 => (Fate::Stand, dice.seconds(40, 90)),
        80..=96 => (Fate::GiveUp, dice.seconds(1, 9)),
        _ => (Fate::GiveUp, dice.seconds(50, 100)),
    }
}

/// What becomes of a tunnel that stands, and when.
pub(super) fn last_fate(dice: &mut Dice) -> (Fate, Duration) {
    let how = if dice.chance(60) {
        Fate::Leave
    } else {
        Fate::LogOff
    };
    match dice.below(10) {
        0 => (how, dice.seconds(0, 5)),
        1..=7 => (how, dice.seconds(30, 300)),
        _ => (how, dice.seconds(300, 1500)),
    }
}
