//! What was measured: medians, and beside them the median of the ratios to
//! HAProxy as it comes, each of one round.

use std::collections::BTreeMap;

use super::ways::Kind;

/// What others are compared with.
const MEASURE: Kind = Kind::Haproxy;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    OneStream,
    OneStreamSpeed,
    EightStreams,
    EightStreamsSpeed,
    Secured,
    SecuredSpeed,
    Desktops,
    Ping,
    SlowPing,
    SetUp,
    SetUpTime,
    BusySetUp,
    BusySetUpTime,
    Idle,
    IdleKernel,
    Burst,
    AfterBurst,
    Closed,
}

/// What sessionguard must reach, and what it aims at.
enum Goal {
    /// As ratios to HAProxy, at most.
    Ratio(f64, f64),
    /// In the row's own unit, at most.
    AtMost(f64, f64),
    /// As a ratio to HAProxy, without a gate; at least or at most.
    AimAtLeast(f64),
    AimAtMost(f64),
    /// Told only.
    None,
}

impl Row {
    pub(crate) const ALL: [Self; 18] = [
        Self::OneStream,
        Self::OneStreamSpeed,
        Self::EightStreams,
        Self::EightStreamsSpeed,
        Self::Secured,
        Self::SecuredSpeed,
        Self::Desktops,
        Self::Ping,
        Self::SlowPing,
        Self::SetUp,
        Self::SetUpTime,
        Self::BusySetUp,
        Self::BusySetUpTime,
        Self::Idle,
        Self::IdleKernel,
        Self::Burst,
        Self::AfterBurst,
        Self::Closed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::OneStream => "bulk, 1 stream: CPU s/GiB",
            Self::OneStreamSpeed => "    GiB/s",
            Self::EightStreams => "bulk, 8 streams: CPU s/GiB",
            Self::EightStreamsSpeed => "    GiB/s",
            Self::Secured => "bulk, TLS from Guacamole: CPU s/GiB",
            Self::SecuredSpeed => "    GiB/s",
            Self::Desktops => "desktops in use: CPU us/message",
            Self::Ping => "ping-pong on one core: median us",
            Self::SlowPing => "    99% us",
            Self::SetUp => "set-up, one at a time: CPU us",
            Self::SetUpTime => "    median us",
            Self::BusySetUp => "set-up, eight at a time: CPU us",
            Self::BusySetUpTime => "    median us",
            Self::Idle => "idle tunnels: process KiB each",
            Self::IdleKernel => "    kernel KiB each, all four ends",
            Self::Burst => "    process, a burst under way",
            Self::AfterBurst => "    process, after the burst",
            Self::Closed => "    process, once closed",
        }
    }

    fn goal(self) -> Goal {
        match self {
            Self::OneStream | Self::EightStreams => Goal::Ratio(0.90, 0.65),
            Self::EightStreamsSpeed => Goal::AimAtLeast(1.8),
            Self::Desktops => Goal::Ratio(0.95, 0.82),
            Self::Ping => Goal::AimAtMost(1.0),
            Self::BusySetUp => Goal::Ratio(2.5, 1.7),
            Self::Idle | Self::AfterBurst => Goal::AtMost(2.6, 1.8),
            _ => Goal::None,
        }
    }

    /// Whether every relay, or even nothing at all, has such a figure.
    fn is_measured(self, kind: Kind) -> bool {
        match self {
            Self::Secured | Self::SecuredSpeed => kind != Kind::Direct,
            Self::OneStreamSpeed
            | Self::EightStreamsSpeed
            | Self::Ping
            | Self::SlowPing
            | Self::SetUpTime
            | Self::BusySetUpTime
            | Self::IdleKernel => true,
            _ => kind != Kind::Direct,
        }
    }

    /// Whether a ratio says anything: what is left of memory may be next to nothing.
    fn is_compared(self) -> bool {
        !matches!(
            self,
            Self::IdleKernel | Self::Burst | Self::AfterBurst | Self::Closed
        )
    }
}

/// Of each row and way, one figure a round.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<(Row, usize), Vec<f64>>);

impl Figures {
    pub(crate) fn put(&mut self, row: Row, kind: Kind, figure: f64) {
        let all = self.0.entry((row, kind as usize)).or_default();
        all.push(figure);
    }

    fn of(&self, row: Row, kind: Kind) -> &[f64] {
        self.0.get(&(row, kind as usize)).map_or(&[], Vec::as_slice)
    }

    fn median(&self, row: Row, kind: Kind) -> Option<f64> {
        median(self.of(row, kind).to_vec())
    }

    /// The median of what this way took of what HAProxy took, round by round.
    fn ratio(&self, row: Row, kind: Kind) -> Option<f64> {
        let pairs = self.of(row, kind).iter().zip(self.of(row, MEASURE));
        median(pairs.map(|(ours, theirs)| ours / theirs).collect())
    }

    /// Fails where a figure of these ways is missing or is none.
    pub(crate) fn assert_whole(&self, rows: &[Row], kinds: &[Kind]) {
        for row in rows {
            for kind in kinds.iter().filter(|kind| row.is_measured(**kind)) {
                let figures = self.of(*row, *kind);
                let are_sound = figures.iter().all(|figure| figure.is_finite());
                assert!(
                    !figures.is_empty() && are_sound,
                    "{row:?} of {}: {figures:?}",
                    kind.name()
                );
            }
        }
    }

    pub(crate) fn print(&self, rows: &[Row], kinds: &[Kind]) {
        print!("{:36}", "");
        kinds.iter().for_each(|kind| print!("{:>17}", kind.name()));
        println!();
        for row in rows {
            print!("{:36}", row.name());
            for kind in kinds {
                let figure = self.median(*row, *kind).map_or("-".to_owned(), shown);
                let is_compared =
                    row.is_compared() && !matches!(kind, Kind::Direct | Kind::Haproxy);
                let ratio = self.ratio(*row, *kind).filter(|_| is_compared);
                let ratio = ratio.map_or(String::new(), |ratio| format!("x{ratio:.2}"));
                print!("{figure:>10} {ratio:<6}");
            }
            println!();
        }
    }

    /// What became of each goal; whether every gate was passed.
    pub(crate) fn judge(&self, rows: &[Row]) -> bool {
        let mut is_passed = true;
        for row in rows {
            let ratio = self.ratio(*row, Kind::Ours);
            let (figure, gate, aim) = match row.goal() {
                Goal::None => continue,
                Goal::Ratio(gate, aim) => (ratio, Some(gate), aim),
                Goal::AtMost(gate, aim) => (self.median(*row, Kind::Ours), Some(gate), aim),
                Goal::AimAtLeast(aim) | Goal::AimAtMost(aim) => (ratio, None, aim),
            };
            let Some(figure) = figure else { continue };
            let is_reached = match row.goal() {
                Goal::AimAtLeast(aim) => figure >= aim,
                _ => figure <= aim,
            };
            let is_in = gate.is_none_or(|gate| figure <= gate);
            let came = match (is_reached, gate) {
                (true, _) => "aim reached",
                (false, None) => "aim missed",
                (false, Some(_)) if is_in => "gate passed",
                (false, Some(_)) => "GATE MISSED",
            };
            is_passed &= is_in;
            let gate = gate.map_or(String::new(), |gate| format!("gate {gate:.2}, "));
            let row = row.name().trim_start();
            println!("{row:36} {figure:>6.2}  ({gate}aim {aim:.2})  {came}");
        }
        is_passed
    }
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_unstable_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() % 2 {
        0 => Some(all.get(middle.checked_sub(1)?)?.midpoint(*all.get(middle)?)),
        _ => all.get(middle).copied(),
    }
}

/// Three digits that count.
fn shown(figure: f64) -> String {
    match figure.abs() {
        ..10.0 => format!("{figure:.2}"),
        ..100.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}
