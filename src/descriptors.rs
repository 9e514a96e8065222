//! How many files and sockets this process may have open, and what that leaves
//! for connections of Guacamole.
//!
//! A quarter of them, at most 1,024, is nobody's but the API's,
//! health's, the store's, the log's and the probes': however many users come,
//! the broker can be asked. Of the rest a tunnel takes two, and a connection
//! that is none yet, or is being told no, takes one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// Enough for every caller of the API, and for as many probes.
const LARGEST_RESERVE: usize = 1024;
/// What a start alone needs, and some callers.
const LEAST_RESERVE: usize = 96;
/// Callers of the API at a time, where there are descriptors enough.
const CALLERS: usize = 512;
const FEWEST_CALLERS: usize = 16;
/// Nobody needs more of them; no limit at all counts as this one.
const PLENTY: usize = 1 << 24;

/// The descriptors of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    limit: usize,
}

impl Descriptors {
    /// Takes all that the hard limit allows.
    pub fn raise() -> Self {
        let (soft, hard) = match getrlimit(Resource::RLIMIT_NOFILE) {
            Ok(limits) => limits,
            Err(error) => {
                warn!(%error, "The limit of descriptors cannot be read, the usual one is assumed");
                return Self { limit: 1024 };
            }
        };
        let raised = match soft < hard {
            true => setrlimit(Resource::RLIMIT_NOFILE, hard, hard),
            false => Ok(()),
        };
        let limit = match raised {
            Ok(()) => hard,
            Err(error) => {
                warn!(%error, soft, hard, "The limit of descriptors cannot be raised");
                soft
            }
        };
        Self {
            limit: usize::try_from(limit).unwrap_or(PLENTY).min(PLENTY),
        }
    }

    /// All of them.
    pub fn limit(self) -> usize {
        self.limit
    }

    /// Those kept from Guacamole's connections.
    pub fn reserve(self) -> usize {
        (self.limit / 4).clamp(LEAST_RESERVE, LARGEST_RESERVE)
    }

    /// Most tunnels there is room for, beside half as many connections that are
    /// none.
    pub fn tunnels(self) -> usize {
        (self.shared() / 3).max(1)
    }

    /// Most connections of Guacamole there is room for, tunnels among them.
    pub fn connections(self) -> usize {
        self.shared().saturating_sub(self.tunnels()).max(2)
    }

    /// Most connections to the API.
    pub fn callers(self) -> usize {
        (self.reserve() / 2).clamp(FEWEST_CALLERS, CALLERS)
    }

    fn shared(self) -> usize {
        self.limit.saturating_sub(self.reserve())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_and_connections_leave_the_reserve_alone() {
        for limit in [400, 1024, 4096, 20_000, 65_536, 524_288, PLENTY] {
            let descriptors = Descriptors { limit };
            let taken = descriptors.connections() + descriptors.tunnels();
            assert_eq!(taken + descriptors.reserve(), limit);
            assert!(descriptors.connections() >= 2 * descriptors.tunnels());
            assert!(descriptors.callers() * 2 <= descriptors.reserve());
        }
    }

    #[test]
    fn a_quarter_of_the_usual_limit_are_tunnels() {
        let descriptors = Descriptors { limit: 1024 };
        assert_eq!((descriptors.tunnels(), descriptors.reserve()), (256, 256));
        assert_eq!(
            (descriptors.connections(), descriptors.callers()),
            (512, 128)
        );
    }

    #[test]
    fn somebody_is_served_by_however_few() {
        for limit in [0, 1, 96, 100] {
            let descriptors = Descriptors { limit };
            assert!(descriptors.tunnels() >= 1 && descriptors.connections() >= 2);
            assert_eq!(descriptors.callers(), 48);
        }
    }
}
