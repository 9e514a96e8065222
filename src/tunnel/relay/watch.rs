//! What is read off guacd's stream while it passes: whether the RDP connection
//! stood, whether guacd is saying goodbye, and where an instruction of our own may
//! stand.

use guac_protocol::{Framing, FramingError, Side, StoodWatch, Verdict};
use tracing::warn;

use crate::broker::Hold;
use crate::tunnel::open::Entry;
use crate::tunnel::stop::Stop;

/// What is read off the stream while it passes.
pub(super) struct Watch {
    framing: Framing,
    /// Until that is known. Boxed: most tunnels have stood long since.
    stood_watch: Option<Box<StoodWatch>>,
    hold: Option<Hold>,
    pub(super) stood: bool,
    /// guacd's `error` or `disconnect`: the number of the first `error`.
    pub(super) goodbye: Option<Option<u16>>,
}

impl Watch {
    pub(super) fn new(hold: Option<Hold>) -> Self {
        Self {
            framing: Framing::new(),
            stood_watch: Some(Box::default()),
            hold,
            stood: false,
            goodbye: None,
        }
    }

    /// Looks at what is about to pass. Where the framing is lost that is said
    /// once, and the rest passes unseen.
    pub(super) fn look(&mut self, bytes: &[u8], entry: &Entry) {
        let stood = self.stood;
        if let Err(error) = self.see(bytes) {
            let tunnel = entry.id();
            warn!(%tunnel, %error, "guacd's stream cannot be followed, relaying it blind");
        }
        if self.stood && !stood {
            entry.stood();
        }
    }

    fn see(&mut self, bytes: &[u8]) -> Result<(), FramingError> {
        let (stood_watch, goodbye) = (&mut self.stood_watch, &mut self.goodbye);
        let scanned = self.framing.scan(bytes, |seen| {
            if let Some(watch) = stood_watch {
                watch.see(seen);
            }
            match seen.opcode() {
                "error" if goodbye.is_none() => {
                    *goodbye = Some(seen.arg(1).and_then(|code| code.parse().ok()));
                }
                "disconnect" if goodbye.is_none() => *goodbye = Some(None),
                _ => {}
            }
        });
        if let Some(watch) = &mut self.stood_watch {
            watch.saw_bytes(bytes.len());
            if watch.verdict() == Verdict::Stood {
                self.stood_watch = None;
                self.stood = self.hold.is_some();
                if let Some(hold) = &self.hold {
                    hold.stood();
                }
            }
        }
        scanned
    }

    /// Whether a brokered connection that never stood ended just so: the page
    /// must then hear from us.
    pub(super) fn failed_without_a_word(&self) -> bool {
        self.hold.is_some() && !self.stood && self.goodbye.is_none() && self.may_speak()
    }

    /// The RDP connection never stood, by what may be its host's fault.
    pub(super) fn failed(&self) {
        if let Some(hold) = &self.hold {
            hold.failed();
        }
    }

    /// Whether an instruction of our own may stand here.
    pub(super) fn may_speak(&self) -> bool {
        self.framing.at_boundary()
    }

    /// guacd's own goodbye says more than the end of its stream.
    pub(super) fn ended(&self, otherwise: Stop) -> Stop {
        match self.goodbye {
            Some(status) => Stop::Goodbye {
                by: Side::Guacd,
                status,
            },
            None => otherwise,
        }
    }
}
