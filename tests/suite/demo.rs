//! The demo that stays, as a real Guacamole meets it: the real binary and its stand-in guacd.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use guac_protocol::Instruction;

use crate::support::{Visit, Visitor, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_sessionguard");

/// A demo that stays, and what it has said.
struct Demo {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Demo {
    fn start() -> (Self, SocketAddr) {
        let mut child = Command::new(BINARY)
            .args(["demo", "--stay", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::<Mutex<String>>::default();
        let (stdout, heard) = (child.stdout.take().unwrap(), Arc::clone(&said));
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                *heard.lock().unwrap() += &(line + "\n");
            }
        });
        let demo = Self { child, said };
        demo.until("Ctrl-C ends it");
        let text = demo.text();
        let (_, behind) = text.split_once("GUACD_PORT=").unwrap();
        let port: u16 = behind.lines().next().unwrap().parse().unwrap();
        assert!(text.contains("GUACD_HOSTNAME=127.0.0.1 "), "{text}");
        (demo, ([127, 0, 0, 1], port).into())
    }

    fn text(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn until(&self, what: &str) {
        eventually(what, || self.text().contains(what).then_some(()));
    }

    fn interrupted(mut self) -> (ExitStatus, String) {
        let kill = format!("kill -INT {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
        let status = eventually("the demo's end", || self.child.try_wait().unwrap());
        self.until("bytes to it");
        (status, self.text())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Fails where it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One click, up to its first picture; the text of `log`, and how many rectangles were drawn.
fn click(address: SocketAddr, visit: &Visit) -> (Visitor, String, usize) {
    let mut visitor = Visitor::dial(address);
    visitor.click(visit);
    visitor.ready();
    let (mut log, mut rects) = (String::new(), 0);
    loop {
        let heard = visitor.wire.instruction().unwrap().unwrap();
        match heard.opcode() {
            "log" => log = heard.args().concat(),
            "rect" => rects += 1,
            "sync" => return (visitor, log, rects),
            "size" | "cfill" | "nop" => {}
            other => panic!("{other}: {:?}", heard.args()),
        }
    }
}

#[test]
fn it_stays_shows_what_happens_and_ends_at_ctrl_c() {
    let (demo, address) = Demo::start();
    let visit = Visit::rdp("anna").answer("hostname", "sessionguard:resource=sage");
    let (mut visitor, log, rects) = click(address, &visit);
    assert!(log.contains("stand-in"), "{log}");
    assert!(rects > 100, "letters on the picture: {rects}");
    for expected in [
        "STAND-IN",
        "anna opens sage",
        "chosen by: best score",
        "select rdp",
        "size 1024 768 96",
        "name (the login, not shown)",
        "hostname = 127.0.0.",
        "remote-app = ||Sage",
        "values not shown: username, password",
        "answered: ready $",
    ] {
        demo.until(expected);
    }

    let lost = Visit::rdp("ben").answer("hostname", "sessionguard:resource=nowhere");
    let mut refused = Visitor::dial(address);
    refused.click(&lost);
    assert_eq!(refused.refusal().code, 0x204);
    demo.until("refused: ");

    // It goes on until it is told to stop, which ends what is open.
    visitor.wire.say(&Instruction::nop()).unwrap();
    visitor.hear("nop");
    let (status, text) = demo.interrupted();
    assert!(status.success(), "{text}");
    loop {
        let heard = visitor.wire.instruction().unwrap().unwrap();
        if heard.opcode() == "error" {
            assert_eq!(heard.args()[1], 0x20B.to_string());
            break;
        }
        assert_eq!(heard.opcode(), "nop");
    }
    assert!(text.contains("2 connections to guacd"), "{text}");
    assert!(!text.contains("secret of the test"), "{text}");
    // The broker's decision names the user; what is sent is shown without.
    let mut named = text.lines().filter(|line| line.contains("anna"));
    assert!(named.all(|line| line.contains("anna opens")), "{text}");
}

#[test]
fn an_address_that_is_taken_is_said_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(BINARY)
        .args(["demo", "--stay", "--listen", &address])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("cannot listen on {address}"))
            && said.contains("--listen ADDR:PORT"),
        "{said}"
    );
}

#[test]
fn options_that_do_not_fit_together_are_refused() {
    for (options, hint) in [
        (&["--guacd", "127.0.0.1"][..], "--hosts"),
        (&["--hosts", "10.0.0.1"], "--hosts A,B"),
        (&["--listen", "127.0.0.1:1"], "--stay"),
        (
            &[
                "--guacd",
                "a",
                "--hosts",
                "b,c",
                "--username",
                r"CORP\ann",
                "--password-file",
                "f",
            ],
            "without its domain",
        ),
    ] {
        let output = Command::new(BINARY).arg("demo").args(options).output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(hint), "{options:?}: {said}");
    }
}
