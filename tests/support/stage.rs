//! A whole scene: guacd, hosts, and a broker between them and Guacamole.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Broker, GuacdPeer, Names, ScriptedGuacd, ScriptedHost, Site, Visit, Visitor};

/// A farm `office` with resources, in front of one guacd.
pub(crate) struct Stage {
    pub(crate) guacd: ScriptedGuacd,
    pub(crate) hosts: Vec<ScriptedHost>,
    pub(crate) site: Site,
    pub(crate) broker: Broker,
}

/// What the farm publishes.
const RESOURCES: &str = r#"
[[resources]]
id = "office"
name = "Office Desktop"
kind = "desktop"
farm_id = "office"
guacamole_connection_id = "42"
guacamole_connection_name = "Office Desktop"
hostnames = ["office.example.test"]

[[resources]]
id = "sage"
kind = "remoteapp"
farm_id = "office"
remote_app = "Sage"
remote_app_dir = 'C:\Sage'
remote_app_args = "/quiet"
guacamole_connection_id = "43"
hostnames = ["office.example.test"]
"#;

impl Stage {
    /// One host, guacd 1.6.0.
    pub(crate) fn one() -> Self {
        Self::of(1)
    }

    /// So many hosts, all up, guacd 1.6.0.
    pub(crate) fn of(hosts: usize) -> Self {
        Self::before(ScriptedGuacd::polite(Names::rdp("1.6.0")), hosts)
    }

    /// So many hosts, all up, and the guacd given.
    pub(crate) fn before(guacd: ScriptedGuacd, hosts: usize) -> Self {
        Self::adjusted(guacd, hosts, |site| site)
    }

    /// With a configuration that differs.
    pub(crate) fn adjusted(
        guacd: ScriptedGuacd,
        hosts: usize,
        adjust: impl FnOnce(Site) -> Site,
    ) -> Self {
        let hosts: Vec<_> = (0..hosts).map(|_| ScriptedHost::up()).collect();
        let addresses: Vec<_> = hosts.iter().map(ScriptedHost::address).collect();
        let site = adjust(Self::site(guacd.address(), &addresses));
        let broker = site.start();
        Self {
            guacd,
            hosts,
            site,
            broker,
        }
    }

    /// A site with hosts `rds1`, `rds2`... at these addresses.
    pub(crate) fn site(guacd: SocketAddr, hosts: &[SocketAddr]) -> Site {
        Site::new(guacd).with(Self::farm(hosts, &[]))
    }

    /// The farm's configuration, with modes of some hosts.
    pub(crate) fn farm(hosts: &[SocketAddr], modes: &[(&str, &str)]) -> String {
        let mut text = format!("[[farms]]\nid = \"office\"\n{RESOURCES}");
        for (index, address) in hosts.iter().enumerate() {
            let id = format!("rds{}", index + 1);
            let mode = modes.iter().find(|(host, _)| *host == id);
            let mode = mode.map_or("online", |(_, mode)| mode);
            let (ip, port) = (address.ip(), address.port());
            write!(
                text,
                "[[hosts]]\nid = \"{id}\"\naddress = \"{ip}\"\nport = {port}\n\
                 farm_ids = [\"office\"]\nmode = \"{mode}\"\n"
            )
            .unwrap();
        }
        text
    }

    /// The id of the host that guacd was sent to.
    pub(crate) fn host_of(&self, peer: &GuacdPeer) -> String {
        let port = peer.value("port");
        let at = |host: &ScriptedHost| host.address().port().to_string() == port;
        let index = self.hosts.iter().position(at);
        format!("rds{}", index.expect("one of the hosts") + 1)
    }

    /// A visit that gets its tunnel.
    pub(crate) fn tunnel(&self, visit: &Visit) -> (Visitor, GuacdPeer) {
        let mut visitor = visit.at(&self.broker);
        visitor.ready();
        (visitor, self.guacd.ready())
    }

    /// A visit that gets its desktop. Where the machine is slow both sides are kept awake
    /// meanwhile, which is passed over.
    pub(crate) fn desktop(&self, visit: &Visit) -> (Visitor, GuacdPeer) {
        let (mut visitor, mut peer) = self.tunnel(visit);
        peer.stand();
        visitor.hear_past_nops("sync");
        let mut arrived = visitor.wire.arrived.windows(6);
        if arrived.any(|bytes| bytes == b"3.nop;") {
            // guacd was told at the same time, before its `sync` passed.
            peer.wire.within(Duration::from_millis(50));
        }
        (visitor, peer)
    }

    /// Shows that guacd saw nobody so far but those counted: the next one is seen.
    pub(crate) fn assert_guacd_saw(&self, count: usize) {
        assert_eq!(self.guacd.accepted(), count);
        let (visitor, mut peer) = self.tunnel(&Visit::office("witness"));
        assert_eq!(peer.value("username"), "witness");
        assert_eq!(self.guacd.accepted(), count + 1);
        // Were guacd the first to go, the witness would be tried once more.
        drop(visitor);
        let _ = peer.wire.rest();
    }

    /// The same store and configuration, a new process.
    pub(crate) fn restarted(mut self, stop: impl FnOnce(Broker)) -> Self {
        stop(self.broker);
        self.broker = self.site.start();
        self
    }

    /// A new process, with modes of some hosts.
    pub(crate) fn restarted_with(mut self, modes: &[(&str, &str)]) -> Self {
        let addresses: Vec<_> = self.hosts.iter().map(ScriptedHost::address).collect();
        self.site.change_first(Self::farm(&addresses, modes));
        self.restarted(|broker| {
            broker.signal("TERM");
            assert!(broker.exit().success());
        })
    }

    /// Opens tunnels of others until one is on this host, then closes those elsewhere: every
    /// host that nobody else is on scores higher now.
    pub(crate) fn burden(&self, host: &str) -> (Visitor, GuacdPeer) {
        let mut elsewhere = Vec::new();
        let burden = loop {
            let user = format!("{BYSTANDER}{}", COUNT.fetch_add(1, Ordering::SeqCst));
            let tunnel = self.tunnel(&Visit::office(&user));
            if self.host_of(&tunnel.1) == host {
                break tunnel;
            }
            elsewhere.push((user, tunnel));
            assert!(
                elsewhere.len() <= 4 * self.hosts.len(),
                "nobody comes to {host}"
            );
        };
        for (user, tunnel) in elsewhere {
            drop(tunnel);
            self.broker.ended(&self.broker.placed(&user));
        }
        burden
    }
}

/// What users begin with that only take up room.
pub(crate) const BYSTANDER: &str = "bystander-";

static COUNT: AtomicUsize = AtomicUsize::new(0);
