//! The parts a configuration is made of, rolled or plain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sessionguard::placement::{
    Farm, FarmId, FarmOverrides, Host, Mode, ParameterValues, RemoteApp, Resource, ResourceKind,
    Rules,
};

use super::dice::Dice;
use super::scene::{ALIAS, ASTRAY, RETIRED};

pub(super) fn rules(dice: &mut Dice) -> Rules {
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

pub(super) fn farm(number: u64, dice: &mut Dice) -> Farm {
    let plain = plain_farm(&format!("f{number}"));
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
        required_tags: BTreeMap::from([(plain.name.clone(), "yes".to_owned())]),
        overrides,
        ..plain
    }
}

/// A farm with nothing said about it.
pub(super) fn plain_farm(id: &str) -> Farm {
    Farm {
        id: id.into(),
        name: id.to_owned(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    }
}

pub(super) fn host(number: u64, dice: &mut Dice) -> Host {
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
        attempt_deadline: None,
        keep_parameters: BTreeSet::new(),
        parameters: ParameterValues::default(),
    }
}

pub(super) fn app(farm: &FarmId) -> Resource {
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

pub(super) fn retired() -> Resource {
    Resource {
        id: RETIRED.into(),
        name: RETIRED.to_owned(),
        enabled: false,
        guacamole_connection_name: None,
        hostnames: Vec::new(),
        ..desk(&"f0".into())
    }
}

pub(super) fn astray() -> Resource {
    Resource {
        id: ASTRAY.into(),
        name: ASTRAY.to_owned(),
        farm_id: Some("nowhere".into()),
        guacamole_connection_name: None,
        hostnames: Vec::new(),
        ..desk(&"f0".into())
    }
}
