//! What an administrator sees when something is wrong, word by word as
//! `deploy/guides/troubleshooting.md` quotes it, and that its remedy is one. Symptoms that other
//! modules reproduce anyway are named in the map of `guides`.

use std::fs;

use super::admin::get;
use super::asking::asked;
use crate::support::{
    ClosedPort, DEADLINE, Names, Refusal, ScriptedAgent, ScriptedGuacd, ScriptedHost, Stage, Visit,
    eventually, session,
};

fn adjusted(hosts: usize, toml: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, hosts, |site| site.with(toml))
}

fn assert_told(refusal: &Refusal, code: u16, words: &str) {
    assert_eq!(refusal.code, code, "{}", refusal.text);
    assert!(refusal.text.contains(words), "{}", refusal.text);
}

/// What a command that succeeds prints.
fn said(stage: &Stage, arguments: &[&str]) -> String {
    let (code, out, err) = asked(&stage.site, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

/// Comes in the end, though somebody else's end may take a moment.
fn is_let_in(stage: &Stage, user: &str) {
    eventually("a desktop", || {
        let mut visitor = Visit::office(user).at(&stage.broker);
        visitor.ready();
        stage.guacd.next().outcome.is_ok().then_some(())
    });
}

#[test]
fn who_has_a_tunnel_on_a_host_in_maintenance_waits_for_its_end() {
    let stage = Stage::of(2);
    let (_visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    said(&stage, &["maintenance", &host]);
    let refusal = Visit::office("ann").refused_at(&stage.broker);
    assert_told(&refusal, 0x201, "which may not be used now");
    let line = stage.broker.wait("Refused", |_| true);
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("open on host {host}")), "{line}");
    // The others are not concerned.
    let _ = stage.guacd.next();
    drop(stage.tunnel(&Visit::office("bob")));
    assert!(said(&stage, &["sessions", "--user", "ann"]).contains(&host));
    said(&stage, &["tunnels", "end", "--host", &host]);
    is_let_in(&stage, "ann");
}

#[test]
fn logons_that_do_not_finish_are_named_and_one_that_does_makes_room() {
    let stage = adjusted(
        1,
        "[broker]\nslow_start = \"0s\"\nmax_pending_logons = 1\nplacement_timeout = \"1s\"\n",
    );
    let (_visitor, mut peer) = stage.tunnel(&Visit::office("ann"));
    let refusal = Visit::office("bob").refused_at(&stage.broker);
    assert_told(&refusal, 0x202, "has its fill of logons under way");
    assert_told(&refusal, 0x202, "the placement took longer than its budget");
    let _ = stage.guacd.next();
    let hosts = said(&stage, &["hosts", "--farm", "office"]);
    assert!(hosts.contains("out: logons under way"), "{hosts}");
    peer.stand();
    is_let_in(&stage, "bob");
}

#[test]
fn hosts_that_say_nothing_at_all_use_the_budget_up() {
    let silent = ScriptedHost::silent();
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = Stage::site(guacd.address(), &[silent.address()]).with(
        "[broker]\nplacement_timeout = \"1s\"\n[probe]\ninterval = \"30s\"\ntimeout = \"30s\"\n",
    );
    let broker = site.start();
    let refusal = Visit::office("ann").refused_at(&broker);
    assert_told(&refusal, 0x202, "the placement took longer than its budget");
    let (_, status, _) = asked(&site, &["status"]);
    assert!(status.contains("not probed"), "{status}");
}

#[test]
fn a_farm_out_of_reach_is_named_and_users_are_let_in_once_a_host_answers() {
    let closed = ClosedPort::new();
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = Stage::site(guacd.address(), &[closed.address()]);
    let broker = site.start();
    let line = broker.wait("Host does not answer RDP", |_| true);
    let error = line["error"].as_str().unwrap();
    assert!(error.contains("refused"), "{line}");
    let refusal = Visit::office("ann").refused_at(&broker);
    assert_told(&refusal, 0x208, "no host of farm office can be reached");
    let _ = guacd.next();
    let (_, hosts, _) = asked(&site, &["hosts", "--farm", "office"]);
    assert!(hosts.contains("out: probe fails"), "{hosts}");
    let _listening = closed.listen();
    broker.wait("Host answers RDP", |_| true);
    eventually("a desktop", || {
        Visit::office("ann").at(&broker).ready();
        guacd.next().outcome.is_ok().then_some(())
    });
}

#[test]
fn a_store_that_cannot_be_written_is_named_without_where_it_is() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |mut site| {
        site.descriptors = Some(1024);
        site
    });
    drop(stage.desktop(&Visit::office("ann")));
    stage.broker.limit_files("1");
    let refusal = Visit::office("bob").refused_at(&stage.broker);
    assert_told(&refusal, 0x208, "the store does not answer");
    assert!(!refusal.text.contains("redb"), "{}", refusal.text);
    let port = stage.broker.health_address();
    let main = stage.site.folder().join("sessionguard.toml");
    let text = fs::read_to_string(&main).unwrap();
    let known = text.replace(
        "[health]\nlisten = \"127.0.0.1:0\"",
        &format!("[health]\nlisten = \"{port}\""),
    );
    assert_ne!(known, text);
    fs::write(&main, known).unwrap();
    let health = said(&stage, &["healthcheck"]);
    assert!(health.contains("store: degraded"), "{health}");
}

#[test]
fn connections_that_lead_nowhere_are_told_why() {
    let stage = adjusted(
        1,
        "[broker]\nunmatched = \"refuse\"\n[identity]\nrequire_match = true\n\
         [[resources]]\nid = \"old\"\nkind = \"desktop\"\nfarm_id = \"office\"\nenabled = false\n",
    );
    let to = |hostname: &str| Visit::rdp("ann").answer("hostname", hostname);
    for (visit, code, words) in [
        (
            to("sessionguard:resource=ofice"),
            0x204,
            "the connection names an unknown resource",
        ),
        (
            to("sessionguard:id=${JDBC_CONNECTION_ID}"),
            0x204,
            "left a token unfilled",
        ),
        (
            to("sessionguard:resource=old"),
            0x303,
            "resource old is disabled",
        ),
        (to("192.0.2.7"), 0x303, "the connection names no resource"),
        (
            Visit::office("ann").login(Some("bob")),
            0x303,
            "the Guacamole login and the RDP user name are two persons",
        ),
        (
            to("sessionguard:resource=office").answer("sessionguard-resource", "sage"),
            0x205,
            "name different resources",
        ),
    ] {
        assert_told(&visit.refused_at(&stage.broker), code, words);
        let (_, last, _) = asked(&stage.site, &["explain", "--user", "ann", "--last"]);
        assert!(last.contains(words), "{last}");
    }
    let gone = Visit::join("$00000000-0000-0000-0000-000000000000");
    assert_told(&gone.refused_at(&stage.broker), 0x204, "no such connection");
}

#[test]
fn a_bare_name_that_several_domains_have_is_said() {
    let stage = Stage::of(3);
    let _open = [r"CORP\ann", r"OTHER\ann"].map(|user| stage.desktop(&Visit::office(user)));
    let words = "Several domains know this bare user name: set default_domain to tell them apart";
    // A name is known a moment after its desktop stood.
    let line = eventually("a bare name that is two people's", || {
        let _bare = stage.tunnel(&Visit::office("ann"));
        stage.broker.lines(words).pop()
    });
    assert_eq!(
        (&line["level"], &line["user"]),
        (&"WARN".into(), &"ann".into())
    );
    let leases = said(&stage, &["leases", "--user", "ann"]);
    for domain in [r"corp\ann", r"other\ann"] {
        assert!(leases.contains(domain), "{leases}");
    }
}

#[test]
fn a_host_whose_agent_stopped_is_out_and_says_so() {
    let stage = adjusted(2, "[broker]\noffline_after_seconds = 3\n");
    let mut agents = ["rds1", "rds2"].map(|host| ScriptedAgent::of(&stage.site, host));
    agents[0].reports(&[session("ann", "Active", 1)]);
    let hosts = eventually("a silent agent", || {
        agents[1].reports(&[]);
        let hosts = said(&stage, &["hosts", "--farm", "office"]);
        hosts.contains("out: agent silent").then_some(hosts)
    });
    let row = |id: &str| hosts.lines().find(|line| line.starts_with(id)).unwrap();
    assert!(row("rds1").contains("out: agent silent"), "{hosts}");
    assert!(!row("rds2").contains("out: "), "{hosts}");
    eventually("a host that is back", || {
        agents[0].reports(&[]);
        let host = get(&stage.site, "/api/v1/hosts/rds1");
        host["newcomer"][0]["exclusion"].is_null().then_some(())
    });
}

#[test]
fn a_guacd_that_is_down_is_named_in_message_and_status() {
    let refusing = ClosedPort::new();
    let host = ScriptedHost::up();
    let site = Stage::site(refusing.address(), &[host.address()]);
    let broker = site.start();
    let refusal = Visit::office("ann").refused_at(&broker);
    assert_told(&refusal, 0x208, "cannot be reached");
    let address = refusing.address().to_string();
    assert!(refusal.text.contains(&address), "{}", refusal.text);
    let (_, status, _) = asked(&site, &["status"]);
    let line = status.lines().find(|line| line.starts_with("guacd"));
    assert!(line.is_some_and(|line| line.contains(&address)), "{status}");
}

#[test]
fn a_command_line_without_its_broker_says_what_to_look_at() {
    let stage = Stage::one();
    let socket = stage.site.store().with_extension("sock");
    let Stage { site, broker, .. } = stage;
    broker.signal("TERM");
    assert!(broker.exit().success(), "within {DEADLINE:?}");
    let (code, _, err) = asked(&site, &["status"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("cannot ask the broker"), "{err}");
    assert!(err.contains(&socket.display().to_string()), "{err}");
}
