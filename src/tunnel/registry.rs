//! Connection ids issued by this process, and what guacd calls them. A join
//! reaches only an id that is here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guac_protocol::ConnectionId;
use uuid::Uuid;

use crate::config::Guacd;

/// Ids that may be joined.
#[derive(Debug, Default)]
pub(super) struct Registry {
    issued: Mutex<HashMap<ConnectionId, Owned>>,
}

/// What an issued id stands for.
type Owned = (ConnectionId, Guacd);

/// An id that may be joined until this is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    id: ConnectionId,
    registry: Arc<Registry>,
}

impl Registry {
    /// Mints the id Guacamole is given for the `guacd_id` of this guacd.
    pub(super) fn issue(self: &Arc<Self>, guacd_id: ConnectionId, guacd: Guacd) -> Registered {
        let id = mint();
        self.lock().insert(id.clone(), (guacd_id, guacd));
        Registered {
            id,
            registry: Arc::clone(self),
        }
    }

    /// guacd's id behind one of ours, and which guacd that is: a reload may
    /// have sent new connections to another one since.
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
        let issued = registry.issue(guacd_id.clone(), Guacd::default());
        let ours = issued.id().clone();
        assert_ne!(ours, guacd_id);
        assert_eq!(
            registry.find(&ours),
            Some((guacd_id.clone(), Guacd::default()))
        );
        assert_eq!(registry.find(&guacd_id), None);
        drop(issued);
        assert_eq!(registry.find(&ours), None);
    }
}
