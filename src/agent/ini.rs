//! What the agent needs of `xrdp.ini` and `sesman.ini`: where RDP is served
//! and where the logs are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

const RDP_PORT: u16 = 3389;
/// Where xrdp puts a log whose name has no folder.
const LOGS: &str = "/var/log";

/// The value of a key in a section, as written; the last one where it is
/// written more than once, names in any letter case.
pub(super) fn value<'a>(text: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let mut here = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            here = name.trim().eq_ignore_ascii_case(section);
        } else if here
            && !line.starts_with(['#', ';'])
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            found = Some(value.trim());
        }
    }
    found
}

/// Where this host can be asked for RDP over TCP, from `xrdp.ini`'s `port`,
/// the first of several; none where it listens otherwise only.
pub(super) fn rdp_address(xrdp_ini: &str) -> Option<SocketAddr> {
    let port = value(xrdp_ini, "Globals", "port");
    let address = value(xrdp_ini, "Globals", "address").and_then(|a| a.parse::<IpAddr>().ok());
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let Some(port) = port else {
        return Some(SocketAddr::new(address.map_or(here, reached), RDP_PORT));
    };
    port.split([' ', ',']).find_map(|place| {
        if let Ok(port) = place.parse() {
            return Some(SocketAddr::new(address.map_or(here, reached), port));
        }
        let (scheme, place) = place.split_once("://")?;
        let (host, port) = place.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ip = match (scheme, host) {
            ("tcp", "" | ".") => here,
            ("tcp6", "" | ".") => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ("tcp" | "tcp6", host) => reached(host.parse().ok()?),
            _ => return None,
        };
        Some(SocketAddr::new(ip, port.parse().ok()?))
    })
}

/// Whoever listens everywhere is reached here.
fn reached(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Where a log is written.
pub(super) fn log_file(ini: &str, default: &str) -> PathBuf {
    let name = value(ini, "Logging", "LogFile").filter(|name| !name.is_empty());
    Path::new(LOGS).join(name.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_in_every_way_xrdp_writes_it() {
        for (globals, address) in [
            ("", Some("127.0.0.1:3389")),
            ("port=3390", Some("127.0.0.1:3390")),
            ("port=tcp://127.77.1.21:40431", Some("127.77.1.21:40431")),
            ("port=tcp://:3391", Some("127.0.0.1:3391")),
            ("port=tcp6://.:3389", Some("[::1]:3389")),
            ("port=tcp6://{fd00::1}:3389", None),
            (
                "port=unix://./tmp/xrdp-tmp.sock tcp://.:3392",
                Some("127.0.0.1:3392"),
            ),
            ("port=vsock://-1:3389", None),
            ("address=0.0.0.0\nport=3389", Some("127.0.0.1:3389")),
            ("#port=1\n; port=2\n Port = 3 ", Some("127.0.0.1:3")),
        ] {
            let ini = format!("[Globals]\n{globals}\n[Xvnc]\nport=-1\n");
            let expected = address.map(|address| address.parse().unwrap());
            assert_eq!(rdp_address(&ini), expected, "{globals}");
        }
    }

    #[test]
    fn a_log_without_a_folder_is_in_the_usual_one() {
        let ini = "[Logging]\nLogFile=xrdp.log\n";
        assert_eq!(log_file(ini, "x"), Path::new("/var/log/xrdp.log"));
        assert_eq!(
            log_file("", "xrdp-sesman.log"),
            Path::new("/var/log/xrdp-sesman.log")
        );
        assert_eq!(
            log_file("[logging]\nlogfile=/srv/x.log", "x"),
            Path::new("/srv/x.log")
        );
    }
}
