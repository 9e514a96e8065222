//! Start and end of the process, and what it says to who started it.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Broker, Names, ScriptedGuacd, Site, Stage, Visit, Visitor, eventually};

#[test]
fn with_no_tunnels_a_signal_ends_it_at_once() {
    for signal in ["TERM", "INT"] {
        let stage = Stage::one();
        let start = Instant::now();
        stage.broker.signal(signal);
        assert!(stage.broker.exit().success(), "{signal}");
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{:?}",
            start.elapsed()
        );
    }
}

/// Signalled once, with a tunnel open.
fn stopping(stage: &mut Stage, signal: &str) {
    stage.broker.signal(signal);
    stage
        .broker
        .wait("Waiting for open tunnels", |line| line["tunnels"] == 1);
    eventually("no more accepts", || {
        TcpStream::connect(stage.broker.address()).err()
    });
    assert!(stage.broker.is_running());
}

#[test]
fn an_open_tunnel_goes_on_and_the_process_ends_with_it() {
    for signal in ["TERM", "INT"] {
        let mut stage = Stage::one();
        let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
        stopping(&mut stage, signal);
        visitor.wire.send(b"3.key,5.65307,1.1;").unwrap();
        assert!(peer.wire.exact(18).is_ok());
        peer.wire.send(b"4.sync,1.2;").unwrap();
        visitor.hear_past_nops("sync");
        assert!(stage.broker.is_running());
        drop(visitor);
        assert_eq!(peer.wire.rest().unwrap(), b"");
        assert!(stage.broker.exit().success());
    }
}

#[test]
fn a_second_signal_ends_tunnels_between_two_instructions() {
    for signal in ["TERM", "INT"] {
        let mut stage = Stage::one();
        let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
        stopping(&mut stage, signal);
        // guacd is in the middle of an instruction.
        peer.wire.send(b"4.blob,1.1,8.AAAA").unwrap();
        assert_eq!(visitor.wire.exact(17).unwrap(), b"4.blob,1.1,8.AAAA");
        stage.broker.signal(signal);
        stage.broker.wait("Ending open tunnels", |_| true);
        peer.wire.send(b"BBBB;").unwrap();
        assert_eq!(visitor.wire.exact(5).unwrap(), b"BBBB;");
        assert_eq!(visitor.farewell().0, 0x20B);
        assert_eq!(peer.wire.rest().unwrap(), b"");
        let ended = stage.broker.ended(&stage.broker.placed("ann"));
        assert_eq!(
            (&ended["by"], &ended["status"]),
            (&"sessionguard".into(), &"SESSION_CLOSED".into())
        );
        assert!(stage.broker.exit().success());
    }
}

#[test]
fn a_second_signal_ends_handshakes_with_the_same_words() {
    let stage = Stage::one();
    let mut visitor = Visitor::dial(stage.broker.address());
    visitor.select("rdp");
    visitor.read_args();
    stage.broker.signal("TERM");
    stage.broker.wait("Waiting for open tunnels", |_| true);
    stage.broker.signal("TERM");
    assert_eq!(visitor.refusal().code, 0x20B);
    assert!(stage.broker.exit().success());
}

#[test]
fn a_tunnel_that_nobody_reads_does_not_hold_the_end_up() {
    let stage = Stage::one();
    let (_visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let stream = peer.wire.stream();
    stream
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let part = b"4.blob,1.1,4.AAAA;".repeat(1000);
    while (&*stream).write(&part).is_ok() {}
    let start = Instant::now();
    stage.broker.signal("TERM");
    stage.broker.wait("Waiting for open tunnels", |_| true);
    stage.broker.signal("TERM");
    assert!(stage.broker.exit().success());
    assert!(
        start.elapsed() < Duration::from_secs(9),
        "{:?}",
        start.elapsed()
    );
    assert!(peer.wire.rest().is_ok());
}

/// A stage whose patience with open tunnels is this.
fn patient_for(drain_timeout: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, 1, |site| {
        site.with(format!("[broker]\ndrain_timeout = \"{drain_timeout}\"\n"))
    })
}

#[test]
fn patience_with_open_tunnels_has_an_end() {
    let stage = patient_for("2s");
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let start = Instant::now();
    stage.broker.signal("TERM");
    stage.broker.wait("Waiting for open tunnels", |_| true);
    // Until then the tunnel is as it was.
    peer.wire.send(b"4.sync,1.2;").unwrap();
    visitor.hear_past_nops("sync");
    assert_eq!(visitor.farewell().0, 0x20B);
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    let by_the_clock = |line: &serde_json::Value| line["reason"] == "drain_timeout";
    stage.broker.wait("Ending open tunnels", by_the_clock);
    assert!(stage.broker.exit().success());
}

/// An instruction that is larger than any buffer on its way.
fn large_blob() -> Vec<u8> {
    let length = 8 * 1024 * 1024;
    let mut blob = format!("4.blob,1.1,{length}.").into_bytes();
    blob.resize(blob.len() + length, b'A');
    blob.push(b';');
    blob
}

#[test]
fn a_large_instruction_under_way_is_whole_before_the_goodbye() {
    // By the clock, and by a second signal.
    for drain_timeout in ["1s", "1h"] {
        let stage = patient_for(drain_timeout);
        let (mut visitor, peer) = stage.desktop(&Visit::office("ann"));
        let blob = large_blob();
        let (first, last) = blob.split_at(blob.len() / 2);
        let mut writer = peer.wire.stream().try_clone().unwrap();
        let (first, last) = (first.to_vec(), last.to_vec());
        stage.broker.signal("TERM");
        stage.broker.wait("Waiting for open tunnels", |_| true);
        let written = thread::spawn(move || writer.write_all(&first).map(|()| writer));
        let half = blob.len() / 2;
        assert!(visitor.wire.exact(half).unwrap() == blob[..half]);
        if drain_timeout == "1h" {
            stage.broker.signal("TERM");
        }
        stage.broker.wait("Ending open tunnels", |_| true);
        let mut writer = written.join().unwrap().unwrap();
        writer.write_all(&last).unwrap();
        assert!(visitor.wire.exact(last.len()).unwrap() == blob[half..]);
        assert_eq!(visitor.farewell().0, 0x20B);
        assert!(stage.broker.exit().success());
    }
}

#[test]
fn an_instruction_that_never_ends_is_not_broken_into() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    peer.wire.send(b"4.blob,1.1,8.AAAA").unwrap();
    assert_eq!(visitor.wire.exact(17).unwrap(), b"4.blob,1.1,8.AAAA");
    stage.broker.signal("TERM");
    stage.broker.wait("Waiting for open tunnels", |_| true);
    stage.broker.signal("TERM");
    // Nothing of ours would be understood there: the close has to do.
    assert_eq!(visitor.wire.rest().unwrap(), b"");
    assert!(stage.broker.exit().success());
}

#[test]
fn the_port_of_a_crashed_process_can_be_taken_again_at_once() {
    let mut stage = Stage::one();
    let _open = stage.desktop(&Visit::office("ann"));
    let address = stage.broker.address();
    stage.site.listen = format!("address = \"{address}\"");
    let stage = stage.restarted(Broker::kill);
    assert_eq!(stage.broker.address(), address);
    stage.tunnel(&Visit::office("ann"));
}

#[test]
fn a_process_that_was_paused_goes_on_where_it_stood() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    stage.broker.signal("STOP");
    peer.wire.send(b"4.sync,1.2;").unwrap();
    visitor.wire.send(b"3.nop;").unwrap();
    let mut waiting = Visitor::dial(stage.broker.address());
    waiting.select("rdp");
    thread::sleep(Duration::from_secs(2));
    stage.broker.signal("CONT");
    visitor.hear_past_nops("sync");
    assert_eq!(peer.wire.exact(6).unwrap(), b"3.nop;");
    waiting.read_args();
}

/// Runs `serve`, which must not come up: the exit code and what was said.
fn serve(site: &Site) -> (i32, String) {
    run(&["serve"], site.write())
}

fn run(arguments: &[&str], config: PathBuf) -> (i32, String) {
    let output = Site::run(arguments, &config);
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

fn site() -> Site {
    Site::new(([127, 0, 0, 1], 4823).into())
}

#[test]
fn a_port_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut site = site();
    site.listen = format!("address = \"{address}\"");
    let (code, said) = serve(&site);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains(&format!("cannot listen on {address}")) && said.contains("[guacd]"),
        "{said}"
    );
}

#[test]
fn a_store_in_use_is_said() {
    let site = site();
    let _first: Broker = site.start();
    let (code, said) = serve(&site);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("store.redb is in use by another process"),
        "{said}"
    );
}

#[test]
fn a_store_that_cannot_be_made_is_said() {
    let site = site().with("[store]\npath = \"/proc/none/store.redb\"\n");
    let (code, said) = serve(&site);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cannot open /proc/none/store.redb"), "{said}");
}

#[test]
fn a_bad_configuration_is_said_with_file_and_line() {
    let site = site().with("[broker]\nlease_seconds = 900\nlease_secnds = 900\n");
    for command in ["serve", "check"] {
        let (code, said) = run(&[command], site.write());
        assert_eq!(code, 78, "{said}");
        assert!(
            said.contains("00.toml:3:") && said.contains("lease_secnds"),
            "{said}"
        );
    }
    let (code, said) = run(&["check"], PathBuf::from("/nowhere/at-all.toml"));
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("/nowhere/at-all.toml"), "{said}");
}

#[test]
fn check_tells_good_from_doubtful() {
    let (code, said) = run(&["check", "--strict"], site().write());
    assert_eq!((code, said.contains("0 warnings")), (0, true), "{said}");
    let doubtful =
        site().with("[[resources]]\nid = \"lost\"\nkind = \"desktop\"\nfarm_id = \"gone\"\n");
    let config = doubtful.write();
    let (code, said) = run(&["check"], config.clone());
    assert_eq!((code, said.contains("1 warnings")), (0, true), "{said}");
    let (code, said) = run(&["check", "--strict"], config);
    assert_eq!(code, 1, "{said}");
}

#[test]
fn check_leaves_a_running_broker_alone() {
    let stage = Stage::one();
    let (code, said) = run(&["check"], stage.site.write());
    assert_eq!(code, 0, "{said}");
    stage.assert_guacd_saw(0);
}
