//! Keeps what is in this process's memory from everybody who is not root: it leaves no core file
//! when it dies, and no other process of its user may read or trace it.
//!
//! Passwords pass through memory, and keys stay in it. What was freed is wiped by the allocator of
//! the program (`main.rs`), so that of a password nothing is left once its handshake is over.

use nix::errno::Errno;
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};

/// For the rest of this process's life. Programs that it starts may be read again, and leave no
/// core file either.
///
/// # Errors
/// What the system says; nothing is known that would make it refuse.
pub fn keep_memory_private() -> Result<(), Errno> {
    // The limit for whoever writes core files by it, the flag for a `core_pattern` that is a pipe
    // to a program, which no limit stops.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    set_dumpable(false)
}
