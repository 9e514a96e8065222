//! From what an agent says to the live picture, to disk, and back at the next
//! start.
//!
//! ```text
//! heartbeat -> boots (is it news?) -> last -> broker.hear -> picture, leases
//!                                      | ^
//!                                      v | at the start
//!                                     keeping <-> store
//! ```
//!
//! Where replicas share the store each hears what the others wrote to it, and
//! whichever heartbeat is the newest counts for all of them.
//!
//! Whose heartbeat it is, the caller knows by the key; what it says is read
//! already. A heartbeat that is no news changes nothing. One of a host that is
//! not configured is kept for people, and for the day the host is; nobody is
//! placed by it.

mod boots;
mod elsewhere;
mod intake;
mod keeping;
mod last;
mod made;

pub use intake::{Heard, Intake, Said, Unmatched};
pub use keeping::Keeping;
