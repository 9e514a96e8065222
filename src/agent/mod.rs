//! The reporter on a Linux session host: who is logged on to xrdp and since
//! when, how loaded and how healthy the host is, told to the broker in time
//! and at once on a change; and, where the host's administrator allowed it,
//! the broker's commands carried out.
//!
//! ```text
//! /proc, xrdp's logs --> host --> sessions --> report --> http --> broker
//!                                    ^                      |
//!                                  memory <--- commands <---+
//! ```
//!
//! A program of its own on another machine than the broker: its file is
//! `agent.toml`, and it reads nothing of the broker's configuration.

mod backoff;
mod carry_out;
mod commands;
mod doing;
mod enroll;
mod figures;
mod health;
mod host;
mod http;
mod ini;
mod key;
mod memory;
mod moment;
mod proc_text;
mod report;
mod run;
mod sessions;
mod settings;
mod trust;
mod wire;
mod xrdp_log;

pub use enroll::{EnrollError, Enrolment, enroll};
pub use http::{HttpError, Server, ServerError};
pub use key::{Key, KeyError};
pub use memory::MemoryError;
pub use run::{Agent, StartError};
pub use settings::{Settings, SettingsError};
pub use trust::{PinError, Trust};
pub use wire::CommandKind;
