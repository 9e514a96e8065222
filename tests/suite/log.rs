//! What the log says of a tunnel, and what it never says.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::support::{
    BINARY, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, Visitor, eventually,
};

#[test]
fn a_tunnel_leaves_one_line_at_its_placement_and_one_at_its_end() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("CORP\\Ann"));
    visitor.wire.send(b"3.key,5.65307,1.1;").unwrap();
    peer.wire.exact(18).unwrap();
    drop(visitor);

    let placed = stage.broker.placed("corp\\ann");
    for (field, value) in [
        ("level", "INFO"),
        ("resource", "office"),
        ("farm", "office"),
        ("host", "rds1"),
        ("reason", "best score"),
    ] {
        assert_eq!(placed[field], value, "{placed}");
    }
    assert_eq!(placed["score"], 1000.0);
    assert_eq!(placed["decision_id"].as_str().unwrap().len(), 36);

    let ended = stage.broker.ended(&placed);
    for (field, value) in [("level", "INFO"), ("by", "guacamole"), ("phase", "stood")] {
        assert_eq!(ended[field], value, "{ended}");
    }
    assert!(ended["status"].is_null(), "nothing was told: {ended}");
    assert_eq!(ended["to_guacd"], 18);
    assert_eq!(ended["to_guacamole"], "4.sync,5.12345,1.1;".len());
    let seconds = ended["seconds"].as_f64().unwrap();
    assert!((0.0..60.0).contains(&seconds), "{ended}");

    // A second tunnel shows that nothing more is said of the first.
    drop(stage.tunnel(&Visit::office("bob")));
    stage.broker.ended(&stage.broker.placed("bob"));
    let of_first = stage.broker.said();
    let of_first = of_first
        .iter()
        .filter(|line| line["tunnel"] == placed["tunnel"]);
    assert_eq!(of_first.count(), 2);
}

#[test]
fn the_status_is_what_guacamole_was_told() {
    let stage = Stage::one();
    for (user, goodbye, status) in [
        ("ann", "", None),
        ("bob", "10.disconnect;", None),
        (
            "carl",
            "5.error,7.Aborted,3.519;",
            Some("UPSTREAM_NOT_FOUND"),
        ),
    ] {
        let (mut visitor, mut peer) = stage.desktop(&Visit::office(user));
        peer.wire.send(goodbye).unwrap();
        peer.wire.finish();
        visitor.wire.rest().unwrap();
        drop((visitor, peer));
        let ended = stage.broker.ended(&stage.broker.placed(user));
        assert_eq!(ended["by"], "guacd");
        assert_eq!(ended["status"].as_str(), status, "{ended}");
    }
}

#[test]
fn a_refused_tunnel_leaves_its_reason_and_its_end() {
    let stage = Stage::one();
    Visit::rdp("ann")
        .answer("hostname", "sessionguard:resource=nothing")
        .refused_at(&stage.broker);
    let refused = stage.broker.wait("Refused", |_| true);
    assert_eq!(
        refused["reason"],
        "the connection names an unknown resource"
    );
    let ended = stage.broker.ended(&refused);
    for (field, value) in [
        ("by", "sessionguard"),
        ("phase", "handshake"),
        ("status", "RESOURCE_NOT_FOUND"),
    ] {
        assert_eq!(ended[field], value, "{ended}");
    }
    assert_eq!(stage.broker.lines("Placed").len(), 0);
}

#[test]
fn no_secret_is_ever_logged_and_no_secret_is_ever_told() {
    const MARK: &str = "Geheim-7f3a9";
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |mut site| {
        site.level = "trace";
        site
    });
    let secret = |visit: Visit| {
        let names = [
            "password",
            "gateway-password",
            "sftp-password",
            "sftp-passphrase",
        ];
        names
            .iter()
            .fold(visit, |visit, name| visit.answer(name, MARK))
    };
    let visit = secret(Visit::office("marked-user"));
    let (mut visitor, mut peer) = stage.desktop(&visit);
    assert_eq!(peer.value("password"), MARK);
    visitor.wire.send(format!("4.blob,1.1,12.{MARK};")).unwrap();
    peer.wire.send(format!("5.error,12.{MARK},3.519;")).unwrap();
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("marked-user"));

    // Refused, malformed, and cut in the middle of the secret.
    let lost = secret(Visit::rdp("lost").answer("hostname", "sessionguard:id=0"));
    let mut told = vec![lost.refused_at(&stage.broker).text];
    stage.guacd.next();
    for bytes in [
        format!("7.connect,12.{MARK};"),
        format!("12.{MARK},1.x;"),
        format!("4.name,11.{MARK};"),
        format!("4.size,12.{MARK},12.{MARK},12.{MARK};"),
        MARK.to_owned(),
    ] {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.select("rdp");
        visitor.read_args();
        visitor.wire.send(bytes).unwrap();
        visitor.wire.finish();
        if let Ok(Some(_ready)) = visitor.wire.instruction() {
            told.push(visitor.farewell().1);
        }
        stage.guacd.next();
    }
    drop(stage.tunnel(&Visit::office("witness")));
    stage.broker.ended(&stage.broker.placed("witness"));

    let said: Vec<_> = stage
        .broker
        .said()
        .iter()
        .map(ToString::to_string)
        .collect();
    let holds = |mark: &str| {
        said.iter()
            .chain(&told)
            .filter(|text| text.contains(mark))
            .count()
    };
    assert!(holds("marked-user") > 0, "the log works");
    assert!(told.len() >= 4, "refusals were told: {told:?}");
    for mark in [MARK, &MARK[..6], &MARK[6..]] {
        assert_eq!(holds(mark), 0, "{mark} in {said:#?} {told:?}");
    }
}

/// A broker whose log is read up to where it listens, and from then on by nobody.
struct Unread {
    child: Child,
    reader: Option<BufReader<ChildStderr>>,
    address: SocketAddr,
}

impl Unread {
    fn start(site: &Site) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg("--config").arg(site.write());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "it has ended");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["message"] == "Listening" {
                break line["address"].as_str().unwrap().parse().unwrap();
            }
        };
        Self {
            child,
            reader: Some(reader),
            address,
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // Fails where the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_reader_of_the_log_that_stalls_or_has_left_holds_up_nobody() {
    for leaves in [true, false] {
        let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
        let host = ScriptedHost::up();
        let site = Stage::site(guacd.address(), &[host.address()]);
        let mut broker = Unread::start(&site);
        if leaves {
            broker.reader = None;
        }
        // Twice as much as a pipe holds.
        for number in 0..20 {
            let user = format!("{}{number}", "x".repeat(6000));
            let mut visitor = Visitor::dial(broker.address);
            visitor.click(&Visit::office(&user));
            visitor.ready();
            assert_eq!(guacd.ready().value("username"), user);
        }
        let kill = format!("kill -TERM {}", broker.child.id());
        let killed = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(killed.success());
        let ended = eventually("the broker's end", || broker.child.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
    }
}

#[test]
fn a_name_makes_no_line_of_its_own_and_moves_no_terminal() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let host = ScriptedHost::up();
    let site = Stage::site(guacd.address(), &[host.address()]).with(
        "[log]\nformat = \"text\"\nlevel = \"trace\"\n[broker]\nmode = \"observe\"\n[identity]\norder = [\"name\", \"username\"]\n",
    );
    let log = site.folder().join("text.log");
    let mut command = site.serving();
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let wait = |what: &str| {
        eventually(what, || {
            let text = std::fs::read_to_string(&log).unwrap();
            let whole = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            whole
                .rev()
                .find(|line| line.contains(what))
                .map(str::to_owned)
        })
    };
    let address = wait(" Listening ");
    let address = address.split("address=").nth(1).unwrap();
    let address = address.split(' ').next().unwrap().parse().unwrap();
    let forged = "2026-01-01T00:00:00.000000Z  INFO Placed user=\"forged\"";
    let odd = format!("ann\r\n{forged}\u{1b}[2J\u{7}\n{forged}");
    for (name, user) in [(odd.as_str(), "ann"), ("ann", odd.as_str()), (&odd, &odd)] {
        let mut visitor = Visitor::dial(address);
        let visit = Visit::office(user).login(Some(name));
        visitor.click(&visit.answer("domain", &odd).answer("remote-app", &odd));
        visitor.ready();
    }
    let mut visitor = Visitor::dial(address);
    visitor.click(&Visit::office("witness"));
    visitor.ready();
    wait("user=witness");
    child.kill().unwrap();
    child.wait().unwrap();

    let text = std::fs::read_to_string(&log).unwrap();
    assert!(
        text.matches("forged").count() > 3,
        "names are logged: {text}"
    );
    for line in text.lines() {
        assert!(line.starts_with("20") && line.contains("Z "), "{line:?}");
        assert!(!line.starts_with(&forged[..10]), "{line:?}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}
