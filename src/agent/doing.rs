//! A command under way, on all the sessions it means.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::carry_out;
use super::report::Named;
use super::settings::Settings;
use super::wire::CommandKind;

/// A command under way.
#[derive(Clone)]
pub(super) struct Doing {
    pub(super) kind: CommandKind,
    pub(super) settings: Arc<Settings>,
    pub(super) text: Arc<str>,
}

impl Doing {
    /// On all its sessions at once. Says on how many, or what went wrong.
    pub(super) async fn all(self, sessions: Vec<Named>) -> Result<String, String> {
        if self.kind == CommandKind::RestartServer {
            let restarted = carry_out::restart(&self.settings.restart_command).await;
            return restarted.map(|()| "the host restarts".to_owned());
        }
        if sessions.is_empty() {
            return Err("there is no such session".to_owned());
        }
        let count = sessions.len();
        let mut under_way = JoinSet::new();
        for named in sessions {
            let doing = self.clone();
            under_way.spawn(async move {
                let done = doing.one(&named).await;
                done.map_err(|error| {
                    format!(
                        "session {} of {}: {error}",
                        named.seen.display, named.name.user
                    )
                })
            });
        }
        let mut errors: Vec<_> = under_way
            .join_all()
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        errors.sort();
        if errors.is_empty() {
            return Ok(format!("{count} sessions"));
        }
        Err(format!(
            "{} of {count} failed: {}",
            errors.len(),
            errors.join("; ")
        ))
    }

    async fn one(&self, named: &Named) -> Result<(), String> {
        let settings = &self.settings;
        match self.kind {
            CommandKind::Message => {
                carry_out::message(&named.seen, &settings.message_command, &self.text).await
            }
            CommandKind::Disconnect => carry_out::disconnect(&named.seen, &settings.proc).await,
            CommandKind::Logoff => carry_out::logoff(&named.seen, &settings.proc).await,
            CommandKind::RestartServer => Ok(()),
        }
    }
}
