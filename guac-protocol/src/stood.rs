//! Did the RDP connection behind a tunnel stand?
//!
//! `ready` does not tell: guacd sends it before it connects. Drawing does not tell either: guacd
//! up to 1.5.5 draws its own cursor and an empty display first, and from 1.6.0 on it even ends
//! such a frame with a `sync`. What tells (run against 1.3.0, 1.5.5 and 1.6.0):
//!
//! - a `sync` means connected, except the one of 1.6.0 that stands directly behind a `mouse` with
//!   the same timestamp (a `nop` between them comes from another thread and changes nothing);
//! - `required` means connected: the host has answered and asks for credentials;
//! - so does 128 KiB of output, which is Guacamole's own rule for balancing groups;
//! - `error` or `disconnect` before that mean that it failed.
//!
//! Silence means nothing, and an end of stream while pending is the caller's to judge: it is a
//! failure of unknown cause. Holds for RDP tunnels only, and not for those who join: VNC, SSH and
//! telnet send `sync` without a connection. Called by whoever holds guacd's output back.

use crate::framing::Seen;

/// Output, in bytes, that no connection without a desktop ever gives.
pub(crate) const STOOD_BYTES: usize = 128 * 1024;

/// What is known so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Neither.
    Pending,
    /// The desktop is there.
    Stood,
    /// It never stood.
    Failed {
        /// The number `error` carried, defined or not; `None` for a bare `disconnect`.
        status: Option<u16>,
    },
}

/// Watches guacd's output until it is known. The first verdict is final.
#[derive(Debug)]
pub struct StoodWatch {
    verdict: Verdict,
    /// Timestamp of a `mouse` that came directly before. At most 64 bytes.
    mouse: Option<String>,
    bytes: usize,
}

impl StoodWatch {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            verdict: Verdict::Pending,
            mouse: None,
            bytes: 0,
        }
    }

    /// Looks at the next instruction of guacd, in order.
    pub fn see(&mut self, seen: &Seen<'_>) {
        if self.verdict != Verdict::Pending {
            return;
        }
        let mouse = match seen.opcode() {
            "nop" => return,
            _ => self.mouse.take(),
        };
        match seen.opcode() {
            // x, y, button mask, timestamp.
            "mouse" => self.mouse = seen.arg(3).map(str::to_owned),
            "sync" if mouse.is_some() && mouse.as_deref() == seen.arg(0) => {}
            "sync" | "required" => self.verdict = Verdict::Stood,
            "error" => {
                let status = seen.arg(1).and_then(|code| code.parse().ok());
                self.verdict = Verdict::Failed { status };
            }
            "disconnect" => self.verdict = Verdict::Failed { status: None },
            _ => {}
        }
    }

    /// Counts `n` more bytes of output, whether or not an instruction ended in them.
    pub fn saw_bytes(&mut self, n: usize) {
        self.bytes = self.bytes.saturating_add(n);
        if self.verdict == Verdict::Pending && self.bytes >= STOOD_BYTES {
            self.verdict = Verdict::Stood;
        }
    }

    /// What is known so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl Default for StoodWatch {
    fn default() -> Self {
        Self::new()
    }
}
