//! Connection ids issued by this process, and what guacd calls them. A join
//! reaches only an id that is here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guac_protocol::ConnectionId;
use uuid::Uuid;

use crate::config::Guacd;
use crate::placement::TunnelId;

/// Ids that may be joined. As many as tunnels at most, which are bounded.
#[derive(Debug, Default)]
pub(super) struct Registry {
    issued: Mutex<HashMap<ConnectionId, Owned>>,
}

/// What an issued id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    /// guacd's id of it.
    pub(super) guacd_id: ConnectionId,
    /// Which guacd has it: a reload may have sent new connections to another
    /// one since.
    pub(super) guacd: Guacd,
    /// The tunnel it was issued for.
    pub(super) tunnel: TunnelId,
}

/// An id that may be joined until this is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    id: ConnectionId,
    registry: Arc<Registry>,
}

impl Registry {
    /// Mints the id Guacamole is given for what guacd has.
    pub(super) fn issue(self: &Arc<Self>, owned: Owned) -> Registered {
        let id = mint();
        self.lock().insert(id.clone(), owned);
        Registered {
            id,
            registry: Arc::clone(self),
        }
    }

    /// What one of our ids stands for.
    pub(super) fn find(&self, id: &ConnectionId) -> Option<Owned> {
        self.lock().get(id).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConnectionId, Owned>> {
        // Insertion and removal leave no half-done state behind a panic.
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    pub(super) fn id(&self) -> &ConnectionId {
        &self.id
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.id);
    }
}

/// A connection id of our own that nobody can guess.
pub(super) fn mint() -> ConnectionId {
    ConnectionId::from_bits(Uuid::new_v4().as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_until_its_tunnel_ends_and_guacds_own_is_not() {
        let registry = Arc::new(Registry::default());
        let guacd_id = mint();
        let owned = Owned {
            guacd_id: guacd_id.clone(),
            guacd: Guacd::default(),
            tunnel: "1".into(),
        };
        let issued = registry.issue(owned.clone());
        let ours = issued.id().clone();
        assert_ne!(ours, guacd_id);
        assert_eq!(registry.find(&ours), Some(owned));
        assert_eq!(registry.find(&guacd_id), None);
        drop(issued);
        assert_eq!(registry.find(&ours), None);
    }
}
