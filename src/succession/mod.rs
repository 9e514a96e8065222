//! From one version to the next without harm: a new process takes the listening
//! sockets, and the embedded store's file, from the one that runs, which goes on
//! beside it until its tunnels have ended. All by the admin socket, which only
//! root and the broker's own user can use.
//!
//! ```text
//! new                                    old
//! TakeOver        ------------------->   still accepts
//!                 <-- Offer, sockets --
//! Release         ------------------->   calls of the store wait from here on
//!                 <------- Released ---  (embedded store alone)
//! Ready           ------------------->   accepts no more
//!                 <-------- Stopped ---
//!                       ...
//! (admin socket)  <-- Beside, Call ----  leases of its tunnels, in the new one's store
//!                 --- Told, Ask ------>  whose a connection id is, which tunnels it has
//! ```
//!
//! Connections wait in the queues of the sockets, which both processes have, so
//! none is refused. Where the new one says no more before it said `Ready`, the
//! old one opens its file again and nothing has happened. Afterwards the old one
//! dials the admin socket anew whenever it is lost, whoever serves it then: that
//! is how a third process takes over from the second, and how one that was
//! killed is replaced.

mod beside;
mod channel;
mod give;
mod message;
mod serve;
mod take;

pub use beside::{Beside, Own};
pub use give::{Given, Succession};
pub use take::{TakeError, Taking};
