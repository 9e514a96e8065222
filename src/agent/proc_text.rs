//! What the kernel writes in `/proc`, read; pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ticks a second in every figure the kernel gives to programs, on every
/// architecture Linux runs xrdp on.
pub(super) const TICKS: u64 = 100;

/// What a process's `stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    /// At most 15 bytes of the program's name.
    pub(super) name: String,
    pub(super) parent: u32,
    /// Ticks after the start of the system.
    pub(super) started: u64,
    /// It has ended and its parent has not asked yet.
    pub(super) ended: bool,
}

/// Reads `/proc/PID/stat`. The name may hold anything, so it is what stands
/// between the first and the last parenthesis.
pub(super) fn stat(text: &str) -> Option<Stat> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // The start is the 22nd field; the parent was the 4th.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat {
        name: name.to_owned(),
        parent,
        started,
        ended: matches!(state, "Z" | "X"),
    })
}

/// The user a process acts as, from `/proc/PID/status`.
pub(super) fn uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The words of a command line, from `/proc/PID/cmdline`.
pub(super) fn arguments(cmdline: &[u8]) -> Vec<String> {
    let words = cmdline.split(|byte| *byte == 0);
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<_> = words.collect();
    if words.last().is_some_and(String::is_empty) {
        words.pop();
    }
    words
}

/// One TCP connection that is established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// What a process's descriptor links to.
    pub(super) inode: u64,
}

/// The established connections of `/proc/net/tcp` or `tcp6`.
pub(super) fn established(table: &str) -> Vec<Tcp> {
    table.lines().skip(1).filter_map(connection).collect()
}

fn connection(line: &str) -> Option<Tcp> {
    const ESTABLISHED: &str = "01";
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (fields.next()?, fields.next()?);
    if fields.next()? != ESTABLISHED {
        return None;
    }
    Some(Tcp {
        local: address(local)?,
        remote: address(remote)?,
        inode: fields.nth(5)?.parse().ok()?,
    })
}

/// An address as the kernel prints it: words of 32 bits in the byte order of
/// the machine. IPv4 inside IPv6 becomes IPv4.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for word in ip.as_bytes().chunks(8) {
        let word = std::str::from_utf8(word)
            .ok()
            .filter(|word| word.len() == 8)?;
        bytes.extend(u32::from_str_radix(word, 16).ok()?.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => IpAddr::V4(Ipv4Addr::from(four)),
        Err(_) => {
            let sixteen = <[u8; 16]>::try_from(bytes.as_slice()).ok()?;
            IpAddr::V6(Ipv6Addr::from(sixteen)).to_canonical()
        }
    };
    Some(SocketAddr::new(ip, port))
}

/// The paths of Unix sockets somebody is connected to, from `/proc/net/unix`.
pub(super) fn connected_paths(table: &str) -> Vec<String> {
    const CONNECTED: &str = "03";
    let lines = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(5);
        let state = fields.next()?;
        let path = fields.nth(1)?;
        (state == CONNECTED).then(|| path.to_owned())
    });
    lines.collect()
}

/// Time all processors spent, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTime {
    pub(super) busy: u64,
    pub(super) total: u64,
}

/// Reads the first line of `/proc/stat`. Waiting for a disk is not being busy;
/// time a guest took is part of the user's already.
pub(super) fn cpu_time(stat: &str) -> Option<CpuTime> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times = line.split_ascii_whitespace().take(8).map(str::parse::<u64>);
    let times: Vec<u64> = times.collect::<Result<_, _>>().ok()?;
    let total: u64 = times.iter().sum();
    let idle = times.get(3)? + times.get(4).copied().unwrap_or_default();
    Some(CpuTime {
        busy: total.saturating_sub(idle),
        total,
    })
}

/// 0 to 100, between two readings; none where no time lies between them.
pub(super) fn cpu_percent(before: CpuTime, now: CpuTime) -> Option<f64> {
    let total = now.total.checked_sub(before.total).filter(|t| *t > 0)?;
    let busy = now.busy.saturating_sub(before.busy).min(total);
    let per_mille = u32::try_from(busy.saturating_mul(1000) / total).ok()?;
    Some(f64::from(per_mille) / 10.0)
}

/// Bytes, from a line of `/proc/meminfo`.
pub(super) fn memory(meminfo: &str, name: &str) -> Option<u64> {
    let lines = meminfo.lines();
    let line = lines
        .filter_map(|line| line.strip_prefix(name))
        .find_map(|rest| rest.strip_prefix(':'))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Hundredths of a second since the start of the system, from `/proc/uptime`.
pub(super) fn uptime(text: &str) -> Option<u64> {
    let (seconds, hundredths) = text.split_ascii_whitespace().next()?.split_once('.')?;
    let hundredths: u64 = hundredths.get(..2)?.parse().ok()?;
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(100)?
        .checked_add(hundredths)
}

/// Seconds since 1970 at the start of the system, from `/proc/stat`.
pub(super) fn boot_time(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// What the system calls itself, from `/etc/os-release`.
pub(super) fn os_name(os_release: &str) -> Option<String> {
    let line = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/agent/xrdp-0.9.21");
        std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let leader = stat(&recorded("leader.stat")).unwrap();
        assert_eq!(
            leader,
            Stat {
                name: "xrdp-sesman".into(),
                parent: 8,
                started: 1_160_023,
                ended: false
            }
        );
        let odd = recorded("leader.stat").replace("(xrdp-sesman) S", "(a) b (c) Z");
        let odd = stat(&odd).unwrap();
        assert_eq!(
            (odd.name.as_str(), odd.ended, odd.parent),
            ("a) b (c", true, 8)
        );
        for broken in ["", "12", "12 (x", "12 (x) S 8"] {
            assert_eq!(stat(broken), None);
        }
    }

    #[test]
    fn users_and_command_lines_are_read() {
        assert_eq!(
            uid("Name:\tXvnc\nUid:\t0\t1001\t0\t0\nGid:\t1\n"),
            Some(1001)
        );
        assert_eq!(uid("Name:\tx\n"), None);
        assert_eq!(
            arguments(b"Xvnc\0:1502\0-auth\0\0"),
            ["Xvnc", ":1502", "-auth", ""]
        );
        assert!(arguments(b"").is_empty());
    }

    #[test]
    fn established_connections_are_found_in_either_table() {
        let six = established(&recorded("tcp6"));
        let to_xvnc: Vec<_> = six.iter().filter(|tcp| tcp.remote.port() == 7402).collect();
        assert_eq!(to_xvnc.len(), 1);
        assert_eq!(to_xvnc[0].inode, 1_034_691);
        assert_eq!(to_xvnc[0].local, "[::1]:47380".parse().unwrap());
        let four = established(&recorded("tcp"));
        let rdp = four.iter().find(|tcp| tcp.local.port() == 40431).unwrap();
        assert_eq!(rdp.local, "127.140.76.21:40431".parse().unwrap());
        assert_eq!(rdp.remote, "127.0.0.1:52978".parse().unwrap());
        assert_eq!(rdp.inode, 1_033_939);
        // Listening sockets and ended connections are in the tables too.
        assert!(recorded("tcp").lines().count() > four.len() + 1);
    }

    #[test]
    fn ipv4_inside_ipv6_is_ipv4() {
        let mapped = address("0000000000000000FFFF00000100007F:B23A").unwrap();
        assert_eq!(mapped, "127.0.0.1:45626".parse().unwrap());
        for broken in ["", "7F:1", "0100007F", "0100007F:XYZ", "01€0007F:1F90"] {
            assert_eq!(address(broken), None, "{broken}");
        }
    }

    #[test]
    fn only_sockets_with_somebody_at_the_other_end_count() {
        let paths = connected_paths(&recorded("unix"));
        assert!(paths.contains(&"/run/xrdp/sockdir/xrdp_chansrv_socket_1502".to_owned()));
        assert!(
            !paths.iter().any(|path| path.ends_with("xrdpapi_1502")),
            "that one listens"
        );
    }

    #[test]
    fn load_is_what_lies_between_two_readings() {
        let before = cpu_time("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(
            before,
            CpuTime {
                busy: 150,
                total: 1000
            }
        );
        let now = CpuTime {
            busy: 400,
            total: 2000,
        };
        assert_eq!(cpu_percent(before, now), Some(25.0));
        assert_eq!(cpu_percent(now, now), None, "no time has passed");
        assert_eq!(cpu_percent(now, before), None, "the counters were set back");
        assert_eq!(cpu_time("cpu  1 2 x 4\n"), None);
    }

    #[test]
    fn figures_of_the_system_are_read() {
        let meminfo = "MemTotal:       24689108 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(memory(meminfo, "MemTotal"), Some(24_689_108 * 1024));
        assert_eq!(memory(meminfo, "MemAvailable"), Some(20_000_000 * 1024));
        assert_eq!(memory(meminfo, "Mem"), None);
        assert_eq!(uptime("11717.52 7271.63\n"), Some(1_171_752));
        assert_eq!(boot_time("cpu 1\nbtime 1796013320\n"), Some(1_796_013_320));
        assert_eq!(
            os_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").as_deref(),
            Some("Debian GNU/Linux 12")
        );
    }
}
