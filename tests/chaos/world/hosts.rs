//! The hosts: they answer on their RDP port, and know who is logged on.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::interval;

use crate::chaos::history::{History, Host, Moment, User, What};
use crate::chaos::plan::HOSTS;

/// An X.224 connection confirm that selects TLS.
const CONFIRM: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
];

#[derive(Debug)]
pub(super) struct Hosts {
    history: Arc<History>,
    ports: Vec<u16>,
    sessions: Mutex<BTreeMap<(Host, User), Session>>,
}

#[derive(Debug, Clone)]
struct Session {
    began: Moment,
    /// Open tunnels.
    tunnels: u32,
    /// When the last one ended.
    left: Moment,
}

/// A tunnel to a session; the session is left when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    hosts: Arc<Hosts>,
    place: (Host, User),
}

impl Hosts {
    pub(super) async fn start(history: Arc<History>) -> Arc<Self> {
        let mut ports = Vec::new();
        for _ in 0..HOSTS {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            ports.push(listener.local_addr().unwrap().port());
            tokio::spawn(answer(listener));
        }
        let hosts = Arc::new(Self {
            history,
            ports,
            sessions: Mutex::default(),
        });
        let sweeping = Arc::clone(&hosts);
        tokio::spawn(async move {
            let mut tick = interval(Duration::from_millis(500));
            loop {
                tick.tick().await;
                sweeping.log_off();
            }
        });
        hosts
    }

    pub(super) fn port(&self, host: Host) -> u16 {
        self.ports[usize::from(host)]
    }

    /// Which host is at an address.
    pub(super) fn at(&self, name: &str, port: &str) -> Option<Host> {
        let port = port.parse().ok().filter(|_| name == "127.0.0.1");
        let at = self.ports.iter().position(|known| Some(*known) == port)?;
        Host::try_from(at).ok()
    }

    /// A tunnel stands: its user is logged on there, or was and is taken back.
    pub(super) fn log_on(self: &Arc<Self>, host: Host, user: User) -> Seat {
        let place = (host, user);
        let mut sessions = self.sessions.lock().unwrap();
        let session = sessions.entry(place).or_insert_with(|| {
            self.history.note(What::LoggedOn { host, user });
            Session {
                began: Moment::now(),
                tunnels: 0,
                left: Moment::NEVER,
            }
        });
        session.tunnels += 1;
        Seat {
            hosts: Arc::clone(self),
            place,
        }
    }

    /// Whoever left some while ago is logged off; how long that is differs.
    fn log_off(&self) {
        let now = Moment::now();
        let mut sessions = self.sessions.lock().unwrap();
        sessions.retain(|(host, user), session| {
            let patience = Duration::from_secs(2 + u64::from(*user) * 7 % 23);
            let stays = session.tunnels > 0 || session.left.plus(patience) > now;
            if !stays {
                let (host, user) = (*host, *user);
                self.history.note(What::LoggedOff { host, user });
            }
            stays
        });
    }

    /// What its agent would report now.
    pub(super) fn report(&self, host: Host) -> Vec<Value> {
        let sessions = self.sessions.lock().unwrap();
        let there = sessions.range((host, User::MIN)..=(host, User::MAX));
        let there = there.map(|((_, user), session)| {
            let state = match session.tunnels {
                0 => "Disconnected",
                _ => "Active",
            };
            let at = jiff::Timestamp::from_microsecond(session.began.0).unwrap();
            let name = format!("u{user}");
            json!({
                "id": name, "state": state, "user": name, "domain": "",
                "logon_at": at.to_string(), "connect_at": at.to_string(),
            })
        });
        there.collect()
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().unwrap().len()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut sessions = self.hosts.sessions.lock().unwrap();
        if let Some(session) = sessions.get_mut(&self.place) {
            session.tunnels -= 1;
            session.left = Moment::now();
        }
    }
}

/// Answers as RDP does, whoever asks.
async fn answer(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut asked = [0; 19];
            // Whoever asks and leaves is no business of a host's.
            if stream.read_exact(&mut asked).await.is_ok() {
                let _ = stream.write_all(&CONFIRM).await;
                let _ = stream.read(&mut asked).await;
            }
        });
    }
}
