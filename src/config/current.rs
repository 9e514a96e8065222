//! The configuration in force, for those who read it each time they need it.

use std::sync::Arc;

use tokio::sync::watch;

use super::settings::Config;

/// A view of the configuration in force; clones see the same.
#[derive(Debug, Clone)]
pub struct Current(watch::Receiver<Arc<Config>>);

/// The one who says what is in force.
#[derive(Debug)]
pub struct InForce(watch::Sender<Arc<Config>>);

impl InForce {
    /// Begins with this one.
    pub fn new(config: Arc<Config>) -> Self {
        Self(watch::Sender::new(config))
    }

    /// From now on it is this one.
    pub fn set(&self, config: Arc<Config>) {
        self.0.send_replace(config);
    }

    /// For a reader.
    pub fn current(&self) -> Current {
        Current(self.0.subscribe())
    }
}

impl Current {
    /// The one in force now. Whoever needs two settings of one generation takes
    /// both from one answer.
    pub fn get(&self) -> Arc<Config> {
        Arc::clone(&self.0.borrow())
    }

    /// Returns once another one is in force than at the last call.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left to change it.
            std::future::pending().await
        }
    }
}
