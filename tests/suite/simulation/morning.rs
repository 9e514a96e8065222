//! Eight in the morning: fifty loaded hosts, one that has just come back, sixty
//! logons in ten seconds, and reports every ten seconds. The fresh host scores
//! best by far, and must not take everybody.

use std::collections::BTreeMap;
use std::time::Duration;

use sessionguard::placement::{HostId, Rules, UserKey, decide};

use super::ask::Ask;
use super::day::Day;
use super::dice::Dice;
use super::parts::{desk, plain_farm, plain_host};
use super::replay::Log;
use super::scene::{Person, Scene};
use super::sweep;
use super::verdict::Violation;

const LOADED: usize = 50;
const LOGONS: usize = 60;

/// Seeds in every run: few, since a morning is fifty hosts wide.
const MORNINGS: u64 = 8;

fn scene(rules: Rules) -> Scene {
    let farm = plain_farm("f0");
    let resources = vec![desk(&farm.id)];
    let host = |number| {
        let mut host = plain_host(&format!("h{number:02}"));
        host.farm_ids.push(farm.id.clone());
        host
    };
    Scene {
        rules,
        hosts: (0..=LOADED).map(host).collect(),
        out: Vec::new(),
        farms: vec![farm],
        resources,
    }
}

/// Places everybody; says how many each host got.
fn morning(seed: u64, rules: Rules) -> Result<BTreeMap<HostId, usize>, Violation> {
    let dice = Dice::new(seed);
    let mut day = Day::at(scene(rules), dice, decide, Log::default());
    let (fresh, now) = (HostId::from("h00"), day.now);
    for host in day.scene.hosts.clone() {
        let at = if host.id == fresh {
            0
        } else {
            day.dice.between(8, 14)
        };
        let user = |n| UserKey::new(&format!("{}-{n}", host.id), "corp").unwrap();
        day.world
            .machine(&host.id)
            .furnish((0..at).map(user).collect(), now);
    }
    // Until everybody has reported, whatever gets lost; then the fresh host turns usable.
    day.pass(Duration::from_secs(120))?;
    day.broker.turned_usable(&fresh, day.now);
    let mut got = BTreeMap::new();
    for number in 0..LOGONS {
        // Names are kept for the whole run: a person's are static.
        let user: &'static str = Box::leak(format!("early{number}").into_boxed_str());
        let person = Person {
            user,
            domain: Some("corp"),
        };
        let placed = day.connect(&Ask::desk(person))?;
        *got.entry(placed.expect("nobody is turned away"))
            .or_default() += 1;
        day.pass(Duration::from_millis(10_000 / 60))?;
        sweep::after_step(&mut day)?;
    }
    Ok(got)
}

fn rolled(seed: u64, rules: Rules) -> BTreeMap<HostId, usize> {
    let rolled = morning(seed, rules);
    rolled.unwrap_or_else(|v| panic!("morning {seed}: not so: {}: {}", v.rule, v.what))
}

#[test]
fn a_fresh_host_among_fifty_loaded_ones_does_not_take_everybody() {
    for seed in 0..MORNINGS {
        let got = rolled(seed, Rules::default());
        let fresh = got.get(&HostId::from("h00")).copied().unwrap_or_default();
        assert!(
            (1..=LOGONS / 6).contains(&fresh),
            "{seed}: the fresh host got {fresh}: {got:?}"
        );
        let most = got
            .iter()
            .filter(|(host, _)| host.as_str() != "h00")
            .map(|(_, n)| *n)
            .max();
        assert!(most <= Some(LOGONS / 6), "{seed}: {got:?}");
    }
}

#[test]
fn without_a_slow_start_the_cap_on_pending_logons_alone_holds_it_back() {
    let rules = || Rules {
        slow_start: Duration::ZERO,
        ..Rules::default()
    };
    for seed in 0..MORNINGS {
        let got = rolled(seed, rules());
        let fresh = got.get(&HostId::from("h00")).copied().unwrap_or_default();
        assert!(
            (5..=LOGONS / 2).contains(&fresh),
            "{seed}: the fresh host got {fresh}: {got:?}"
        );
    }
}
