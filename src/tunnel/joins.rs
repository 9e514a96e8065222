//! Where the tunnel is that somebody wants a seat in: one of ours, one of another
//! replica's, or none.
//!
//! ```text
//! select $id --> ours? ----------------------> its guacd (waits for the desktop)
//!                 | no, and it carries another replica's tag
//!                 v
//!            that replica is there? ---------> its Guacamole port: select $ID,
//!                 | no                         the rest of the handshake as it comes
//!                 v
//!               0x204
//! ```
//!
//! One hop and no second one. The replica that is asked sees by the id, in upper
//! case, that it is sent on ([`super::ids`]) and looks at its own tunnels alone.
//! That holds whatever addresses replicas were given, one that leads to another
//! replica, to all of them or back to us included: the way ends at the first
//! replica that hears it, with 0x204 where it has no such tunnel. Nothing has to
//! be believed for that: who writes an id so himself reaches less, not more.
//!
//! A process that took over from others asks those first, on this machine: other
//! replicas reach all of them by its address, and so a join may be sent on once
//! more, to a process that sends nothing on.
//!
//! Who sends an id with a forged tag causes one dial of a replica that is in the
//! store, and never of an address of his own. I17 holds, since only the registry
//! of the replica that gave an id out leads to a guacd.

use std::sync::Arc;
use std::time::Duration;

use guac_protocol::ConnectionId;
use tokio::time::timeout;

use super::line::Line;
use super::registry::Owned;
use super::stop::Stop;
use super::{Gateway, ids};
use crate::replicas::Neighbour;

/// Where a join goes.
#[derive(Debug)]
pub(super) enum Seat {
    /// To a guacd, which has the connection.
    Here(Arc<Owned>),
    /// To the replica that knows which guacd that is.
    Elsewhere(Elsewhere),
}

/// A connection of another replica.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// What it is asked for.
    pub(super) id: ConnectionId,
    pub(super) owner: Neighbour,
}

impl Gateway {
    /// What a join goes to, once its owner has a desktop. Guacamole may leave
    /// meanwhile.
    pub(super) async fn seat_in(
        &self,
        line: &mut Line,
        id: &ConnectionId,
        within: Duration,
    ) -> Result<Seat, Stop> {
        tokio::select! {
            found = timeout(within, self.look_for(id)) => match found {
                Ok(found) => found.ok_or(Stop::UnknownJoin),
                Err(_) => Err(Stop::NothingToJoin),
            },
            event = line.event() => match event {
                Ok(event) => Err(Stop::unexpected(&event)),
                Err(stop) => Err(stop),
            },
        }
    }

    async fn look_for(&self, id: &ConnectionId) -> Option<Seat> {
        let asked = ids::read(id);
        let tag = ids::tag_of(&asked.id);
        let is_ours = !asked.is_sent_on || tag.is_some() && tag == self.registry.tag();
        if is_ours && let Some(owned) = self.registry.wait_for(&asked.id).await {
            return Some(Seat::Here(owned));
        }
        if let Some(owner) = self.predecessors.owner_of(asked.id.as_str()).await {
            // As it was given out where there is no tag: it leads nowhere else.
            let id = match tag {
                Some(_) => ids::sent_on(&asked.id)?,
                None => asked.id,
            };
            return Some(Seat::Elsewhere(Elsewhere { id, owner }));
        }
        let replicas = self.replicas.as_ref().filter(|_| !asked.is_sent_on)?;
        let owner = replicas.find(tag?).await?;
        let id = ids::sent_on(&asked.id)?;
        Some(Seat::Elsewhere(Elsewhere { id, owner }))
    }
}
