//! What is said of the process itself.

use std::fs;
use std::hash::{DefaultHasher, Hasher};

use super::Health;
use crate::logging;
use crate::metrics::Page;
use crate::panics;
use crate::placement::Directory;

/// Of a hash so many bits are told: each number of them is its own in a figure.
const HASH_BITS: u32 = 48;

impl Health {
    pub(super) fn tell_process(&self, page: &mut Page) {
        page.gauge(
            "start_time_seconds",
            "When the process started, in seconds since the Unix epoch.",
        )
        .put(&[], self.started.as_millis() as f64 / 1000.0);
        let gauges = [
            (
                "descriptors_max",
                "Most files and sockets the process may have open.",
                self.descriptors.limit(),
            ),
            (
                "descriptors_reserve",
                "Those of them that are kept from connections of Guacamole.",
                self.descriptors.reserve(),
            ),
        ];
        for (name, about, value) in gauges {
            page.gauge(name, about).put(&[], value as f64);
        }
        let mut open = page.gauge("descriptors_open", "Files and sockets that are open.");
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // The look itself takes one.
            open.put(&[], entries.count().saturating_sub(1) as f64);
        }
        let counters = [
            (
                "panics",
                "Tasks that ended by a fault of sessionguard, each a line in the log.",
                panics::count(),
            ),
            (
                "log_lines_lost",
                "Lines missing in the log, since whoever reads it stalled or its disk was full.",
                logging::lost(),
            ),
        ];
        for (name, about, value) in counters {
            page.counter(name, about).count(&[], value);
        }
        page.gauge("build_info", "Which release this is.")
            .put(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    }

    /// Farms, hosts, resources and rules in one number: replicas that place by
    /// the same ones tell the same.
    pub(super) fn tell_hash(&self, page: &mut Page, directory: &Directory) {
        page.gauge(
            "config_hash",
            "A number that stands for farms, hosts, resources and rules in force; the same for the same ones and the same release.",
        )
        .put(&[], hash(directory));
    }
}

fn hash(directory: &Directory) -> f64 {
    let mut hasher = DefaultHasher::new();
    let mut sink = Hashing(&mut hasher);
    // It takes whatever is written.
    let _ = std::fmt::write(&mut sink, format_args!("{directory:?}"));
    (hasher.finish() >> (u64::BITS - HASH_BITS)) as f64
}

/// Text goes in, and nothing of it is kept.
struct Hashing<'a>(&'a mut DefaultHasher);

impl std::fmt::Write for Hashing<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
