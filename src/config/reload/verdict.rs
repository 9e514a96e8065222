//! What becomes of files that were looked at: taken over, refused, or nothing.
//! Whatever it is, it is said once, and kept in the state.

use std::path::Path;
use std::sync::Arc;

use tracing::{error, info, warn};

use super::Reloader;
use super::fingerprint::Fingerprint;
use super::state::{self, Attempt, Cause, Reloaded};
use crate::config::change::change;
use crate::config::{Faults, Loaded};

/// Findings written into one log line; the state keeps all.
const LOGGED: usize = 20;

impl Reloader {
    pub(super) fn judge(
        &mut self,
        cause: Cause,
        seen: Fingerprint,
        loaded: Result<Loaded, Faults>,
        unfit: Option<String>,
    ) -> Reloaded {
        let emptied: Vec<_> = self
            .origin
            .seen
            .emptied(&seen)
            .map(cut_to_nothing)
            .collect();
        match loaded {
            Ok(loaded) if emptied.is_empty() => match unfit {
                None => self.take_over(cause, seen, &loaded),
                // What is wrong is in other files and may be mended there alone:
                // these are read again.
                Some(finding) => self.refuse(cause, None, vec![finding]),
            },
            Ok(_) => self.refuse(cause, Some(seen), emptied),
            Err(faults) => {
                // A bad key may be mended where it is.
                let seen = Some(seen).filter(|_| !faults.concern_secrets());
                let findings = faults.findings().iter().map(ToString::to_string);
                self.refuse(cause, seen, findings.collect())
            }
        }
    }

    fn take_over(&mut self, cause: Cause, seen: Fingerprint, loaded: &Loaded) -> Reloaded {
        let changes = change(&self.in_force, &loaded.config);
        let mut generation = self.generation();
        if !changes.takes_nothing_over() {
            self.in_force = Arc::new(loaded.config.beside(&self.in_force));
            generation = (self.apply)(&self.in_force);
        }
        self.origin.seen = seen;
        self.refused = None;
        let at = state::now();
        self.state.send_modify(|state| {
            if state.generation != generation {
                state.generation = generation;
                state.applied = at;
            }
            state.attempt = Some(Attempt {
                at,
                cause,
                findings: Arc::default(),
            });
            state.restart.clone_from(&changes.restart);
        });
        if !changes.takes_nothing_over() {
            info!(
                generation,
                %cause,
                hosts = %changes.hosts,
                farms = %changes.farms,
                resources = %changes.resources,
                settings = changes.settings.join(" "),
                "Configuration applied"
            );
        } else if changes.is_empty() {
            info!(generation, %cause, "Configuration differs in its wording only");
        }
        if !changes.restart.is_empty() {
            let settings = changes.restart.join(" ");
            warn!(
                settings,
                "Changed settings need a restart and stay as they were"
            );
        }
        for finding in loaded.warnings.iter().take(LOGGED) {
            warn!(%finding, "Configuration warning");
        }
        if changes.is_empty() {
            return Reloaded::Unchanged { generation };
        }
        let changes = Arc::new(changes);
        Reloaded::Applied {
            generation,
            changes,
        }
    }

    pub(super) fn refuse(
        &mut self,
        cause: Cause,
        seen: Option<Fingerprint>,
        findings: Vec<String>,
    ) -> Reloaded {
        let generation = self.generation();
        let mut said: Vec<_> = findings.iter().take(LOGGED).map(String::as_str).collect();
        let more = findings.len() - said.len();
        let rest = format!("and {more} more");
        if more > 0 {
            said.push(&rest);
        }
        // A poll that finds what the one before it found has nothing to say.
        if cause.is_asked() || self.state.borrow().findings() != findings {
            error!(
                generation,
                %cause,
                findings = said.join("\n"),
                "Configuration refused, the one before stays in force"
            );
        }
        self.refused = seen;
        let findings: Arc<[String]> = findings.into();
        self.state.send_modify(|state| {
            state.attempt = Some(Attempt {
                at: state::now(),
                cause,
                findings: Arc::clone(&findings),
            });
        });
        Reloaded::Refused {
            generation,
            findings,
        }
    }

    /// The files hold what was applied; perhaps again.
    pub(super) fn as_applied(&mut self, cause: Cause) -> Reloaded {
        let generation = self.generation();
        self.refused = None;
        if !self.state.borrow().is_ok() {
            let (at, findings) = (state::now(), Arc::default());
            let attempt = Some(Attempt {
                at,
                cause,
                findings,
            });
            self.state.send_modify(|state| state.attempt = attempt);
            info!(generation, %cause, "Configuration is again the one in force");
        } else if cause.is_asked() {
            info!(generation, %cause, "Configuration unchanged");
        }
        Reloaded::Unchanged { generation }
    }

    /// The files hold what was refused before, and that was said.
    pub(super) fn still_refused(&self, cause: Cause) -> Reloaded {
        let generation = self.generation();
        if cause.is_asked() {
            warn!(generation, %cause, "Configuration still refused, for what was said before");
        }
        let findings = self.state.borrow().findings().into();
        Reloaded::Refused {
            generation,
            findings,
        }
    }
}

fn cut_to_nothing(path: &Path) -> String {
    format!(
        "{}: fault: the file is empty now and was not before\n  help: it may be written at this \
         moment, or the disk is full; if it is meant to be empty, put a comment into it",
        path.display()
    )
}
