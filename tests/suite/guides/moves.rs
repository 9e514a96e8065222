//! The configurations of the guides on the real binary, at the test's addresses: an administrator
//! who does what is written there gets what is promised.

use std::fs;

use serde_json::{Value, json};

use super::super::admin::get;
use super::super::asking::asked;
use super::super::keys::{create, keys};
use super::{configurations, guide};
use crate::support::{
    Asker, Broker, GuacdPeer, Names, ScriptedAgent, ScriptedGuacd, ScriptedHost, Stage, Visit,
    eventually, session,
};

/// A guide's configuration on hosts that answer, and what a variable says to it.
fn set_up(name: &str, variable: Option<(&'static str, &str)>) -> Stage {
    let files = configurations(&guide(name)).remove(0);
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let hosts: Vec<_> = (0..3).map(|_| ScriptedHost::up()).collect();
    let mut site = Stage::site(guacd.address(), &[]);
    site.change_first(String::new());
    if let Some((name, value)) = variable {
        site = site.knowing(name, value);
    }
    fs::create_dir(site.folder().join("conf.d")).unwrap();
    for (file, text) in files {
        // PostgreSQL is not there; what moving to it means has a test of its own.
        if text.contains("kind = \"postgres\"") {
            continue;
        }
        let text = at_addresses(text, &guacd, &hosts);
        match file.strip_prefix("conf.d/") {
            None => site.change_first(text),
            Some(file) => fs::write(site.folder().join("conf.d").join(file), text).unwrap(),
        }
    }
    let broker = site.start();
    eventually("hosts that answer", || {
        let status = get(&site, "/api/v1/status");
        let hosts = status["hosts"].as_array().unwrap();
        let answer = hosts.iter().all(|host| host["probe"] == "answering");
        (hosts.len() >= 2 && answer).then_some(())
    });
    Stage {
        guacd,
        hosts,
        site,
        broker,
    }
}

/// With the addresses of the cast in place of those in the guide.
fn at_addresses(mut text: String, guacd: &ScriptedGuacd, hosts: &[ScriptedHost]) -> String {
    text = text.replace("127.0.0.1:4822", &guacd.address().to_string());
    text = text.replace("127.0.0.1:4832", "127.0.0.1:0");
    for (index, host) in hosts.iter().enumerate() {
        let nth = index + 1;
        let here = format!("\"127.0.0.1\"\nport = {}\n", host.address().port());
        for there in [
            format!("\"10.0.0.1{nth}\""),
            format!("\"rds{nth}.corp.example.com\""),
        ] {
            text = text.replace(&there, &here);
        }
    }
    text
}

/// The same in another mode than `observe`, or in that one again, read by `reload`.
fn set_mode(stage: &mut Stage, name: &str, mode: &str) {
    let text = configurations(&guide(name)).remove(0).remove(0).1;
    let begins = "mode = \"observe\"";
    assert!(text.contains(begins), "{name} does not begin by watching");
    let text = text.replace(begins, &format!("mode = \"{mode}\""));
    let text = at_addresses(text, &stage.guacd, &stage.hosts);
    stage.site.change_first(text);
    stage.site.write();
    let (code, out, err) = asked(&stage.site, &["reload"]);
    assert_eq!(code, 0, "{out}{err}");
}

fn said(stage: &Stage, arguments: &[&str]) -> String {
    let (code, out, err) = asked(&stage.site, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

fn to(user: &str, hostname: &str) -> Visit {
    Visit::rdp(user).answer("hostname", hostname)
}

/// It goes on as it came.
fn assert_untouched(peer: &GuacdPeer, visit: &Visit) {
    for name in Names::rdp("1.6.0").names() {
        assert_eq!(peer.value(name), visit.value(name), "{name}");
    }
}

fn is_on(peer: &GuacdPeer, stage: &Stage) -> String {
    assert_eq!(peer.value("hostname"), "127.0.0.1");
    stage.host_of(peer)
}

#[test]
fn adopting_is_observing_then_piloting_then_switching() {
    const GUIDE: &str = "adopt.md";
    let mut stage = set_up(GUIDE, None);
    let visit = to("ann", "rds.example.com");
    let hosts = said(&stage, &["hosts", "--farm", "office"]);
    assert_eq!(hosts.matches("score ").count(), 2, "{hosts}");

    // Observed: where it always went, and what would have been.
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_untouched(&peer, &visit);
    let line = stage
        .broker
        .wait("Would place", |line| line["user"] == "ann");
    assert!(line["host"].as_str().unwrap().starts_with("rds"), "{line}");
    let last = said(&stage, &["explain", "--user", "ann", "--last"]);
    assert!(last.contains("observed only"), "{last}");
    let other = to("ann", "elsewhere.example.com");
    drop(stage.tunnel(&other));
    stage.broker.wait("Would pass through", |_| true);
    let status = said(&stage, &["status"]);
    assert!(status.contains("elsewhere.example.com"), "{status}");

    // Piloted: placed, and back again after a closed tab.
    set_mode(&mut stage, GUIDE, "broker");
    let (visitor, peer) = stage.desktop(&to("carl", "rds.example.com"));
    let first = is_on(&peer, &stage);
    let shown = said(&stage, &["sessions", "--user", "carl"]);
    assert!(shown.contains(&first), "{shown}");
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("carl"));
    let _open = stage.desktop(&to("carl", "rds.example.com"));
    said(&stage, &["drain", &first, "--reason", "trying it"]);
    let explain = ["explain", "--user", "bob", "--resource", "office-desktop"];
    assert!(said(&stage, &explain).contains("out: in drain"));
    for nth in 0..3 {
        let (_visitor, peer) = stage.tunnel(&to(&format!("new{nth}"), "rds.example.com"));
        assert_ne!(is_on(&peer, &stage), first);
    }
    let (_visitor, peer) = stage.tunnel(&to("carl", "rds.example.com"));
    assert_eq!(is_on(&peer, &stage), first, "who was there comes back");
    said(&stage, &["online", &first]);

    // Switched: what matches nothing is passed on as it is.
    let (_visitor, peer) = stage.tunnel(&other);
    assert_untouched(&peer, &other);
    let vnc = Visit::protocol("vnc").answer("hostname", "192.0.2.7");
    assert_eq!(stage.tunnel(&vnc).1.value("hostname"), "192.0.2.7");

    // And back: what is open goes on, what comes is let go where it went.
    set_mode(&mut stage, GUIDE, "observe");
    let (_visitor, peer) = stage.tunnel(&to("dora", "rds.example.com"));
    assert_eq!(peer.value("hostname"), "rds.example.com");
    assert!(said(&stage, &["tunnels", "--user", "carl"]).contains(&first));
}

#[test]
fn what_haproxy_balanced_is_placed_by_the_name_it_had() {
    const GUIDE: &str = "from-haproxy.md";
    let mut stage = set_up(GUIDE, None);
    let visit = to("ann", "rds.example.com");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_untouched(&peer, &visit);
    set_mode(&mut stage, GUIDE, "broker");
    // The third one has a certificate of its own, and the connection's is not of any.
    let mut seen = Vec::new();
    let mut open = Vec::new();
    for user in ["bob", "carl", "dora"] {
        let visit = to(user, "rds.example.com").answer("cert-fingerprints", "haproxy's");
        let (visitor, peer) = stage.desktop(&visit);
        let host = is_on(&peer, &stage);
        let shown = peer.value("cert-fingerprints");
        assert_eq!(
            shown.starts_with("sha256:"),
            host == "rds3",
            "{host}: {shown}"
        );
        assert!(host == "rds3" || shown.is_empty(), "{shown}");
        seen.push(host);
        open.push((visitor, peer));
    }
    seen.sort();
    assert_eq!(seen, ["rds1", "rds2", "rds3"]);
    // The application by the same name, beside the desktop of the same user.
    let sage = to("bob", "rds.example.com").answer("remote-app", "||Sage");
    let (_visitor, peer) = stage.tunnel(&sage);
    assert_eq!(peer.value("remote-app"), "||Sage");
    assert_eq!(
        stage.broker.wait("Placed", |l| l["resource"] == "sage")["user"],
        "bob"
    );
    assert_eq!(is_on(&peer, &stage), stage.host_of(&open[0].1));
}

#[test]
fn a_collection_is_watched_then_taken_over_and_its_connections_stay() {
    const GUIDE: &str = "from-rd-connection-broker.md";
    const INFO: &str = "tsv://MS Terminal Services Plugin.1.Office";
    let mut stage = set_up(GUIDE, None);
    let desktop = |user| to(user, "rdcb.corp.example.com").answer("load-balance-info", INFO);
    let visit = desktop("ann");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_untouched(&peer, &visit);
    let line = stage.broker.wait("Would place", |_| true);
    assert_eq!(line["user"], "corp\\ann", "{line}");

    set_mode(&mut stage, GUIDE, "broker");
    let (_visitor, peer) = stage.desktop(&desktop(r"CORP\bob"));
    let host = is_on(&peer, &stage);
    assert_eq!(peer.value("load-balance-info"), "");
    assert_eq!(peer.value("username"), r"CORP\bob", "as it was typed");
    let sage = desktop("bob@corp.example.com").answer("remote-app", "||Sage");
    let (_visitor, peer) = stage.tunnel(&sage);
    let placed = stage
        .broker
        .wait("Placed", |line| line["resource"] == "sage");
    assert_eq!(
        (is_on(&peer, &stage), &placed["user"]),
        (host, &json!(r"corp\bob"))
    );
    assert_eq!(peer.value("remote-app"), "||Sage");
    let explain = [
        "explain",
        "--user",
        r"CORP\ann",
        "--resource",
        "office-desktop",
    ];
    said(&stage, &explain);

    // Nothing in the connections has changed: so they go back, too.
    set_mode(&mut stage, GUIDE, "observe");
    let visit = desktop("carl");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_untouched(&peer, &visit);
}

#[test]
fn the_extension_is_answered_until_it_is_taken_out() {
    const KEY: &str = "0f5c1d9ab37e46c28a1be0d47f93c65a";
    let key = Some(("SESSIONGUARD_BROKER_API_KEY", KEY));
    let stage = set_up("from-sessionguard-extension.md", key);
    // Its agents are heard by keys from here.
    let nobody = Asker::of(&stage.broker);
    let token = create(&stage.site, &["enrollment", "--host", "rds1"]);
    let body = json!({ "enrollment_token": token, "name": "RDS1", "machine_id": "0f9f" });
    let told = nobody.ask("POST", "/api/v1/agents/enroll", &body.to_string());
    assert_eq!(told.status, 200, "{told:?}");
    let token = told.json()["token"].as_str().unwrap().to_owned();
    let mut agent = ScriptedAgent::of(&stage.site, "rds1");
    let report = agent.next(&[session("CORP\\ann", "Disconnected", 60)]);
    let told = nobody.with(&token).report("rds1", &report.to_string());
    assert_eq!(told.status, 200, "{told:?}");

    // It asks, and is told by the rules: back to her session.
    let asker = nobody.with(KEY);
    let form = "username=CORP%5Cann&connection_name=Office+Desktop";
    let filled = asker.fill("/api/v1/broker/tokens", form);
    assert_eq!(filled.status, 200, "{filled:?}");
    for pair in ["SESSIONGUARD_HOST=127.0.0.1", "SESSIONGUARD_AGENT_ID=rds1"] {
        assert!(filled.body.split('&').any(|it| it == pair), "{filled:?}");
    }
    // What it filled in passes by as it is.
    let visit = to("CORP\\ann", "10.0.0.11");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_untouched(&peer, &visit);
    // Taken out, it leaves its token to us.
    let (_visitor, peer) = stage.tunnel(&to("CORP\\ann", "${SESSIONGUARD_HOST}"));
    assert_eq!(is_on(&peer, &stage), "rds1");
    let named = to("bob", "sessionguard:id=7;name=Office Desktop");
    let (_visitor, peer) = stage.tunnel(&named);
    assert!(is_on(&peer, &stage).starts_with("rds"));
    assert_eq!(stage.broker.placed("bob")["resource"], "office-desktop");
}

#[test]
fn a_host_is_added_in_maintenance_and_let_in() {
    let stage = set_up("day-2.md", None);
    let hosts = said(&stage, &["hosts", "--farm", "office"]);
    let row = |hosts: &str| {
        let row = hosts.lines().find(|line| line.starts_with("rds3"));
        row.unwrap_or_else(|| panic!("{hosts}")).to_owned()
    };
    assert!(row(&hosts).contains("out: in maintenance"), "{hosts}");
    create(&stage.site, &["enrollment", "--host", "rds3"]);
    let visit = |user: &str| to(user, "rds.example.com");
    let (_ann, peer) = stage.desktop(&visit("ann"));
    assert_eq!(is_on(&peer, &stage), "rds1");
    said(&stage, &["online", "rds3"]);
    let hosts = said(&stage, &["hosts", "--farm", "office"]);
    assert!(row(&hosts).contains("score "), "{hosts}");
    let (_bob, peer) = stage.tunnel(&visit("bob"));
    assert_eq!(is_on(&peer, &stage), "rds3");
}

#[test]
fn a_replaced_host_is_enrolled_again_and_frees_its_users() {
    let stage = Stage::of(2);
    let nobody = Asker::of(&stage.broker);
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    let old = create(&stage.site, &["agent", "--host", &host]);
    let mut agent = ScriptedAgent::of(&stage.site, &host);
    let mut report = |key: &str, sessions: &[Value]| {
        let body = agent.next(sessions).to_string();
        nobody.with(key).report(&host, &body).status
    };
    assert_eq!(report(&old, &[session("ann", "Active", 5)]), 200);
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));
    said(&stage, &["maintenance", &host, "--reason", "new machine"]);

    let id = old.split('_').nth(2).unwrap();
    assert_eq!(keys(&stage.site, &["revoke", id]).0, 0);
    let token = create(&stage.site, &["enrollment", "--host", &host]);
    let body = json!({ "enrollment_token": token, "name": host, "machine_id": "new" });
    let told = nobody.ask("POST", "/api/v1/agents/enroll", &body.to_string());
    assert_eq!(told.status, 200, "nothing to approve: {told:?}");
    let new = told.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(report(&old, &[]), 401);
    assert!(said(&stage, &["leases", "--user", "ann"]).contains(&host));
    // Another machine has started at another time, and nobody is on it.
    eventually("ann's lease is gone", || {
        assert_eq!(report(&new, &[]), 200);
        let leases = said(&stage, &["leases", "--user", "ann"]);
        (!leases.contains(&host)).then_some(())
    });
    said(&stage, &["online", &host]);
    let hosts = said(&stage, &["hosts"]);
    assert_eq!(hosts.matches("score ").count(), 2, "{hosts}");
}

fn stop(broker: Broker) {
    broker.signal("TERM");
    assert!(broker.exit().success());
}

#[test]
fn a_copy_of_the_store_is_a_backup() {
    let stage = Stage::of(3);
    let key = create(&stage.site, &["admin-read"]);
    said(&stage, &["drain", "rds3", "--reason", "new disks"]);
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));
    let backup = stage.site.folder().join("backup");
    let Stage {
        guacd,
        hosts,
        site,
        broker,
    } = stage;
    stop(broker);
    fs::copy(site.store(), &backup).unwrap();
    // It is lost, and everything begins anew; then it is restored.
    fs::remove_file(site.store()).unwrap();
    let broker = site.start();
    let status = |broker: &Broker| {
        Asker::of(broker)
            .with(&key)
            .ask("GET", "/api/v1/status", "")
    };
    assert_eq!(status(&broker).status, 401);
    stop(broker);
    fs::copy(&backup, site.store()).unwrap();
    let broker = site.start();
    assert_eq!(status(&broker).status, 200);
    let stage = Stage {
        guacd,
        hosts,
        site,
        broker,
    };
    assert_eq!(get(&stage.site, "/api/v1/hosts/rds3")["mode"], "drain");
    let _burden = stage.burden(&host);
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(stage.host_of(&peer), host, "by her lease");
}

#[test]
fn in_another_store_keys_and_orders_begin_anew() {
    let mut stage = Stage::of(2);
    let key = create(&stage.site, &["admin-read"]);
    said(&stage, &["drain", "rds1", "--reason", "new disks"]);
    let elsewhere = stage.site.folder().join("elsewhere.redb");
    let socket = stage.site.store().with_extension("sock");
    stage.site = stage.site.with(format!(
        "[store]\npath = {elsewhere:?}\n[api]\nsocket = {socket:?}\n"
    ));
    stage.site.write();
    said(&stage, &["reload"]);
    let words = "Changed settings need a restart and stay as they were";
    let line = stage.broker.wait(words, |_| true);
    assert!(
        line["settings"].as_str().unwrap().contains("store"),
        "{line}"
    );
    assert_eq!(get(&stage.site, "/api/v1/hosts/rds1")["mode"], "drain");
    let stage = stage.restarted(stop);
    let asker = Asker::of(&stage.broker).with(&key);
    assert_eq!(asker.ask("GET", "/api/v1/status", "").status, 401);
    assert_eq!(get(&stage.site, "/api/v1/hosts/rds1")["mode"], "online");
    let new = create(&stage.site, &["admin-read"]);
    let asker = Asker::of(&stage.broker).with(&new);
    assert_eq!(asker.ask("GET", "/api/v1/status", "").status, 200);
}
