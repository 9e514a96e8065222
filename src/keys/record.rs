//! A key as it is stored.

use serde::{Deserialize, Serialize};

use super::Role;
use super::digest::Digest;
use crate::placement::Timestamp;

/// What is kept of a key, under its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) role: Role,
    pub(super) digest: Digest,
    #[serde(default)]
    pub(super) label: String,
    pub(super) created_by: String,
    pub(super) created_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    #[serde(default)]
    pub(super) revoked_by: Option<String>,
    #[serde(default)]
    pub(super) revoked_at: Option<Timestamp>,
    /// First use: of an enrollment token the only one.
    #[serde(default)]
    pub(super) used_at: Option<Timestamp>,
    /// Of an enrollment token: when it was shown for a host that is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_at: Option<Timestamp>,
    /// When it was approved that such a host is enrolled with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approved_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approved_by: Option<String>,
}

impl Record {
    /// `None` where another release wrote it differently.
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// What happened to a key stays so: an older writing of it, read late, does
    /// not make it good again.
    pub(super) fn keep_what_happened(&mut self, known: &Self) {
        if self.revoked_at.is_none() {
            self.revoked_at = known.revoked_at;
            self.revoked_by.clone_from(&known.revoked_by);
        }
        self.used_at = self.used_at.or(known.used_at);
        self.asked_at = self.asked_at.or(known.asked_at);
        if self.approved_at.is_none() {
            self.approved_at = known.approved_at;
            self.approved_by.clone_from(&known.approved_by);
        }
    }

    pub(super) fn text(&self) -> String {
        // A record is plain values: there is nothing that JSON could not hold.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// When it ended by itself or was ended, whatever other keys there are.
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        let used = match self.role {
            Role::Enrollment(_) => self.used_at,
            _ => None,
        };
        [self.revoked_at, used, self.expires_at]
            .into_iter()
            .flatten()
            .min()
    }
}
