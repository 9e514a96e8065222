//! An order on a host's mode as people read it.

use serde::Deserialize;

use super::when;

/// An order as the broker tells it; what is not known here is skipped.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    pub(super) mode: String,
    by: String,
    reason: Option<String>,
    message: Option<String>,
    at: String,
    pub(super) from: Option<String>,
    pub(super) until: Option<String>,
    #[serde(default)]
    pub(super) restart_when_drained: bool,
    #[serde(default)]
    online_after_restart: bool,
}

impl Order {
    /// One line: what, when, by whom, why.
    pub(super) fn show(&self) -> String {
        let begins = self.from.as_ref().unwrap_or(&self.at);
        let mut shown = format!("{} from {}", self.mode, when::shown(begins));
        if let Some(until) = &self.until {
            shown.push_str(&format!(" until {}", when::shown(until)));
        }
        shown.push_str(&format!(" by {}", self.by));
        shown.extend(self.reason.iter().map(|reason| format!(": {reason}")));
        let message = self.message.iter();
        shown.extend(message.map(|message| format!(" (users are told: {message})")));
        if self.restart_when_drained {
            shown.push_str(", then restarted");
        }
        if self.online_after_restart {
            shown.push_str(" and online");
        }
        shown
    }
}
