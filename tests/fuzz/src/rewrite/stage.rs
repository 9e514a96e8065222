//! The real gateway between a scripted guacd, a scripted Guacamole and a host
//! that answers its probe, all within one thread.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use guac_protocol::{Decoder, Instruction, Limits};
use sessionguard::broker::Broker;
use sessionguard::clock::Clock;
use sessionguard::config::{Config, Guacd, HostPort, InForce, Listen};
use sessionguard::fleet::{Checks, Fleet, Prober};
use sessionguard::placement::{
    Directory, Farm, FarmOverrides, Host, Mode, ParameterValues, Resource, Rules, Timestamp,
};
use sessionguard::shutdown::Shutdown;
use sessionguard::store::Embedded;
use sessionguard::tunnel::{self, Door, Gateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::super::stream::{cut, written};
use super::case::Case;
use super::expect::HOST;

/// An X.224 connection confirm that selects TLS.
const CONFIRM: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
];

/// For one case; a machine under load may need it.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Stage {
    runtime: Runtime,
    fleet: Arc<Fleet>,
    guacd: TcpListener,
    host: SocketAddr,
    gateway: SocketAddr,
    tunnels: TaskTracker,
    /// INVARIANT: lives as long as the store in it.
    _folder: tempfile::TempDir,
}

/// What either side was sent.
pub(super) struct Heard {
    pub(super) guacamole: Vec<u8>,
    pub(super) guacd: Vec<u8>,
    connect_at_guacd: bool,
}

impl Heard {
    pub(super) fn connect_at_guacd(&self) -> bool {
        self.connect_at_guacd
    }
}

impl Stage {
    pub(super) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(Self::set())
            .map(|set| set(runtime))
            .unwrap()
    }

    async fn set() -> io::Result<impl FnOnce(Runtime) -> Self> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        let (guacd, rdp) = (TcpListener::bind(any).await?, TcpListener::bind(any).await?);
        let listener = TcpListener::bind(any).await?;
        let (host, gateway) = (rdp.local_addr()?, listener.local_addr()?);
        let directory = Arc::new(directory(host, &Case::read(&[])));
        let config = Config {
            guacd: Guacd {
                address: HostPort {
                    host: HOST.to_owned(),
                    port: guacd.local_addr()?.port(),
                },
                ..Guacd::default()
            }
            .into(),
            directory: Arc::clone(&directory),
            ..Config::default()
        };
        let config = InForce::new(Arc::new(config)).current();
        let clock = Clock::start();
        let fleet = Fleet::new(directory);
        let folder = in_memory();
        let store = Embedded::open(&folder.path().join("store.redb"));
        let store = Arc::new(store.map_err(io::Error::other)?);
        let opened = Broker::open(Arc::clone(&fleet), store, clock).await;
        let (broker, keeper) = opened.map_err(io::Error::other)?;
        tokio::spawn(keeper.run());
        probed(&fleet, rdp, config.clone(), clock).await;
        let shutdown = Shutdown::default();
        let accepting = Arc::new(Gateway::new(
            broker,
            config,
            Arc::default(),
            &shutdown,
            clock,
        ));
        let tunnels = TaskTracker::new();
        let door = Door {
            listener,
            settings: Listen::default(),
            tls: None,
            joins_only: false,
        };
        tokio::spawn(tunnel::accept(
            accepting,
            door,
            tunnels.clone(),
            shutdown.stop,
        ));
        Ok(move |runtime| Self {
            runtime,
            fleet,
            guacd,
            host,
            gateway,
            tunnels,
            _folder: folder,
        })
    }

    pub(super) fn play(&self, case: &Case) -> Heard {
        let directory = directory(self.host, case);
        // No mode changes, so that no host turns usable by it.
        self.fleet.apply(Arc::new(directory), Timestamp::default());
        self.runtime.block_on(async {
            let guacd = attend(&self.guacd, case);
            let visit = visit(self.gateway, case);
            let all = async {
                let (guacd, guacamole) = tokio::join!(guacd, visit);
                // Nothing of this case may be left when the next one begins.
                self.tunnels.close();
                self.tunnels.wait().await;
                self.tunnels.reopen();
                (guacd, guacamole)
            };
            let (guacd, guacamole) = timeout(PATIENCE, all).await.expect("it ends");
            let (guacd, connect_at_guacd) = guacd.unwrap();
            Heard {
                guacamole: guacamole.unwrap(),
                guacd,
                connect_at_guacd,
            }
        })
    }
}

/// Claims are durable, which a disk makes slow; nothing here needs one.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Lets the broker's own prober find the host, once. It answers from then on.
async fn probed(
    fleet: &Arc<Fleet>,
    rdp: TcpListener,
    config: sessionguard::config::Current,
    clock: Clock,
) {
    let prober = Prober {
        checks: Checks::new(Arc::clone(fleet), config.clone(), clock, Arc::default()),
        config,
    };
    // It is asked again before guacd is sent there.
    let answer = tokio::spawn(async move {
        loop {
            let (mut asking, _) = rdp.accept().await.unwrap();
            let _ = asking.read(&mut [0; 64]).await;
            let _ = asking.write_all(&CONFIRM).await;
        }
    });
    tokio::select! {
        _ = answer => {}
        () = prober.run() => {}
        () = fleet.probed() => {}
    }
}

fn directory(address: SocketAddr, case: &Case) -> Directory {
    let host = Host {
        id: "h".into(),
        address: address.ip().to_string(),
        port: address.port(),
        farm_ids: vec!["f".into()],
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues(case.of_host.clone()),
    };
    let farm = Farm {
        id: "f".into(),
        name: "Farm".to_owned(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    };
    let resource = Resource {
        id: "desk".into(),
        name: "Desk".to_owned(),
        kind: case.kind.clone(),
        farm_id: Some("f".into()),
        enabled: true,
        guacamole_connection_id: None,
        guacamole_connection_name: None,
        source: None,
        hostnames: vec!["desk.example.test".to_owned()],
        load_balance_info: None,
        attempt_deadline: None,
        keep_parameters: case.keep.clone(),
        parameters: ParameterValues(case.of_resource.clone()),
    };
    let rules = Rules {
        max_pending_logons: u32::MAX,
        slow_start: Duration::ZERO,
        lease: Duration::ZERO,
        ..Rules::default()
    };
    Directory::new(rules, [host], [farm], [resource])
}

/// guacd: announces the case's names, hears the answer, says `ready` and is
/// gone. Returns what it heard, and whether `connect` was in it.
async fn attend(guacd: &TcpListener, case: &Case) -> io::Result<(Vec<u8>, bool)> {
    let (socket, _) = guacd.accept().await?;
    let mut peer = Peer::new(socket);
    let mut is_connected = false;
    while let Some(instruction) = peer.next().await? {
        match instruction.opcode() {
            "select" => {
                let args = [&["args"], &case.announced()[..]].concat();
                peer.socket.write_all(&written(&args)).await?;
            }
            "connect" => {
                is_connected = true;
                let ready = ["ready", "$01234567-89ab-cdef-0123-456789abcdef"];
                peer.socket.write_all(&written(&ready)).await?;
                break;
            }
            _ => {}
        }
    }
    Ok((peer.heard, is_connected))
}

/// Guacamole: answers whatever it is shown. Returns all it heard.
async fn visit(gateway: SocketAddr, case: &Case) -> io::Result<Vec<u8>> {
    let mut peer = Peer::new(TcpStream::connect(gateway).await?);
    peer.socket.write_all(&written(&["select", "rdp"])).await?;
    while let Some(instruction) = peer.next().await? {
        if instruction.opcode() == "args" {
            let speech = case.speech(instruction.args());
            for part in cut(&speech, &[case.cut]) {
                peer.socket.write_all(part).await?;
                // So that the other side reads it by itself.
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(peer.heard)
}

struct Peer {
    socket: TcpStream,
    decoder: Decoder,
    heard: Vec<u8>,
    /// How much of `heard` was understood.
    understood: usize,
}

impl Peer {
    fn new(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            decoder: Decoder::new(Limits::HANDSHAKE),
            heard: Vec::new(),
            understood: 0,
        }
    }

    /// The next instruction; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Instruction>> {
        loop {
            let decoded = self.decoder.decode(&self.heard[self.understood..]);
            let decoded = decoded.expect("the broker writes strictly");
            self.understood += decoded.consumed;
            if decoded.instruction.is_some() {
                return Ok(decoded.instruction);
            }
            if self.socket.read_buf(&mut self.heard).await? == 0 {
                return Ok(None);
            }
        }
    }
}
