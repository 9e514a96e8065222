//! What a host's agent says, and how its words are read.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::directory::Directory;
use super::identity::UserKey;
use super::ids::HostId;
use super::time::Timestamp;

/// What a host's agent reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// When we received it.
    pub received: Timestamp,
    /// 0 to 100.
    pub health: u8,
    /// False where the agent says that nothing listens for RDP.
    pub rdp_listener_ok: bool,
    /// 0 to 100; `None` where the agent could not tell.
    pub cpu_percent: Option<f64>,
    /// 0 to 100; `None` where the agent could not tell.
    pub memory_used_percent: Option<f64>,
    /// Sessions with a user name; listeners and an empty console are none.
    pub sessions: Vec<Session>,
    /// Aliases, with their `||`, that the host says it does not publish.
    pub missing_remote_apps: Vec<String>,
    /// Where it stands among the agent's reports; `None` where the agent does
    /// not count them.
    pub order: Option<ReportNumber>,
    /// The moment it speaks of, on our clock: never later than it was made, so
    /// that a report which took its time does not speak of what came after it.
    pub taken: Timestamp,
    /// It names more users than it has sessions.
    pub overclaims: bool,
}

/// One user's login on a host, as the host reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Whose.
    pub user: UserKey,
    /// What it is doing.
    pub state: SessionState,
    /// When it was last connected or logged on.
    pub latest: Timestamp,
    /// The name of the client it was opened from.
    pub client_name: Option<String>,
}

/// A report's place among its agent's: both numbers only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReportNumber {
    /// Which start of the host.
    pub boot: u64,
    /// Which report since then.
    pub seq: u64,
}

/// What a reported session is doing, best to return to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// In use.
    Active,
    /// Connected, logon under way.
    Connected,
    /// Left behind.
    Disconnected,
}

/// A session as its agent words it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told<'a> {
    /// The session's id on its host; may be empty.
    pub id: &'a str,
    /// Its state, in the words of Windows or xrdp, in any letter case.
    pub state: &'a str,
    /// Its user; empty for listeners and an empty console.
    pub user: &'a str,
    /// The user's domain; may be empty.
    pub domain: &'a str,
    /// The name of the client it was opened from; may be empty.
    pub client_name: &'a str,
    /// When it was last connected or logged on.
    pub latest: Timestamp,
}

/// What an agent's words come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    /// The sessions that count.
    pub sessions: Vec<Session>,
    /// States nobody knows, taken for connected: worth a line in the log.
    pub unknown_states: BTreeSet<String>,
    /// It names more users than it has sessions.
    pub overclaims: bool,
}

impl Session {
    /// Reads a host's sessions. One without a user is none, and neither is one
    /// that is being taken down. A user without a domain gets the default
    /// domain of the farm that rules the host; where there is none, the session
    /// goes by the user part alone.
    pub fn reported(told: &[Told<'_>], directory: &Directory, host: &HostId) -> Heard {
        let rules = directory.rules();
        let domain = directory.default_domain(host);
        let mut heard = Heard::default();
        let (mut ids, mut users) = (BTreeSet::new(), BTreeSet::new());
        for (nth, told) in told.iter().enumerate() {
            let Some(user) = UserKey::new(told.user, told.domain) else {
                continue;
            };
            let user = user.translated(&rules.domains).qualified_by(domain);
            let user = user.translated(&rules.domains);
            let state = match Word::read(told.state) {
                Word::Means(state) => state,
                Word::NoSession => continue,
                Word::Unknown => {
                    heard.unknown_states.insert(told.state.trim().to_owned());
                    SessionState::Connected
                }
            };
            // Without an id each is taken for a session of its own.
            ids.insert((told.id, told.id.is_empty().then_some(nth)));
            users.insert(user.clone());
            let client_name = told.client_name.trim();
            heard.sessions.push(Self {
                user,
                state,
                latest: told.latest,
                client_name: (!client_name.is_empty()).then(|| client_name.to_owned()),
            });
        }
        heard.overclaims = users.len() > ids.len();
        heard
    }
}

/// What a state's name says.
enum Word {
    Means(SessionState),
    /// Nobody is logged on there, or not for longer.
    NoSession,
    Unknown,
}

impl Word {
    fn read(word: &str) -> Self {
        let mut letters = word.trim().to_ascii_lowercase();
        letters.retain(|c| c.is_ascii_alphanumeric());
        match letters.strip_prefix("wts").unwrap_or(&letters) {
            "active" | "shadow" => Self::Means(SessionState::Active),
            // An idle one belongs to somebody who may be right back: it counts
            // in full, and is gone back to after one in use.
            "connected" | "conn" | "connectquery" | "connq" | "idle" | "init" => {
                Self::Means(SessionState::Connected)
            }
            "disconnected" | "disc" => Self::Means(SessionState::Disconnected),
            "listen" | "listening" | "reset" | "down" => Self::NoSession,
            _ => Self::Unknown,
        }
    }
}

impl Report {
    /// How old it is.
    pub fn age(&self, now: Timestamp) -> std::time::Duration {
        now.since(self.received)
    }

    /// Whether it shows a session of this user.
    pub fn shows(&self, user: &UserKey) -> bool {
        self.of(user).next().is_some()
    }

    /// Its sessions of this user.
    pub fn of<'a>(&'a self, user: &'a UserKey) -> impl Iterator<Item = &'a Session> {
        self.sessions
            .iter()
            .filter(|s| user.matches_session(&s.user))
    }

    /// Whether it says that it does not publish this RemoteApp. Windows
    /// compares aliases without regard to case; `||` is the protocol's mark.
    pub fn lacks(&self, alias: &str) -> bool {
        let bare = |alias: &str| alias.trim().trim_start_matches('|').to_lowercase();
        let wanted = bare(alias);
        self.missing_remote_apps
            .iter()
            .any(|known| bare(known) == wanted)
    }
}
