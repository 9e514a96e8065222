//! A name server that says what a test tells it, as slowly as it is told.
//!
//! Names are asked for at port 53 of the address in `/etc/resolv.conf`: only root may listen
//! there, and give a process a file of its own in a mount namespace.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The head of a message, behind which the question stands.
const HEAD: usize = 12;

/// Names that may change, each with addresses and the time it takes to say so.
pub(crate) struct Dns {
    address: Ipv4Addr,
    zone: Arc<Mutex<Zone>>,
}

#[derive(Default)]
struct Zone {
    names: BTreeMap<String, (Vec<Ipv4Addr>, Duration)>,
    asked: BTreeMap<String, usize>,
}

impl Dns {
    /// `None`: it takes root, and a kernel that lets root have mount namespaces.
    pub(crate) fn start() -> Option<Self> {
        let may = std::process::Command::new("unshare")
            .args(["--mount", "true"])
            .stderr(std::process::Stdio::null())
            .status();
        may.ok().filter(std::process::ExitStatus::success)?;
        // Suites that run beside each other have addresses of their own.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let (high, low) = (high % 254 + 1, low % 254 + 1);
        let free = (53..=99).map(|second| Ipv4Addr::new(127, second, high, low));
        let (socket, address) = free
            .filter_map(|address| Some((UdpSocket::bind((address, 53)).ok()?, address)))
            .next()?;
        let zone = Arc::<Mutex<Zone>>::default();
        let known = Arc::clone(&zone);
        let socket = Arc::new(socket);
        thread::spawn(move || serve(&socket, &known));
        Some(Self { address, zone })
    }

    /// From now on the name has this address, and it takes so long to be told.
    pub(crate) fn says(&self, name: &str, address: Ipv4Addr, after: Duration) {
        self.says_all(name, &[address], after);
    }

    /// From now on the name has these addresses.
    pub(crate) fn says_all(&self, name: &str, addresses: &[Ipv4Addr], after: Duration) {
        let mut zone = self.zone.lock().unwrap();
        zone.names
            .insert(name.to_owned(), (addresses.to_vec(), after));
    }

    /// How often somebody asked for it.
    pub(crate) fn asked(&self, name: &str) -> usize {
        let zone = self.zone.lock().unwrap();
        zone.asked.get(name).copied().unwrap_or_default()
    }

    /// What makes a process ask here, and nobody else.
    pub(crate) fn resolv_conf(&self, folder: &Path) -> PathBuf {
        let file = folder.join("resolv.conf");
        let text = format!(
            "nameserver {}\noptions timeout:30 attempts:1\n",
            self.address
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

fn serve(socket: &Arc<UdpSocket>, zone: &Arc<Mutex<Zone>>) {
    let mut question = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut question) {
        let question = question[..length].to_vec();
        let Some((name, kind)) = read(&question) else {
            continue;
        };
        let mut known = zone.lock().unwrap();
        *known.asked.entry(name.clone()).or_default() += usize::from(kind == 1);
        let found = known.names.get(&name).cloned();
        drop(known);
        let socket = Arc::clone(socket);
        thread::spawn(move || {
            let after = found.as_ref().map_or(Duration::ZERO, |(_, after)| *after);
            thread::sleep(after);
            let addresses = found.map(|(addresses, _)| addresses);
            // Who gave up does not hear it.
            let _ = socket.send_to(&answer(&question, kind, addresses), from);
        });
    }
}

/// The name and the kind of address that a message asks for.
fn read(message: &[u8]) -> Option<(String, u16)> {
    let mut at = HEAD;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*message.get(at)?);
        let label = message.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(label).to_lowercase());
    }
    let kind = message.get(at..at + 2)?;
    Some((labels.join("."), u16::from_be_bytes([kind[0], kind[1]])))
}

/// Addresses to who asked for some of this kind, no address of another kind, and that there is
/// no such name.
fn answer(question: &[u8], kind: u16, addresses: Option<Vec<Ipv4Addr>>) -> Vec<u8> {
    let end = HEAD + question[HEAD..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let no_such_name = if addresses.is_none() { 3 } else { 0 };
    let found = addresses.filter(|_| kind == 1).unwrap_or_default();
    let mut said = question[..end].to_vec();
    // An answer, recursion available, one question, as many answers, nothing else.
    said[2..HEAD].copy_from_slice(&[
        0x81,
        0x80 | no_such_name,
        0,
        1,
        0,
        found.len().try_into().unwrap(),
        0,
        0,
        0,
        0,
    ]);
    for address in found {
        // The name in the question; of the internet; to be forgotten at once.
        said.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        said.extend(address.octets());
    }
    said
}
