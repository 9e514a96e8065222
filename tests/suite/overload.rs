//! More than can be served: who is told what, who is served all the same, and what comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::support::{
    Asker, Broker, GuacdPeer, Names, ScriptedAgent, ScriptedGuacd, Stage, Told, Visit, Visitor,
    eventually, new_key,
};

const STATUS: &str = "/api/v1/status";

fn names() -> Names {
    Names::rdp("1.6.0")
}

fn limited(limits: &str) -> Stage {
    Stage::adjusted(ScriptedGuacd::polite(names()), 1, |site| {
        site.with(format!("[limits]\n{limits}\n"))
    })
}

fn until(broker: &Broker, name: &str, fits: impl Fn(u64) -> bool) -> u64 {
    eventually(name, || Some(broker.figure(name)).filter(|it| fits(*it)))
}

/// Bytes still go both ways.
fn assert_lives((visitor, peer): (&mut Visitor, &mut GuacdPeer)) {
    visitor.wire.send(b"4.ping,1.1;").unwrap();
    assert_eq!(peer.wire.exact(11).unwrap(), b"4.ping,1.1;");
    peer.wire.send(b"4.pong,1.1;").unwrap();
    assert_eq!(visitor.wire.exact(11).unwrap(), b"4.pong,1.1;");
}

#[test]
fn a_tunnel_too_many_is_told_busy_and_the_others_notice_nothing() {
    let stage = limited("max_tunnels = 2");
    let broker = &stage.broker;
    let (mut ann, mut of_ann) = stage.desktop(&Visit::office("ann"));
    let id = {
        let mut bob = Visit::office("bob").at(broker);
        let id = bob.ready();
        let _of_bob = stage.guacd.ready();
        for visit in [
            Visit::office("cyn"),
            Visit::join(&id),
            Visit::protocol("vnc"),
        ] {
            let refusal = visit.refused_at(broker);
            assert_eq!(refusal.code, 0x201, "{}", refusal.text);
            assert!(
                refusal.text.starts_with("2 tunnels are open"),
                "{}",
                refusal.text
            );
        }
        assert_eq!(stage.guacd.accepted(), 2);
        assert_lives((&mut ann, &mut of_ann));
        assert_eq!(broker.figure("tunnels"), 2);
        assert_eq!(broker.figure("tunnels_max"), 2);
        assert_eq!(broker.figure("tunnels_refused_total"), 3);
        let refused = broker.wait_for_lines("Refused", 3);
        assert!(refused[0]["reason"].as_str().unwrap().contains("2 tunnels"));
        let strain = "2 of at most 2 tunnels are open";
        let (status, ready) = broker.health("/readyz?verbose");
        assert_eq!(status, 200);
        assert!(
            ready.contains(&format!("limits: degraded: {strain}")),
            "{ready}"
        );
        let asker = Asker::of(broker).with(&new_key(&stage.site, "admin-read", None));
        let alarms = asker.ask("GET", STATUS, "").json()["alarms"].to_string();
        assert!(alarms.contains(strain), "{alarms}");
        id
    };
    until(broker, "tunnels", |open| open == 1);
    let (_cyn, _of_cyn) = stage.tunnel(&Visit::office("cyn"));
    // More of them without a restart.
    let refusal = Visit::office("dan").refused_at(broker);
    assert_eq!(refusal.code, 0x201, "{}, after {id}", refusal.text);
    let more = stage.site.folder().join("conf.d/90-more.toml");
    std::fs::write(more, "[limits]\nmax_tunnels = 10\n").unwrap();
    broker.wait("Configuration applied", |line| line["settings"] == "limits");
    let (_dan, _of_dan) = stage.tunnel(&Visit::office("dan"));
    assert!(!broker.health("/readyz").1.contains("limits"));
    assert_lives((&mut ann, &mut of_ann));
}

/// Answers `select` at once, or once it is let go.
fn slow_guacd() -> (ScriptedGuacd, Arc<AtomicBool>) {
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = Arc::clone(&slow);
    let guacd = ScriptedGuacd::playing(move |peer| {
        peer.hear_select()?;
        while is_slow.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())?;
        peer.say_ready()
    });
    (guacd, slow)
}

#[test]
fn dials_wait_their_turn_behind_a_slow_guacd_and_never_behind_a_slow_guacamole() {
    let (guacd, slow) = slow_guacd();
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.with("[limits]\nmax_guacd_dials = 1\n")
            .listening("handshake_timeout = \"60s\"")
    });
    let broker = &stage.broker;
    // Has its args, and takes its time over them.
    let mut idle = Visitor::dial(broker.address());
    idle.select("rdp");
    idle.read_args();
    let (mut ann, mut of_ann) = stage.desktop(&Visit::office("ann"));
    assert_eq!(broker.figure("guacd_dials"), 0);

    slow.store(true, Ordering::SeqCst);
    let mut held = Visitor::dial(broker.address());
    held.select("rdp");
    until(broker, "guacd_dials", |dials| dials == 1);
    let start = Instant::now();
    let mut waiting = Visitor::dial(broker.address());
    waiting.select("rdp");
    until(broker, "guacd_dials_waiting", |waiting| waiting == 1);
    let (_, ready) = broker.health("/readyz?verbose");
    assert!(
        ready.contains("limits: degraded: 1 connections wait for their turn"),
        "{ready}"
    );
    // Half of guacd's eight seconds, then the answer in its usual form.
    waiting.read_args();
    assert!(
        start.elapsed() >= Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    waiting.wire.send(b"7.connect;").unwrap();
    let refusal = waiting.refusal();
    assert_eq!(refusal.code, 0x202, "{}", refusal.text);
    assert!(
        refusal.text.starts_with("guacd is slow: 1 "),
        "{}",
        refusal.text
    );
    assert_eq!(broker.figure("guacd_dials_refused_total"), 1);
    assert_eq!(stage.guacd.accepted(), 3);

    let next = Visitor::dial(broker.address());
    let mut next = next;
    next.select("rdp");
    until(broker, "tunnels", |tunnels| tunnels >= 4);
    slow.store(false, Ordering::SeqCst);
    next.read_args();
    assert_eq!(broker.figure("guacd_dials"), 0);
    assert_lives((&mut ann, &mut of_ann));
}

#[test]
fn hundreds_of_slow_handshakes_keep_nobody_out_and_the_reserve_is_kept() {
    let stage = Stage::adjusted(ScriptedGuacd::polite(names()), 1, |mut site| {
        site.descriptors = Some(400);
        site
    });
    let broker = &stage.broker;
    let room = broker.wait("Room for tunnels", |_| true);
    assert_eq!(
        (&room["descriptors"], &room["reserve"], &room["max_tunnels"]),
        (&400.into(), &100.into(), &100.into())
    );
    let (mut ann, mut of_ann) = stage.desktop(&Visit::office("ann"));
    let most = broker.figure("guacamole_connections_max");
    assert_eq!(most, 200);
    let mut crowd = Vec::new();
    for _ in 0..3 {
        for _ in 0..120 {
            let mut slow = Visitor::dial(broker.address());
            // One that was closed for a later one may refuse it.
            let _ = slow.wire.send(b"6.select,3.r");
            crowd.push(slow);
        }
        let (_bob, of_bob) = stage.tunnel(&Visit::office("bob"));
        assert_eq!(of_bob.value("hostname"), "127.0.0.1");
        assert_lives((&mut ann, &mut of_ann));
        assert_eq!(broker.health("/livez").0, 200);
        let asker = Asker::of(broker).with(&new_key(&stage.site, "admin-read", None));
        assert_eq!(asker.ask("GET", STATUS, "").status, 200);
        assert!(broker.descriptors() <= 400 - 50);
    }
    assert!(broker.figure("guacamole_connections") <= most);
    assert!(broker.figure("guacamole_connections_closed_total") >= 160);
    // Said once, not for each.
    let said = "Every place is taken, connections are closed: idle ones first";
    assert_eq!(broker.wait_for_lines(said, 1).len(), 1);
    assert_eq!(
        broker
            .lines("Accepting fails, trying again with pauses")
            .len(),
        0
    );
    // The last ones are there still, and served when they are done.
    let mut last = crowd.pop().unwrap();
    last.wire.send(b"dp;").unwrap();
    last.read_args();
}

#[test]
fn without_any_descriptor_left_what_is_open_lives_and_accepting_comes_back() {
    let stage = Stage::one();
    let broker = &stage.broker;
    let (mut ann, mut of_ann) = stage.desktop(&Visit::office("ann"));
    let asker = Asker::of(broker).with(&new_key(&stage.site, "admin-read", None));
    let request = asker.request("GET", STATUS, "x/y", "");
    let mut asking = asker.connect();
    asking.write_all(&request).unwrap();
    assert_eq!(Told::read(&mut asking).unwrap().status, 200);
    let (soft, _) = descriptors_of(broker);
    broker.limit_descriptors(&broker.descriptors().to_string());
    let mut crowd: Vec<_> = (0..40).map(|_| Visitor::dial(broker.address())).collect();
    let said = "Accepting fails, trying again with pauses";
    let of_guacamole = |line: &serde_json::Value| line["door"] == "Guacamole";
    broker.wait(said, of_guacamole);
    assert_lives((&mut ann, &mut of_ann));
    asking.write_all(&request).unwrap();
    assert_eq!(Told::read(&mut asking).unwrap().status, 200);
    // It goes on trying, and says so once.
    let before = processor_time(broker);
    thread::sleep(Duration::from_secs(2));
    let spent = processor_time(broker) - before;
    assert!(spent < 50, "{spent} ticks in two seconds");
    let lines = broker.lines(said);
    let lines = lines.iter().filter(|line| of_guacamole(line));
    assert_eq!(lines.count(), 1);

    broker.limit_descriptors(&soft.to_string());
    let mut last = crowd.pop().unwrap();
    last.select("rdp");
    last.read_args();
    let (_bob, _of_bob) = stage.tunnel(&Visit::office("bob"));
    let again = eventually("accepting again", || {
        // It is said by an accept that nothing failed before.
        drop(Visitor::dial(broker.address()));
        let lines = broker.lines("Accepting works again");
        lines.into_iter().find(|line| of_guacamole(line))
    });
    assert!(again["failed"].as_u64().unwrap() >= 1, "{again}");
    assert_lives((&mut ann, &mut of_ann));
}

/// Its limits of descriptors, soft and hard.
fn descriptors_of(broker: &Broker) -> (u64, u64) {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", broker.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let figures = line.unwrap().split_whitespace().skip(3);
    let figures: Vec<u64> = figures.map_while(|it| it.parse().ok()).collect();
    (figures[0], figures[1])
}

/// In ticks, a hundred a second.
fn processor_time(broker: &Broker) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", broker.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let times = fields.split_whitespace().skip(11).take(2);
    times.map(|time| time.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_start_takes_all_descriptors_it_may_have() {
    let site = Stage::site(([127, 0, 0, 1], 4823).into(), &[]);
    let site = site.with("[limits]\nmax_tunnels = 1000000\n");
    let config = site.write();
    let mut shell = std::process::Command::new("sh");
    let script = format!(
        "ulimit -S -n 300; ulimit -H -n 800; exec {} serve --config {}",
        crate::support::BINARY,
        config.display()
    );
    let broker = Broker::start(
        {
            shell.arg("-c").arg(script);
            shell
        },
        site.store(),
    );
    assert_eq!(descriptors_of(&broker), (800, 800));
    let said = broker.wait("Room for tunnels", |_| true);
    assert_eq!(
        (&said["descriptors"], &said["max_tunnels"]),
        (&800.into(), &200.into())
    );
    let warned = broker.wait(
        "max_tunnels in [limits] is more than the hard limit of descriptors allows: raise that to \
         four times the tunnels (ulimit -Hn, LimitNOFILE=)",
        |_| true,
    );
    assert_eq!(
        (&warned["wanted"], &warned["most"]),
        (&1_000_000.into(), &200.into())
    );
}

#[test]
fn agents_are_heard_within_a_second_beside_thousands_of_idle_connections() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    }
    let stage = Stage::one();
    let key = new_key(&stage.site, "agent", Some("rds1"));
    let agent = Asker::of(&stage.broker).with(&key);
    let admin = agent.with(&new_key(&stage.site, "admin-read", None));
    let request = admin.request("GET", STATUS, "x/y", "");
    let mut looking = admin.connect();
    looking.write_all(&request).unwrap();
    assert_eq!(Told::read(&mut looking).unwrap().status, 200);
    // A hundred each from twenty addresses.
    let flood = |number: u8| -> Vec<TcpStream> {
        let from = agent.at(number);
        (0..100).map(|_| from.connect()).collect()
    };
    let mut idle: Vec<_> = (1..=20).map(flood).collect();
    let mut scripted = ScriptedAgent::of(&stage.site, "rds1");
    let mut spans = Vec::new();
    for (number, again) in (1..=11).zip(&mut idle) {
        let body = scripted.next(&[]).to_string();
        let start = Instant::now();
        let told = agent.report("rds1", &body);
        spans.push(start.elapsed());
        assert_eq!(told.status, 200, "{told:?}");
        assert_eq!(told.json()["taken"], true);
        // And whoever was turned out comes back.
        again.clear();
        *again = flood(number);
    }
    spans.sort();
    assert!(spans[5] < Duration::from_secs(1), "{spans:?}");
    // Whoever has shown a key was not turned out for anybody.
    looking.write_all(&request).unwrap();
    assert_eq!(Told::read(&mut looking).unwrap().status, 200);
    let said = "Every place is taken, connections are closed: idle ones first";
    stage.broker.wait(said, |line| line["door"] == "API");
    let ended = idle.iter().flatten().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        let mut stream: &TcpStream = stream;
        !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    });
    assert!(ended.count() > 1000);
}

const STALL: &str = "stall_timeout = \"2s\"";

/// Sends instructions for as long as they are taken, or until enough were.
fn pour(mut stream: TcpStream, enough: usize) -> mpsc::Receiver<usize> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let blob = format!("4.blob,1.1,5000.{};", "x".repeat(5000)).repeat(10);
        let mut sent = 0;
        stream.set_write_timeout(None).unwrap();
        while sent < enough && stream.write_all(blob.as_bytes()).is_ok() {
            sent += blob.len();
        }
        let _ = tell.send(sent);
    });
    told
}

#[test]
fn whoever_never_reads_loses_the_tunnel_and_nobody_else_does() {
    let stage = limited(STALL);
    let (mut ann, mut of_ann) = stage.desktop(&Visit::office("ann"));
    for deaf in ["Guacamole", "guacd"] {
        let user = format!("deaf-{}", deaf.to_lowercase());
        let (visitor, peer) = stage.desktop(&Visit::office(&user));
        let talking = if deaf == "guacd" {
            &visitor.wire
        } else {
            &peer.wire
        };
        let _pouring = pour(talking.stream().try_clone().unwrap(), usize::MAX);
        let ended = stage.broker.ended(&stage.broker.placed(&user));
        assert_eq!(ended["by"], deaf.to_lowercase(), "{ended}");
        let how = ended["how"].as_str().unwrap();
        assert!(
            how.starts_with(deaf) && how.contains("taken nothing for as long as stall_timeout"),
            "{ended}"
        );
        assert!(ended["seconds"].as_f64().unwrap() >= 2.0, "{ended}");
        assert_lives((&mut ann, &mut of_ann));
    }
}

#[test]
fn whoever_reads_slowly_keeps_the_tunnel() {
    const ENOUGH: usize = 30_000_000;
    let stage = limited(STALL);
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let poured = pour(peer.wire.stream().try_clone().unwrap(), ENOUGH);
    let mut reading = visitor.wire.stream().try_clone().unwrap();
    let (start, mut read, mut buffer) = (Instant::now(), 0, vec![0; 256 * 1024]);
    while read < ENOUGH {
        let count = reading.read(&mut buffer).unwrap();
        assert!(
            count > 0,
            "ended after {read} bytes and {:?}",
            start.elapsed()
        );
        read += count;
        thread::sleep(Duration::from_millis(60));
    }
    assert!(poured.recv().unwrap() >= ENOUGH);
    assert!(
        start.elapsed() > Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(stage.broker.lines("Tunnel ended").len(), 0);
}

#[test]
fn both_sockets_of_a_tunnel_are_asked_whether_anybody_is_there() {
    let stage = Stage::one();
    let (visitor, _peer) = stage.desktop(&Visit::office("ann"));
    let guacamole = visitor.wire.stream().local_addr().unwrap().port();
    let guacd = stage.guacd.address().port();
    let listening = stage.broker.address().port();
    let watched = || {
        // Columns: local and remote address, state, queues, timer: 02 is keepalive's.
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().skip(1).map(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let mut port = || {
                let (_, port) = columns.next().unwrap().rsplit_once(':').unwrap();
                u16::from_str_radix(port, 16).unwrap()
            };
            let (local, remote) = (port(), port());
            let timer = columns.nth(2).unwrap().starts_with("02:");
            (local, remote, timer)
        });
        let kept = |local: u16, remote, timer| {
            timer && (local == listening && remote == guacamole || remote == guacd)
        };
        rows.filter(|(local, remote, timer)| kept(*local, *remote, *timer))
            .count()
    };
    eventually("keepalive on both", || (watched() == 2).then_some(()));
}
