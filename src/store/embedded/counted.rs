//! A store on a disk in memory that counts its syncs and can be held up, to see
//! how many claims one commit carries.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::{Embedded, opened_in_memory};

#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    inner: Arc<InMemoryBackend>,
    syncs: Arc<AtomicUsize>,
    waited_for: Arc<AtomicBool>,
    /// Whether it is held up, and the news that it no longer is.
    gate: Arc<(Mutex<bool>, Condvar)>,
    /// How long a sync takes, milliseconds.
    slowness: Arc<AtomicU64>,
}

/// Holds the disk up until it is dropped.
#[derive(Debug)]
pub(crate) struct Held(Disk);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.gate.0.lock().unwrap() = false;
        self.0.gate.1.notify_all();
    }
}

pub(crate) fn store() -> (Embedded, Disk) {
    let disk = Disk::default();
    let backend = disk.clone();
    let journal = Disk {
        inner: Arc::default(),
        ..disk.clone()
    };
    let open = move || opened_in_memory(backend.clone(), journal.clone());
    (Embedded::with(open).unwrap(), disk)
}

impl Disk {
    /// How often data was made to last.
    pub(crate) fn syncs(&self) -> usize {
        self.syncs.load(Ordering::SeqCst)
    }

    /// Nothing is made to last until this is dropped.
    pub(crate) fn hold(&self) -> Held {
        self.waited_for.store(false, Ordering::SeqCst);
        *self.gate.0.lock().unwrap() = true;
        Held(self.clone())
    }

    /// From now on each sync takes so long, as on a disk that turns.
    pub(crate) fn slow_down(&self, milliseconds: u64) {
        self.slowness.store(milliseconds, Ordering::SeqCst);
    }

    /// Whether somebody has begun to wait for the disk since it was held up.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::SeqCst)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.waited_for.store(true, Ordering::SeqCst);
        let held = self.gate.0.lock().unwrap();
        drop(self.gate.1.wait_while(held, |held| *held).unwrap());
        thread::sleep(Duration::from_millis(self.slowness.load(Ordering::SeqCst)));
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.inner.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }
}
