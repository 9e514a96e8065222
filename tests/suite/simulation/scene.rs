//! What is configured on one seed's day, and what an administrator changes in it.

use std::sync::Arc;

use sessionguard::placement::{Directory, Farm, FarmId, Host, HostId, Resource, Rules, UserKey};

use super::dice::Dice;
use super::parts::{app, astray, desk, farm, host, retired, rules};

/// The RemoteApp every farm publishes.
pub(super) const ALIAS: &str = "||Sage";

/// A resource that is switched off for good.
pub(super) const RETIRED: &str = "retired";

/// A resource whose farm nobody configured.
pub(super) const ASTRAY: &str = "astray";

/// The configuration, still in its parts.
pub(super) struct Scene {
    pub(super) rules: Rules,
    pub(super) hosts: Vec<Host>,
    /// Taken out of the configuration for a while.
    pub(super) out: Vec<Host>,
    pub(super) farms: Vec<Farm>,
    pub(super) resources: Vec<Resource>,
}

/// Somebody with an account.
#[derive(Debug, Clone, Copy)]
pub(super) struct Person {
    pub(super) user: &'static str,
    pub(super) domain: Option<&'static str>,
}

const fn of(domain: &'static str, user: &'static str) -> Person {
    Person {
        user,
        domain: Some(domain),
    }
}

/// Two of them share a user part; one is a local account.
pub(super) const PEOPLE: [Person; 18] = [
    of("corp", "ann"),
    of("other", "ann"),
    of("corp", "bob"),
    of("corp", "cleo"),
    of("other", "dan"),
    of("corp", "eve"),
    of("corp", "j\u{fc}rgen"),
    of("corp", "gus"),
    of("other", "hal"),
    of("corp", "ida"),
    of("corp", "jo|hn"),
    of("corp", "kim"),
    of("corp", "lee"),
    of("corp", "mia"),
    of("other", "ned"),
    of("corp", "oda"),
    of("corp", "pat"),
    Person {
        user: "kiosk",
        domain: None,
    },
];

impl Person {
    /// The account that is logged on: hosts are members of one domain.
    pub(super) fn account(self) -> UserKey {
        UserKey::new(self.user, self.domain.unwrap_or("corp")).unwrap()
    }
}

impl Scene {
    /// A few farms over a few hosts, some of them shared.
    pub(super) fn new(dice: &mut Dice) -> Self {
        let rules = rules(dice);
        let farm_count = dice.between(2, 3);
        let farms: Vec<_> = (0..farm_count).map(|n| farm(n, dice)).collect();
        let resources = farms.iter().flat_map(|f| [desk(&f.id), app(&f.id)]);
        let resources = resources.chain([retired(), astray()]).collect();
        let mut scene = Self {
            rules,
            hosts: Vec::new(),
            out: Vec::new(),
            farms,
            resources,
        };
        for number in 0..dice.between(4, 7) {
            let host = host(number, dice);
            scene.hosts.push(host);
            let at = scene.hosts.len() - 1;
            for farm in 0..scene.farms.len() {
                if dice.chance(60) {
                    scene.join(farm, at, dice.below(3));
                }
            }
        }
        scene
    }

    pub(super) fn directory(&self) -> Arc<Directory> {
        let Self {
            rules,
            hosts,
            farms,
            resources,
            out: _,
        } = self;
        let parts = (
            rules.clone(),
            hosts.clone(),
            farms.clone(),
            resources.clone(),
        );
        Arc::new(Directory::new(parts.0, parts.1, parts.2, parts.3))
    }

    pub(super) fn farm(&self, id: &FarmId) -> Option<&Farm> {
        self.farms.iter().find(|farm| farm.id == *id)
    }

    pub(super) fn host(&self, id: &HostId) -> &Host {
        self.hosts.iter().find(|host| host.id == *id).unwrap()
    }

    /// Makes a host a member, by its own word, the farm's or a tag.
    fn join(&mut self, farm: usize, host: usize, by: u64) {
        let (farm, host) = (&mut self.farms[farm], &mut self.hosts[host]);
        match by {
            0 => host.farm_ids.push(farm.id.clone()),
            1 => farm.agent_ids.push(host.id.clone()),
            _ => {
                let tags = farm.required_tags.clone();
                host.tags.extend(tags);
            }
        }
    }

    /// Takes a host out of a farm, or puts it in.
    pub(super) fn move_host(&mut self, dice: &mut Dice) {
        let (farm, host) = (dice.index(self.farms.len()), dice.index(self.hosts.len()));
        let (its, id) = (self.farms[farm].id.clone(), self.hosts[host].id.clone());
        if self.member(&self.farms[farm], &self.hosts[host]) {
            self.hosts[host].farm_ids.retain(|known| *known != its);
            self.hosts[host].tags.remove(its.as_str());
            self.farms[farm].agent_ids.retain(|known| *known != id);
        } else {
            self.join(farm, host, dice.below(3));
        }
    }

    /// Takes a host out of the configuration, or puts one back.
    pub(super) fn swap_host(&mut self, dice: &mut Dice) {
        if dice.chance(50) && self.hosts.len() > 3 {
            let at = dice.index(self.hosts.len());
            self.out.push(self.hosts.remove(at));
        } else if let Some(host) = self.out.pop() {
            self.hosts.push(host);
            self.hosts.sort_by(|a, b| a.id.cmp(&b.id));
        }
    }

    /// Switches a farm off or, likelier, on again.
    pub(super) fn switch_farm(&mut self, dice: &mut Dice) {
        let at = dice.index(self.farms.len());
        self.farms[at].enabled = dice.chance(88);
    }

    /// Switches a resource off or, likelier, on again; the retired one stays off.
    pub(super) fn switch_resource(&mut self, dice: &mut Dice) {
        let at = dice.index(self.farms.len() * 2);
        self.resources[at].enabled = dice.chance(88);
    }

    /// Sets another bound on a host, below what is there for all one knows.
    pub(super) fn bound_host(&mut self, dice: &mut Dice) {
        let at = dice.index(self.hosts.len());
        self.hosts[at].max_sessions = dice.chance(60).then(|| dice.small(0, 12));
        self.hosts[at].max_pending_logons = dice.chance(50).then(|| dice.small(1, 4));
    }

    /// Whether a host belongs to a farm, by the three ways there are.
    pub(super) fn member(&self, farm: &Farm, host: &Host) -> bool {
        let wanted = &farm.required_tags;
        let tagged = wanted.iter().filter(|(k, v)| host.tags.get(*k) == Some(*v));
        host.farm_ids.contains(&farm.id)
            || farm.agent_ids.contains(&host.id)
            || (!wanted.is_empty() && tagged.count() == wanted.len())
    }

    /// The farm's hosts in id order.
    pub(super) fn members(&self, farm: &FarmId) -> Vec<&HostId> {
        let Some(farm) = self.farm(farm) else {
            return Vec::new();
        };
        let of_farm = self.hosts.iter().filter(|host| self.member(farm, host));
        of_farm.map(|host| &host.id).collect()
    }
}
