//! Everything a peer may put on the wire, and what this crate makes of it.
//!
//! - `grammar`: bytes to instructions and back, one test for each thing that is refused;
//! - `handshake`: the two-sided machine; `held`: what comes behind `connect`;
//! - `attempt`: guacd's output held back, Guacamole's input kept, until a desktop stood;
//! - `parameters`: names of every release, widened and narrowed;
//! - `framing`: the relay's view, and whether a desktop stood; `traces`: recorded guacd;
//! - `properties`: any text, any cut, any bytes; `model`: guacd, as `lenient` reads, agrees;
//! - `printing`: no value is ever printed.
//!
//! Every input that matters is given whole, cut in two at every byte, and byte by byte, and must
//! come out the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests state facts; a panic there is the report"
)]

mod support;

mod attempt;
mod framing;
mod grammar;
mod handshake;
mod held;
mod lenient;
mod model;
mod parameters;
mod printing;
mod properties;
mod traces;
