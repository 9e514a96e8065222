//! A session host as its agent sees it: a `/proc` with xrdp's processes and
//! sockets in it, as they were recorded, that a test moves.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::ScriptedHost;

pub(crate) const BOOT: &str = "5f6c3d0a-3f43-4f0e-9a5e-0d5f6f8f2b11";

/// The host's files; whoever logs on is a user every Linux has.
pub(crate) struct System {
    folder: TempDir,
    /// Answers as RDP does.
    _rdp: ScriptedHost,
}

impl System {
    pub(crate) fn new() -> Self {
        let rdp = ScriptedHost::up();
        let system = Self {
            folder: tempfile::tempdir().unwrap(),
            _rdp: rdp,
        };
        let port = system._rdp.address().port();
        system.put(
            "xrdp.ini",
            &format!(
                "[Globals]\nport=tcp://127.0.0.1:{port}\n[Logging]\nLogFile={}\n",
                system.path("xrdp.log").display()
            ),
        );
        system.put(
            "sesman.ini",
            &format!(
                "[Logging]\nLogFile={}\n",
                system.path("sesman.log").display()
            ),
        );
        system.put(
            "proc/stat",
            "cpu  100 0 50 800 50 0 0 0 0 0\nbtime 1796013320\n",
        );
        system.put("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
        system.put("proc/sys/kernel/hostname", "rds-a\n");
        system.put("proc/sys/kernel/random/boot_id", &format!("{BOOT}\n"));
        system.runs_for("11717.52");
        system.put("proc/net/tcp", HEAD);
        system.put("proc/net/tcp6", HEAD);
        system.put("proc/net/unix", HEAD);
        system.process(8, 1, "xrdp-sesman", 0, "xrdp-sesman\0--nodaemon");
        system.process(9, 1, "xrdp", 0, "xrdp\0--nodaemon");
        system
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whole or not at all: the agent looks at any time.
    pub(crate) fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let draft = path.with_extension("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(&draft, &path).unwrap();
    }

    /// Seconds since the start of the system.
    pub(crate) fn runs_for(&self, seconds: &str) {
        self.put("proc/uptime", &format!("{seconds} 7271.63\n"));
    }

    fn process(&self, pid: u32, parent: u32, name: &str, uid: u32, cmdline: &str) {
        // A process is there when its folder is: filled first, then named.
        let (hidden, shown) = (
            self.path(&format!("proc/.{pid}")),
            self.path(&format!("proc/{pid}")),
        );
        fs::create_dir_all(hidden.join("fd")).unwrap();
        let recorded = data("agent/xrdp-0.9.21/leader.stat");
        let stat = recorded.replace(
            "12 (xrdp-sesman) S 8",
            &format!("{pid} ({name}) S {parent}"),
        );
        fs::write(hidden.join("stat"), stat).unwrap();
        fs::write(
            hidden.join("status"),
            format!("Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"),
        )
        .unwrap();
        fs::write(hidden.join("cmdline"), format!("{cmdline}\0")).unwrap();
        fs::rename(hidden, shown).unwrap();
    }

    fn end(&self, pid: u32) {
        let hidden = self.path(&format!("proc/.ended-{pid}"));
        fs::rename(self.path(&format!("proc/{pid}")), &hidden).unwrap();
        fs::remove_dir_all(hidden).unwrap();
    }

    /// Somebody logs on at a display, and is connected.
    pub(crate) fn log_on(&self, display: u32, uid: u32) {
        self.connect(display, 52_000 + display);
        let leader = 1_000_000 + display * 10;
        // The X server last: only with it there is a session.
        self.process(leader, 8, "xrdp-sesman", 0, "xrdp-sesman");
        self.process(leader + 1, leader, "xterm", uid, "xterm");
        self.process(
            leader + 2,
            leader,
            "xrdp-chansrv",
            uid,
            "/usr/sbin/xrdp-chansrv",
        );
        self.process(
            leader + 3,
            leader,
            "Xvnc",
            uid,
            &format!("Xvnc\0:{display}\0-auth\0.Xauthority"),
        );
    }

    /// The RDP connection of a display, from a port.
    pub(crate) fn connect(&self, display: u32, port: u32) {
        let (xrdp, rdp, vnc) = (
            2_000_000 + display,
            3_000_000 + display,
            4_000_000 + display,
        );
        let place = self._rdp.address().port();
        let (from, to) = (
            format!("0100007F:{place:04X}"),
            format!("0100007F:{port:04X}"),
        );
        let line = |local: &str, remote: &str, inode: u32| {
            format!(
                "   0: {local} {remote} 01 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0\n"
            )
        };
        let first = line(&from, &to, rdp);
        let second = line(
            "0100007F:B914",
            &format!("0100007F:{:04X}", 5900 + display),
            vnc,
        );
        self.process(xrdp, 9, "xrdp", 0, "xrdp\0--nodaemon");
        for (fd, inode) in [(11, rdp), (18, vnc)] {
            let link = self.path(&format!("proc/{xrdp}/fd/{fd}"));
            symlink(format!("socket:[{inode}]"), link).unwrap();
        }
        let table = fs::read_to_string(self.path("proc/net/tcp")).unwrap();
        self.put("proc/net/tcp", &format!("{table}{first}{second}"));
    }

    /// Hangs up.
    pub(crate) fn disconnect(&self, display: u32) {
        let table = fs::read_to_string(self.path("proc/net/tcp")).unwrap();
        let inodes = [
            format!(" {} ", 3_000_000 + display),
            format!(" {} ", 4_000_000 + display),
        ];
        let others = table
            .split_inclusive('\n')
            .filter(|line| !inodes.iter().any(|inode| line.contains(inode)));
        self.put("proc/net/tcp", &others.collect::<String>());
        self.end(2_000_000 + display);
    }

    pub(crate) fn log_off(&self, display: u32) {
        let leader = 1_000_000 + display * 10;
        for pid in [leader + 3, leader + 2, leader + 1, leader] {
            self.end(pid);
        }
        if self.path(&format!("proc/{}", 2_000_000 + display)).exists() {
            self.disconnect(display);
        }
    }

    /// The agent's file.
    pub(crate) fn agent_toml(&self, servers: &[String], more: &str) -> PathBuf {
        let path = |name: &str| format!("{:?}", self.path(name));
        self.put("agent.toml", &format!(
            "server = {servers:?}\nkey_file = {}\nstate_file = {}\npoll = \"100ms\"\nprofile_store = \"/tmp\"\n{more}\n\
             [xrdp]\nxrdp_ini = {}\nsesman_ini = {}\nproc = {}\n[log]\nformat = \"json\"\nlevel = \"trace\"\n",
            path("agent.key"), path("state.json"), path("xrdp.ini"), path("sesman.ini"), path("proc"),
        ));
        self.path("agent.toml")
    }
}

const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

/// Something recorded.
pub(crate) fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    fs::read_to_string(path).unwrap()
}
