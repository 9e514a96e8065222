//! The key a user's leases are stored under.

use std::fmt;

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};

use super::identity::UserKey;
use super::ids::{FarmId, ResourceId};

/// Whose leases a record holds: the user, or user, farm and resource. As text
/// it is unambiguous whatever the names contain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseKey(ArcStr);

impl LeaseKey {
    /// One key a user: `single_session_per_user = true`.
    pub fn of_user(user: &UserKey) -> Self {
        let mut text = String::new();
        push_user(&mut text, user);
        Self(text.into())
    }

    /// One key a user, farm and resource: `single_session_per_user = false`.
    pub fn of_resource(user: &UserKey, farm: &FarmId, resource: Option<&ResourceId>) -> Self {
        let mut text = String::new();
        push_user(&mut text, user);
        text.push('|');
        push_escaped(&mut text, farm.as_str());
        text.push('|');
        push_escaped(&mut text, resource.map_or("", ResourceId::as_str));
        Self(text.into())
    }

    /// The key as stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whose leases they are.
    pub fn user(&self) -> UserKey {
        let whose = self.0.split('|').next().unwrap_or_default();
        match whose.split_once('\\') {
            Some((domain, user)) => UserKey::from_parts(Some(plain(domain)), plain(user)),
            None => UserKey::from_parts(None, plain(whose)),
        }
    }

    /// A key read back from a store, as [`Self::as_str`] gave it.
    pub fn from_stored(text: String) -> Self {
        Self(text.into())
    }
}

fn push_user(text: &mut String, user: &UserKey) {
    if let Some(domain) = user.domain() {
        push_escaped(text, domain);
        text.push('\\');
    }
    push_escaped(text, user.user());
}

/// Percent-escapes what separates parts, so that no name can pose as two.
fn push_escaped(text: &mut String, part: &str) {
    for c in part.chars() {
        match c {
            '%' => text.push_str("%25"),
            '|' => text.push_str("%7c"),
            '\\' => text.push_str("%5c"),
            c => text.push(c),
        }
    }
}

/// Takes back what [`push_escaped`] did; `%` goes last, since it starts the others.
fn plain(part: &str) -> String {
    let part = part.replace("%7c", "|").replace("%5c", "\\");
    part.replace("%25", "%")
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
