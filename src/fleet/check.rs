//! Asks a host whether RDP answers, for whoever wants to know now.
//!
//! One question at a time a host: who asks while one is under way, or right
//! after one, shares what it finds. So sixty logons at once make one connection.
//! Every finding, whoever asked for it, goes into the picture and the log from
//! here, once.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{info, warn};

use super::apply::same_place;
use super::{Fleet, lookup};
use crate::clock::Clock;
use crate::config::Current;
use crate::metrics::{Metrics, Probed};
use crate::placement::{Host, HostId};
use crate::x224;

/// For so long a finding is as good as a new one.
const FRESH: Duration = Duration::from_secs(1);

/// Whether a host answers RDP now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// It does.
    Answers,
    /// It does not, and why: what the system said, or that no answer came in
    /// time.
    Fails(Arc<str>),
    /// Nobody can tell: this machine lacks what it takes to ask, the host is not
    /// configured, or tunnels stand there although it does not answer us, so
    /// that it is our questions that do not arrive.
    Unknown,
}

/// Where questions to hosts are put, and shared.
pub struct Checks {
    fleet: Arc<Fleet>,
    config: Current,
    clock: Clock,
    metrics: Arc<Metrics>,
    /// Questions under way, and those answered less than [`FRESH`] ago.
    asked: Mutex<BTreeMap<HostId, Question>>,
}

/// One question to one host.
#[derive(Debug, Clone)]
struct Question {
    host: Host,
    began: Instant,
    /// `None` until it is answered.
    answer: watch::Receiver<Option<Check>>,
}

impl Checks {
    /// Findings go to the fleet and are counted in the metrics; the
    /// configuration says how long a host may take to answer.
    pub fn new(
        fleet: Arc<Fleet>,
        config: Current,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            fleet,
            config,
            clock,
            metrics,
            asked: Mutex::default(),
        })
    }

    /// Whether the host answers RDP now; a finding less than a second old
    /// counts. One that takes longer than `within` fails for whoever asks here;
    /// whether it does for everybody is known once the timeout of `[probe]` is
    /// over.
    ///
    /// A question that was put is put to its end, though nobody waits for it.
    pub async fn check(self: &Arc<Self>, host: &HostId, within: Duration) -> Check {
        // Not kept while it is waited for: many who wait would keep a picture each.
        let question = {
            let snapshot = self.fleet.snapshot();
            let configured = snapshot.directory.host(host);
            configured.map(|configured| self.question(configured, true))
        };
        let Some(question) = question else {
            return Check::Unknown;
        };
        let found = question.answer(within).await;
        if matches!(found, Check::Fails(_)) && self.is_proven(host) {
            return Check::Unknown;
        }
        found
    }

    /// The same, and it fails only where it does for everybody.
    pub async fn check_patiently(self: &Arc<Self>, host: &HostId) -> Check {
        self.check(host, self.config.get().probe.timeout).await
    }

    /// Asks the host anew, or shares a question that is under way. What it finds
    /// is noted already.
    pub(super) async fn probe(self: &Arc<Self>, host: &Host) -> Check {
        let question = self.question(host, false);
        question.answer(self.config.get().probe.timeout).await
    }

    fn question(self: &Arc<Self>, host: &Host, may_be_answered: bool) -> Question {
        let mut asked = self.lock();
        if let Some(known) = asked.get(&host.id)
            && same_place(&known.host, host)
            && (may_be_answered || known.answer.borrow().is_none())
        {
            return known.clone();
        }
        let (tell, answer) = watch::channel(None);
        let question = Question {
            host: host.clone(),
            began: Instant::now(),
            answer,
        };
        asked.insert(host.id.clone(), question.clone());
        drop(asked);
        tokio::spawn(Arc::clone(self).put(question.clone(), tell));
        question
    }

    async fn put(self: Arc<Self>, question: Question, tell: watch::Sender<Option<Check>>) {
        let put = Put {
            checks: &self,
            question: &question,
        };
        let found = self.find(&question.host).await;
        tell.send_replace(Some(found));
        sleep(FRESH).await;
        drop(put);
    }

    /// Asks, and notes what comes of it.
    async fn find(&self, host: &Host) -> Check {
        let patience = self.config.get().probe.timeout;
        let began = Instant::now();
        let asked = timeout(patience, ask(host)).await;
        let spent = began.elapsed();
        let Host {
            id, address, port, ..
        } = host;
        let error = match asked {
            Ok(Ok(())) => None,
            Ok(Err(error)) if is_ours(&error) => {
                // It says nothing of the host: what was known of it stays.
                self.metrics.probed(spent, Probed::NotAsked);
                warn!(host = %id, %error, "A host could not be probed");
                return Check::Unknown;
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(late(patience)),
        };
        let came = error.as_ref().map_or(Probed::Answered, |_| Probed::Failed);
        self.metrics.probed(spent, came);
        let now = self.clock.now();
        let changed = self.fleet.note_answer(host, error.is_none(), now);
        match (changed, &error) {
            (None, _) => {}
            (Some(_), Some(error)) => {
                warn!(host = %id, %address, port, error, "Host does not answer RDP");
            }
            (Some(lasted), None) => {
                info!(host = %id, %address, port, silent_seconds = lasted.as_secs(), "Host answers RDP");
            }
        }
        error.map_or(Check::Answers, |error| Check::Fails(error.into()))
    }

    /// Whether tunnels stood there since our own questions began to fail.
    fn is_proven(&self, host: &HostId) -> bool {
        let snapshot = self.fleet.snapshot();
        let view = snapshot.hosts.get(host);
        view.is_some_and(|view| view.is_proven())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostId, Question>> {
        // Insertion and removal leave no half-done state behind a panic.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that was put. Forgotten with this, so that a panic while it is
/// under way leaves nobody waiting for its answer.
struct Put<'a> {
    checks: &'a Checks,
    question: &'a Question,
}

impl Drop for Put<'_> {
    fn drop(&mut self) {
        let Question { host, answer, .. } = self.question;
        let mut asked = self.checks.lock();
        let known = asked.get(&host.id);
        if known.is_some_and(|known| known.answer.same_channel(answer)) {
            asked.remove(&host.id);
        }
    }
}

impl Question {
    /// What came of it, by `within` after it was put.
    async fn answer(mut self, within: Duration) -> Check {
        let answered = self.answer.wait_for(Option::is_some);
        match timeout_at(self.began + within, answered).await {
            Ok(Ok(found)) => found.clone().unwrap_or(Check::Unknown),
            // Whoever asked is gone, with the process or by a panic.
            Ok(Err(_)) => Check::Unknown,
            Err(_) => Check::Fails(late(within).into()),
        }
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").finish_non_exhaustive()
    }
}

fn late(patience: Duration) -> String {
    format!("no answer within {patience:?}")
}

/// Every resolved address in turn; the last one's error tells.
async fn ask(host: &Host) -> std::io::Result<()> {
    let mut stream = lookup::connect(&host.address, host.port).await?;
    x224::ask(&mut stream).await
}

/// Whether a probe failed for want of something on this machine: descriptors,
/// ports or memory.
fn is_ours(error: &std::io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS and ENOMEM have no kind of their own.
    let code = error.raw_os_error();
    error.kind() == ErrorKind::AddrNotAvailable
        || error.kind() == ErrorKind::OutOfMemory
        || matches!(code, Some(23 | 24 | 105))
}

#[cfg(test)]
mod tests;
