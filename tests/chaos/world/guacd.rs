//! A guacd for hundreds of tunnels, with a port for each replica: what it is told is the truth
//! about who was sent where, and by whom.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use guac_protocol::Instruction;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, sleep};
use uuid::Uuid;

use super::hosts::Hosts;
use super::wire::Wire;
use crate::chaos::history::{Connection, History, Replica, What};
use crate::support::Names;

/// The parameter that carries the number of the visit; it is passed on as it is.
pub(super) const TAG: &str = "recording-name";

/// A desktop that nothing happens on still says so.
const PULSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Guacd {
    history: Arc<History>,
    hosts: Arc<Hosts>,
    names: Vec<String>,
    count: AtomicU32,
}

impl Guacd {
    pub(super) fn new(history: Arc<History>, hosts: Arc<Hosts>) -> Arc<Self> {
        Arc::new(Self {
            history,
            hosts,
            names: Names::rdp("1.6.0").0,
            count: AtomicU32::new(0),
        })
    }

    /// Opens the port of a replica.
    pub(super) async fn listen(self: &Arc<Self>, replica: Replica) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let guacd = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let guacd = Arc::clone(&guacd);
                tokio::spawn(async move {
                    // Whoever leaves in the middle of the handshake was sent nowhere.
                    let _ = guacd.attend(replica, stream).await;
                });
            }
        });
        address
    }

    async fn attend(&self, replica: Replica, stream: TcpStream) -> io::Result<()> {
        let mut wire = Wire::new(stream);
        wire.hear().await?;
        wire.say(&Instruction::new("args", &self.names)).await?;
        let connect = loop {
            let heard = wire.hear().await?;
            if heard.opcode() == "connect" {
                break heard;
            }
        };
        let value = |name: &str| {
            let nth = self.names.iter().position(|known| known == name).unwrap();
            connect.args()[nth].as_str()
        };
        // Somebody else's, a witness's for one.
        let Ok(visit) = value(TAG).parse() else {
            return Ok(());
        };
        let user = value("username")[1..].parse().unwrap();
        let host = self.hosts.at(value("hostname"), value("port"));
        let connection = self.count.fetch_add(1, Ordering::Relaxed);
        self.history.note(What::Sent {
            connection,
            visit,
            replica,
            host,
        });
        let lasted = self.last(&mut wire, connection, (host, user)).await;
        self.history.note(What::Closed { connection });
        lasted
    }

    /// From `connect` to the end.
    async fn last(
        &self,
        wire: &mut Wire,
        connection: Connection,
        (host, user): (Option<u8>, u16),
    ) -> io::Result<()> {
        let id = format!("${}", Uuid::new_v4());
        wire.say(&Instruction::new("ready", [id])).await?;
        // A logon takes its time, and its page may leave meanwhile.
        let logon = Duration::from_millis(20 + u64::from(connection) * 37 % 400);
        tokio::select! {
            () = sleep(logon) => {}
            () = wire.until_the_end() => return Ok(()),
        }
        let _session = host.map(|host| self.hosts.log_on(host, user));
        self.history.note(What::Stood { connection });
        let mut pulse = interval(PULSE);
        loop {
            tokio::select! {
                _ = pulse.tick() => {
                    wire.say(&Instruction::new("sync", ["12345", "1"])).await?;
                }
                () = wire.until_the_end() => return Ok(()),
            }
        }
    }
}
