//! All the certificates of the process, looked at together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::warn;

use super::acceptor::Acceptor;
use super::connector::Connector;
use super::fault::Fault;
use super::inspect;
use super::live::{Live, Look};
use crate::clock::rfc3339;
use crate::config::{Beside, Config, Fingerprint, GuacdTls, Noticed, ServerTls};
use crate::placement::Timestamp;

/// Before a certificate runs out its end is warned of.
const AHEAD: Duration = Duration::from_secs(14 * DAY);

const DAY: u64 = 86_400;

/// How many guacds are kept, those that the configuration names no more among
/// them: a join may still go to one.
const KEPT: usize = 128;

/// Everything that was made of certificates, and how it stands.
#[derive(Debug, Default)]
pub struct Certificates {
    servers: Mutex<Vec<Arc<Live<ServerTls>>>>,
    // INVARIANT: the one named last is the last.
    guacds: Mutex<Vec<Arc<Live<GuacdTls>>>>,
    /// What the database's certificate is judged by.
    database: Mutex<Option<Arc<Live<GuacdTls>>>>,
    /// When what was last warned of.
    warned: Mutex<Vec<(Standing, Timestamp)>>,
}

/// One certificate that is in force.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Standing {
    /// The key of the configuration that names the file.
    pub key: &'static str,
    /// The file.
    pub file: String,
    /// Whose it is.
    pub subject: String,
    /// From when on it holds.
    pub not_before: Timestamp,
    /// Until when.
    pub not_after: Timestamp,
    /// Why the file as it is now is not in force; `None` where it is.
    pub last_error: Option<String>,
}

/// What is left of a certificate's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Enough.
    Plenty,
    /// It ends within [`AHEAD`].
    Days(u64),
    /// Nothing.
    Expired,
    /// It has not begun.
    NotYet,
}

impl Certificates {
    /// Makes ready what guacd needs and says what is to be said at a start.
    /// Blocks.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn load(&self, config: &Config) -> Result<(), Fault> {
        let listeners = config.listen.iter().map(|listen| listen.tls.as_ref());
        let servers = listeners.chain([config.api.tls.as_ref()]);
        for tls in servers.flatten() {
            inspect::warn_of_key(tls);
        }
        for tls in of_guacd(config) {
            self.connector(tls)?;
        }
        Ok(())
    }

    /// What a listener needs; the files are looked at again from now on.
    /// Blocks.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn acceptor(&self, tls: &ServerTls) -> Result<Acceptor, Fault> {
        let live = Arc::new(Live::new(tls.clone())?);
        locked(&self.servers).push(Arc::clone(&live));
        Ok(Acceptor::new(live))
    }

    /// What a dial to this guacd needs; made of its files at the first time.
    /// Blocks then.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn connector(&self, tls: &GuacdTls) -> Result<Connector, Fault> {
        let mut guacds = locked(&self.guacds);
        let found = guacds.iter().position(|live| live.recipe() == tls);
        let live = match found.map(|at| guacds.remove(at)) {
            Some(live) => live,
            None => Arc::new(Live::new(tls.clone())?),
        };
        let connector = Connector::new(Arc::clone(&live));
        guacds.push(live);
        if guacds.len() > KEPT {
            guacds.remove(0);
        }
        connector
    }

    /// What a dial to a replica needs that says which certificate it shows.
    ///
    /// # Errors
    /// `host` cannot be asked for.
    pub fn pinned(&self, pin: Fingerprint, host: &str) -> Result<Connector, Fault> {
        let recipe = GuacdTls {
            ca_file: None,
            pins: vec![pin],
            server_name: host.to_owned(),
        };
        Connector::new(Arc::new(Live::new(recipe)?))
    }

    /// What connections to the database need; the file is looked at again from
    /// now on. Blocks.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn database(&self, tls: &GuacdTls) -> Result<Connector, Fault> {
        let live = Arc::new(Live::new(tls.clone())?);
        *locked(&self.database) = Some(Arc::clone(&live));
        Connector::new(live)
    }

    /// How every certificate stands, in the order of the configuration.
    pub fn standings(&self) -> Vec<Standing> {
        self.in_force()
            .into_iter()
            .flat_map(|live| {
                let state = live.state();
                let last_error = state.last_error.map(|fault| fault.to_string());
                state.certificates.into_iter().map(move |shown| Standing {
                    key: shown.key,
                    file: shown.path.display().to_string(),
                    subject: shown.facts.subject,
                    not_before: shown.facts.not_before,
                    not_after: shown.facts.not_after,
                    last_error: last_error.clone(),
                })
            })
            .collect()
    }

    /// What the configuration names, in its order.
    fn in_force(&self) -> Vec<Arc<dyn Look>> {
        let servers = locked(&self.servers).clone();
        let guacd = locked(&self.guacds).last().cloned();
        let database = locked(&self.database).clone();
        let servers = servers.into_iter().map(|live| live as Arc<dyn Look>);
        let others = guacd.into_iter().chain(database);
        servers
            .chain(others.map(|live| live as Arc<dyn Look>))
            .collect()
    }

    /// Warns of certificates that run out, and daily as long as they do.
    pub fn warn_of_dates(&self) {
        for (standing, left) in self.due(now()) {
            let (key, file, subject) = (standing.key, standing.file, standing.subject);
            let not_after = rfc3339(standing.not_after);
            match left {
                Left::Plenty => {}
                Left::Days(days) => {
                    warn!(
                        key,
                        file, subject, not_after, days, "Certificate expires soon"
                    );
                }
                Left::Expired => {
                    warn!(key, file, subject, not_after, "Certificate has expired");
                }
                Left::NotYet => {
                    let not_before = rfc3339(standing.not_before);
                    warn!(
                        key,
                        file, subject, not_before, "Certificate is not valid yet"
                    );
                }
            }
        }
    }

    /// What is to be warned of now, and counts as said from then on.
    pub(super) fn due(&self, now: Timestamp) -> Vec<(Standing, Left)> {
        let standings = self.standings();
        let mut warned = locked(&self.warned);
        warned.retain(|(standing, at)| {
            standings.contains(standing) && now.since(*at) < Duration::from_secs(DAY)
        });
        let mut due = Vec::new();
        for standing in standings {
            let left = standing.left(now);
            let said = warned.iter().any(|(known, _)| *known == standing);
            if left != Left::Plenty && !said {
                warned.push((standing.clone(), now));
                due.push((standing, left));
            }
        }
        due
    }

    /// The files of which another certificate is in force now.
    fn look_at_all(&self) -> Vec<String> {
        let servers = locked(&self.servers).clone();
        let guacds = locked(&self.guacds).clone();
        let database = locked(&self.database).clone();
        let mut exchanged: Vec<Arc<dyn Look>> = Vec::new();
        for live in servers {
            if live.look() {
                inspect::warn_of_key(live.recipe());
                exchanged.push(live);
            }
        }
        for live in guacds.into_iter().chain(database) {
            if live.look() {
                exchanged.push(live);
            }
        }
        let shown = exchanged.iter().flat_map(|live| live.state().certificates);
        let mut files: Vec<_> = shown
            .map(|shown| shown.path.display().to_string())
            .collect();
        // One of a chain is shown with each of its certificates.
        files.dedup();
        files
    }
}

/// How each guacd is known; where their names are not alike each is listed.
pub(super) fn of_guacd(config: &Config) -> impl Iterator<Item = &GuacdTls> {
    let members = config.guacd.members.iter();
    members.filter_map(|guacd| guacd.tls.as_ref())
}

/// What the reload does with every configuration, and at every look.
impl Beside for Certificates {
    fn check(&self, config: &Config) -> Result<(), String> {
        of_guacd(config).try_for_each(|tls| {
            let checked = self.connector(tls);
            checked
                .map(drop)
                .map_err(|fault| format!("fault: [guacd] {fault}"))
        })
    }

    fn look(&self) -> Noticed {
        let exchanged = self.look_at_all();
        self.warn_of_dates();
        let faults = self.in_force().into_iter().filter_map(|live| {
            let fault = live.state().last_error?;
            Some(fault.to_string())
        });
        Noticed {
            exchanged,
            not_exchanged: faults.collect(),
        }
    }
}

impl Standing {
    /// What is left of its time.
    pub(super) fn left(&self, now: Timestamp) -> Left {
        if now < self.not_before {
            Left::NotYet
        } else if now >= self.not_after {
            Left::Expired
        } else if self.not_after.since(now) < AHEAD {
            Left::Days(self.not_after.since(now).as_secs() / DAY)
        } else {
            Left::Plenty
        }
    }
}

/// By the system's clock: the dates of certificates are its.
pub(super) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::default() + since_epoch.unwrap_or(Duration::ZERO)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What is in them is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
