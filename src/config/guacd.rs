//! Where guacd is: one, or several that new tunnels are spread over; and where
//! other replicas reach us for a seat in a tunnel of ours.
//!
//! Reads `[guacd]` and the key `advertise` of `[[listen]]`, and judges them once
//! all files are read.

use std::time::Duration;

use super::draft::Gathered;
use super::network::{host_address, host_port};
use super::node::{At, Located, Node};
use super::problem::Problem;
use super::reader::{Reader, put};
use super::report::Report;
use super::settings::HostPort;
use super::shape::Shape;
use super::store::StoreKind;
use super::tls::{self, GuacdTls};
use super::value_error::ValueError;

/// Most addresses in the list.
const MOST: usize = 64;

/// Several guacd, any of which serves any new tunnel. The one pool there is;
/// whoever wants another for some of the hosts makes a second of this type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuacdPool {
    /// Where they are; each name may have several addresses, each a guacd of
    /// its own.
    // INVARIANT: at least one, no address twice, one connect_timeout.
    pub members: Vec<Guacd>,
}

/// One of them, or several behind one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guacd {
    /// Name or IP address, and port. Looked up at every dial.
    pub address: HostPort,
    /// Time for the whole dial, all that are tried together, TLS included.
    pub connect_timeout: Duration,
    /// How it proves who it is; `None` where it speaks plain text.
    pub tls: Option<GuacdTls>,
}

impl Default for GuacdPool {
    fn default() -> Self {
        Guacd::default().into()
    }
}

impl From<Guacd> for GuacdPool {
    fn from(only: Guacd) -> Self {
        Self {
            members: vec![only],
        }
    }
}

impl GuacdPool {
    /// Time for the whole dial of one of them.
    pub fn connect_timeout(&self) -> Duration {
        let first = self.members.first();
        first.map_or_else(|| Guacd::default().connect_timeout, |it| it.connect_timeout)
    }
}

impl Default for Guacd {
    fn default() -> Self {
        Self {
            address: HostPort {
                host: "127.0.0.1".to_owned(),
                port: 4823,
            },
            connect_timeout: Duration::from_secs(3),
            tls: None,
        }
    }
}

/// Where other replicas reach a listener of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// Name or IP address, without brackets.
    pub host: String,
    /// The listener's own port if left out.
    pub port: Option<u16>,
}

/// What is found of `[guacd]`.
#[derive(Debug, Default)]
pub(super) struct GuacdDraft {
    addresses: Option<Located<Vec<HostPort>>>,
    connect_timeout: Option<Duration>,
}

pub(super) fn read(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Guacd, node, report) else {
        return;
    };
    let draft = &mut into.guacd;
    let addresses = match table.is_list("address") {
        true => table.list("address", host_port).map(|list| Located {
            at: list.at,
            value: list.value.into_iter().map(|item| item.value).collect(),
        }),
        false => table.read("address", |node| Ok(vec![host_port(node)?])),
    };
    if let Some(empty) = addresses.as_ref().filter(|it| it.value.is_empty()) {
        table.refuse("address", empty.at, ValueError::EmptyList);
    }
    draft.addresses = addresses.or(draft.addresses.take());
    put(
        &mut draft.connect_timeout,
        table.time("connect_timeout").map(Located::some),
    );
    tls::read_peer(&mut table, &mut into.guacd_tls);
}

/// Puts together what was found; what it is known by comes behind.
pub(super) fn conclude(gathered: &mut Gathered, report: &mut Report) {
    let draft = std::mem::take(&mut gathered.guacd);
    let fallback = Guacd::default();
    let connect_timeout = draft.connect_timeout.unwrap_or(fallback.connect_timeout);
    if let Some(list) = draft.addresses.as_ref().filter(|it| it.value.len() > MOST) {
        let (most, count) = (MOST, list.value.len());
        report.fault(list.at, Problem::TooManyGuacd { most, count });
    }
    let addresses = draft.addresses.map(|list| list.value);
    let addresses = addresses.filter(|list| !list.is_empty());
    let addresses = addresses.unwrap_or_else(|| vec![fallback.address]);
    let members = addresses.into_iter().map(|address| Guacd {
        address,
        connect_timeout,
        tls: None,
    });
    gathered.config.guacd = GuacdPool {
        members: members.collect(),
    };
}

/// A name or IP address, with a port or without.
pub(super) fn advertised(node: &Node) -> Result<Advertised, ValueError> {
    let read = match host_address(node) {
        Ok(host) => Advertised { host, port: None },
        Err(ValueError::PortInAddress { .. }) => {
            let HostPort { host, port } = host_port(node)?;
            Advertised {
                host,
                port: Some(port),
            }
        }
        Err(error) => return Err(error),
    };
    let ip: Option<std::net::IpAddr> = read.host.parse().ok();
    match ip.filter(|ip| ip.to_canonical().is_unspecified()) {
        Some(_) => Err(ValueError::NotDialled { text: read.host }),
        None => Ok(read),
    }
}

/// Other replicas, where there are any, dial one listener and show it no
/// certificate.
pub(super) fn judge_advertised(gathered: &Gathered, report: &mut Report) {
    if gathered.config.store.kind != StoreKind::Postgres {
        return;
    }
    let mut first: Option<At> = None;
    for draft in &gathered.listen {
        let Some(at) = draft.advertise_at else {
            continue;
        };
        if first.replace(at).is_some() {
            report.fault(at, Problem::TwoAdvertised);
        }
        let tls = draft.listen.tls.as_ref();
        if tls.is_some_and(|tls| tls.client_ca_file.is_some()) {
            report.fault(at, Problem::AdvertisedWithClientCertificates);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, load_text};

    fn load(text: &str) -> Result<Config, String> {
        let loaded = load_text("main.toml", text);
        loaded
            .map(|loaded| loaded.config)
            .map_err(|faults| faults.to_string())
    }

    fn addresses(config: &Config) -> Vec<String> {
        let members = config.guacd.members.iter();
        members.map(|guacd| guacd.address.to_string()).collect()
    }

    #[test]
    fn one_address_or_a_list() {
        let config = load("[guacd]\naddress = \"guacd:4822\"\n").unwrap();
        assert_eq!(addresses(&config), ["guacd:4822"]);
        assert_eq!(addresses(&Config::default()), ["127.0.0.1:4823"]);
        let list = "[guacd]\naddress = [\"guacd-1:4822\", \"[::1]:4823\"]\n";
        let config = load(list).unwrap();
        assert_eq!(addresses(&config), ["guacd-1:4822", "[::1]:4823"]);
        let said = load("[guacd]\naddress = []\n").unwrap_err();
        assert!(said.contains("empty list"), "{said}");
        let said = load("[guacd]\naddress = [\"a:1\", \"a:1\"]\n").unwrap_err();
        assert!(said.contains("listed twice"), "{said}");
        let many: Vec<_> = (0..=MOST).map(|nth| format!("\"g{nth}:1\"")).collect();
        let said = load(&format!("[guacd]\naddress = [{}]\n", many.join(","))).unwrap_err();
        assert!(said.contains("at most 64"), "{said}");
    }

    #[test]
    fn none_of_them_is_us_and_each_is_known_by_its_own_name() {
        let us = "[guacd]\naddress = [\"guacd:4822\", \"127.0.0.1:4822\"]\n";
        let said = load(us).unwrap_err();
        assert!(
            said.contains("127.0.0.1:4822 is one we listen on"),
            "{said}"
        );
        let tls = "[guacd]\naddress = [\"a:1\", \"b:1\"]\ntls = true\nca_file = \"ca.pem\"\n";
        let names = |config: &Config| {
            let members = config.guacd.members.iter();
            let tls = members.map(|guacd| guacd.tls.as_ref().unwrap().server_name.clone());
            tls.collect::<Vec<_>>()
        };
        assert_eq!(names(&load(tls).unwrap()), ["a", "b"]);
        let named = load(&format!("{tls}tls_server_name = \"guacd\"\n")).unwrap();
        assert_eq!(names(&named), ["guacd", "guacd"]);
    }

    fn listener(lines: &str) -> String {
        format!("[[listen]]\naddress = \"0.0.0.0:4822\"\n{lines}\n")
    }

    #[test]
    fn what_is_advertised_can_be_dialled_by_others() {
        let read = |text: &str| {
            let config = load(&listener(&format!("advertise = \"{text}\"")))?;
            Ok::<_, String>(config.listen[0].advertise.clone().unwrap())
        };
        for (text, host, port) in [
            ("10.1.2.3", "10.1.2.3", None),
            ("10.1.2.3:4900", "10.1.2.3", Some(4900)),
            ("fd00::7", "fd00::7", None),
            ("[fd00::7]:4900", "fd00::7", Some(4900)),
            ("guard-0.guard", "guard-0.guard", None),
        ] {
            let host = host.to_owned();
            assert_eq!(read(text), Ok(Advertised { host, port }), "{text}");
        }
        for (text, said) in [
            ("0.0.0.0", "nobody can dial"),
            ("[::]:4822", "nobody can dial"),
            ("tcp://a:1", "URL"),
            ("a:0", "not a port"),
            (" ", "blank"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn one_listener_is_advertised_and_asks_for_no_certificate() {
        let shared = "[store]\nkind = \"postgres\"\n";
        let two = shared.to_owned()
            + &listener("advertise = \"a\"")
            + "[[listen]]\naddress = \"127.0.0.1:4900\"\nadvertise = \"b\"\n";
        let said = load(&two).unwrap_err();
        assert!(said.contains("one listener only"), "{said}");
        let strict = "advertise = \"a\"\ntls_cert_file = \"c\"\ntls_key_file = \"k\"\n\
                      tls_client_ca_file = \"ca\"";
        let said = load(&format!("{shared}{}", listener(strict))).unwrap_err();
        assert!(said.contains("tls_client_ca_file"), "{said}");
    }
}
