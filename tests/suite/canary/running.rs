//! A broker of which every byte is kept that it writes.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Site, eventually};

pub(super) struct Running {
    child: Child,
    /// Standard error, which is its log.
    log: Arc<Mutex<Vec<u8>>>,
    out: Arc<Mutex<Vec<u8>>>,
}

impl Running {
    /// Its temporary files, if it made any, would be in that folder.
    pub(super) fn start(site: &Site, temporary: &Path) -> Self {
        let mut command = site.serving();
        command.env("TMPDIR", temporary);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (err, out) = (child.stderr.take().unwrap(), child.stdout.take().unwrap());
        let running = Self {
            child,
            log: keep(err),
            out: keep(out),
        };
        running.wait("Listening");
        running.wait("API ready");
        running
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn log(&self) -> Vec<u8> {
        self.log.lock().unwrap().clone()
    }

    pub(super) fn out(&self) -> Vec<u8> {
        self.out.lock().unwrap().clone()
    }

    /// Waits until the log speaks of something; the line.
    pub(super) fn wait(&self, what: &str) -> String {
        eventually(what, || {
            let log = String::from_utf8(self.log()).unwrap();
            let whole = log
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let mut lines = whole.filter(|line| line.contains(what));
            lines.next().map(str::to_owned)
        })
    }

    /// How often the log speaks of something.
    pub(super) fn count(&self, what: &str) -> usize {
        String::from_utf8(self.log()).unwrap().matches(what).count()
    }

    /// The address in the line with this message, whichever form the log has.
    pub(super) fn address(&self, message: &str) -> SocketAddr {
        let line = self.wait(message);
        let (_, behind) = line.split_once("address").unwrap();
        let behind = behind.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = behind.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
        behind[..end.unwrap()].parse().unwrap()
    }

    pub(super) fn tell_to_stop(&self) {
        let kill = format!("kill -TERM {}", self.id());
        let told = std::process::Command::new("sh")
            .args(["-c", &kill])
            .status();
        assert!(told.unwrap().success());
    }

    /// Waits for its end, and for all that it wrote.
    pub(super) fn ended(&mut self) {
        let ended = eventually("the broker's end", || self.child.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
        self.wait("Stopped");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep(mut from: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::<Mutex<Vec<u8>>>::default();
    let filled = Arc::clone(&kept);
    thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut some) {
            filled.lock().unwrap().extend_from_slice(&some[..count]);
        }
    });
    kept
}
