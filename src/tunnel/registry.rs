//! Connection ids issued by this process, and what guacd calls them. A join
//! reaches only an id that is here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guac_protocol::ConnectionId;
use tokio::sync::watch;

use super::ids;
use super::pool::Member;
use crate::placement::TunnelId;
use crate::replicas::Tag;

/// Ids that may be joined. As many as tunnels at most, which are bounded.
#[derive(Debug, Default)]
pub(super) struct Registry {
    issued: Mutex<HashMap<ConnectionId, Awaited>>,
    /// What our ids carry, where there are replicas.
    tag: Option<Tag>,
}

/// What an id stands for.
#[derive(Debug, Clone)]
enum Awaited {
    /// Nothing yet: `None` until its desktop is found.
    Sought(watch::Receiver<Option<Arc<Owned>>>),
    /// This, for as long as its tunnel lives: whoever waited has heard it.
    Known(Arc<Owned>),
}

/// What an issued id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    /// guacd's id of it.
    pub(super) guacd_id: ConnectionId,
    /// Which guacd has it: a reload may have sent new connections to another
    /// one since.
    pub(super) guacd: Arc<Member>,
    /// The tunnel it was issued for.
    pub(super) tunnel: TunnelId,
}

/// An id that may be joined until this is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    id: ConnectionId,
    /// Gone once it is known.
    sought: Option<watch::Sender<Option<Arc<Owned>>>>,
    registry: Arc<Registry>,
}

impl Registry {
    /// One that gives out ids with this tag.
    pub(super) fn of(tag: Option<Tag>) -> Self {
        Self {
            tag,
            ..Self::default()
        }
    }

    /// What our ids carry, where there are replicas.
    pub(super) fn tag(&self) -> Option<Tag> {
        self.tag
    }

    /// Mints the id Guacamole is given for what guacd has.
    pub(super) fn issue(self: &Arc<Self>, owned: Owned) -> Registered {
        let mut issued = self.issue_ahead();
        issued.settle(owned);
        issued
    }

    /// Mints the id Guacamole is given while nobody knows yet which guacd will
    /// have its desktop.
    pub(super) fn issue_ahead(self: &Arc<Self>) -> Registered {
        let id = ids::mint(self.tag);
        let (sought, awaited) = watch::channel(None);
        self.lock().insert(id.clone(), Awaited::Sought(awaited));
        Registered {
            id,
            sought: Some(sought),
            registry: Arc::clone(self),
        }
    }

    /// Whether an id is one of ours.
    pub(super) fn knows(&self, id: &ConnectionId) -> bool {
        self.lock().contains_key(id)
    }

    /// What one of our ids stands for by now.
    pub(super) fn find(&self, id: &ConnectionId) -> Option<Arc<Owned>> {
        let awaited = self.lock().get(id).cloned();
        match awaited? {
            Awaited::Sought(sought) => sought.borrow().clone(),
            Awaited::Known(owned) => Some(owned),
        }
    }

    /// What one of our ids stands for, once that is known; `None` where it is
    /// not ours, or its tunnel ends before.
    pub(super) async fn wait_for(&self, id: &ConnectionId) -> Option<Arc<Owned>> {
        let awaited = self.lock().get(id).cloned();
        match awaited? {
            Awaited::Sought(mut sought) => {
                let known = sought.wait_for(Option::is_some).await.ok()?;
                known.clone()
            }
            Awaited::Known(owned) => Some(owned),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConnectionId, Awaited>> {
        // Insertion and removal leave no half-done state behind a panic.
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    pub(super) fn id(&self) -> &ConnectionId {
        &self.id
    }

    /// From here on it can be joined.
    pub(super) fn settle(&mut self, owned: Owned) {
        let owned = Arc::new(owned);
        let known = Awaited::Known(Arc::clone(&owned));
        self.registry.lock().insert(self.id.clone(), known);
        if let Some(sought) = self.sought.take() {
            sought.send_replace(Some(owned));
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::config::Guacd;

    fn guacd() -> Arc<Member> {
        Arc::new(Member {
            guacd: Guacd::default(),
            at: SocketAddr::from((Ipv4Addr::LOCALHOST, 4823)),
        })
    }

    fn mint() -> ConnectionId {
        ids::mint(None)
    }

    #[test]
    fn an_id_is_found_until_its_tunnel_ends_and_guacds_own_is_not() {
        let registry = Arc::new(Registry::default());
        let guacd_id = mint();
        let owned = Owned {
            guacd_id: guacd_id.clone(),
            guacd: guacd(),
            tunnel: "1".into(),
        };
        let issued = registry.issue(owned.clone());
        let ours = issued.id().clone();
        assert_ne!(ours, guacd_id);
        assert_eq!(registry.find(&ours), Some(Arc::new(owned)));
        assert_eq!(registry.find(&guacd_id), None);
        drop(issued);
        assert_eq!(registry.find(&ours), None);
    }

    #[tokio::test]
    async fn who_joins_early_waits_until_the_desktop_is_found_or_is_not() {
        let registry = Arc::new(Registry::default());
        let owned = Owned {
            guacd_id: mint(),
            guacd: guacd(),
            tunnel: "1".into(),
        };
        let mut early = registry.issue_ahead();
        let id = early.id().clone();
        assert_eq!(registry.find(&id), None);
        let (found, ()) = tokio::join!(registry.wait_for(&id), async {
            tokio::task::yield_now().await;
            early.settle(owned.clone());
        });
        assert_eq!(found, Some(Arc::new(owned)));
        let lost = registry.issue_ahead();
        let id = lost.id().clone();
        let (found, ()) = tokio::join!(registry.wait_for(&id), async {
            tokio::task::yield_now().await;
            drop(lost);
        });
        assert_eq!(found, None);
        assert_eq!(registry.wait_for(&mint()).await, None);
    }
}
