//! TLS on either leg, and what becomes of certificates while the broker runs.

mod certificates;
mod guacamole;
mod guacd;
mod reload;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, ServerConfig};

use crate::support::tls::{Authority, Identity};
use crate::support::{GuacdPeer, Names, ScriptedGuacd, Site, Stage, Visit, Visitor, eventually};

const NAME: &str = "broker.test";

/// An authority, and a listener's certificate signed by it.
struct Papers {
    authority: Authority,
    own: Identity,
}

impl Papers {
    fn new() -> Self {
        let authority = Authority::new("Test Authority");
        let own = authority.sign(NAME);
        Self { authority, own }
    }

    /// A site whose listener shows the certificate.
    fn listening(&self, site: Site) -> Site {
        self.own.write(site.folder(), "own");
        site.listening("tls_cert_file = \"own.crt\"\ntls_key_file = \"own.key\"")
    }

    /// A Guacamole that trusts it.
    fn client(&self) -> Arc<ClientConfig> {
        self.authority.client(None)
    }
}

fn polite() -> ScriptedGuacd {
    ScriptedGuacd::polite(Names::rdp("1.6.0"))
}

fn secured(server: Arc<ServerConfig>) -> ScriptedGuacd {
    ScriptedGuacd::secured(server, Names::rdp("1.6.0"))
}

/// A click that comes by TLS.
fn click(address: SocketAddr, client: &Arc<ClientConfig>, user: &str) -> Visitor {
    let mut visitor = Visitor::secured(address, client, NAME);
    visitor.click(&Visit::office(user));
    visitor
}

/// The same, up to its desktop.
fn desktop(stage: &Stage, client: &Arc<ClientConfig>, user: &str) -> (Visitor, GuacdPeer) {
    let mut visitor = click(stage.broker.address(), client, user);
    visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    (visitor, peer)
}

/// Bytes pass, both ways.
fn assert_carries(visitor: &mut Visitor, peer: &mut GuacdPeer) {
    peer.stand();
    visitor.hear_past_nops("sync");
    visitor.wire.send(b"3.key,5.65307,1.1;").unwrap();
    assert_eq!(peer.wire.exact(18).unwrap(), b"3.key,5.65307,1.1;");
    peer.wire.send(b"4.blob,1.1,4.AAAA;").unwrap();
    assert_eq!(visitor.wire.exact(18).unwrap(), b"4.blob,1.1,4.AAAA;");
}

/// What `check` says of a site: the exit's success, and all of the text.
fn check(site: &Site, more: &[&str]) -> (bool, String) {
    let config = site.write();
    let output = Site::run(&[&["check"], more].concat(), &config);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), said)
}

fn pinned(fingerprints: &[String]) -> String {
    format!("[guacd]\ntls = true\npin_sha256 = {fingerprints:?}\n")
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// A line of this level that speaks of something.
fn said(stage: &Stage, level: &str, of: &str) -> String {
    eventually(of, || {
        let lines = stage.broker.said();
        let mut lines = lines.iter().filter(|line| line["level"] == level);
        lines
            .find(|line| line.to_string().contains(of))
            .map(ToString::to_string)
    })
}
