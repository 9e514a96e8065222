//! What may stand between Guacamole and guacd: nothing, HAProxy, nginx, and us.
//! Each is started here, on addresses of its own, and ended when it is dropped.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tempfile::TempDir;

use super::ProcessorClock;
use super::support::tls::Identity;
use super::support::{Broker, ScriptedHost, Site, Stage, eventually};

const HAPROXY: &str = "/usr/sbin/haproxy";
const NGINX: &str = "/usr/sbin/nginx";
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Connections of Guacamole that every relay takes at most.
const CONNECTIONS: u64 = 6000;
/// Hosts that users are placed on.
const HOSTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Direct,
    Haproxy,
    Spliced,
    Nginx,
    Ours,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Direct,
        Self::Haproxy,
        Self::Spliced,
        Self::Nginx,
        Self::Ours,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Haproxy => "HAProxy",
            Self::Spliced => "HAProxy, splice",
            Self::Nginx => "nginx stream",
            Self::Ours => "sessionguard",
        }
    }

    /// As it is named on a command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Haproxy => "haproxy",
            Self::Spliced => "splice",
            Self::Nginx => "nginx",
            Self::Ours => "sessionguard",
        }
    }

    /// What is missing to start it.
    pub(crate) fn lacks(self) -> Option<&'static str> {
        let needs: &[&'static str] = match self {
            Self::Direct | Self::Ours => &[],
            Self::Haproxy | Self::Spliced => &[HAPROXY],
            Self::Nginx => &[NGINX, NGINX_STREAM],
        };
        needs.iter().copied().find(|file| !Path::new(file).exists())
    }
}

/// One way to guacd, open.
pub(crate) struct Way {
    pub(crate) kind: Kind,
    pub(crate) plain: SocketAddr,
    /// With TLS; nobody offers it where there is nothing between.
    pub(crate) secured: Option<SocketAddr>,
    running: Running,
}

enum Running {
    Nothing,
    Peer(Peer),
    Ours(Box<Ours>),
}

struct Peer {
    process: Child,
    _folder: TempDir,
}

struct Ours {
    broker: Broker,
    _site: Site,
    _hosts: Vec<ScriptedHost>,
}

impl Way {
    /// To this guacd, showing this certificate where it speaks TLS.
    pub(crate) fn open(kind: Kind, guacd: SocketAddr, identity: &Identity) -> Self {
        match kind {
            Kind::Direct => Self {
                kind,
                plain: guacd,
                secured: None,
                running: Running::Nothing,
            },
            Kind::Haproxy | Kind::Spliced | Kind::Nginx => Self::to_peer(kind, guacd, identity),
            Kind::Ours => Self::to_us(guacd, identity),
        }
    }

    fn to_us(guacd: SocketAddr, identity: &Identity) -> Self {
        let hosts: Vec<_> = (0..HOSTS).map(|_| ScriptedHost::up()).collect();
        let addresses: Vec<_> = hosts.iter().map(ScriptedHost::address).collect();
        let site = Stage::site(guacd, &addresses).with(format!(
            "[broker]\nmax_pending_logons = 1000\nslow_start = \"0s\"\n\
             [limits]\nmax_tunnels = {}\n",
            connections()
        ));
        // As it is installed: apart from the configuration, whose folder is watched.
        let store = site.folder().join("state").join("store.redb");
        let site = site.with(format!("[store]\npath = {store:?}\n"));
        let (certificate, key) = identity.write(site.folder(), "relay");
        let site = site.listening(&format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n\
             tls_cert_file = {certificate:?}\ntls_key_file = {key:?}"
        ));
        let broker = site.start();
        let address = |tls: bool| {
            let line = broker.wait("Listening", |line| line["tls"] == tls);
            line["address"].as_str().unwrap().parse().unwrap()
        };
        broker.wait_for_lines("Host answers RDP", HOSTS);
        Self {
            kind: Kind::Ours,
            plain: address(false),
            secured: Some(address(true)),
            running: Running::Ours(Box::new(Ours {
                broker,
                _site: site,
                _hosts: hosts,
            })),
        }
    }

    fn to_peer(kind: Kind, guacd: SocketAddr, identity: &Identity) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [plain, secured] = free_addresses(kind);
        let pem = folder.path().join("relay.pem");
        fs::write(&pem, [&*identity.certificate, &identity.key].concat()).unwrap();
        let config = folder.path().join("relay.conf");
        let text = match kind {
            Kind::Nginx => nginx(plain, secured, guacd, &pem),
            Kind::Spliced => haproxy(
                plain,
                secured,
                guacd,
                &pem,
                "option splice-request\n    option splice-response",
            ),
            _ => haproxy(plain, secured, guacd, &pem, ""),
        };
        fs::write(&config, text).unwrap();
        let log = fs::File::create(folder.path().join("said")).unwrap();
        // It shall not outlive us, however we end.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]);
        match kind {
            Kind::Nginx => command
                .arg(NGINX)
                .args(["-e", "stderr", "-c"])
                .arg(&config)
                .arg("-p")
                .arg(folder.path()),
            _ => command.args([HAPROXY, "-db", "-f"]).arg(&config),
        };
        let process = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let said = folder.path().join("said");
        let mut peer = Peer {
            process,
            _folder: folder,
        };
        eventually(&format!("{} listens", kind.name()), || {
            if let Some(status) = peer.process.try_wait().unwrap() {
                let said = fs::read_to_string(&said).unwrap();
                panic!("{} ended, {status}: {said}", kind.name());
            }
            TcpStream::connect(plain).ok()
        });
        Self {
            kind,
            plain,
            secured: Some(secured),
            running: Running::Peer(peer),
        }
    }

    /// Its processes; none where there is nothing between.
    fn processes(&self) -> Vec<u32> {
        let first = match &self.running {
            Running::Nothing => return Vec::new(),
            Running::Peer(peer) => peer.process.id(),
            Running::Ours(ours) => ours.broker.id(),
        };
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().map(|id| id.parse().unwrap());
        std::iter::once(first).chain(children).collect()
    }

    /// How long it has been on a processor, in user and system time. One of the two
    /// clocks goes by ticks, the other forgets threads that have ended: neither
    /// tells too much.
    pub(crate) fn processor(&self) -> Option<Duration> {
        let processes = self.processes();
        let all = processes.iter().map(|id| {
            let clock = ProcessorClock::of(*id);
            clock.read().max(clock.read_closely())
        });
        (!processes.is_empty()).then(|| all.sum())
    }

    /// What it has in memory, in KiB; of what processes share each has its part.
    pub(crate) fn memory(&self) -> Option<f64> {
        let processes = self.processes();
        let all = processes.iter().map(|id| proportional_size(*id));
        (!processes.is_empty()).then(|| all.sum())
    }

    /// From now on it runs on these processors alone.
    pub(crate) fn pin(&self, processors: &str) {
        for id in self.processes() {
            pin(id, processors);
        }
    }
}

/// All threads of a process run on these processors alone.
pub(crate) fn pin(process: u32, processors: &str) {
    let mut command = Command::new("taskset");
    command.args(["-acp", processors, &process.to_string()]);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// The processors we may run on, as `taskset` writes them, and the first of them.
pub(crate) fn processors() -> (String, String) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let all = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let all = all.unwrap().trim();
    let first = all.split([',', '-']).next().unwrap();
    (all.to_owned(), first.to_owned())
}

fn proportional_size(process: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let mut lines = rollup.lines();
    let size = lines.find_map(|line| line.strip_prefix("Pss:")).unwrap();
    size.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Two ports on an address that nobody else uses.
fn free_addresses(kind: Kind) -> [SocketAddr; 2] {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 64 + kind as u8, high, low.max(1));
    let listeners = [0; 2].map(|_| TcpListener::bind((IpAddr::V4(address), 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// As many as the limit of open files allows: HAProxy wants two and a half for
/// each where it splices, and does not start without.
fn connections() -> u64 {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    CONNECTIONS.min(hard / 10 * 3)
}

/// As its manual has it for TCP, and `more`.
fn haproxy(
    plain: SocketAddr,
    secured: SocketAddr,
    guacd: SocketAddr,
    pem: &Path,
    more: &str,
) -> String {
    format!(
        "global
    maxconn {connections}
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    {more}
frontend guacamole
    bind {plain}
    bind {secured} ssl crt {pem}
    default_backend guacd
backend guacd
    server guacd {guacd}
",
        connections = connections(),
        pem = pem.display()
    )
}

/// As its manual has it for TCP.
fn nginx(plain: SocketAddr, secured: SocketAddr, guacd: SocketAddr, pem: &Path) -> String {
    format!(
        "load_module {NGINX_STREAM};
daemon off;
pid nginx.pid;
worker_processes auto;
worker_rlimit_nofile {files};
events {{ worker_connections {files}; }}
stream {{
    proxy_timeout 1h;
    server {{ listen {plain}; proxy_pass {guacd}; }}
    server {{
        listen {secured} ssl;
        ssl_certificate {pem};
        ssl_certificate_key {pem};
        proxy_pass {guacd};
    }}
}}
",
        files = 2 * connections(),
        pem = pem.display()
    )
}

impl Drop for Peer {
    fn drop(&mut self) {
        // nginx's master takes its workers along only when it is asked.
        let id = nix::unistd::Pid::from_raw(self.process.id().cast_signed());
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
        let _ = self.process.wait();
    }
}
