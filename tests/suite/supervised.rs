//! Under a service manager: what it is told, the sockets it hands over, and the wait for the last
//! tunnel before something beside us may end.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use super::faults::{assert_carries, serves};
use crate::support::{
    BINARY, Broker, DEADLINE, Names, ScriptedGuacd, Site, Stage, Visit, Visitor, eventually,
};

/// Where the manager listens.
struct Manager {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { socket, folder }
    }

    /// A scene of one host whose broker is ready, and says so often that it lives.
    fn looks_after(&self, watchdog_usec: &str) -> Stage {
        let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
        let stage = Stage::adjusted(guacd, 1, |site| {
            site.knowing("NOTIFY_SOCKET", self.path())
                .knowing("WATCHDOG_USEC", watchdog_usec)
        });
        self.hear("READY=1");
        stage
    }

    /// Says something to it, which fails where it would have to wait.
    fn another_word(&self) -> impl Fn() -> std::io::Result<usize> {
        let (path, teller) = (self.path(), UnixDatagram::unbound().unwrap());
        teller.set_nonblocking(true).unwrap();
        move || teller.send_to(b"X_HELLO=1", &path)
    }

    fn path(&self) -> String {
        let path = self.folder.path().join("notify");
        path.to_str().unwrap().to_owned()
    }

    /// Reads on until one of the lines begins so, and gives back how it goes on; what was told
    /// before it is passed over.
    fn hear(&self, word: &str) -> String {
        let mut told = [0; 4096];
        loop {
            let length = self.socket.recv(&mut told).expect(word);
            let text = std::str::from_utf8(&told[..length]).unwrap();
            if let Some(rest) = text.lines().find_map(|line| line.strip_prefix(word)) {
                return rest.to_owned();
            }
        }
    }
}

#[test]
fn the_manager_hears_that_we_are_ready_that_we_live_and_that_we_stop() {
    let manager = Manager::new();
    let mut stage = manager.looks_after("200000");
    for _ in 0..3 {
        manager.hear("WATCHDOG=1");
    }
    let (visitor, _peer) = stage.desktop(&Visit::office("ann"));
    stage.broker.signal("TERM");
    manager.hear("STOPPING=1");
    // An open tunnel is no reason to kill us.
    manager.hear("EXTEND_TIMEOUT_USEC=60000000");
    manager.hear("WATCHDOG=1");
    assert!(stage.broker.is_running());
    drop(visitor);
    assert!(stage.broker.exit().success());
}

#[test]
fn a_manager_that_reads_no_more_holds_up_neither_a_tunnel_nor_the_end() {
    let manager = Manager::new();
    let stage = manager.looks_after("20000");
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    // Its queue is full when nobody gets a word in any more.
    let full = manager.another_word();
    eventually("a full queue", || full().is_err().then_some(()));
    assert_carries(&mut visitor, &mut peer);
    serves(&stage, "bob");
    drop((visitor, peer));
    stage.broker.signal("TERM");
    assert!(stage.broker.exit().success());
}

/// A process that the broker started: killed with the test.
struct Successor(String);

impl Successor {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.0]).status();
        assert!(sent.unwrap().success());
    }

    /// Whether it runs; who looks after orphans may not have asked for it yet.
    fn runs(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let mut kill = Command::new("kill");
        // Fails where it has ended.
        let _ = kill
            .args(["-s", "KILL", &self.0])
            .stderr(Stdio::null())
            .status();
    }
}

#[test]
fn at_sigusr2_a_successor_takes_over_and_the_manager_looks_after_it() {
    let manager = Manager::new();
    let mut stage = manager.looks_after("200000");
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    // The successor wants the same port.
    stage.site.listen = format!("address = \"{}\"", stage.broker.address());
    stage.site.write();
    stage.broker.signal("USR2");
    let successor = Successor(manager.hear("MAINPID="));
    assert_ne!(successor.0, stage.broker.id().to_string());
    manager.hear("WATCHDOG=1");
    assert_carries(&mut visitor, &mut peer);
    serves(&stage, "bob");
    drop((visitor, peer));
    eventually("the end of the old process", || {
        (!stage.broker.is_running()).then_some(())
    });
    assert!(successor.runs());
    manager.hear("WATCHDOG=1");
    serves(&stage, "carl");
    successor.signal("TERM");
    manager.hear("STOPPING=1");
    eventually("the end of the successor", || {
        (!successor.runs()).then_some(())
    });
}

#[test]
fn a_successor_that_cannot_start_is_said_and_the_old_one_goes_on() {
    let stage = Stage::one();
    // Its own file is read by the new process alone as long as nobody reloads.
    let broken = stage.site.folder().join("conf.d/99.toml");
    std::fs::write(broken, "[guacd]\nadress = \"127.0.0.1:4822\"\n").unwrap();
    stage.broker.signal("USR2");
    stage.broker.wait("The successor ended", |_| true);
    serves(&stage, "ann");
}

#[test]
fn a_manager_that_is_gone_is_said_and_keeps_nobody_from_the_desktop() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.knowing("NOTIFY_SOCKET", "/nonexistent/notify")
    });
    stage
        .broker
        .wait("Cannot tell the service manager how we are", |_| true);
    stage.desktop(&Visit::office("ann"));
}

/// The broker as a socket unit starts it: with this as its descriptor 3.
fn handing(site: &Site, socket: impl Into<OwnedFd>) -> Command {
    let mut shell = Command::new("sh");
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; \
                  exec \"$0\" serve --config \"$1\"";
    shell.args(["-c", script, BINARY]).arg(site.write());
    shell.stdin(Stdio::from(socket.into()));
    shell
}

#[test]
fn who_comes_while_nobody_runs_waits_in_the_socket_that_is_handed_over() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let mut site = Site::new(guacd.address());
    site.listen = format!("address = \"{address}\"");
    for user in ["ann", "bob"] {
        let mut early = Visitor::dial(address);
        let broker = Broker::start(handing(&site, socket.try_clone().unwrap()), site.store());
        assert_eq!(broker.address(), address);
        early.click(&Visit::rdp(user));
        let peer = guacd.ready();
        early.ready();
        drop((early, peer));
        broker.signal("TERM");
        assert!(broker.exit().success());
    }
}

#[test]
fn a_socket_that_the_configuration_does_not_name_is_refused_with_both_remedies() {
    let site = Site::new(([127, 0, 0, 1], 1).into());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let other = UnixDatagram::unbound().unwrap();
    let handed = [
        (handing(&site, socket), format!("listens on {address}")),
        (handing(&site, other), "socket 1 of those".to_owned()),
    ];
    for (mut command, why) in handed {
        let ended = command.output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(78), "{said}");
        assert!(said.contains(&why), "{said}");
        assert!(said.contains("ListenStream="), "{said}");
    }
}

#[test]
fn the_wait_for_tunnels_ends_with_the_last_one_or_when_time_is_up() {
    let stage = Stage::one();
    let (visitor, _peer) = stage.desktop(&Visit::office("ann"));
    let config = stage.site.write();
    let ended = Site::run(&["tunnels", "wait", "--timeout", "1s"], &config);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(said.contains("time is up: 1 tunnel is open"), "{said}");

    let mut waiting = Command::new(BINARY)
        .args(["tunnels", "wait", "--config"])
        .arg(&config)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "1 tunnel is open");
    assert!(waiting.try_wait().unwrap().is_none());
    drop(visitor);
    assert_eq!(said.next().unwrap().unwrap(), "no tunnel is open");
    assert!(waiting.wait().unwrap().success());
}
