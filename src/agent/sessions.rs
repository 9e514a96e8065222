//! Who is logged on to xrdp, from processes and sockets; pure.
//!
//! The session manager forks one process a session, and that one starts the
//! user's X server, window manager and channel server. A session is such a
//! process with an X server; its user is whom they run as, which nobody can
//! dress up as somebody else. It is active while something is connected to its
//! X server: over TCP (Xvnc) an `xrdp` process, or over the socket that only
//! xrdp's own X server module has (Xorg). `xrdp` forks one process a
//! connection; that one's start is when the connection began.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::proc_text::Tcp;

/// A process that could be of interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) name: String,
    /// Ticks after the start of the system.
    pub(super) started: u64,
    pub(super) uid: u32,
    pub(super) arguments: Vec<String>,
    /// Of an `xrdp` process: the inodes of its sockets.
    pub(super) sockets: Vec<u64>,
}

/// One process for ever: ids come again, but not with the same start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProcessKey {
    pub(super) pid: u32,
    pub(super) started: u64,
}

impl Process {
    fn key(&self) -> ProcessKey {
        ProcessKey {
            pid: self.pid,
            started: self.started,
        }
    }
}

/// A session, as far as processes and sockets tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The session's own process.
    pub(super) leader: ProcessKey,
    pub(super) display: u32,
    pub(super) uid: u32,
    /// With its end the session ends.
    pub(super) manager: Option<ProcessKey>,
    pub(super) connected: bool,
    /// Who carries its connection, where that could be found out.
    pub(super) carrier: Option<Carrier>,
}

/// The `xrdp` process behind a connected session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carrier {
    pub(super) process: ProcessKey,
    /// It serves this connection alone.
    pub(super) alone: bool,
    /// Where the RDP connection comes from.
    pub(super) from: Option<SocketAddr>,
}

/// The host at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) processes: Vec<Process>,
    pub(super) tcp: Vec<Tcp>,
    /// Paths of Unix sockets somebody is connected to.
    pub(super) unix: Vec<String>,
    /// Where RDP is served.
    pub(super) rdp_port: Option<u16>,
    /// From where each session was last connected to, by its process id.
    pub(super) last_connected: HashMap<u32, SocketAddr>,
}

const MANAGER: &str = "xrdp-sesman";
/// What does the manager's part for one session from xrdp 0.10 on.
const EXECUTOR: &str = "xrdp-sesexec";
const CHANNELS: &str = "xrdp-chansrv";
const XRDP: &str = "xrdp";
/// Xvnc listens here for display 0.
const VNC: u32 = 5900;

/// Whether a process can say anything about sessions.
pub(super) fn matters(name: &str) -> bool {
    [MANAGER, EXECUTOR, XRDP].contains(&name)
}

impl Picture {
    /// The session manager runs.
    pub(super) fn is_managed(&self) -> bool {
        self.processes.iter().any(|process| process.name == MANAGER)
    }

    /// The sessions, by display.
    pub(super) fn sessions(&self) -> Vec<Seen> {
        let leaders = self.processes.iter().filter(|process| self.leads(process));
        let mut sessions: Vec<_> = leaders.filter_map(|leader| self.session(leader)).collect();
        sessions.sort_by_key(|session| session.display);
        sessions
    }

    /// A session whose manager is gone goes on, but nobody can be brought back
    /// to it: it does not count. The executor of newer releases finds its
    /// manager again.
    fn leads(&self, process: &Process) -> bool {
        let managed = || self.named(process.parent, MANAGER);
        process.name == EXECUTOR || (process.name == MANAGER && managed())
    }

    fn named(&self, pid: u32, name: &str) -> bool {
        let mut processes = self.processes.iter();
        processes.any(|process| process.pid == pid && process.name == name)
    }

    fn session(&self, leader: &Process) -> Option<Seen> {
        let children = || self.processes.iter().filter(|p| p.parent == leader.pid);
        let (server, display) = children().find_map(|child| Some((child, display(child)?)))?;
        // An X server may be installed to run as root.
        let uid = children().map(|child| child.uid).find(|uid| *uid != 0);
        let managers = children().filter(|child| {
            let other =
                child.pid == server.pid || child.name == CHANNELS || child.name == leader.name;
            !other
        });
        let manager = managers.min_by_key(|child| (child.started, child.pid));
        let by_vnc = self.carrier(|tcp| u32::from(tcp.remote.port()) == VNC + display);
        let by_socket = self.connected_to(display);
        let connected = by_vnc.is_some() || by_socket;
        let by_log = || {
            let from = self.last_connected.get(&leader.pid)?;
            self.carrier(|tcp| tcp.remote == *from && Some(tcp.local.port()) == self.rdp_port)
        };
        Some(Seen {
            leader: leader.key(),
            display,
            uid: uid.unwrap_or(server.uid),
            manager: manager.map(Process::key),
            connected,
            carrier: connected.then(|| by_vnc.or_else(by_log)).flatten(),
        })
    }

    /// Somebody is connected to the socket of xrdp's own X server module.
    fn connected_to(&self, display: u32) -> bool {
        let end = format!("/xrdp_display_{display}");
        self.unix.iter().any(|path| path.ends_with(&end))
    }

    /// The `xrdp` process that has such a connection.
    fn carrier(&self, fits: impl Fn(&Tcp) -> bool) -> Option<Carrier> {
        let xrdp = self.processes.iter().filter(|process| process.name == XRDP);
        let mut carriers = xrdp.filter(|process| self.connections(process).any(&fits));
        let process = carriers.next()?;
        let rdp = |tcp: &&Tcp| Some(tcp.local.port()) == self.rdp_port;
        let alone = self.named(process.parent, XRDP);
        Some(Carrier {
            process: process.key(),
            alone,
            from: self
                .connections(process)
                .find(rdp)
                .map(|tcp| tcp.remote)
                .filter(|_| alone),
        })
    }

    fn connections<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = &'a Tcp> {
        let tcp = self.tcp.iter();
        tcp.filter(|tcp| process.sockets.contains(&tcp.inode))
    }
}

/// The display an X server serves: its first argument, as in `Xvnc :10`.
fn display(process: &Process) -> Option<u32> {
    let program = process.arguments.first()?.rsplit('/').next()?;
    let number = process.arguments.get(1)?.strip_prefix(':')?;
    program.starts_with('X').then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, name: &str, uid: u32, words: &str) -> Process {
        Process {
            pid,
            parent,
            name: name.into(),
            started: 1000 + u64::from(pid),
            uid,
            arguments: words.split(' ').map(str::to_owned).collect(),
            sockets: Vec::new(),
        }
    }

    fn tcp(local: &str, remote: &str, inode: u64) -> Tcp {
        Tcp {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            inode,
        }
    }

    /// As it was recorded: one session, connected to.
    fn connected() -> Picture {
        let mut carrier = process(63, 9, "xrdp", 0, "xrdp --nodaemon");
        carrier.sockets = vec![1_033_939, 1_034_691, 1_034_692];
        Picture {
            processes: vec![
                process(8, 1, "xrdp-sesman", 0, "xrdp-sesman --nodaemon"),
                process(9, 1, "xrdp", 0, "xrdp --nodaemon"),
                process(12, 8, "xrdp-sesman", 0, "xrdp-sesman --nodaemon"),
                process(13, 12, "xterm", 1001, "xterm -bg black"),
                process(14, 12, "Xvnc", 1001, "Xvnc :1502 -auth .Xauthority"),
                process(19, 12, "xrdp-chansrv", 1001, "/usr/sbin/xrdp-chansrv"),
                carrier,
            ],
            tcp: vec![
                tcp("[::1]:47380", "[::1]:7402", 1_034_691),
                tcp("[::1]:7402", "[::1]:47380", 1_033_998),
                tcp("127.140.76.21:40431", "127.0.0.1:52978", 1_033_939),
            ],
            unix: vec!["/run/xrdp/sockdir/xrdp_chansrv_socket_1502".into()],
            rdp_port: Some(40431),
            last_connected: HashMap::new(),
        }
    }

    fn only(picture: &Picture) -> Seen {
        let mut sessions = picture.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions.remove(0)
    }

    #[test]
    fn a_session_that_is_connected_to_is_seen_with_user_and_carrier() {
        let seen = only(&connected());
        assert_eq!((seen.display, seen.uid, seen.connected), (1502, 1001, true));
        assert_eq!(
            seen.leader,
            ProcessKey {
                pid: 12,
                started: 1012
            }
        );
        assert_eq!(seen.manager.unwrap().pid, 13);
        let carrier = seen.carrier.unwrap();
        assert_eq!((carrier.process.pid, carrier.alone), (63, true));
        assert_eq!(carrier.from, Some("127.0.0.1:52978".parse().unwrap()));
    }

    #[test]
    fn without_a_connection_it_is_disconnected() {
        let mut picture = connected();
        picture.processes.retain(|process| process.pid != 63);
        picture.tcp.clear();
        let seen = only(&picture);
        assert!(!seen.connected && seen.carrier.is_none());
    }

    #[test]
    fn somebody_else_looking_at_the_vnc_port_is_nobody() {
        let mut picture = connected();
        picture.processes.retain(|process| process.pid != 63);
        assert!(!only(&picture).connected, "the connection is no xrdp's");
    }

    #[test]
    fn an_xorg_session_is_known_by_its_socket_and_the_log_names_its_carrier() {
        let mut picture = connected();
        picture.processes[4] = process(
            14,
            12,
            "Xorg",
            0,
            "/usr/lib/xorg/Xorg :1502 -auth .Xauthority",
        );
        picture.tcp.remove(0);
        assert!(!only(&picture).connected);
        picture
            .unix
            .push("/run/xrdp/sockdir/xrdp_display_1502".into());
        let seen = only(&picture);
        assert_eq!((seen.uid, seen.connected, seen.carrier), (1001, true, None));
        picture
            .last_connected
            .insert(12, "127.0.0.1:52978".parse().unwrap());
        assert_eq!(only(&picture).carrier.unwrap().process.pid, 63);
        // Display 502 is another one than 1502.
        picture.unix = vec!["/run/xrdp/sockdir/xrdp_display_502".into()];
        assert!(!only(&picture).connected);
    }

    #[test]
    fn one_xrdp_for_all_connections_names_no_place_of_origin() {
        let mut picture = connected();
        picture.processes.retain(|process| process.pid != 9);
        let carrier = only(&picture).carrier.unwrap();
        assert_eq!((carrier.alone, carrier.from), (false, None));
    }

    #[test]
    fn what_cannot_be_gone_back_to_is_no_session() {
        let mut orphan = connected();
        orphan.processes[2].parent = 1;
        assert!(orphan.sessions().is_empty(), "its manager is gone");
        let mut starting = connected();
        starting.processes.retain(|process| process.pid != 14);
        assert!(
            starting.sessions().is_empty(),
            "its X server is not there yet"
        );
        let mut newer = connected();
        newer.processes[2].name = "xrdp-sesexec".into();
        newer.processes[2].parent = 1;
        assert_eq!(newer.sessions().len(), 1);
        assert!(newer.is_managed());
        newer
            .processes
            .retain(|process| process.name != "xrdp-sesman");
        assert!(!newer.is_managed());
    }
}
