//! What the running broker says of its farms, hosts, resources, tunnels and
//! leases, and where somebody is now.

use std::thread;

use serde_json::Value;

use super::admin::{get, told_by};
use crate::support::{Names, ScriptedGuacd, Site, Stage, Visit, eventually};

/// What a command line comes to: its exit code, and what it printed.
pub(super) fn asked(site: &Site, arguments: &[&str]) -> (i32, String, String) {
    let output = Site::run(arguments, &site.folder().join("sessionguard.toml"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

pub(super) fn list(stage: &Stage, path: &str) -> Vec<Value> {
    let told = get(&stage.site, &format!("/api/v1/{path}"));
    let name = path.split('?').next().unwrap();
    told[name].as_array().unwrap().clone()
}

/// The user's only tunnel, once it looks as wanted.
fn tunnel_of(stage: &Stage, user: &str, fits: impl Fn(&Value) -> bool) -> Value {
    eventually("the tunnel", || {
        let tunnels = list(stage, &format!("tunnels?user={user}"));
        assert!(tunnels.len() < 2, "{tunnels:?}");
        tunnels.into_iter().find(|tunnel| fits(tunnel))
    })
}

#[test]
fn every_tunnel_is_listed_from_its_handshake_to_its_end() {
    let stage = Stage::of(2);
    assert_eq!(list(&stage, "tunnels"), Vec::<Value>::new());
    let (mut ann, mut peer) = stage.tunnel(&Visit::office("CORP\\Ann"));
    let host = stage.host_of(&peer);
    let pending = tunnel_of(&stage, "ann", |_| true);
    let placed = stage.broker.placed("corp\\ann");
    for (name, value) in [
        ("kind", "brokered"),
        ("protocol", "rdp"),
        ("user", "corp\\ann"),
        ("login", "CORP\\Ann"),
        ("host", &host),
        ("farm", "office"),
        ("resource", "office"),
        ("id", placed["tunnel"].as_str().unwrap()),
        ("decision_id", placed["decision_id"].as_str().unwrap()),
    ] {
        assert_eq!(pending[name], value, "{name} in {pending}");
    }
    assert!(pending["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(pending["stood"], Value::Null);
    peer.stand();
    ann.hear_past_nops("sync");
    ann.wire.send(b"3.key,5.65307,1.1;").unwrap();
    peer.wire.exact(18).unwrap();
    let stood = tunnel_of(&stage, "ann", |tunnel| tunnel["to_guacd"] == 18);
    assert!(
        stood["stood"].is_string() && stood["to_guacamole"] == 19,
        "{stood}"
    );

    // Others than ours, and one that has not asked for anything yet.
    let mut old = Visit::rdp("bob")
        .answer("hostname", "Old.Example.Test")
        .at(&stage.broker);
    let id = old.ready();
    let mut joiner = Visit::join(&id).at(&stage.broker);
    joiner.ready();
    let mut vnc = Visit::protocol("vnc")
        .login(Some("corp\\carl"))
        .at(&stage.broker);
    vnc.ready();
    let mut early = crate::support::Visitor::dial(stage.broker.address());
    early.select("rdp");
    early.read_args();
    let tunnels = list(&stage, "tunnels");
    let shown = |tunnel: &Value| {
        let text = |name: &str| tunnel[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", text("kind"), text("protocol"), text("user"))
    };
    assert_eq!(
        tunnels.iter().map(shown).collect::<Vec<_>>(),
        [
            "brokered rdp corp\\ann",
            "pass-through rdp bob",
            "join - -",
            "pass-through vnc corp\\carl",
            "handshake - -",
        ]
    );
    assert_eq!(tunnels[2]["joined"], tunnels[1]["id"]);
    assert_eq!(get(&stage.site, "/api/v1/status")["tunnels"], 5);

    // Page by page they are the same.
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let told = get(&stage.site, &format!("/api/v1/tunnels?limit=2{after}"));
        paged.extend(told["tunnels"].as_array().unwrap().clone());
        match told["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let ids = |tunnels: &[Value]| tunnels.iter().map(|t| t["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&paged), ids(&tunnels));
    assert_eq!(list(&stage, &format!("tunnels?host={host}")).len(), 1);
    assert_eq!(list(&stage, "tunnels?farm=office&user=bob").len(), 0);
    let one = format!("/api/v1/tunnels/{}", tunnels[1]["id"].as_str().unwrap());
    assert_eq!(get(&stage.site, &one)["user"], "bob");

    drop((ann, old, joiner, vnc, early));
    eventually("the end of all", || {
        list(&stage, "tunnels").is_empty().then_some(())
    });
}

#[test]
fn where_somebody_is_now_is_one_request_however_they_are_spelled() {
    let stage = Stage::of(2);
    let (_visitor, peer) = stage.desktop(&Visit::office("CORP\\ann"));
    let (_other, _) = stage.desktop(&Visit::office("corp\\anna"));
    let host = stage.host_of(&peer);
    eventually("the lease is live", || {
        let leases = list(&stage, "leases?user=ann");
        (leases.first()?["state"] == "live").then_some(())
    });
    for spelling in ["ann", "ANN", "corp%5Cann", "Ann@CORP"] {
        let path = format!("/api/v1/sessions?user={spelling}");
        let told = get(&stage.site, &path);
        assert_eq!(
            told["sessions"],
            serde_json::json!([]),
            "hosts have no agents"
        );
        let tunnels = told["tunnels"].as_array().unwrap();
        assert_eq!(tunnels.len(), 1, "{spelling}: {told}");
        assert_eq!(tunnels[0]["host"], host.as_str());
        let leases = told["leases"].as_array().unwrap();
        assert_eq!(leases.len(), 1, "{spelling}: {told}");
        assert_eq!(leases[0]["host"], host.as_str());
        assert_eq!(leases[0]["key"], "corp\\ann");
        assert_eq!(leases[0]["holders"][0], tunnels[0]["id"]);
    }
    let nobody = get(&stage.site, "/api/v1/sessions?user=zoe");
    assert_eq!(
        (&nobody["tunnels"], &nobody["leases"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
    let everybody = get(&stage.site, "/api/v1/sessions");
    assert_eq!(everybody["tunnels"], Value::Null);

    let (code, out, err) = asked(&stage.site, &["sessions", "--user", "ann"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("no session is reported\n"), "{out}");
    assert!(out.contains("corp\\ann") && !out.contains("anna"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
}

#[test]
fn many_leases_are_told_page_by_page_and_by_filter() {
    let stage = Stage::of(2);
    let users = ["ann", "bob", "carl", "dora", "eve"];
    let tunnels: Vec<_> = users
        .iter()
        .map(|user| stage.tunnel(&Visit::office(user)))
        .collect();
    let keys = |leases: &[Value]| {
        let keys = leases
            .iter()
            .map(|lease| lease["key"].as_str().unwrap().to_owned());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(keys(&list(&stage, "leases")), users);
    let first = get(&stage.site, "/api/v1/leases?limit=3");
    assert_eq!(keys(first["leases"].as_array().unwrap()), users[..3]);
    assert_eq!(first["next"], "carl");
    let second = get(&stage.site, "/api/v1/leases?limit=3&after=carl");
    assert_eq!(keys(second["leases"].as_array().unwrap()), users[3..]);
    assert_eq!(second["next"], Value::Null);
    let host = stage.host_of(&tunnels[0].1);
    let there: Vec<_> = users
        .iter()
        .zip(&tunnels)
        .filter(|(_, (_, peer))| stage.host_of(peer) == host)
        .map(|(user, _)| (*user).to_owned())
        .collect();
    assert_eq!(keys(&list(&stage, &format!("leases?host={host}"))), there);
    assert_eq!(list(&stage, "leases?farm=erp").len(), 0);
    let (_, out, err) = asked(&stage.site, &["leases", "--limit", "2"]);
    assert!(out.contains("ann") && !out.contains("carl"), "{out}");
    assert!(err.contains("ask with --after 'bob'"), "{err}");
}

#[test]
fn one_users_leases_are_told_page_by_page_and_nobody_elses() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.with("[broker]\nsingle_session_per_user = false\n")
    });
    let sage = Visit::rdp("corp\\ann").answer("hostname", "sessionguard:resource=sage");
    let visits = [
        Visit::office("corp\\ann"),
        sage,
        Visit::office("corp\\anna"),
        Visit::office("corp\\an"),
    ];
    let _tunnels: Vec<_> = visits.iter().map(|visit| stage.tunnel(visit)).collect();
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/leases?user=corp%5Cann&limit=1{after}");
        let told = get(&stage.site, &path);
        for lease in told["leases"].as_array().unwrap() {
            keys.push(lease["key"].as_str().unwrap().to_owned());
        }
        match told["next"].as_str() {
            Some(next) => {
                after = format!("&after={}", next.replace('\\', "%5C").replace('|', "%7C"))
            }
            None => break,
        }
    }
    assert_eq!(keys, ["corp\\ann|office|office", "corp\\ann|office|sage"]);
    assert_eq!(list(&stage, "leases").len(), 4);
}

#[test]
fn hosts_and_farms_say_who_takes_newcomers_and_why_not() {
    let stage = Stage::of(3).restarted_with(&[("rds2", "drain")]);
    let (_visitor, peer) = stage.desktop(&Visit::office("ann"));
    let on = stage.host_of(&peer);
    let hosts = list(&stage, "hosts?farm=office");
    let ids: Vec<_> = hosts
        .iter()
        .map(|host| host["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["rds1", "rds2", "rds3"]);
    for host in &hosts {
        let drained = host["id"] == "rds2";
        let newcomer = &host["newcomer"][0];
        assert_eq!(newcomer["farm"], "office");
        assert_eq!(newcomer["exclusion"] == "drain", drained, "{host}");
        let score = if host["id"] == on.as_str() {
            980.0
        } else {
            1000.0
        };
        assert_eq!(newcomer["score"], score, "{host}");
    }
    assert_eq!(get(&stage.site, "/api/v1/hosts/rds2")["mode"], "drain");
    let farm = get(&stage.site, "/api/v1/farms/office");
    assert_eq!(
        (&farm["hosts_open"], &farm["tunnels"], &farm["users"]),
        (&2.into(), &1.into(), &1.into())
    );

    let (_, out, _) = asked(&stage.site, &["hosts"]);
    let line = out.lines().find(|line| line.starts_with("rds2")).unwrap();
    assert!(line.ends_with("out: in drain"), "{out}");
    let (_, farms, _) = asked(&stage.site, &["farms"]);
    assert!(farms.contains("2 of 3"), "{farms}");
    for table in [out, farms] {
        assert!(!table.contains('\x1b'), "no colour where nobody looks");
        assert!(
            table.lines().all(|line| line.chars().count() <= 100),
            "{table}"
        );
    }
}

#[test]
fn a_disabled_farm_takes_nobody_and_its_hosts_say_so() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let old = "[[farms]]\nid = \"old\"\nenabled = false\nagent_ids = [\"rds1\"]\n";
    let stage = Stage::adjusted(guacd, 1, |site| site.with(old));
    let host = get(&stage.site, "/api/v1/hosts/rds1");
    let says = host["newcomer"].as_array().unwrap();
    assert_eq!(
        (&says[0]["farm"], &says[0]["out"]),
        (&"office".into(), &Value::Null)
    );
    assert_eq!(
        (&says[1]["farm"], &says[1]["out"]),
        (&"old".into(), &"farm disabled".into())
    );
    let farm = get(&stage.site, "/api/v1/farms/old");
    assert_eq!(
        (&farm["enabled"], &farm["hosts_open"]),
        (&false.into(), &0.into())
    );
    let (_, out, _) = asked(&stage.site, &["hosts"]);
    assert!(
        out.contains("office score 1000, old out: farm disabled"),
        "{out}"
    );
    let (_, out, _) = asked(&stage.site, &["farms"]);
    let line = out.lines().find(|line| line.starts_with("old")).unwrap();
    assert!(line.contains("disabled"), "{out}");
}

#[test]
fn what_nobody_asks_for_and_what_leads_nowhere_is_told() {
    let stage = Stage::one();
    drop(stage.tunnel(&Visit::office("ann")));
    for hostname in ["Old.Example.Test", "old.example.test."] {
        let visit = Visit::rdp("bob").answer("hostname", hostname);
        visit.at(&stage.broker).ready();
    }
    // Nobody came by asking.
    asked(
        &stage.site,
        &["explain", "--user", "x", "--resource", "sage"],
    );
    let status = get(&stage.site, "/api/v1/status");
    assert_eq!(
        status["resources_never_matched"],
        serde_json::json!(["sage"])
    );
    let hostnames = status["hostnames_never_matched"].as_array().unwrap();
    assert_eq!(hostnames.len(), 1, "{status}");
    assert_eq!(hostnames[0]["hostname"], "old.example.test");
    assert_eq!(hostnames[0]["times"], 2);
    let office = get(&stage.site, "/api/v1/resources/office");
    assert_eq!(
        (&office["matched"], &office["farm"]),
        (&1.into(), &"office".into())
    );
    assert_eq!(office["carriers"]["hostnames"][0], "office.example.test");
    let (_, out, _) = asked(&stage.site, &["status"]);
    assert!(out.contains("never matched  resources sage\n"), "{out}");
    assert!(out.contains("hostname old.example.test (2 times"), "{out}");
    let (_, out, _) = asked(&stage.site, &["resources", "--farm", "office"]);
    assert!(
        out.contains("connection id 42") && out.contains("never"),
        "{out}"
    );
}

#[test]
fn a_farm_may_be_asked_for_where_connections_may() {
    let explain = ["explain", "--user", "ann", "--farm", "office"];
    let stage = Stage::one();
    let (code, out, _) = asked(&stage.site, &explain);
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("allow_farm_selector"), "{out}");
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.with("[broker]\nallow_farm_selector = true\n")
    });
    let (code, out, _) = asked(&stage.site, &explain);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("placed on rds1"), "{out}");
    let (code, out, _) = asked(&stage.site, &["explain", "--user", "ann", "--farm", "erp"]);
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("farm erp is not configured"), "{out}");
}

#[test]
fn mistakes_end_with_the_right_code_and_a_hint() {
    let stage = Stage::one();
    for (arguments, code, hint) in [
        (&["hosts", "--farm", "offic"][..], 1, "did you mean office?"),
        (&["resources", "--farm", "x"], 1, "no farm \"x\""),
        (&["tunnels", "--limit", "many"], 2, "limit is a number"),
        (&["leases", "--limit", "0"], 2, "limit is a number"),
        (&["sessions", "--user", " "], 2, "user is blank"),
        (&["tunnels", "end"], 2, "Usage"),
        (&["tunnels", "end", "x", "--host", "y"], 2, "cannot be used"),
        (
            &["tunnels", "end", "../status"],
            1,
            "no tunnel \"../status\"",
        ),
        (
            &["tunnels", "end", "--host", "rsd1"],
            1,
            "did you mean rds1?",
        ),
        (&["leases", "release"], 2, "KEY"),
        (&["leases", "release", "a/b?c"], 1, "a/b?c has no lease"),
        (&["farms", "-o", "yaml"], 2, "invalid value"),
    ] {
        let (got, out, err) = asked(&stage.site, arguments);
        assert_eq!(got, code, "{arguments:?}: {out}{err}");
        assert!(err.contains(hint), "{arguments:?}: {err}");
    }
    let Stage { site, broker, .. } = stage;
    broker.kill();
    for command in [
        "farms",
        "hosts",
        "resources",
        "sessions",
        "tunnels",
        "leases",
    ] {
        let (code, _, err) = asked(&site, &[command]);
        assert_eq!(code, 4, "{command}: {err}");
    }
    let (code, _, _) = asked(&site, &["tunnels", "end", "x"]);
    assert_eq!(code, 4);
}

#[test]
fn two_command_lines_at_once_get_the_same_answer() {
    let stage = Stage::of(2);
    let (_visitor, _peer) = stage.desktop(&Visit::office("ann"));
    let main = stage.site.folder().join("sessionguard.toml");
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let main = main.clone();
            thread::spawn(move || Site::run(&["resources", "-o", "json"], &main))
        })
        .collect();
    let mut told: Vec<Value> = asking
        .into_iter()
        .map(|thread| {
            let output = thread.join().unwrap();
            assert!(output.status.success());
            serde_json::from_slice(&output.stdout).unwrap()
        })
        .collect();
    for told in &mut told {
        for resource in told["resources"].as_array_mut().unwrap() {
            resource
                .as_object_mut()
                .unwrap()
                .remove("matched_seconds_ago");
        }
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0]["resources"].as_array().unwrap().len(), 2);
}

#[test]
fn completions_and_manual_come_from_the_command_line() {
    for shell in ["bash", "zsh", "fish"] {
        let output = told_by(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["tunnels", "release", "connection-name"] {
            assert!(script.contains(word), "{shell} knows no {word}");
        }
    }
    assert_eq!(told_by(&["completions", "abacus"]).status.code(), Some(2));
    let page = String::from_utf8(told_by(&["man"]).stdout).unwrap();
    assert!(
        page.contains(".TH sessionguard 1") && page.contains("leases"),
        "{page}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(told_by(&["man", "--folder", path]).status.success());
    let page = folder.path().join("sessionguard-tunnels-end.1");
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains("page is told")
    );
    let nowhere = told_by(&["man", "--folder", "/nonexistent/folder"]);
    assert_eq!(nowhere.status.code(), Some(1));
}

#[test]
fn a_name_that_would_move_the_cursor_or_pose_as_a_line_is_written_out() {
    let stage = Stage::one();
    let name = "eve\nbob\u{1b}[2J\u{202e}";
    let (_visitor, _peer) = stage.desktop(&Visit::office(name));
    let shown = r"eve\nbob\u{1b}[2j\u{202e}";
    for question in [
        &["tunnels"][..],
        &["leases"],
        &["sessions", "--user", name],
        &["explain", "--user", name, "--resource", "office"],
    ] {
        let (code, out, err) = asked(&stage.site, question);
        assert_eq!(code, 0, "{question:?}: {err}");
        assert!(out.contains(shown), "{question:?}: {out}");
        let seen = |c: char| c == '\n' || !c.is_control();
        assert!(
            out.chars().all(seen) && !out.contains('\u{202e}'),
            "{out:?}"
        );
    }
    let (_, out, _) = asked(&stage.site, &["tunnels", "-o", "json"]);
    assert!(out.contains(r"eve\nbob"), "programs get it as it is: {out}");
}

#[test]
fn of_many_resources_that_nobody_asks_for_the_status_names_a_few() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        let many = (0..30).map(|n| {
            format!(
                "[[resources]]\nid = \"many-{n:02}\"\nkind = \"desktop\"\nfarm_id = \"office\"\n"
            )
        });
        site.with(many.collect::<String>())
    });
    let (_, out, _) = asked(&stage.site, &["status"]);
    assert!(
        out.contains("many-19 and 12 more: see resources\n") && !out.contains("many-20"),
        "{out}"
    );
}

#[test]
fn nothing_is_a_wrong_question() {
    let stage = Stage::one();
    for question in [
        &["leases", "release", ""][..],
        &["tunnels", "end", ""],
        &["drain", ""],
    ] {
        assert_eq!(asked(&stage.site, question).0, 2, "{question:?}");
    }
}
