//! Reads addresses: of hosts, of guacd, of our own listeners.
//!
//! Refuses what a person might paste instead (a URL, a host with its port) with
//! the correction. Resolves nothing: names are looked up when dialled.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::node::Node;
use super::settings::HostPort;
use super::value_error::ValueError;
use super::values::text;

/// Longest name DNS can carry.
const LONGEST_NAME: usize = 253;

/// A host name or IP address without a port. IP addresses come back in their
/// canonical form, names as written.
pub(super) fn host_address(node: &Node) -> Result<String, ValueError> {
    let text = text(node)?;
    refuse_url(text)?;
    parse_host(text).ok_or_else(|| match split_port(text) {
        Ok((host, port)) => ValueError::PortInAddress {
            text: text.to_owned(),
            host,
            port,
        },
        Err(_) => ValueError::NotAHost {
            text: text.to_owned(),
        },
    })
}

/// A host name or IP address with a port.
pub(super) fn host_port(node: &Node) -> Result<HostPort, ValueError> {
    let text = text(node)?;
    refuse_url(text)?;
    let (host, port) = split_port(text)?;
    if port == 0 {
        return Err(ValueError::NotAPort {
            text: "0".to_owned(),
        });
    }
    Ok(HostPort { host, port })
}

/// Where traces are collected, or `off`: nowhere. Only what was built to send
/// them takes it.
pub(super) fn collector_or_off(node: &Node) -> Result<Option<HostPort>, ValueError> {
    match text(node)? {
        "off" => Ok(None),
        _ if !cfg!(feature = "otel") => Err(ValueError::NoTraces),
        _ => host_port(node).map(Some),
    }
}

/// An IP address with a port to listen on; port 0 lets the system choose.
pub(super) fn listen_address(node: &Node) -> Result<SocketAddr, ValueError> {
    let text = text(node)?;
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    refuse_url(text)?;
    split_port(text)?;
    Err(ValueError::NotAnIp {
        text: text.to_owned(),
    })
}

/// The same, or `off`: nowhere.
pub(super) fn listen_address_or_off(node: &Node) -> Result<Option<SocketAddr>, ValueError> {
    match text(node)? {
        "off" => Ok(None),
        _ => listen_address(node).map(Some),
    }
}

/// A host name or IP address that a connection carries, in the form in which
/// two of them are compared: lower case, no dot at the end.
pub(super) fn hostname_matcher(node: &Node) -> Result<String, ValueError> {
    let host = host_address(node).map_err(|error| match error {
        ValueError::PortInAddress { text, host, .. } => ValueError::PortInHostname { text, host },
        other => other,
    })?;
    let host = host.to_lowercase();
    Ok(host.strip_suffix('.').map_or(host.clone(), str::to_owned))
}

fn refuse_url(text: &str) -> Result<(), ValueError> {
    if text.trim().is_empty() {
        Err(ValueError::Blank)
    } else if text.contains("://") {
        Err(ValueError::Url {
            text: text.to_owned(),
        })
    } else {
        Ok(())
    }
}

/// Splits `host:port`; the host is checked and canonical.
fn split_port(text: &str) -> Result<(String, u16), ValueError> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(ValueError::Unbracketed {
            text: text.to_owned(),
        });
    }
    let no_port = || ValueError::NoPort {
        text: text.to_owned(),
    };
    let not_a_host = || ValueError::NotAHost {
        text: text.to_owned(),
    };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inner, after) = rest.split_once(']').ok_or_else(not_a_host)?;
            let inner: Ipv6Addr = inner.parse().map_err(|_| not_a_host())?;
            let port = after.strip_prefix(':').ok_or_else(|| match after {
                "" => no_port(),
                _ => not_a_host(),
            })?;
            (inner.to_string(), port)
        }
        None => {
            let Some((host, port)) = text.rsplit_once(':') else {
                return Err(parse_host(text).map_or_else(not_a_host, |_| no_port()));
            };
            (parse_host(host).ok_or_else(not_a_host)?, port)
        }
    };
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = digits.then(|| port.parse().ok()).flatten();
    let port = port.ok_or_else(|| ValueError::NotAPort {
        text: text.rsplit(':').next().unwrap_or_default().to_owned(),
    })?;
    Ok((host, port))
}

/// An IP address in canonical form, or a name that DNS could hold. A name of
/// digits and dots alone is a mistyped IPv4 address, not a name.
fn parse_host(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let fits = name.len() <= LONGEST_NAME && name.split('.').all(label);
    let numeric = name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (fits && !numeric).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::node::{At, Located, SourceId, Value};

    fn node(text: &str) -> Node {
        let at = At {
            source: SourceId(0),
            start: 0,
            end: 0,
        };
        Located {
            value: Value::Text(text.to_owned()),
            at,
        }
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        for (written, read) in [
            ("10.0.0.11", "10.0.0.11"),
            ("rds1.example.com", "rds1.example.com"),
            ("RDS_1", "RDS_1"),
            ("rds1.", "rds1."),
            ("2001:DB8:0::1", "2001:db8::1"),
            ("1host", "1host"),
        ] {
            assert_eq!(
                host_address(&node(written)).as_deref(),
                Ok(read),
                "{written}"
            );
        }
    }

    #[test]
    fn what_is_pasted_instead_of_a_host_is_corrected() {
        let refused = |text: &str| host_address(&node(text)).unwrap_err();
        assert_eq!(refused(" "), ValueError::Blank);
        assert!(matches!(refused("rdp://rds1"), ValueError::Url { .. }));
        for (text, host) in [
            ("rds1:3390", "rds1"),
            ("[::1]:3390", "::1"),
            ("10.0.0.1:3390", "10.0.0.1"),
        ] {
            let ValueError::PortInAddress {
                host: read,
                port: 3390,
                ..
            } = refused(text)
            else {
                panic!("{text}: {:?}", refused(text));
            };
            assert_eq!(read, host, "{text}");
        }
        for text in [
            "a b",
            " rds1",
            "10.0.0.256",
            "10.0.0",
            "-a",
            "a..b",
            "büro",
            "a/b",
            "a:b",
            "[::1]",
            "a\0",
        ] {
            assert!(
                matches!(refused(text), ValueError::NotAHost { .. }),
                "{text}"
            );
        }
        assert!(host_address(&node(&"a".repeat(64))).is_err());
    }

    #[test]
    fn guacd_needs_a_port() {
        for (written, read) in [
            ("127.0.0.1:4823", "127.0.0.1:4823"),
            ("guacd:4822", "guacd:4822"),
            ("[::1]:4822", "[::1]:4822"),
        ] {
            assert_eq!(host_port(&node(written)).unwrap().to_string(), read);
        }
        let refused = |text: &str| host_port(&node(text)).unwrap_err();
        assert!(matches!(refused("guacd"), ValueError::NoPort { .. }));
        assert!(matches!(refused("[::1]"), ValueError::NoPort { .. }));
        assert!(matches!(refused("::1"), ValueError::Unbracketed { .. }));
        for text in ["guacd:0", "guacd:", "guacd:65536", "guacd:+1", "[::1]:x"] {
            assert!(
                matches!(refused(text), ValueError::NotAPort { .. }),
                "{text}"
            );
        }
        assert!(matches!(refused("[::1]x:1"), ValueError::NotAHost { .. }));
    }

    #[test]
    fn listeners_take_an_ip_address_and_any_port() {
        assert_eq!(listen_address(&node("0.0.0.0:0")).unwrap().port(), 0);
        assert!(listen_address(&node("[::]:4822")).unwrap().is_ipv6());
        let refused = |text: &str| listen_address(&node(text)).unwrap_err();
        assert!(matches!(
            refused("localhost:4822"),
            ValueError::NotAnIp { .. }
        ));
        assert!(matches!(refused("127.0.0.1"), ValueError::NoPort { .. }));
        assert!(matches!(
            refused("::1:4822"),
            ValueError::Unbracketed { .. }
        ));
    }

    #[test]
    fn host_names_of_connections_are_compared_in_one_form() {
        assert_eq!(
            hostname_matcher(&node("Farm.Example.COM.")).as_deref(),
            Ok("farm.example.com")
        );
    }
}
