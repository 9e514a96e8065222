//! Who is let in over TCP: so many connections and requests of an address, so
//! many requests of a key, and nobody without one.
//!
//! A key that is not accepted gets one answer, whatever is wrong with it. An
//! address from which many such come is answered 429 instead: its good keys are
//! accepted all the same, or one misconfigured program behind a proxy would
//! lock out everybody there. Guessing gains nothing by that: a key holds 256
//! random bits, a configured one at least 32 characters.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use tracing::warn;

use super::answer::Failure;
use super::caller::Caller;
use super::rates::{Allowance, Rate};
use crate::keys::{KeyId, Keyring};

/// What the gate lets through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Open connections of one address.
    pub(super) connections: u32,
    /// Requests of one address. Everybody behind one proxy shares it.
    pub(super) address: Allowance,
    /// Requests with one key.
    pub(super) key: Allowance,
    /// Requests of one address without an accepted key.
    pub(super) failures: Allowance,
}

impl Default for Limits {
    fn default() -> Self {
        let allowance = |at_once, pause| Allowance {
            at_once: NonZeroU32::new(at_once).unwrap_or(NonZeroU32::MIN),
            pause: Duration::from_millis(pause),
        };
        Self {
            connections: 128,
            address: allowance(400, 5),
            key: allowance(200, 10),
            failures: allowance(10, 6000),
        }
    }
}

/// The one path that needs no key.
const ENROLL: &str = "/api/v1/agents/enroll";

/// How often an address is said to send no accepted key.
const SAYING: Duration = Duration::from_secs(60);
/// Addresses that this is remembered of.
const SAID: usize = 4096;

/// The gate; one for each listener.
pub(super) struct Gate {
    keys: Keyring,
    limits: Limits,
    /// One entry for each address with an open connection: as many as places.
    open: Mutex<HashMap<IpAddr, u32>>,
    addresses: Rate<IpAddr>,
    by_key: Rate<KeyId>,
    failures: Rate<IpAddr>,
    said: Mutex<HashMap<IpAddr, Said>>,
}

/// What was said of an address.
struct Said {
    at: Instant,
    /// Attempts since.
    since: u64,
}

/// One open connection, counted until it is dropped.
pub(super) struct Guest {
    gate: Arc<Gate>,
    address: IpAddr,
}

impl Gate {
    pub(super) fn new(keys: Keyring, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            keys,
            open: Mutex::default(),
            addresses: Rate::of(limits.address),
            by_key: Rate::of(limits.key),
            failures: Rate::of(limits.failures),
            said: Mutex::default(),
            limits,
        })
    }

    /// A connection from this address; `None` where it has too many open.
    pub(super) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Guest> {
        let address = one_place(from);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.limits.connections {
            return None;
        }
        *count += 1;
        Some(Guest {
            gate: Arc::clone(self),
            address,
        })
    }

    /// A request for what is there for everybody, key or not.
    pub(super) fn pass(&self, from: IpAddr) -> Result<(), Failure> {
        self.addresses
            .take(&one_place(from))
            .map_err(Failure::too_many)
    }

    /// Who sends this request to that path, by its key. Whoever enrolls has none
    /// yet; the token in the body is guessed at no faster than a key.
    pub(super) fn admit(
        &self,
        from: IpAddr,
        path: &str,
        head: &HeaderMap,
    ) -> Result<Caller, Failure> {
        let from = one_place(from);
        self.addresses.take(&from).map_err(Failure::too_many)?;
        if path == ENROLL {
            self.failures.take(&from).map_err(Failure::too_many)?;
            return Ok(Caller::enrolling());
        }
        // A request without a key takes as long as one with a wrong one.
        let verified = self.keys.verify(presented(head).unwrap_or_default());
        let caller = verified.ok().map(|identity| {
            let key = identity.key.clone();
            (key, Caller::of(identity))
        });
        match caller.filter(|(_, caller)| !caller.roles.is_empty()) {
            Some((key, caller)) => {
                self.by_key.take(&key).map_err(Failure::too_many)?;
                Ok(caller)
            }
            None => {
                self.say(from, Instant::now());
                self.failures.take(&from).map_err(Failure::too_many)?;
                Err(Failure::unauthorized())
            }
        }
    }

    /// Says that somebody has no accepted key: once in a while, and never what
    /// was sent.
    fn say(&self, from: IpAddr, now: Instant) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= SAID {
            said.retain(|_, said| now.duration_since(said.at) < SAYING);
        }
        let room = said.len() < SAID;
        let attempts = match said.get_mut(&from) {
            Some(known) if now.duration_since(known.at) < SAYING => {
                known.since += 1;
                return;
            }
            Some(known) => known.since + 1,
            None if room => 1,
            None => return,
        };
        said.insert(from, Said { at: now, since: 0 });
        warn!(address = %from, attempts, "Requests without an accepted key are turned away");
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut open = self
            .gate
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// What stands in the header, where there is exactly one that can be read.
fn presented(head: &HeaderMap) -> Option<&str> {
    let mut all = head.get_all(AUTHORIZATION).iter();
    let (only, None) = (all.next()?, all.next()) else {
        return None;
    };
    let (scheme, key) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| key.trim())
}

/// Addresses that are one machine's to give away are one: of IPv6 a whole /64.
fn one_place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn head(values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| {
            let value = HeaderValue::from_str(value).unwrap();
            (AUTHORIZATION, value)
        });
        values.fold(HeaderMap::new(), |mut head, (name, value)| {
            head.append(name, value);
            head
        })
    }

    #[test]
    fn a_key_is_read_from_one_header_of_the_right_scheme() {
        for (values, key) in [
            (&["Bearer abc"][..], Some("abc")),
            (&["bearer  abc "], Some("abc")),
            (&[], None),
            (&["abc"], None),
            (&["Basic abc"], None),
            (&["Bearer"], None),
            (&["Bearer abc", "Bearer abc"], None),
        ] {
            assert_eq!(presented(&head(values)), key, "{values:?}");
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one_place() {
        let place = |text: &str| one_place(text.parse().unwrap());
        assert_eq!(place("2001:db8::1"), place("2001:db8::ffff:2"));
        assert_ne!(place("2001:db8::1"), place("2001:db8:0:1::1"));
        assert_eq!(place("::ffff:10.0.0.1"), place("10.0.0.1"));
        assert_ne!(place("10.0.0.1"), place("10.0.0.2"));
    }
}
