//! A stand-in guacd: a handshake, a desktop, and from there on its side of the
//! tunnel is whose user it is.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use guac_protocol::{Instruction, Side};
use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::heard::Heard;
use super::payload;
use crate::support::Names;

/// Dials may come faster than they are taken.
const BACKLOG: i32 = 4096;

/// Who waits for the tunnel of which user.
type Awaited = Mutex<HashMap<String, oneshot::Sender<TcpStream>>>;

pub(super) struct Guacd {
    address: SocketAddr,
    awaited: Arc<Awaited>,
}

impl Guacd {
    pub(super) async fn listen() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket
            .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .unwrap();
        socket.listen(BACKLOG).unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(socket.into()).unwrap();
        let address = listener.local_addr().unwrap();
        let awaited = Arc::<Awaited>::default();
        let names = Names::rdp("1.6.0");
        let role = Arc::new(Role {
            args: names.to_instruction().encode(Side::Guacamole).unwrap(),
            user_at: names.0.iter().position(|name| name == "username").unwrap(),
            awaited: Arc::clone(&awaited),
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let role = Arc::clone(&role);
                // Who looks whether anybody listens leaves in the middle.
                tokio::spawn(async move { role.play(stream).await });
            }
        });
        Self { address, awaited }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// This user's tunnel, once it is here.
    pub(super) fn awaits(&self, user: &str) -> oneshot::Receiver<TcpStream> {
        let (hand_over, arrives) = oneshot::channel();
        let mut awaited = self.awaited.lock().unwrap();
        awaited.insert(user.to_owned(), hand_over);
        arrives
    }
}

struct Role {
    args: Vec<u8>,
    /// Where among the values of `connect` the user stands.
    user_at: usize,
    awaited: Arc<Awaited>,
}

impl Role {
    async fn play(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut heard = Heard::default();
        heard.expect("select", &mut stream).await?;
        stream.write_all(&self.args).await?;
        let values = loop {
            let next = heard.next(&mut stream).await?;
            if next.opcode() == "connect" {
                break next.into_args();
            }
        };
        let id = format!("${}", Uuid::new_v4());
        let ready = Instruction::new("ready", [id]);
        let ready = ready.encode(Side::Guacamole).unwrap();
        stream.write_all(&ready).await?;
        stream.write_all(payload::SYNC).await?;
        let user = values.get(self.user_at).ok_or(ErrorKind::InvalidData)?;
        let awaited = self.awaited.lock().unwrap().remove(user);
        // Whoever gave up waiting wants it no more.
        awaited.map(|hand_over| hand_over.send(stream));
        Ok(())
    }
}
