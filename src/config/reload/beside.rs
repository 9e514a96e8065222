//! Files that a configuration names and does not hold itself.

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
    /// are looked at. Those that cannot be taken over as they are now, by name
    /// and with the reason: what was read before stays in force.
    fn look(&self) -> Vec<String>;
}
