//! Waits until hosts in drain or maintenance are empty, and says how it goes.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::ask::Where;
use super::{FAILED, REFUSED, UNREACHABLE, complain};
use crate::placement::Mode;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// For so long a broker may be silent that answered before: it is started anew,
/// perhaps as another release.
const SILENCE: Duration = Duration::from_secs(120);

/// What is waited for.
#[derive(Debug)]
pub(super) struct Awaited<'a> {
    pub(super) broker: &'a Where,
    pub(super) hosts: Vec<String>,
    /// Drain waits for everybody to leave, maintenance for placements that were
    /// made before.
    pub(super) mode: Mode,
    /// `None`: as long as it takes.
    pub(super) timeout: Option<Duration>,
}

#[derive(Debug, Deserialize)]
struct Status {
    hosts: Vec<Host>,
}

#[derive(Debug, Clone, Deserialize)]
struct Host {
    id: String,
    mode: String,
    tunnels: u64,
    pending: u64,
    /// `None` where no agent reports them.
    sessions: Option<u64>,
    /// `None` for a host without an agent.
    report_age_seconds: Option<u64>,
}

/// Since when a host has been seen without a tunnel, without a break.
type Quiet = BTreeMap<String, Instant>;

pub(super) fn run(awaited: &Awaited<'_>) -> ExitCode {
    let mut patience = match Patience::of(awaited.timeout) {
        Ok(patience) => patience,
        Err(code) => return code,
    };
    let mut progress = Progress::default();
    let mut quiet = Quiet::new();
    let mut silent_since = None;
    let ordered = awaited.mode.to_string();
    let mut stopped = |left: &str, progress: &Progress| {
        let why = patience.ends()?;
        progress.end();
        complain(format_args!("{why}: {ordered} stays in force, {left}"));
        Some(ExitCode::from(REFUSED))
    };
    loop {
        let answer = match awaited.broker.listen("/api/v1/status") {
            Ok(Ok(answer)) => answer,
            Ok(Err(silence)) => {
                let since = *silent_since.get_or_insert_with(Instant::now);
                // Whoever was seen by the one that is gone is seen by the next.
                quiet.clear();
                progress.say("the broker does not answer: it is asked again");
                if since.elapsed() >= SILENCE {
                    progress.end();
                    complain(format_args!("{silence}"));
                    return ExitCode::from(UNREACHABLE);
                }
                match stopped("and the broker does not answer", &progress) {
                    Some(code) => return code,
                    None => continue,
                }
            }
            Err(code) => return code,
        };
        silent_since = None;
        let hosts = match serde_json::from_value::<Status>(answer) {
            Ok(status) => status.hosts,
            Err(error) => {
                complain(format_args!("the broker is of another release: {error}"));
                return ExitCode::from(FAILED);
            }
        };
        let hosts: Vec<_> = hosts
            .into_iter()
            .filter(|host| awaited.hosts.contains(&host.id))
            .collect();
        if let Some(other) = hosts.iter().find(|host| host.mode != ordered) {
            progress.end();
            complain(format_args!(
                "{} is {} by now: not waited for any longer",
                other.id, other.mode
            ));
            return ExitCode::from(FAILED);
        }
        let there = |id: &&String| hosts.iter().any(|host| host.id == **id);
        if let Some(gone) = awaited.hosts.iter().find(|id| !there(id)) {
            progress.end();
            complain(format_args!(
                "{gone} is not configured any more: not waited for any longer"
            ));
            return ExitCode::from(FAILED);
        }
        for host in &hosts {
            if host.tunnels > 0 {
                quiet.remove(&host.id);
            } else {
                quiet.entry(host.id.clone()).or_insert_with(Instant::now);
            }
        }
        progress.say(&awaited.left(&hosts, &quiet));
        if hosts.iter().all(|host| awaited.is_empty(host, &quiet)) {
            progress.end();
            return ExitCode::SUCCESS;
        }
        if let Some(code) = stopped(&awaited.left(&hosts, &quiet), &progress) {
            return code;
        }
    }
}

impl Awaited<'_> {
    fn is_empty(&self, host: &Host, quiet: &Quiet) -> bool {
        match self.mode {
            Mode::Maintenance => host.pending == 0,
            Mode::Drain | Mode::Online => host.is_left(quiet),
        }
    }

    /// What is still on the hosts.
    fn left(&self, hosts: &[Host], quiet: &Quiet) -> String {
        let busy: Vec<_> = hosts
            .iter()
            .filter(|host| !self.is_empty(host, quiet))
            .map(Host::show)
            .collect();
        match (busy.is_empty(), self.mode) {
            (true, Mode::Maintenance) => "no placement is under way".to_owned(),
            (true, Mode::Drain | Mode::Online) => "nobody is left".to_owned(),
            (false, _) => busy.join("; "),
        }
    }
}

impl Host {
    /// Whether it is known that nobody is there. Where an agent reports, that is
    /// its word alone, given after our last tunnel was gone: an older report does
    /// not know who has signed in since, a silent agent knows nothing.
    fn is_left(&self, quiet: &Quiet) -> bool {
        let Some(since) = quiet.get(&self.id) else {
            return false;
        };
        match self.report_age_seconds {
            None => true,
            // An age is told in whole seconds, cut off.
            Some(age) => self.sessions == Some(0) && age < since.elapsed().as_secs(),
        }
    }

    fn show(&self) -> String {
        let sessions = match (self.sessions, self.report_age_seconds) {
            (Some(0), Some(_)) if self.tunnels == 0 => {
                "0 sessions, to be confirmed by its agent's next report".to_owned()
            }
            (Some(sessions), _) => format!("{sessions} sessions"),
            (None, Some(_)) => "sessions not told by its agent".to_owned(),
            (None, None) => "sessions not known without an agent".to_owned(),
        };
        let stood = self.tunnels.saturating_sub(self.pending);
        format!(
            "{}: {stood} tunnels, {} placements under way, {sessions}",
            self.id, self.pending
        )
    }
}

/// One line that changes on a terminal; elsewhere one line a change.
#[derive(Debug, Default)]
pub(super) struct Progress {
    said: String,
}

impl Progress {
    pub(super) fn say(&mut self, line: &str) {
        if line == self.said {
            return;
        }
        line.clone_into(&mut self.said);
        let mut out = std::io::stderr();
        // Where even standard error is gone there is nobody to tell.
        let _ = match out.is_terminal() {
            true => write!(out, "\r\x1b[K{line}").and_then(|()| out.flush()),
            false => writeln!(out, "{line}"),
        };
    }

    pub(super) fn end(&self) {
        let mut out = std::io::stderr();
        if out.is_terminal() && !self.said.is_empty() {
            // As above.
            let _ = writeln!(out);
        }
    }
}

/// How long to go on looking: until time is up or Ctrl-C.
pub(super) struct Patience {
    started: Instant,
    /// `None`: as long as it takes.
    most: Option<Duration>,
    runtime: Runtime,
    interrupt: Signal,
}

impl Patience {
    /// From now on. Where that cannot be it was said, and the code is to be
    /// exited with.
    pub(super) fn of(most: Option<Duration>) -> Result<Self, ExitCode> {
        Self::new(most).map_err(|error| {
            complain(format_args!("cannot wait: {error}"));
            ExitCode::from(FAILED)
        })
    }

    fn new(most: Option<Duration>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let interrupt = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        Ok(Self {
            started: Instant::now(),
            most,
            runtime,
            interrupt,
        })
    }

    /// Lets the time between two looks pass; why there is none after it.
    pub(super) fn ends(&mut self) -> Option<&'static str> {
        let left = self
            .most
            .map(|most| most.saturating_sub(self.started.elapsed()));
        if left == Some(Duration::ZERO) {
            return Some("time is up");
        }
        let pause = left.map_or(PAUSE, |left| left.min(PAUSE));
        let interrupt = &mut self.interrupt;
        let interrupted = self
            .runtime
            .block_on(async { timeout(pause, interrupt.recv()).await });
        interrupted.is_ok().then_some("interrupted")
    }
}
