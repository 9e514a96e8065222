//! The cast: the real binary, and scripted peers on ports the system chose.

mod agent;
mod asker;
mod broker;
mod dice;
mod dns;
mod guacd;
mod host;
mod names;
#[allow(dead_code, reason = "the tests of the store use the rest of it")]
pub(crate) mod postgres;
mod preload;
mod proxy;
mod stage;
pub(crate) mod tls;
mod visitor;
mod wall_clock;
mod wire;

use std::thread;
use std::time::{Duration, Instant};

pub(crate) use agent::{ScriptedAgent, new_key, session};
pub(crate) use asker::{Asker, Told};
pub(crate) use broker::{BINARY, Broker, Site};
pub(crate) use dice::Dice;
pub(crate) use dns::Dns;
pub(crate) use guacd::{GuacdPeer, ScriptedGuacd};
pub(crate) use host::{BlackHole, ClosedPort, ScriptedHost};
pub(crate) use names::{Names, instruction, trace};
pub(crate) use preload::preloading;
pub(crate) use proxy::{FaultProxy, Way};
pub(crate) use stage::{BYSTANDER, Stage};
pub(crate) use visitor::{Refusal, Visit, Visitor};
pub(crate) use wall_clock::WallClock;
use wire::{Flow, Wire};

/// Who we are in the log: our name and number.
pub(crate) fn ourselves() -> (String, String) {
    let ask = |what| {
        let told = std::process::Command::new("id").arg(what).output().unwrap();
        String::from_utf8(told.stdout).unwrap().trim().to_owned()
    };
    (ask("-un"), ask("-u"))
}

/// Says that a test could not run here.
#[expect(clippy::print_stderr, reason = "whoever ran the tests wants to know")]
pub(crate) fn skipped(needs: &str) {
    eprintln!("SKIPPED: needs {needs}");
}

/// For anything that is expected to happen; a machine under load may need it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(25);

/// Asks again and again until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
