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
//! telnet send `sync` without a connection. Called by whoever holds guacd's output back, and by the
//! relay with all that guacd says.

use crate::error::FramingError;
use crate::framing::{Framing, Seen};

/// Output, in bytes, that no connection without a desktop ever gives.
const STOOD_BYTES: usize = 128 * 1024;

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

/// Follows guacd's output from behind its `ready`, and watches it until it is known. The first
/// verdict is final.
#[derive(Debug)]
pub struct StoodWatch {
    framing: Framing,
    signs: Signs,
    bytes: usize,
}

/// What the instructions tell.
#[derive(Debug)]
struct Signs {
    verdict: Verdict,
    /// Timestamp of a `mouse` that came directly before. At most 64 bytes.
    mouse: Option<String>,
}

impl StoodWatch {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            framing: Framing::new(),
            signs: Signs {
                verdict: Verdict::Pending,
                mouse: None,
            },
            bytes: 0,
        }
    }

    /// Reads on, and calls `on` for every instruction that ends within `bytes`, in order. How the
    /// output was cut changes no verdict.
    ///
    /// # Errors
    ///
    /// As for [`Framing::scan`]. From the next call on the amount alone can still tell.
    pub fn see(&mut self, bytes: &[u8], mut on: impl FnMut(&Seen<'_>)) -> Result<(), FramingError> {
        // Most of a tunnel's life: nothing is left to be told.
        if self.signs.verdict != Verdict::Pending {
            return self.framing.scan(bytes, on);
        }
        let (telling, late) = bytes
            .split_at_checked(STOOD_BYTES.saturating_sub(self.bytes))
            .unwrap_or((bytes, &[]));
        let (framing, signs) = (&mut self.framing, &mut self.signs);
        self.bytes += telling.len();
        framing.scan(telling, |seen| {
            signs.see(seen);
            on(seen);
        })?;
        if signs.verdict == Verdict::Pending && self.bytes >= STOOD_BYTES {
            signs.verdict = Verdict::Stood;
        }
        // What comes in the same read as the byte that tells is as late as in the next.
        framing.scan(late, on)
    }

    /// What is known so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.signs.verdict
    }

    /// As [`Framing::at_boundary`].
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.framing.at_boundary()
    }
}

impl Signs {
    fn see(&mut self, seen: &Seen<'_>) {
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
}

impl Default for StoodWatch {
    fn default() -> Self {
        Self::new()
    }
}
