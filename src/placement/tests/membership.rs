//! Who belongs to a farm: a host says so, a farm says so, or the tags do.

use std::collections::BTreeMap;

use super::build::*;
use crate::placement::*;

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs.map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn members(world: &World, farm: &str) -> String {
    let directory = world.directory();
    let farm = FarmId::from(farm);
    let ids: Vec<_> = directory.members(&farm).map(HostId::as_str).collect();
    assert!(
        ids.iter()
            .all(|id| directory.is_member(&farm, &(*id).into()))
    );
    ids.join(" ")
}

#[test]
fn a_host_that_lists_the_farm_belongs_to_it() {
    let world = farm("office").farm("erp").with(host("a"));
    assert_eq!(members(&world, "erp"), "a");
    assert_eq!(members(&world, "office"), "");
}

#[test]
fn a_host_the_farm_lists_belongs_to_it() {
    let world = farm("office")
        .whose_farm(|f| f.agent_ids = vec!["b".into(), "nobody".into()])
        .with(host("a").gone())
        .with(host("b").gone());
    assert_eq!(members(&world, "office"), "b");
}

#[test]
fn a_host_with_every_required_tag_belongs_to_the_farm() {
    let cases: &[(&[(&str, &str)], bool)] = &[
        (&[("site", "north"), ("role", "rds")], true),
        (&[("site", "north"), ("role", "rds"), ("more", "x")], true),
        (&[("site", "north")], false),
        (&[("role", "rds")], false),
        (&[], false),
        // Key and value, exactly as written.
        (&[("site", "North"), ("role", "rds")], false),
        (&[("Site", "north"), ("role", "rds")], false),
        (&[("site", "north "), ("role", "rds")], false),
        (&[("site", ""), ("role", "rds")], false),
        (&[("north", "site"), ("rds", "role")], false),
    ];
    for (carried, belongs) in cases {
        let world = farm("office")
            .whose_farm(|f| f.required_tags = tags(&[("site", "north"), ("role", "rds")]))
            .with(host("a").gone().configured(|h| h.tags = tags(carried)));
        let expected = if *belongs { "a" } else { "" };
        assert_eq!(members(&world, "office"), expected, "{carried:?}");
    }
}

#[test]
fn a_farm_that_requires_no_tag_gains_nobody_by_tags() {
    let world = farm("office")
        .with(
            host("a")
                .gone()
                .configured(|h| h.tags = tags(&[("site", "north")])),
        )
        .with(host("b").gone());
    assert_eq!(members(&world, "office"), "");
    assert_eq!(world.ask("ann"), Err(Refusal::EmptyFarm("office".into())));
}

#[test]
fn all_three_rules_coexist_and_a_host_counts_once() {
    let world = farm("office")
        .whose_farm(|f| {
            f.agent_ids = vec!["b".into(), "d".into()];
            f.required_tags = tags(&[("site", "north")]);
        })
        .with(host("a"))
        .with(host("b").gone())
        .with(
            host("c")
                .gone()
                .configured(|h| h.tags = tags(&[("site", "north")])),
        )
        .with(host("d").configured(|h| h.tags = tags(&[("site", "north")])))
        .with(host("e").gone());
    assert_eq!(members(&world, "office"), "a b c d");
}

#[test]
fn a_host_may_be_in_several_farms() {
    let world = farm("office")
        .farm("erp")
        .with(host("a").also_in("office"))
        .with(host("b"));
    assert_eq!(members(&world, "office"), "a");
    assert_eq!(members(&world, "erp"), "a b");
}

#[test]
fn a_farm_nobody_configured_has_no_members() {
    let world = farm("office").with(host("a").also_in("ghost"));
    assert_eq!(members(&world, "ghost"), "");
    assert!(!world.directory().is_member(&"ghost".into(), &"a".into()));
}

#[test]
fn members_come_in_id_order_however_they_were_written() {
    let world = farm("office")
        .with(host("c"))
        .with(host("a"))
        .with(host("b"));
    assert_eq!(members(&world, "office"), "a b c");
    let seen: Vec<_> = world.decide(by_resource("office"), "ann").candidates;
    let seen: Vec<_> = seen.iter().map(|c| c.host.as_str()).collect();
    assert_eq!(seen, ["a", "b", "c"]);
}

#[test]
fn placement_stays_inside_the_farm_however_good_the_others_are() {
    let world = farm("office")
        .with(host("poor").reporting().health(60).cpu(99.0).memory(99.0))
        .farm("erp")
        .with(host("rich").reporting());
    assert_eq!(world.ask("ann"), on("poor", Reason::Score));
}
