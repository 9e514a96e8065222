//! TLS on both legs and to the database: what we show to Guacamole, how guacd
//! and the database are known.
//!
//! The only room that touches rustls. Certificates come from files that the
//! configuration names and are looked at again and again while we run; a new one
//! that cannot be used leaves the old in place, is said once and stands in the
//! [`Certificates`].
//!
//! ```text
//! Guacamole -- TCP --> Acceptor::accept --> Stream --+
//!                                                    tunnel
//!     guacd <-- TCP -- Connector::connect <- Stream -+
//!  database <-- TCP -- Connector::connect <- Stream ---- store
//!
//! files --> Live (server or guacd side) --> Certificates --> status, metrics
//! ```
//!
//! It resumes no sessions: each handshake looks at the certificates anew.

mod acceptor;
mod certificate;
mod certificates;
mod connector;
mod fault;
mod inspect;
mod live;
mod peek;
mod pem;
mod stream;
#[cfg(test)]
mod tests;
mod verifier;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

pub use acceptor::{AcceptError, Acceptor};
pub use certificates::{Certificates, Standing};
pub use connector::{ConnectError, Connector};
pub use fault::Fault;
pub use inspect::{Inspection, inspect};
pub use peek::{Opening, opening};
pub use stream::Stream;
pub use verifier::Refused;

/// The one set of algorithms: nothing here goes by what a process has installed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
