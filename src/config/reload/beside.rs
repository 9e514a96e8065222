//! Files that a configuration names and does not hold itself.

use serde::Serialize;

use crate::config::Config;

/// Who minds such files, certificates for one. Called where blocking is
/// allowed.
pub trait Beside: Send + Sync {
    /// Whether a configuration that is to be taken over names what can be used.
    ///
    /// # Errors
    /// What is wrong; the configuration is then refused.
    fn check(&self, config: &Config) -> Result<(), String>;

    /// Looks at the files of what is in force, whenever the configuration's own
    /// are looked at.
    fn look(&self) -> Noticed;
}

/// What a look at such files came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Noticed {
    /// Those that were taken over by this look, by name.
    pub exchanged: Vec<String>,
    /// Those that cannot be taken over as they are now, by name and with the
    /// reason: what was read before stays in force.
    pub not_exchanged: Vec<String>,
}
