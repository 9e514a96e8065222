//! The Guacamole protocol, for one who stands between Guacamole and guacd.
//!
//! # Grammar
//!
//! ```text
//! 6.select,3.rdp;
//! | |      |
//! | |      `- an argument, again with its length
//! | `- the opcode
//! `- its length, in Unicode scalar values
//! ```
//!
//! UTF-8, the opcode first, `,` between elements, `;` behind the last, nothing between
//! instructions. The [`decoder`] accepts a strict subset of what guacd and Guacamole accept: only
//! what both read the same way.
//!
//! # Limits
//!
//! | what | at most | why |
//! |---|---|---|
//! | elements of an instruction | 127, opcode included | guacd takes 128 only if the last is not split |
//! | characters of an element | 8,192 | guacd 1.3.0 to 1.6.0 |
//! | an instruction for guacd | 32,768 bytes | guacd 1.3.0 to 1.6.0 |
//! | an instruction for Guacamole | 7,999 characters | Guacamole after 1.6.0 holds 8,192 |
//! | a handshake, from either side | 65,536 bytes | memory of a peer that is not known yet |
//! | kept behind `connect` | 65,536 bytes | the same |
//!
//! # The handshake
//!
//! ```text
//! Guacamole                    this crate                         guacd
//!     |-- select ----------------> Selected  - - - - - - select ---->|
//!     |                                                              |
//!     |<-- args (widened) - - - -  Args  <------------------- args --|
//!     |                            widen                             |
//!     |-- size, audio, video ----> Forward - - - - - size, audio ... |
//!     |   image, timezone, name                                      |
//!     |-- connect ---------------> Connect - - - connect (narrowed)->|
//!     |   (anything: held)                                           |
//!     |<-- ready - - - - - - - - - Ready <------------------- ready --|
//!     |                            into_rest                         |
//!     |<=============== bytes, relayed as they are =================>|
//! ```
//!
//! Solid arrows are fed in, dashed ones are the caller's to write. `error` or `disconnect` in the
//! place of any of them is [`Event::Ended`].
//!
//! # What this crate refuses to do
//!
//! - It reads and writes nothing, knows no time and draws no random numbers.
//! - It never hands on handshake bytes as they came: what guacd reads is encoded anew.
//! - It never prints a value: no `Debug`, no `Display` and no error shows an argument's text.
//! - It never guesses: a stream that broke the grammar is over ([`Framing`] alone is lenient,
//!   since it only watches).
//! - It knows nothing about users, hosts or rights.

#![forbid(unsafe_code)]

// In walking order: what is said, how it is read, by whom, about what, in which order, and then
// what is watched. (Blank lines keep rustfmt from sorting them.)
pub mod instruction;

pub mod decoder;

pub mod foreign;

pub mod status;

pub mod parameters;

mod inbox;

pub mod held;

pub mod event;

pub mod handshake;

pub mod framing;

pub mod stood;

pub mod attempt;

pub mod error;

pub mod shown;

pub use attempt::{Attempt, Progress};
pub use decoder::{Decoded, Decoder, Limits};
pub use error::{DecodeError, EncodeError, FramingError, HandshakeError, WidenError};
pub use event::{Event, Phase, Rest, Select, Step};
pub use foreign::{Foreign, recognise};
pub use framing::{Framing, Seen};
pub use handshake::Handshake;
pub use held::{Held, Said};
pub use instruction::{Instruction, Side};
pub use parameters::{ConnectionId, ParameterNames, Parameters};
pub use shown::{ByteClass, Expected, Word};
pub use status::Status;
pub use stood::{StoodWatch, Verdict};
