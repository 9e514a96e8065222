//! A new configuration while the broker runs: what follows it, what it leaves alone, and what
//! becomes of one that cannot be used.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::support::{
    Broker, GuacdPeer, Names, ScriptedGuacd, ScriptedHost, Stage, Visit, Visitor, eventually,
};

const APPLIED: &str = "Configuration applied";
const REFUSED: &str = "Configuration refused, the one before stays in force";

fn addresses(stage: &Stage) -> Vec<SocketAddr> {
    stage.hosts.iter().map(ScriptedHost::address).collect()
}

/// The file with farms, hosts and resources.
fn farm_file(stage: &Stage) -> PathBuf {
    folder(stage).join("conf.d/00.toml")
}

fn folder(stage: &Stage) -> &Path {
    stage.site.folder()
}

/// Does something to the files and waits until it is in force.
fn applied(broker: &Broker, edit: impl FnOnce()) {
    let before = broker.lines(APPLIED).len();
    edit();
    broker.wait_for_lines(APPLIED, before + 1);
}

/// Writes another farm file and waits until it is in force.
fn edit(stage: &Stage, toml: &str) {
    applied(&stage.broker, || fs::write(farm_file(stage), toml).unwrap());
}

/// The same once it is refused; what is said about it.
fn spoil(stage: &Stage, file: &Path, toml: &str) -> String {
    let before = stage.broker.lines(REFUSED).len();
    fs::write(file, toml).unwrap();
    let lines = stage.broker.wait_for_lines(REFUSED, before + 1);
    lines.last().unwrap()["findings"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The tunnel still carries every byte, both ways.
fn assert_carries((visitor, peer): &mut (Visitor, GuacdPeer)) {
    visitor.wire.send(b"3.key,5.65307,1.1;").unwrap();
    assert_eq!(peer.wire.exact(18).unwrap(), b"3.key,5.65307,1.1;");
    peer.wire.send(b"4.blob,1.1,4.AAAA;").unwrap();
    assert_eq!(visitor.wire.exact(18).unwrap(), b"4.blob,1.1,4.AAAA;");
}

/// Where a user lands who keeps the tunnel no longer than it takes to see.
fn lands(stage: &Stage, user: &str) -> String {
    let (_visitor, peer) = stage.tunnel(&Visit::office(user));
    stage.host_of(&peer)
}

/// The code with which a visit is refused.
fn refused(stage: &Stage, visit: &Visit) -> u16 {
    let refusal = visit.refused_at(&stage.broker);
    // guacd had been asked, and saw nobody come.
    assert!(stage.guacd.next().outcome.is_err());
    refusal.code
}

/// The other of two hosts.
fn other(host: &str) -> &'static str {
    if host == "rds1" { "rds2" } else { "rds1" }
}

#[test]
fn the_next_placement_follows_an_edit_and_a_running_tunnel_does_not_notice() {
    let stage = Stage::of(2);
    let mut tunnel = stage.desktop(&Visit::office("ann"));
    let on = stage.host_of(&tunnel.1);
    assert_carries(&mut tunnel);
    edit(
        &stage,
        &Stage::farm(&addresses(&stage), &[(&on, "maintenance")]),
    );
    assert_carries(&mut tunnel);
    for user in ["bob", "cid", "dan", "eve"] {
        assert_eq!(lands(&stage, user), other(&on));
    }
    edit(
        &stage,
        &Stage::farm(&addresses(&stage), &[(other(&on), "maintenance")]),
    );
    assert_eq!(lands(&stage, "fay"), on);
    assert_carries(&mut tunnel);
}

#[test]
fn a_broken_file_changes_nothing_and_is_named_with_its_line_once() {
    let stage = Stage::one();
    let mut tunnel = stage.desktop(&Visit::office("ann"));
    let good = Stage::farm(&addresses(&stage), &[]);
    let said = spoil(
        &stage,
        &farm_file(&stage),
        &format!("[[farms]]\nid = \"x\"\nnmae = \"\"\n{good}"),
    );
    assert!(
        said.contains("conf.d/00.toml:3:1: fault") && said.contains("nmae"),
        "{said}"
    );
    assert_eq!(lands(&stage, "bob"), "rds1");
    assert_carries(&mut tunnel);
    // The same contents again, and a look on purpose: nothing new to say.
    fs::write(farm_file(&stage), fs::read(farm_file(&stage)).unwrap()).unwrap();
    stage.broker.signal("HUP");
    stage.broker.wait(
        "Configuration still refused, for what was said before",
        |_| true,
    );
    assert_eq!(stage.broker.lines(REFUSED).len(), 1);
    // Other contents with another fault are said.
    let said = spoil(
        &stage,
        &farm_file(&stage),
        &format!("{good}\n[[hosts]]\nid = \"rds9\"\n"),
    );
    assert!(said.contains("address"), "{said}");
    edit(
        &stage,
        &Stage::farm(&addresses(&stage), &[("rds1", "drain")]),
    );
    assert_eq!(refused(&stage, &Visit::office("cid")), 0x201);
    assert_carries(&mut tunnel);
}

#[test]
fn files_caught_half_written_or_cut_to_nothing_are_not_taken() {
    let stage = Stage::one();
    let good = Stage::farm(&addresses(&stage), &[]);
    let half = &good[..good.rfind("farm_ids").unwrap() + "farm_ids = [\"off".len()];
    spoil(&stage, &farm_file(&stage), half);
    assert_eq!(lands(&stage, "ann"), "rds1");
    let said = spoil(&stage, &farm_file(&stage), "");
    assert!(said.contains("conf.d/00.toml"), "{said}");
    assert_eq!(lands(&stage, "bob"), "rds1");
    // What was there before is in force all the time, and is told to be.
    fs::write(farm_file(&stage), &good).unwrap();
    stage
        .broker
        .wait("Configuration is again the one in force", |_| true);
    // The main file alone could be empty from the start, but not of a sudden.
    let main = folder(&stage).join("sessionguard.toml");
    let said = spoil(&stage, &main, "");
    assert!(
        said.contains("sessionguard.toml") && said.contains("empty"),
        "{said}"
    );
    assert_eq!(lands(&stage, "cid"), "rds1");
    assert!(stage.broker.lines(APPLIED).is_empty());
}

/// A new version of the one file of a mounted folder, as Kubernetes brings it: a directory of
/// its own, a link to it that is swapped in one step, the version before swept away.
fn mount(folder: &Path, version: u32, text: &str) {
    let data = folder.join(format!("..v{version}"));
    fs::create_dir(&data).unwrap();
    fs::write(data.join("00.toml"), text).unwrap();
    symlink(format!("..v{version}"), folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    // There is none before the first.
    let _ = fs::remove_dir_all(folder.join(format!("..v{}", version - 1)));
}

#[test]
fn the_swap_of_a_mounted_configmap_is_seen_each_time() {
    let stage = Stage::of(2);
    let at = addresses(&stage);
    let mounted = folder(&stage).join("conf.d");
    // The same contents, as a mount has them.
    mount(&mounted, 1, &Stage::farm(&at, &[]));
    symlink("..data/00.toml", mounted.join("00.new")).unwrap();
    fs::rename(mounted.join("00.new"), mounted.join("00.toml")).unwrap();
    for (version, drained) in [(2, "rds1"), (3, "rds2"), (4, "rds1")] {
        let text = Stage::farm(&at, &[(drained, "drain")]);
        applied(&stage.broker, || mount(&mounted, version, &text));
        assert_eq!(lands(&stage, &format!("user{version}")), other(drained));
    }
    assert!(stage.broker.lines(REFUSED).is_empty());
}

#[test]
fn a_hangup_looks_at_the_files_and_ends_nothing() {
    let mut stage = Stage::one();
    let mut tunnel = stage.desktop(&Visit::office("ann"));
    stage.broker.signal("HUP");
    let line = stage.broker.wait("Configuration unchanged", |_| true);
    assert_eq!(
        (&line["cause"], &line["generation"]),
        (&"signal".into(), &1.into())
    );
    applied(&stage.broker, || {
        let text = Stage::farm(&addresses(&stage), &[("rds1", "drain")]);
        fs::write(farm_file(&stage), text).unwrap();
        stage.broker.signal("HUP");
    });
    assert_eq!(refused(&stage, &Visit::office("bob")), 0x201);
    assert_carries(&mut tunnel);
    assert!(stage.broker.is_running());
}

#[test]
fn a_host_taken_out_keeps_its_tunnels_and_bars_their_users_until_they_end() {
    let stage = Stage::of(2);
    let mut tunnel = stage.desktop(&Visit::office("ann"));
    let on = stage.host_of(&tunnel.1);
    let whole = Stage::farm(&addresses(&stage), &[]);
    let (before, from) = whole.split_at(whole.find(&format!("[[hosts]]\nid = \"{on}\"")).unwrap());
    let rest = from[1..].find("[[hosts]]").map_or("", |at| &from[at + 1..]);
    edit(&stage, &format!("{before}{rest}"));
    assert_carries(&mut tunnel);
    assert_eq!(lands(&stage, "bob"), other(&on));
    // One user on two hosts would be two sessions.
    assert_eq!(refused(&stage, &Visit::office("ann")), 0x201);
    assert_carries(&mut tunnel);
    drop(tunnel);
    stage.broker.ended(&stage.broker.placed("ann"));
    // Her lease is given up a moment later.
    let (_visitor, peer) = eventually("a place for ann", || {
        let mut visitor = Visit::office("ann").at(&stage.broker);
        visitor.ready();
        let peer = stage.guacd.next();
        peer.outcome.is_ok().then_some((visitor, peer))
    });
    assert_eq!(stage.host_of(&peer), other(&on));
}

#[test]
fn a_host_that_is_added_is_probed_and_used() {
    let stage = Stage::of(2);
    let first = &addresses(&stage)[..1];
    edit(&stage, &Stage::farm(first, &[]));
    assert_eq!(lands(&stage, "ann"), "rds1");
    let asked = stage.hosts[1].asked();
    edit(
        &stage,
        &Stage::farm(&addresses(&stage), &[("rds1", "drain")]),
    );
    assert_eq!(lands(&stage, "bob"), "rds2");
    assert!(stage.hosts[1].asked() > asked);
}

#[test]
fn a_host_that_moves_is_found_at_its_new_address() {
    let stage = Stage::of(2);
    let (one, two) = (addresses(&stage)[0], addresses(&stage)[1]);
    edit(&stage, &Stage::farm(&[one], &[]));
    let mut tunnel = stage.desktop(&Visit::office("ann"));
    edit(&stage, &Stage::farm(&[two], &[]));
    // Whoever comes is not turned away for the moment of the first probe.
    let (_visitor, peer) = stage.tunnel(&Visit::office("bob"));
    assert_eq!(peer.value("port"), two.port().to_string());
    assert_carries(&mut tunnel);
}

#[test]
fn a_farm_that_is_disabled_lets_nobody_in_and_nobody_out() {
    let stage = Stage::one();
    let mut tunnel = stage.desktop(&Visit::office("ann"));
    let farm = Stage::farm(&addresses(&stage), &[]);
    edit(
        &stage,
        &farm.replacen("id = \"office\"\n", "id = \"office\"\nenabled = false\n", 1),
    );
    assert_eq!(refused(&stage, &Visit::office("bob")), 0x303);
    assert_eq!(refused(&stage, &Visit::office("ann")), 0x303);
    assert_carries(&mut tunnel);
    edit(&stage, &farm);
    assert_eq!(lands(&stage, "bob"), "rds1");
}

#[test]
fn a_file_may_come_and_go() {
    let stage = Stage::one();
    let file = folder(&stage).join("conf.d/50-more.json");
    let more = r#"{ "id": "more", "kind": "desktop", "farm_id": "office" }"#;
    let visit = |user| Visit::rdp(user).answer("hostname", "sessionguard:resource=more");
    assert_eq!(refused(&stage, &visit("ann")), 0x204);
    applied(&stage.broker, || fs::write(&file, more).unwrap());
    let mut tunnel = stage.desktop(&visit("bob"));
    applied(&stage.broker, || fs::remove_file(&file).unwrap());
    assert_eq!(refused(&stage, &visit("cid")), 0x204);
    assert_carries(&mut tunnel);
}

#[test]
fn twenty_edits_in_a_row_end_in_the_last() {
    let stage = Stage::of(2);
    let at = addresses(&stage);
    for nth in 0..20 {
        let drained = if nth % 2 == 0 { "rds1" } else { "rds2" };
        fs::write(farm_file(&stage), Stage::farm(&at, &[(drained, "drain")])).unwrap();
        thread::sleep(Duration::from_millis(nth * 3));
    }
    eventually("an end of the changes", || {
        stage.broker.signal("HUP");
        thread::sleep(Duration::from_millis(20));
        (!stage.broker.lines("Configuration unchanged").is_empty()).then_some(())
    });
    for user in ["ann", "bob", "cid"] {
        assert_eq!(lands(&stage, user), "rds1");
    }
}

#[test]
fn new_connections_go_to_another_guacd_and_joins_to_their_own() {
    let stage = Stage::one();
    let mut visitor = Visit::office("ann").at(&stage.broker);
    let id = visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    let next = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let main = folder(&stage).join("sessionguard.toml");
    let text = fs::read_to_string(&main).unwrap();
    let (old, new) = (
        stage.guacd.address().to_string(),
        next.address().to_string(),
    );
    applied(&stage.broker, || {
        fs::write(&main, text.replace(&old, &new)).unwrap()
    });
    let mut bob = Visit::office("bob").at(&stage.broker);
    bob.ready();
    assert_eq!(next.ready().value("username"), "bob");
    let mut joiner = Visit::join(&id).at(&stage.broker);
    joiner.ready();
    assert_eq!(stage.guacd.ready().select, peer.id);
}

#[test]
fn what_is_logged_follows() {
    let stage = Stage::one();
    let main = folder(&stage).join("sessionguard.toml");
    let text = fs::read_to_string(&main).unwrap();
    let quiet = text.replace("level = \"info\"", "level = \"warn\"");
    fs::write(&main, &quiet).unwrap();
    eventually("silence", || {
        let user = format!("user{}", stage.guacd.accepted());
        drop(stage.tunnel(&Visit::office(&user)));
        thread::sleep(Duration::from_millis(50));
        let mut placed = stage.broker.lines("Placed").into_iter();
        (!placed.any(|line| line["user"] == *user)).then_some(())
    });
    applied(&stage.broker, || fs::write(&main, &text).unwrap());
    let (_visitor, _peer) = stage.tunnel(&Visit::office("ann"));
    stage.broker.placed("ann");
}

#[test]
fn what_cannot_follow_is_said_to_need_a_restart() {
    let stage = Stage::one();
    let main = folder(&stage).join("sessionguard.toml");
    let text = fs::read_to_string(&main).unwrap();
    let elsewhere = text.replace("format = \"json\"", "format = \"text\"");
    fs::write(&main, elsewhere.replace("store.redb", "elsewhere.redb")).unwrap();
    let message = "Changed settings need a restart and stay as they were";
    let line = stage.broker.wait(message, |_| true);
    assert_eq!(line["settings"], "store log.format");
    assert_eq!(lands(&stage, "ann"), "rds1");
    // The line of her placement is readable: the form of the log has not changed.
    stage.broker.placed("ann");
}

/// Configurations that have no host in common, and tell the application different things. A host
/// that a reload brings would start slowly, and keep the storm waiting.
fn either(host: &str, port: u16, arguments: &str) -> String {
    format!(
        "[broker]\nmax_pending_logons = 1000\nslow_start = \"0s\"\n[[farms]]\nid = \"office\"\n\
         [[hosts]]\nid = \"{host}\"\naddress = \"127.0.0.1\"\nport = {port}\nfarm_ids = [\"office\"]\n\
         [[resources]]\nid = \"sage\"\nkind = \"remoteapp\"\nfarm_id = \"office\"\n\
         remote_app = \"Sage\"\nremote_app_args = \"{arguments}\"\n"
    )
}

#[test]
fn in_a_storm_each_connection_is_answered_and_sees_one_configuration() {
    const VISITORS: usize = 50;
    let stage = Stage::of(2);
    let ports: Vec<_> = addresses(&stage).iter().map(SocketAddr::port).collect();
    let (one, two) = (
        either("rds1", ports[0], "/one"),
        either("rds2", ports[1], "/two"),
    );
    edit(&stage, &one);
    thread::scope(|scope| {
        let visits: Vec<_> = (0..VISITORS)
            .map(|nth| {
                let (broker, user) = (&stage.broker, format!("user{nth}"));
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(30) * u32::try_from(nth).unwrap());
                    let visit = Visit::rdp(&user).answer("hostname", "sessionguard:resource=sage");
                    let mut visitor = visit.at(broker);
                    visitor.ready();
                    visitor
                })
            })
            .collect();
        let mut turns = [&two, &one].into_iter().cycle();
        while visits.iter().any(|visit| !visit.is_finished()) {
            fs::write(farm_file(&stage), turns.next().unwrap()).unwrap();
            stage.broker.signal("HUP");
            thread::sleep(Duration::from_millis(20));
        }
        let _visitors: Vec<_> = visits
            .into_iter()
            .map(|visit| visit.join().unwrap())
            .collect();
        let mut seen = [0, 0];
        for _ in 0..VISITORS {
            let peer = stage.guacd.ready();
            let which = ports
                .iter()
                .position(|port| port.to_string() == peer.value("port"));
            let which = which.expect("one of the two");
            assert_eq!(peer.value("remote-app-args"), ["/one", "/two"][which]);
            seen[which] += 1;
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    });
    assert!(stage.broker.lines(APPLIED).len() > 4);
}
