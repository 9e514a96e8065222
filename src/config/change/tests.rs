//! Every difference is named, once, under the right heading, and nothing else.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;

use super::*;
use crate::config::load_text;

fn config(text: &str) -> Config {
    let loaded = load_text("test.toml", &format!("# a file\n{text}"));
    loaded
        .unwrap_or_else(|faults| panic!("{faults}\n{text}"))
        .config
}

fn between(old: &str, new: &str) -> Changes {
    change(&config(old), &config(new))
}

#[test]
fn a_comment_and_another_order_change_nothing() {
    let old = "[[farms]]\nid = \"a\"\n[[farms]]\nid = \"b\"\n";
    let new = "# both\n[[farms]]\nid = \"b\"\n[[farms]]\nid = \"a\"\n";
    assert!(between(old, new).is_empty());
}

#[test]
fn each_setting_is_named_as_the_files_name_it() {
    for (text, name) in [
        (
            "[broker]\nreconnect_existing = false",
            "broker.reconnect_existing",
        ),
        (
            "[broker]\nsingle_session_per_user = false",
            "broker.single_session_per_user",
        ),
        ("[broker]\nlease_seconds = 901", "broker.lease_seconds"),
        ("[broker]\nmin_health_score = 61", "broker.min_health_score"),
        (
            "[broker]\noffline_after_seconds = 31",
            "broker.offline_after_seconds",
        ),
        (
            "[broker]\nreconnect_failover = \"31s\"",
            "broker.reconnect_failover",
        ),
        (
            "[broker]\nallow_farm_selector = true",
            "broker.allow_farm_selector",
        ),
        ("[broker.score]\nhealth = 11", "broker.score"),
        ("[broker]\nmax_sessions = 10", "broker.max_sessions"),
        (
            "[broker]\nmax_pending_logons = 11",
            "broker.max_pending_logons",
        ),
        ("[broker]\nslow_start = \"61s\"", "broker.slow_start"),
        (
            "[broker]\nmax_tunnels_per_user = 3",
            "broker.max_tunnels_per_user",
        ),
        (
            "[broker]\ntrust_agents = \"history\"",
            "broker.trust_agents",
        ),
        (
            "[broker]\nagent_trust_threshold = 21",
            "broker.agent_trust_threshold",
        ),
        ("[broker]\nunmatched = \"refuse\"", "broker.unmatched"),
        ("[broker]\nmode = \"observe\"", "broker.mode"),
        (
            "[broker]\nplacement_timeout = \"9s\"",
            "broker.placement_timeout",
        ),
        ("[broker]\ndrain_timeout = \"9s\"", "broker.drain_timeout"),
        ("[identity]\norder = [\"name\"]", "identity.order"),
        (
            "[identity]\ndefault_domain = \"CORP\"",
            "identity.default_domain",
        ),
        (
            "[identity]\ndomains = { \"corp.example.com\" = \"CORP\" }",
            "identity.domains",
        ),
        ("[identity]\nrequire_match = true", "identity.require_match"),
        ("[guacd]\naddress = \"127.0.0.1:4900\"", "guacd"),
        ("[probe]\ninterval = \"11s\"", "probe"),
        ("[log]\nlevel = \"debug\"", "log.level"),
    ] {
        let forth = between("", text);
        assert_eq!(forth.settings, [name], "{text}");
        let back = between(text, "");
        assert_eq!(back.settings, [name], "{text}");
        assert!(forth.restart.is_empty() && !forth.takes_nothing_over());
    }
}

#[test]
fn what_is_made_at_the_start_waits_for_the_next() {
    for (text, name) in [
        ("[[listen]]\naddress = \"127.0.0.1:4900\"", "listen"),
        ("[store]\npath = \"/elsewhere\"", "store"),
        ("[log]\nformat = \"json\"", "log.format"),
    ] {
        let changes = between("", text);
        assert_eq!(changes.restart, [name], "{text}");
        assert!(changes.takes_nothing_over() && !changes.is_empty());
    }
}

#[test]
fn what_waits_for_a_restart_is_named_until_it_is_taken_back() {
    let running = config("");
    let edited = config("[store]\npath = \"/elsewhere\"\n[log]\nlevel = \"debug\"");
    let in_force = edited.beside(&running);
    assert_eq!(in_force.store, running.store);
    assert_eq!(in_force.log.level, edited.log.level);
    let later = config("[store]\npath = \"/elsewhere\"\n[log]\nlevel = \"trace\"");
    assert_eq!(change(&in_force, &later).restart, ["store"]);
    assert!(change(&in_force, &running).restart.is_empty());
}

#[test]
fn objects_are_told_apart_by_id() {
    let old = "[[farms]]\nid = \"f\"\n\
        [[hosts]]\nid = \"a\"\naddress = \"10.0.0.1\"\nfarm_ids = [\"f\"]\n\
        [[hosts]]\nid = \"b\"\naddress = \"10.0.0.2\"\nfarm_ids = [\"f\"]\n\
        [[resources]]\nid = \"r\"\nkind = \"desktop\"\nfarm_id = \"f\"\n";
    let new = "[[farms]]\nid = \"f\"\nenabled = false\n\
        [[hosts]]\nid = \"b\"\naddress = \"10.0.0.9\"\nfarm_ids = [\"f\"]\n\
        [[hosts]]\nid = \"c\"\naddress = \"10.0.0.1\"\nfarm_ids = [\"f\"]\n\
        [[resources]]\nid = \"r\"\nkind = \"desktop\"\nfarm_id = \"f\"\n";
    let changes = between(old, new);
    assert_eq!(changes.hosts.to_string(), "+c -a ~b");
    assert_eq!(changes.farms.to_string(), "~f");
    assert!(changes.resources.is_empty());
}

/// Hosts by number, each in one of three states.
fn some_hosts() -> impl Strategy<Value = Vec<(u8, u8)>> {
    let hosts = proptest::collection::btree_map(0..8_u8, 0..3_u8, 0..8);
    hosts.prop_map(|hosts| hosts.into_iter().collect())
}

fn written(hosts: &[(u8, u8)]) -> Config {
    let mut text = "[[farms]]\nid = \"f\"\n".to_owned();
    for (id, state) in hosts {
        let address = 10 + 10 * id + state;
        writeln!(
            text,
            "[[hosts]]\nid = \"h{id}\"\naddress = \"10.0.0.{address}\"\nfarm_ids = [\"f\"]"
        )
        .unwrap();
    }
    config(&text)
}

proptest! {
    #[test]
    fn changes_lead_from_the_one_to_the_other(old in some_hosts(), new in some_hosts()) {
        let (from, to) = (written(&old), written(&new));
        let Changes { hosts, .. } = change(&from, &to);
        let ids = |hosts: &[(u8, u8)]| -> BTreeSet<HostId> {
            hosts.iter().map(|(id, _)| format!("h{id}").into()).collect()
        };
        let mut walked = ids(&old);
        for id in &hosts.removed {
            prop_assert!(walked.remove(id));
        }
        for id in &hosts.added {
            prop_assert!(walked.insert(id.clone()));
        }
        prop_assert_eq!(&walked, &ids(&new));
        for id in walked {
            let differs = from.directory.host(&id) != to.directory.host(&id);
            let told = hosts.changed.contains(&id) || hosts.added.contains(&id);
            prop_assert_eq!(differs, told);
        }
    }

    #[test]
    fn the_way_back_is_the_mirror_image(old in some_hosts(), new in some_hosts()) {
        let (from, to) = (written(&old), written(&new));
        let (forth, back) = (change(&from, &to), change(&to, &from));
        prop_assert_eq!(forth.hosts.added, back.hosts.removed);
        prop_assert_eq!(forth.hosts.removed, back.hosts.added);
        prop_assert_eq!(forth.hosts.changed, back.hosts.changed);
        prop_assert!(change(&from, &from).is_empty());
    }
}
