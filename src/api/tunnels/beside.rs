//! Open tunnels of processes that we took over from: listed and ended like our
//! own, since nobody but us can ask those processes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Ended, Tunnel};
use crate::api::Api;
use crate::api::caller::Caller;
use crate::clock::Clock;
use crate::placement::{HostId, TunnelId, UserKey};
use crate::replicas::Question;
use crate::tunnel::{Open, Tunnels};

/// A tunnel as its process tells us of it.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::api) struct Told {
    pub(super) tunnel: Tunnel,
    pub(super) user: Option<UserKey>,
}

/// What a process answers of its own tunnels to the one that took over from it.
pub fn answering(
    tunnels: Arc<Tunnels>,
    issued: impl Fn(&str) -> bool + Send + Sync + 'static,
    clock: Clock,
) -> impl Fn(&Question) -> Value + Send + Sync {
    move |question| match question {
        Question::Owns(id) => json!(issued(id)),
        Question::Tunnels => {
            let open = tunnels.after(None).into_iter();
            let told = open.map(|open| Told {
                tunnel: Tunnel::of(&open, clock.now()),
                user: open.facts().user,
            });
            json!(told.collect::<Vec<_>>())
        }
        Question::End(ids) => {
            let ids = ids.iter().map(|id| TunnelId::from(id.as_str()));
            ended(ids.filter_map(|id| tunnels.find(&id)))
        }
        Question::EndAll => ended(tunnels.after(None).into_iter()),
    }
}

fn ended(tunnels: impl Iterator<Item = Arc<Open>>) -> Value {
    let ended = tunnels.map(|tunnel| {
        tunnel.end();
        tunnel.id().to_string()
    });
    json!(ended.collect::<Vec<_>>())
}

impl Api {
    /// All of theirs.
    pub(in crate::api) async fn beside(&self) -> Vec<Told> {
        let told = self.predecessors.tunnels().await.into_iter();
        // What a later or earlier release tells in other words is left out.
        told.filter_map(|told| serde_json::from_value(told).ok())
            .collect()
    }

    /// Has these end that are theirs.
    pub(super) async fn end_beside(&self, caller: &Caller, tunnels: Vec<Told>) -> Ended {
        let ids = tunnels.iter().map(|told| told.tunnel.id.clone());
        let ended = self.predecessors.end(ids.collect()).await;
        for Told { tunnel, user } in &tunnels {
            if ended.contains(&tunnel.id) {
                let host = tunnel.host.as_deref().map(HostId::from);
                let id = TunnelId::from(tunnel.id.as_str());
                self.tell_of_ended(&caller.actor, &id, user.as_ref(), host.as_ref());
            }
        }
        Ended { ended }
    }
}
