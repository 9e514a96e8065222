//! What the readers gather before it is checked as a whole.
//!
//! Filled by [`super::sections`] and [`super::objects`] over all files, judged
//! and turned into a [`Config`] by [`super::check`]. Objects keep the places of
//! what may turn out to collide or to lead nowhere.

use crate::placement::{Farm, FarmId, Host, HostId, Resource, ResourceId, Rules, Weights};

use super::guacd::GuacdDraft;
use super::node::{At, Located};
use super::settings::{Config, Listen};
use super::tls::{PeerDraft, ServerDraft};

#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Settings; its listeners and directory are filled in at the end.
    pub(super) config: Config,
    pub(super) rules: Rules,
    pub(super) default_farm: Option<Located<FarmId>>,
    /// A default farm is named, if only by an id that was refused.
    pub(super) has_default_farm: bool,
    pub(super) listen: Vec<ListenDraft>,
    pub(super) guacd: GuacdDraft,
    pub(super) guacd_tls: PeerDraft,
    pub(super) store_tls: PeerDraft,
    pub(super) api_tls: ServerDraft,
    pub(super) hosts: Vec<HostDraft>,
    pub(super) farms: Vec<FarmDraft>,
    pub(super) resources: Vec<ResourceDraft>,
    /// Ids of all objects that have one, also of those with other faults.
    pub(super) host_ids: Vec<Located<HostId>>,
    pub(super) farm_ids: Vec<Located<FarmId>>,
    pub(super) resource_ids: Vec<Located<ResourceId>>,
    /// Some object could not be named or some file not be read: a reference
    /// that leads nowhere may mean what is missing, so none is reported.
    pub(super) incomplete: bool,
}

#[derive(Debug, Default)]
pub(super) struct ListenDraft {
    pub(super) listen: Listen,
    pub(super) address_at: Option<At>,
    pub(super) handshake_at: Option<At>,
    pub(super) advertise_at: Option<At>,
    pub(super) tls: ServerDraft,
}

#[derive(Debug)]
pub(super) struct HostDraft {
    pub(super) host: Host,
    pub(super) address_at: At,
    pub(super) farm_ids: Vec<Located<FarmId>>,
}

#[derive(Debug)]
pub(super) struct FarmDraft {
    /// Its score weights are still to be filled up from the global ones.
    pub(super) farm: Farm,
    pub(super) agent_ids: Vec<Located<HostId>>,
    /// Where `required_tags` stands, if it does.
    pub(super) tags_at: Option<At>,
    pub(super) score: Option<ScoreDraft>,
}

/// The weights a farm names.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ScoreDraft {
    pub(super) health: Option<u32>,
    pub(super) active: Option<u32>,
    pub(super) disconnected: Option<u32>,
    pub(super) cpu: Option<u32>,
    pub(super) memory: Option<u32>,
}

impl ScoreDraft {
    /// These weights, the rest from the global ones.
    pub(super) fn over(self, global: Weights) -> Weights {
        Weights {
            health: self.health.unwrap_or(global.health),
            active: self.active.unwrap_or(global.active),
            disconnected: self.disconnected.unwrap_or(global.disconnected),
            cpu: self.cpu.unwrap_or(global.cpu),
            memory: self.memory.unwrap_or(global.memory),
        }
    }
}

#[derive(Debug)]
pub(super) struct ResourceDraft {
    pub(super) resource: Resource,
    pub(super) at: At,
    pub(super) farm_at: Option<At>,
    pub(super) connection_id_at: Option<At>,
    pub(super) connection_name_at: Option<At>,
    pub(super) source_at: Option<At>,
    pub(super) load_balance_at: Option<At>,
    pub(super) hostnames: Vec<Located<String>>,
}
