//! How long a process has been on a processor.

use std::time::Duration;

/// Reads it off the system.
pub(crate) struct ProcessorClock {
    stat: String,
    tasks: String,
    ticks_a_second: f64,
}

impl ProcessorClock {
    /// Of the process of this id.
    pub(crate) fn of(process: u32) -> Self {
        let asked = std::process::Command::new("getconf")
            .arg("CLK_TCK")
            .output()
            .unwrap();
        let text = String::from_utf8(asked.stdout).unwrap();
        Self {
            stat: format!("/proc/{process}/stat"),
            tasks: format!("/proc/{process}/task"),
            ticks_a_second: text.trim().parse().unwrap(),
        }
    }

    /// User and system time, to a tick.
    pub(crate) fn read(&self) -> Duration {
        let stat = std::fs::read_to_string(&self.stat).unwrap();
        // The name in brackets may hold anything; utime and stime are 14 and 15.
        let (_, behind) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = behind.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        Duration::from_secs_f64(ticks / self.ticks_a_second)
    }

    /// The same to the nanosecond, without threads that have ended: for spans in
    /// which none does.
    pub(crate) fn read_closely(&self) -> Duration {
        let tasks = std::fs::read_dir(&self.tasks).unwrap().map(Result::unwrap);
        let nanos = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            let (nanos, _) = text.split_once(' ')?;
            nanos.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }
}
