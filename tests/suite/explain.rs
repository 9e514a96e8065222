//! Why somebody would go, or went, to a host, asked of the running broker.

use serde_json::{Value, json};

use crate::support::{Broker, Names, ScriptedGuacd, Site, Stage, Visit};

/// What a command line comes to: its exit code, and what it printed.
fn asked(site: &Site, arguments: &[&str]) -> (i32, String, String) {
    let output = Site::run(arguments, &site.folder().join("sessionguard.toml"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn as_json(site: &Site, arguments: &[&str]) -> Value {
    let (_, out, err) = asked(site, &[arguments, &["-o", "json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}\n{err}"))
}

const ANN: &[&str] = &["explain", "--user", "ann", "--resource", "office"];

fn candidates(told: &Value) -> Vec<(&str, &Value)> {
    let candidates = told["decision"]["candidates"].as_array().unwrap();
    candidates
        .iter()
        .map(|c| (c["host"].as_str().unwrap(), c))
        .collect()
}

/// Three hosts, of which `rds2` is in drain.
fn stage() -> Stage {
    Stage::of(3).restarted_with(&[("rds2", "drain")])
}

#[test]
fn a_dry_run_names_every_host_and_what_keeps_it_out() {
    let stage = stage();
    let (code, out, err) = asked(&stage.site, ANN);
    assert_eq!(code, 0, "{err}");
    let line = |begin: &str| {
        let mut lines = out.lines();
        let found = lines.find(|line| line.starts_with(begin));
        found
            .unwrap_or_else(|| panic!("no {begin} in {out}"))
            .to_owned()
    };
    assert!(line("outcome").contains("placed on rds"), "{out}");
    assert!(line("rule").ends_with("best score"), "{out}");
    assert!(
        line("asked for").ends_with("username ann, resource office"),
        "{out}"
    );
    assert!(line("decision").contains("dry run"), "{out}");
    assert!(line("rds2").contains("out: in drain"), "{out}");
    assert!(line("host").contains("health*10 - active*20 - disconnected*5 - CPU*2 - memory*1"));
    for host in ["rds1", "rds3"] {
        assert!(
            line(host).contains("1000.0  = 100*10 - 0*20 - 0*5 - ?0*2 - ?0*1"),
            "{out}"
        );
    }
    assert_eq!(out.matches("chosen").count(), 1, "{out}");
    assert!(!out.contains('\x1b'), "colour is for terminals");
}

#[test]
fn a_dry_run_changes_nothing_and_foretells_the_placement() {
    let stage = stage();
    let first = as_json(&stage.site, ANN);
    let second = as_json(&stage.site, ANN);
    assert_eq!(first["host"], second["host"]);
    // Nothing was published: the picture is the same one.
    assert_eq!(
        first["decision"]["generation"],
        second["decision"]["generation"]
    );
    assert_ne!(first["id"], second["id"]);
    assert_eq!(first["act"], "dry-run");

    let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(first["host"], stage.host_of(&peer));
    stage.broker.placed("ann");
    assert_eq!(stage.broker.lines("Placed").len(), 1);
    // And none of it is kept.
    for told in [&first, &second] {
        let id = told["id"].as_str().unwrap();
        let (code, _, err) = asked(&stage.site, &["explain", "--decision", id]);
        assert_eq!(code, 1);
        assert!(err.contains(id) && err.contains("is known"), "{err}");
    }
}

#[test]
fn a_dry_run_for_somebody_with_an_open_tunnel_shows_the_other_hosts_as_well() {
    let stage = stage();
    let (_visitor, peer) = stage.desktop(&Visit::office("ann"));
    let told = as_json(&stage.site, ANN);
    assert_eq!(told["host"], stage.host_of(&peer));
    assert_eq!(told["reason"], "tunnel already open there");
    let hosts: Vec<_> = candidates(&told).iter().map(|(host, _)| *host).collect();
    assert_eq!(hosts, ["rds1", "rds2", "rds3"]);
    let own = candidates(&told)
        .into_iter()
        .find(|(host, _)| told["host"] == *host)
        .unwrap()
        .1;
    assert_eq!(own["score"]["active"], 1);
    assert_eq!(own["occupancy"]["users"], 1);
}

#[test]
fn every_carrier_can_be_asked_about() {
    let stage = Stage::one();
    let user = ["explain", "--user", "CORP\\Ann"];
    for (carrier, value) in [
        ("--connection-id", "42"),
        ("--connection-name", "office desktop"),
        ("--hostname", "office.example.test"),
        ("--hostname", "sessionguard:resource=office"),
    ] {
        let told = as_json(&stage.site, &[&user[..], &[carrier, value]].concat());
        assert_eq!(told["decision"]["resource"], "office", "{carrier} {told}");
        assert_eq!(
            told["decision"]["user"],
            json!({"domain": "corp", "user": "ann"})
        );
    }
    let app = [
        "--hostname",
        "office.example.test",
        "--remote-app",
        "||Sage",
    ];
    let told = as_json(&stage.site, &[&user[..], &app].concat());
    assert_eq!(told["decision"]["resource"], "sage");
    // Of what is published there only the alias is told.
    assert!(!told.to_string().contains("/quiet"), "{told}");

    let (code, out, _) = asked(
        &stage.site,
        &[&user[..], &["--hostname", "elsewhere.test"]].concat(),
    );
    assert_eq!(code, 0);
    assert!(out.contains("passed through"), "{out}");
    let (code, out, _) = asked(
        &stage.site,
        &[&user[..], &["--resource", "nothing"]].concat(),
    );
    assert_eq!(code, 3);
    assert!(out.contains("unknown resource"), "{out}");
}

/// The id in a line of the log.
fn id_of(line: &Value) -> String {
    line["decision_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_past_placement_is_explained_also_after_a_restart() {
    let stage = stage();
    let visit = Visit::office("ann").answer("gateway-hostname", "gw.example.test");
    let (visitor, peer) = stage.desktop(&visit);
    let host = stage.host_of(&peer);
    let placed = stage.broker.placed("ann");
    let id = id_of(&placed);
    drop((visitor, peer));
    stage.broker.ended(&placed);

    let of_memory = as_json(&stage.site, &["explain", "--decision", &id]);
    let stage = stage.restarted(stop);
    let of_store = as_json(&stage.site, &["explain", "--decision", &id]);
    assert_eq!(of_memory, of_store);
    assert_eq!(of_store["act"], "placement");
    assert_eq!(of_store["host"], host.as_str());
    assert_eq!(of_store["tunnel"], placed["tunnel"]);
    assert_eq!(
        of_store["rewritten"]["cleared"],
        json!(["gateway-hostname"])
    );
    assert_eq!(
        of_store["asked"],
        json!({"username": "ann", "login": "ann", "resource": "office"})
    );
    assert_eq!(candidates(&of_store).len(), 3);
    assert_eq!(candidates(&of_store)[1].1["exclusion"], "drain");

    let (code, out, _) = asked(&stage.site, &["explain", "--decision", &id]);
    assert_eq!(code, 0);
    assert!(
        out.contains("cleared: gateway-hostname") && out.contains("acted on"),
        "{out}"
    );
    assert!(
        !out.contains("gw.example.test"),
        "names, never values: {out}"
    );
}

fn stop(broker: Broker) {
    broker.signal("TERM");
    assert!(broker.exit().success());
}

#[test]
fn past_refusals_are_explained_with_hosts_and_without_also_after_a_restart() {
    let stage = Stage::of(2).restarted_with(&[("rds1", "drain"), ("rds2", "drain")]);
    let told = [
        Visit::office("busy").refused_at(&stage.broker),
        Visit::rdp("lost")
            .answer("hostname", "sessionguard:resource=nothing")
            .refused_at(&stage.broker),
        Visit::rdp("odd")
            .answer("hostname", "sessionguard:resourc=office")
            .refused_at(&stage.broker),
    ];
    let ids: Vec<_> = stage
        .broker
        .wait_for_lines("Refused", 3)
        .iter()
        .map(id_of)
        .collect();
    for (refusal, id) in told.iter().zip(&ids) {
        assert!(refusal.text.contains(id.as_str()), "{refusal:?} {id}");
    }
    let stage = stage.restarted(stop);
    for (id, (user, reason, hosts)) in ids.iter().zip([
        ("busy", "no host of farm office takes new sessions now", 2),
        ("lost", "the connection names an unknown resource", 0),
        (
            "odd",
            "selector knows resource=, id=, name= and farm= only",
            0,
        ),
    ]) {
        let told = as_json(&stage.site, &["explain", "--decision", id]);
        assert_eq!(told["outcome"], "refused", "{told}");
        assert_eq!(told["reason"], reason);
        assert_eq!(told["asked"]["username"], user);
        assert_eq!(candidates(&told).len(), hosts);
        let (code, out, _) = asked(&stage.site, &["explain", "--decision", id]);
        assert_eq!(code, 3, "{out}");
        assert!(out.contains(reason), "{out}");
    }
}

#[test]
fn the_last_decision_about_a_user_is_found_without_its_id() {
    let stage = Stage::of(2);
    drop(stage.tunnel(&Visit::office("CORP\\Ann")));
    drop(stage.tunnel(&Visit::office("bob")));
    let last = |user| asked(&stage.site, &["explain", "--user", user, "--last"]);
    for (user, of) in [
        ("ann", "corp\\ann"),
        ("ann@CORP", "corp\\ann"),
        ("bob", "bob"),
    ] {
        let id = id_of(&stage.broker.placed(of));
        let (code, out, err) = last(user);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(&format!("{id} (acted on)")), "{user}: {out}");
    }
    // What went wrong is the last one, too.
    Visit::rdp("bob")
        .answer("hostname", "sessionguard:resource=nothing")
        .refused_at(&stage.broker);
    let (code, out, _) = last("bob");
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("names an unknown resource"), "{out}");
    let (code, _, err) = last("corp\\bob");
    assert!(
        code == 1 && err.contains("no decision about corp\\bob is kept"),
        "{err}"
    );
    let (code, _, err) = last("a b&c");
    assert!(code == 1 && err.contains("about a b&c"), "{err}");
    for more in [&["--resource", "office"][..], &["--domain", "corp"]] {
        let arguments = [&["explain", "--user", "ann", "--last"], more].concat();
        assert_eq!(asked(&stage.site, &arguments).0, 2, "{more:?}");
    }
    assert_eq!(asked(&stage.site, &["explain", "--last"]).0, 2);
}

#[test]
fn a_placement_that_found_no_use_says_so() {
    let mut names = Names::rdp("1.6.0");
    names.0.retain(|name| !name.starts_with("remote-app"));
    let stage = Stage::before(ScriptedGuacd::polite(names), 1);
    let visit = Visit::rdp("ann").answer("hostname", "sessionguard:resource=sage");
    visit.refused_at(&stage.broker);
    let id = id_of(&stage.broker.wait("Refused", |_| true));
    let told = as_json(&stage.site, &["explain", "--decision", &id]);
    assert_eq!(told["outcome"], "failed");
    assert_eq!(told["reason"], "this guacd has no parameter remote-app");
    let (code, out, _) = asked(&stage.site, &["explain", "--decision", &id]);
    assert_eq!(code, 3);
    assert!(out.contains("failed, though rds1 was chosen"), "{out}");
}

#[test]
fn what_is_only_observed_is_marked() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| site.with("[broker]\nmode = \"observe\"\n"));
    drop(stage.tunnel(&Visit::office("ann")));
    let id = id_of(&stage.broker.wait("Would place", |_| true));
    let told = as_json(&stage.site, &["explain", "--decision", &id]);
    assert_eq!(told["act"], "observation");
    assert_eq!(told["host"], "rds1");
    assert!(told["tunnel"].is_string());
}

#[test]
fn a_crash_costs_only_the_last_seconds() {
    let stage = Stage::one();
    drop(stage.tunnel(&Visit::office("ann")));
    let id = id_of(&stage.broker.placed("ann"));
    stage
        .broker
        .wait_until_stored(&format!("{{\"id\":\"{id}\""));
    // The text is in the file before the commit is; the lease of a second
    // tunnel that stood is written behind both.
    let (_visitor, _peer) = stage.desktop(&Visit::office("bob"));
    let holder = format!(
        "{{\"tunnel\":{},\"stood\":true",
        stage.broker.placed("bob")["tunnel"]
    );
    stage.broker.wait_until_stored(&holder);
    let stage = stage.restarted(Broker::kill);
    assert_eq!(
        as_json(&stage.site, &["explain", "--decision", &id])["host"],
        "rds1"
    );
}

#[test]
fn a_wrong_question_is_a_usage_error() {
    let stage = Stage::one();
    for arguments in [
        &["explain", "--decision", "../status"][..],
        &["explain", "--user", "ann"],
        &["explain", "--resource", "office"],
        &[
            "explain",
            "--user",
            "ann",
            "--decision",
            "0198e5c0-0000-7000-8000-000000000000",
        ],
        &["explain", "--decision", "0198"],
    ] {
        let (code, out, err) = asked(&stage.site, arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(!err.is_empty());
    }
    let unknown = "0198e5c0-0000-7000-8000-000000000000";
    let (code, _, err) = asked(&stage.site, &["explain", "--decision", unknown]);
    assert_eq!(code, 1);
    assert!(err.contains(unknown), "{err}");
}
