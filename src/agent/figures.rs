//! The host's load: processors, memory, disk and how long it runs.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::proc_text::{self, CpuTime};
use super::wire::Figures;

/// Reads the figures; knows the reading before, for what is a rate.
#[derive(Debug)]
pub(super) struct Gauge {
    proc: PathBuf,
    before: Option<CpuTime>,
    percent: Option<f64>,
}

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) total: u64,
    /// For whoever is not root.
    pub(super) free: u64,
}

/// How much room there is. May wait for as long as the file system does.
pub(super) fn space(path: &Path) -> Option<Space> {
    let stat = statvfs(path).ok()?;
    let unit = stat.fragment_size();
    Some(Space {
        total: stat.blocks().saturating_mul(unit),
        free: stat.blocks_available().saturating_mul(unit),
    })
}

impl Gauge {
    pub(super) fn new(proc: &Path) -> Self {
        let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
        Self {
            proc: proc.to_owned(),
            before: proc_text::cpu_time(&stat),
            percent: None,
        }
    }

    pub(super) fn read(&mut self, space: Option<Space>) -> Figures {
        let text = |name: &str| fs::read_to_string(self.proc.join(name)).unwrap_or_default();
        let now = proc_text::cpu_time(&text("stat"));
        let uptime = proc_text::uptime(&text("uptime"));
        let meminfo = text("meminfo");
        let hostname = text("sys/kernel/hostname");
        if let (Some(before), Some(now)) = (self.before, now) {
            // Two reports in one instant share a figure.
            self.percent = proc_text::cpu_percent(before, now).or(self.percent);
        }
        self.before = now;
        let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
        Figures {
            hostname: hostname.trim().to_owned(),
            os: proc_text::os_name(&os).unwrap_or_else(|| "Linux".to_owned()),
            uptime_seconds: uptime.map(|hundredths| hundredths / 100),
            memory_total: proc_text::memory(&meminfo, "MemTotal"),
            memory_available: proc_text::memory(&meminfo, "MemAvailable"),
            cpu_percent: self.percent,
            disk_total: space.map(|space| space.total),
            disk_free: space.map(|space| space.free),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_figures_that_can_be() {
        let mut gauge = Gauge::new(Path::new("/proc"));
        let figures = gauge.read(space(Path::new("/")));
        assert!(
            !figures.hostname.is_empty() && !figures.os.is_empty(),
            "{figures:?}"
        );
        assert!(figures.memory_available.unwrap() <= figures.memory_total.unwrap());
        assert!(figures.disk_free.unwrap() <= figures.disk_total.unwrap());
        assert!(
            figures
                .cpu_percent
                .is_none_or(|percent| (0.0..=100.0).contains(&percent))
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let nowhere = tempfile::tempdir().unwrap();
        let figures = Gauge::new(nowhere.path()).read(space(&nowhere.path().join("gone")));
        let told = serde_json::json!(figures);
        assert_eq!(
            told.as_object().unwrap().len(),
            2,
            "hostname and os alone: {told}"
        );
    }
}
