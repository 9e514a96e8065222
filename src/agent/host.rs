//! Takes the picture of the host: processes, sockets, xrdp's settings and the
//! ends of its logs. What vanishes while it is looked at is not there.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::sessions::{Picture, Process, Seen, matters};
use super::{ini, proc_text, xrdp_log};

/// How far back in a log is looked: some thousand lines.
const LOG_TAIL: u64 = 512 * 1024;

/// Where to look.
#[derive(Debug, Clone)]
pub(super) struct Host {
    proc: PathBuf,
    xrdp_log: PathBuf,
    sesman_log: PathBuf,
    /// Where RDP is served, by xrdp's own settings.
    pub(super) rdp: Option<SocketAddr>,
    /// Seconds since 1970 at the start of the system.
    boot_time: u64,
    pub(super) boot_id: String,
    names: Names,
}

/// The names of users that were asked for: a directory service is not asked
/// every second.
#[derive(Debug, Clone, Default)]
struct Names(HashMap<u32, Name>);

/// Who somebody is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) user: String,
    pub(super) domain: Option<String>,
}

impl Host {
    /// Reads xrdp's settings.
    ///
    /// # Errors
    /// The kernel's view of the system cannot be read.
    pub(super) fn new(proc: &Path, xrdp_ini: &str, sesman_ini: &str) -> io::Result<Self> {
        let stat = fs::read_to_string(proc.join("stat"))?;
        let boot_id = fs::read_to_string(proc.join("sys/kernel/random/boot_id"))?;
        Ok(Self {
            proc: proc.to_owned(),
            xrdp_log: ini::log_file(xrdp_ini, "xrdp.log"),
            sesman_log: ini::log_file(sesman_ini, "xrdp-sesman.log"),
            rdp: ini::rdp_address(xrdp_ini),
            boot_time: proc_text::boot_time(&stat).unwrap_or_default(),
            boot_id: boot_id.trim().to_owned(),
            names: Names::default(),
        })
    }

    /// The host now.
    ///
    /// # Errors
    /// Processes cannot be listed.
    pub(super) fn look(&self) -> io::Result<Picture> {
        let mut stats = HashMap::new();
        for entry in fs::read_dir(&self.proc)? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let stat = self.text(pid, "stat").as_deref().and_then(proc_text::stat);
            if let Some(stat) = stat.filter(|stat| !stat.ended) {
                stats.insert(pid, stat);
            }
        }
        let of_interest = |stat: &proc_text::Stat| {
            let parent = stats.get(&stat.parent);
            matters(&stat.name) || parent.is_some_and(|parent| matters(&parent.name))
        };
        let found = stats.iter().filter(|(_, stat)| of_interest(stat));
        let processes: Vec<_> = found
            .filter_map(|(pid, stat)| self.process(*pid, stat))
            .collect();
        let table =
            |name: &str| fs::read_to_string(self.proc.join("net").join(name)).unwrap_or_default();
        let mut tcp = proc_text::established(&table("tcp"));
        tcp.extend(proc_text::established(&table("tcp6")));
        let unix = proc_text::connected_paths(&table("unix"));
        // Only Xorg needs the log, and the log is long.
        let by_socket = unix.iter().any(|path| path.contains("/xrdp_display_"));
        let last_connected = if by_socket {
            xrdp_log::last_connected(&tail(&self.sesman_log))
        } else {
            HashMap::new()
        };
        Ok(Picture {
            processes,
            tcp,
            unix,
            rdp_port: self.rdp.map(|address| address.port()),
            last_connected,
        })
    }

    fn process(&self, pid: u32, stat: &proc_text::Stat) -> Option<Process> {
        let folder = self.proc.join(pid.to_string());
        Some(Process {
            pid,
            parent: stat.parent,
            name: stat.name.clone(),
            started: stat.started,
            uid: proc_text::uid(&self.text(pid, "status")?)?,
            arguments: proc_text::arguments(&fs::read(folder.join("cmdline")).ok()?),
            sockets: if stat.name == "xrdp" {
                sockets(&folder.join("fd"))
            } else {
                Vec::new()
            },
        })
    }

    fn text(&self, pid: u32, file: &str) -> Option<String> {
        let bytes = fs::read(self.proc.join(pid.to_string()).join(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What the machine behind a session calls itself, where xrdp's log says so.
    pub(super) fn client_name(&self, session: &Seen) -> Option<String> {
        let from = session.carrier?.from?;
        xrdp_log::client_name(&tail(&self.xrdp_log), from)
    }

    /// Milliseconds since 1970 of a number of ticks after the start.
    pub(super) fn millis(&self, ticks: u64) -> u64 {
        self.boot_time
            .saturating_mul(1000)
            .saturating_add(ticks.saturating_mul(1000) / proc_text::TICKS)
    }

    /// Hundredths of a second since the start of the system.
    pub(super) fn uptime(&self) -> u64 {
        let text = fs::read_to_string(self.proc.join("uptime")).unwrap_or_default();
        proc_text::uptime(&text).unwrap_or_default()
    }

    /// Who a user id is; asked once, unless nobody could say.
    pub(super) fn name(&mut self, uid: u32) -> Option<Name> {
        if let Some(name) = self.names.0.get(&uid) {
            return Some(name.clone());
        }
        let user = nix::unistd::User::from_uid(uid.into()).ok()??;
        let name = split(&user.name);
        self.names.0.insert(uid, name.clone());
        Some(name)
    }
}

/// Directory services write `DOMAIN\user` or `user@domain`.
fn split(name: &str) -> Name {
    let (user, domain) = match (name.split_once('\\'), name.rsplit_once('@')) {
        (Some((domain, user)), _) => (user, Some(domain)),
        (None, Some((user, domain))) => (user, Some(domain)),
        (None, None) => (name, None),
    };
    Name {
        user: user.to_owned(),
        domain: domain
            .filter(|domain| !domain.is_empty())
            .map(str::to_owned),
    }
}

fn sockets(folder: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let inodes = links.filter_map(|link| {
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    });
    inodes.collect()
}

/// The end of a log, or nothing.
fn tail(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_as_directory_services_write_it() {
        let parts = |name| {
            let name = split(name);
            (name.user, name.domain)
        };
        assert_eq!(parts("ann"), ("ann".into(), None));
        assert_eq!(parts("CORP\\ann"), ("ann".into(), Some("CORP".into())));
        assert_eq!(
            parts("ann@corp.example"),
            ("ann".into(), Some("corp.example".into()))
        );
    }

    #[test]
    fn this_machine_can_be_looked_at_and_has_users() {
        let mut host = Host::new(Path::new("/proc"), "", "").unwrap();
        assert_eq!(host.boot_id.len(), 36);
        assert!(host.uptime() > 0);
        assert!(host.millis(0) > 1_500_000_000_000);
        host.look().unwrap();
        assert_eq!(host.name(0).unwrap().user, "root");
        assert_eq!(host.name(4_000_000_001), None);
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, format!("first\n{}\nlast\n", "x".repeat(600 * 1024))).unwrap();
        let end = tail(&path);
        assert!(end.ends_with("\nlast\n") && !end.contains("first"));
        assert_eq!(tail(&folder.path().join("gone")), "");
    }
}
