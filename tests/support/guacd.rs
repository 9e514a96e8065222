//! A guacd that does what a test tells it, and remembers what it heard.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use guac_protocol::Instruction;
use uuid::Uuid;

use super::{DEADLINE, Names, Wire, instruction, tls};

/// The listener.
pub(crate) struct ScriptedGuacd {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    played: Receiver<GuacdPeer>,
}

/// One connection to it.
pub(crate) struct GuacdPeer {
    pub(crate) wire: Wire,
    /// What `select` asked for.
    pub(crate) select: String,
    /// The settings, in order, without `select` and `connect`.
    pub(crate) settings: Vec<Instruction>,
    /// What `connect` answered, by name.
    pub(crate) connect: BTreeMap<String, String>,
    /// What `connect` answered, in order, the version first.
    pub(crate) values: Vec<String>,
    /// The id given in `ready`.
    pub(crate) id: String,
    /// How the script came to its end.
    pub(crate) outcome: io::Result<()>,
}

impl ScriptedGuacd {
    /// Plays a script with each connection, each in its own thread, and hands it over then.
    pub(crate) fn playing(
        play: impl Fn(&mut GuacdPeer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::receiving(Wire::new, play)
    }

    /// Polite, at this address.
    pub(crate) fn at(address: SocketAddr, names: Names) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        Self::behind(listener, Wire::new, move |peer| peer.shake_hands(&names))
    }

    /// Takes connections and questions, and says nothing.
    pub(crate) fn mute() -> Self {
        Self::playing(|peer| peer.wire.rest().map(drop))
    }

    /// Polite, behind TLS.
    pub(crate) fn secured(server: Arc<rustls::ServerConfig>, names: Names) -> Self {
        let receive = move |stream| Wire::over(stream, |under| tls::serve(under, &server));
        Self::receiving(receive, move |peer| peer.shake_hands(&names))
    }

    fn receiving(
        receive: impl Fn(TcpStream) -> Wire + Send + Sync + 'static,
        play: impl Fn(&mut GuacdPeer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self::behind(listener, receive, play)
    }

    fn behind(
        listener: TcpListener,
        receive: impl Fn(TcpStream) -> Wire + Send + Sync + 'static,
        play: impl Fn(&mut GuacdPeer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (hand_over, played) = channel();
        let (count, play) = (Arc::clone(&accepted), Arc::new(play));
        let receive = Arc::new(receive);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let (play, hand_over) = (Arc::clone(&play), hand_over.clone());
                let receive = Arc::clone(&receive);
                thread::spawn(move || {
                    let mut peer = GuacdPeer::new(receive(stream));
                    peer.outcome = play(&mut peer);
                    // A test that is over wants no more.
                    let _ = hand_over.send(peer);
                });
            }
        });
        Self {
            address,
            accepted,
            played,
        }
    }

    /// Goes through the whole handshake, joins included.
    pub(crate) fn polite(names: Names) -> Self {
        Self::playing(move |peer| peer.shake_hands(&names))
    }

    /// Says what was recorded, word for word, then leaves.
    pub(crate) fn replaying(recorded: Vec<u8>) -> Self {
        Self::playing(move |peer| {
            let names = Names(instruction(&recorded).into_args());
            let end = recorded.iter().position(|byte| *byte == b';').unwrap() + 1;
            peer.hear_select()?;
            peer.wire.send(&recorded[..end])?;
            peer.hear_connect(&names)?;
            peer.wire.send(&recorded[end..])
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there were.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The next connection whose script has ended, well or not.
    pub(crate) fn next(&self) -> GuacdPeer {
        self.played
            .recv_timeout(DEADLINE)
            .expect("a connection to guacd")
    }

    /// The next connection, where its script ends within this time.
    pub(crate) fn within(&self, span: Duration) -> Option<GuacdPeer> {
        self.played.recv_timeout(span).ok()
    }

    /// The next connection whose script has ended well. Those that were given up before `connect`
    /// are passed over: a test that lets go of both sides of a tunnel before its desktop stood may
    /// have guacd dialled again for a page that has left.
    pub(crate) fn ready(&self) -> GuacdPeer {
        loop {
            let peer = self.next();
            match &peer.outcome {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
                outcome => {
                    outcome.as_ref().expect("a whole handshake");
                    return peer;
                }
            }
        }
    }
}

impl GuacdPeer {
    fn new(wire: Wire) -> Self {
        Self {
            wire,
            select: String::new(),
            settings: Vec::new(),
            connect: BTreeMap::new(),
            values: Vec::new(),
            id: String::new(),
            outcome: Ok(()),
        }
    }

    pub(crate) fn shake_hands(&mut self, names: &Names) -> io::Result<()> {
        self.hear_select()?;
        self.wire.say(&names.to_instruction())?;
        self.hear_connect(names)?;
        self.say_ready()
    }

    pub(crate) fn hear_select(&mut self) -> io::Result<()> {
        let select = self.next()?;
        if select.opcode() != "select" {
            return Err(ErrorKind::InvalidData.into());
        }
        self.select = select.args()[0].clone();
        Ok(())
    }

    /// Settings and `connect`, whose values must be as many as there are names.
    pub(crate) fn hear_connect(&mut self, names: &Names) -> io::Result<()> {
        loop {
            let heard = self.next()?;
            if heard.opcode() != "connect" {
                self.settings.push(heard);
                continue;
            }
            self.values = heard.into_args();
            if self.values.len() != names.0.len() {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "odd count of values",
                ));
            }
            let pairs = names.0.iter().cloned().zip(self.values.iter().cloned());
            self.connect = pairs.skip(usize::from(names.has_version())).collect();
            return Ok(());
        }
    }

    /// A new id, or for a join the one asked for.
    pub(crate) fn say_ready(&mut self) -> io::Result<()> {
        self.id = match self.select.starts_with('$') {
            true => self.select.clone(),
            false => format!("${}", Uuid::new_v4()),
        };
        let id = self.id.clone();
        self.wire.say(&Instruction::new("ready", [id]))
    }

    /// A desktop appears.
    pub(crate) fn stand(&mut self) {
        self.wire.send(b"4.sync,5.12345,1.1;").unwrap();
    }

    /// A value of `connect`.
    pub(crate) fn value(&self, name: &str) -> &str {
        &self.connect[name]
    }

    fn next(&mut self) -> io::Result<Instruction> {
        self.wire
            .instruction()?
            .ok_or(ErrorKind::UnexpectedEof.into())
    }
}
