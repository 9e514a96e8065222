//! What is configured on one seed's day, and what an administrator changes in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sessionguard::placement::{
    Directory, Farm, FarmId, FarmOverrides, Host, HostId, Mode, ParameterValues, RemoteApp,
    Resource, ResourceKind, Rules, UserKey,
};

use super::dice::Dice;

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
        } = self;
        let parts = (rules.clone(), hosts.clone(), farms.clone(), resources.clone());
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

    /// Switches a farm off or, likelier, on again.
    pub(super) fn switch_farm(&mut self, dice: &mut Dice) {
        let at = dice.index(self.farms.len());
        self.farms[at].enabled = dice.chance(75);
    }

    /// Switches a resource off or, likelier, on again; the retired one stays off.
    pub(super) fn switch_resource(&mut self, dice: &mut Dice) {
        let at = dice.index(self.farms.len() * 2);
        self.resources[at].enabled = dice.chance(75);
    }

    /// Sets another bound on a host, below what is there for all one knows.
    pub(super) fn bound_host(&mut self, dice: &mut Dice) {
        let at = dice.index(self.hosts.len());
        self.hosts[at].max_sessions = dice.chance(70).then(|| dice.small(0, 8));
        self.hosts[at].max_pending_logons = dice.chance(50).then(|| dice.small(1, 4));
    }

    /// Whether a host belongs to a farm, by the three ways there are.
    pub(super) fn member(&self, farm: &Farm, host: &Host) -> bool {
        let wanted = &farm.required_tags;
        let tagged = wanted.iter().filter(|(k, v)| host.tags.get(*k) == Some(*v));
        host.farm_ids.iter().any(|id| *id == farm.id)
            || farm.agent_ids.iter().any(|id| *id == host.id)
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

fn rules(dice: &mut Dice) -> Rules {
    let domains = BTreeMap::from([("corp.example.com".to_owned(), "corp".to_owned())]);
    Rules {
        reconnect_existing: dice.chance(85),
        single_session_per_user: dice.chance(65),
        lease: Duration::from_secs(*dice.pick(&[120, 300, 900])),
        default_farm: dice.chance(70).then(|| "f0".into()),
        allow_farm_selector: true,
        max_sessions: dice.chance(50).then(|| dice.small(3, 10)),
        max_pending_logons: dice.small(2, 10),
        slow_start: Duration::from_secs(*dice.pick(&[0, 30, 60, 120])),
        max_tunnels_per_user: dice.chance(12).then(|| dice.small(1, 4)),
        default_domain: dice.chance(30).then(|| "CORP".to_owned()),
        require_match: dice.chance(12),
        domains,
        ..Rules::default()
    }
}

fn farm(number: u64, dice: &mut Dice) -> Farm {
    let id = format!("f{number}");
    let overrides = FarmOverrides {
        reconnect_existing: dice.chance(15).then(|| dice.chance(50)),
        min_health_score: dice.chance(20).then_some(45),
        max_sessions: dice.chance(20).then(|| dice.small(3, 8)),
        max_pending_logons: dice.chance(20).then(|| dice.small(1, 6)),
        slow_start: dice.chance(20).then_some(Duration::from_secs(90)),
        default_domain: dice.chance(10).then(|| "other".to_owned()),
        ..FarmOverrides::default()
    };
    Farm {
        name: id.clone(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::from([(id.clone(), "yes".to_owned())]),
        id: id.into(),
        overrides,
    }
}

fn host(number: u64, dice: &mut Dice) -> Host {
    Host {
        address: format!("10.0.0.{number}"),
        port: if dice.chance(80) { 3389 } else { 3390 },
        max_sessions: dice.chance(20).then(|| dice.small(1, 6)),
        max_pending_logons: dice.chance(20).then(|| dice.small(1, 5)),
        ..plain_host(&format!("h{number}"))
    }
}

/// A host with nothing said about it.
pub(super) fn plain_host(id: &str) -> Host {
    Host {
        id: id.into(),
        address: format!("{id}.example.com"),
        port: 3389,
        farm_ids: Vec::new(),
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    }
}

/// The desktop of a farm.
pub(super) fn desk(farm: &FarmId) -> Resource {
    Resource {
        id: format!("desk-{farm}").into(),
        name: format!("Desk {farm}"),
        kind: ResourceKind::Desktop,
        farm_id: Some(farm.clone()),
        enabled: true,
        guacamole_connection_id: None,
        guacamole_connection_name: Some(format!("Desk {farm}")),
        source: None,
        hostnames: vec![format!("{farm}.example.com")],
        load_balance_info: None,
        keep_parameters: BTreeSet::new(),
        parameters: ParameterValues::default(),
    }
}

fn app(farm: &FarmId) -> Resource {
    let app = RemoteApp {
        alias: ALIAS.to_owned(),
        dir: String::new(),
        args: String::new(),
    };
    Resource {
        id: format!("app-{farm}").into(),
        name: format!("App {farm}"),
        kind: ResourceKind::RemoteApp(app),
        guacamole_connection_name: None,
        hostnames: Vec::new(),
        ..desk(farm)
    }
}

fn retired() -> Resource {
    Resource {
        id: RETIRED.into(),
        name: RETIRED.to_owned(),
        enabled: false,
        guacamole_connection_name: None,
        hostnames: Vec::new(),
        ..desk(&"f0".into())
    }
}

fn astray() -> Resource {
    Resource {
        id: ASTRAY.into(),
        name: ASTRAY.to_owned(),
        farm_id: Some("nowhere".into()),
        guacamole_connection_name: None,
        hostnames: Vec::new(),
        ..desk(&"f0".into())
    }
}
