//! What only xrdp's logs say: from where a session was last connected to, and
//! what the connecting machine calls itself; pure.

use std::collections::HashMap;
use std::net::SocketAddr;

/// From where each session was last connected to, by the process id of the
/// session, from `sesman.log`. Newer lines rule: process ids come again.
pub(super) fn last_connected(sesman_log: &str) -> HashMap<u32, SocketAddr> {
    let mut found = HashMap::new();
    for line in sesman_log.lines() {
        let started = line.contains("] Starting session: session_pid ");
        if !started && !line.contains("] ++ reconnected session: ") {
            continue;
        }
        let pid = after(line, "session_pid ").and_then(|pid| pid.parse().ok());
        if let (Some(pid), Some(from)) = (pid, after(line, " ip ").and_then(peer)) {
            found.insert(pid, from);
        }
    }
    found
}

/// The text between a marker and the next comma or space.
fn after<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(marker)?;
    rest.split([',', ' ']).next()
}

/// `1.2.3.4:5`; an IPv6 address is written without brackets.
fn peer(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let ip: std::net::IpAddr = ip.trim_matches(['[', ']']).parse().ok()?;
    Some(SocketAddr::new(ip.to_canonical(), port.parse().ok()?))
}

/// What the machine behind a connection calls itself, from `xrdp.log`.
///
/// The line with the name does not say which connection it is of, so it counts
/// only where no other name was told between the connection's first line and
/// its TLS line: two logons in the same instant have no names rather than each
/// other's.
pub(super) fn client_name(xrdp_log: &str, from: SocketAddr) -> Option<String> {
    let place = format!(
        " connection received from {} port {}",
        from.ip(),
        from.port()
    );
    let secured = format!(
        "TLS connection established from {} port {}:",
        from.ip(),
        from.port()
    );
    let lines: Vec<&str> = xrdp_log.lines().collect();
    // A port comes again: the last connection from it is meant.
    let first = lines.iter().rposition(|line| line.ends_with(&place))?;
    let lines = lines.get(first..)?;
    let last = lines.iter().position(|line| line.contains(&secured))?;
    let mut names = lines.get(..last)?.iter().filter_map(|line| {
        let (_, name) = line.split_once("] Connected client computer name: ")?;
        let plain: String = name.chars().filter(|c| !c.is_control()).collect();
        Some(plain.trim().to_owned())
    });
    let name = names.next()?;
    names
        .all(|other| other == name)
        .then_some(name)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/agent/xrdp-0.9.21");
        std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
    }

    #[test]
    fn the_last_connection_of_a_session_is_the_reconnection() {
        let log = recorded("sesman.log");
        let found = last_connected(&log);
        assert_eq!(
            found,
            HashMap::from([(12, "127.0.0.1:52978".parse().unwrap())])
        );
        let (before, _) = log.split_once("++ reconnected").unwrap();
        let found = last_connected(before);
        assert_eq!(
            found,
            HashMap::from([(12, "127.0.0.1:49826".parse().unwrap())])
        );
    }

    #[test]
    fn a_machine_is_named_only_where_no_other_can_be_meant() {
        let log = recorded("xrdp.log");
        let first = "127.0.0.1:49826".parse().unwrap();
        let again = "127.0.0.1:52978".parse().unwrap();
        assert_eq!(client_name(&log, first).as_deref(), Some("Guacamole RDP"));
        assert_eq!(client_name(&log, again).as_deref(), Some("Guacamole RDP"));
        assert_eq!(
            client_name(&log, "127.0.0.1:49816".parse().unwrap()),
            None,
            "a probe"
        );
        assert_eq!(
            client_name(&log, "127.0.0.1:1".parse().unwrap()),
            None,
            "nobody"
        );

        let name = "Connected client computer name: Guacamole RDP";
        let other = log.replace(
            name,
            &format!("{name}\n[x] [INFO ] Connected client computer name: other"),
        );
        assert_eq!(
            client_name(&other, again),
            None,
            "two at once with two names"
        );
        let same = log.replace(name, &format!("{name}\n[x] [INFO ] {name}"));
        assert_eq!(client_name(&same, again).as_deref(), Some("Guacamole RDP"));
    }
}
