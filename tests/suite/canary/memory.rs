//! The memory of a process, as whoever reads it would.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};

/// All that a process may write to, piece after piece; `None` where we may not look.
pub(super) fn writable(process: u32) -> Option<Vec<Vec<u8>>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let mut memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let mut found = Vec::new();
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        if !rest.starts_with("rw") || rest.ends_with("[vvar]") {
            continue;
        }
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|end| u64::from_str_radix(end, 16).unwrap());
        memory.seek(SeekFrom::Start(from)).unwrap();
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        // What was unmapped meanwhile cannot be read.
        if memory.read_exact(&mut bytes).is_ok() {
            found.push(bytes);
        }
    }
    Some(found)
}
