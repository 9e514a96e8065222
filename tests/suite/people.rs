//! Who the user is: spellings, logins that disagree, and nobody at all.

use std::collections::BTreeSet;

use crate::support::{Names, ScriptedGuacd, Stage, Visit, eventually};

const DOMAINS: &str = r#"
[identity]
default_domain = "CORP"
domains = { "corp.example.test" = "Corp" }
"#;

fn stage(hosts: usize, toml: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, hosts, |site| site.with(toml))
}

/// The RDP user and another Guacamole login.
fn disagreeing() -> Visit {
    Visit::office("ann").login(Some("bob"))
}

#[test]
fn three_spellings_that_the_table_and_the_default_domain_make_one_get_one_host() {
    let stage = stage(3, DOMAINS);
    let (_visitor, peer) = stage.desktop(&Visit::office(r"CORP\Ann"));
    // The other hosts are empty: a stranger goes there.
    let first = stage.host_of(&peer);
    for (spelling, count) in [("ann@Corp.Example.Test", 2), ("ANN", 3)] {
        let (_visitor, peer) = stage.tunnel(&Visit::office(spelling));
        assert_eq!(stage.host_of(&peer), first, "{spelling}");
        assert_eq!(peer.value("username"), spelling, "as it was typed");
        eventually("one user", || {
            let lines = stage.broker.lines("Placed");
            let of_ann = lines.iter().filter(|line| line["user"] == r"corp\ann");
            (of_ann.count() == count).then_some(())
        });
    }
    // Somebody of another domain is somebody else.
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann@other.test"));
    assert_ne!(stage.host_of(&peer), first);
}

#[test]
fn a_login_that_disagrees_is_refused_where_both_must_match() {
    let stage = stage(1, &format!("{DOMAINS}require_match = true\n"));
    for visit in [
        disagreeing(),
        Visit::office(r"CORP\ann").login(Some(r"OTHER\ann")),
    ] {
        let refusal = visit.refused_at(&stage.broker);
        assert_eq!(refusal.code, 0x303, "{}", refusal.text);
        assert!(stage.guacd.next().connect.is_empty());
    }
    for visit in [
        Visit::office(r"CORP\ann").login(Some("ann@corp.example.test")),
        Visit::office(r"CORP\ann").login(Some("ann")),
        Visit::office(r"CORP\ann").login(None),
    ] {
        let (_visitor, peer) = stage.tunnel(&visit);
        assert_eq!(stage.host_of(&peer), "rds1", "{visit:?}");
    }
}

#[test]
fn the_first_tunnel_of_a_login_that_disagrees_leaves_no_lingering_lease() {
    for (visit, lingers) in [(disagreeing(), false), (Visit::office("ann"), true)] {
        let stage = Stage::of(2);
        let (visitor, peer) = stage.desktop(&visit);
        let first = stage.host_of(&peer);
        drop((visitor, peer));
        let ended = stage.broker.ended(&stage.broker.placed("ann"));
        assert_eq!(ended["phase"], "stood");

        let _burden = stage.burden(&first);
        let again = || {
            let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
            stage.host_of(&peer)
        };
        if lingers {
            assert_eq!(again(), first);
        } else {
            // The claim is taken back a moment after the tunnel is gone.
            eventually("another host", || (again() != first).then_some(()));
        }
    }
}

#[test]
fn connections_without_a_user_are_placed_by_score_and_tagged_each() {
    let stage = Stage::of(3);
    let visit = Visit::office("").answer("client-name", "of the connection");
    let tunnels: Vec<_> = (0..3).map(|_| stage.tunnel(&visit)).collect();
    let hosts: BTreeSet<_> = tunnels.iter().map(|(_, p)| stage.host_of(p)).collect();
    assert_eq!(hosts.len(), 3, "{hosts:?}");
    let tags: BTreeSet<_> = tunnels
        .iter()
        .map(|(_, p)| p.value("client-name"))
        .collect();
    assert_eq!(tags.len(), 3, "{tags:?}");
    for tag in tags {
        assert!(tag.starts_with("sg-") && tag.chars().count() <= 15, "{tag}");
    }
    for (_, peer) in &tunnels {
        assert_eq!(peer.value("username"), "");
    }
    for placed in stage.broker.wait_for_lines("Placed", 3) {
        assert_eq!(placed["user"], "(asked later)");
        assert_eq!(placed["reason"], "best score");
    }
    // Who is known is not tagged.
    let known = Visit::office("ann").answer("client-name", "own");
    let (_visitor, peer) = stage.tunnel(&known);
    assert_eq!(peer.value("client-name"), "own");
}
