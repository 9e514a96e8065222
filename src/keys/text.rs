//! The text of a key: `sg_ROLE_ID_SECRET`.

use std::borrow::Borrow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::Serialize;
use zeroize::Zeroizing;

use super::{KeyError, Role};
use crate::config::Secret;

const PREFIX: &str = "sg_";
/// Of the id and of the secret, in bytes; each is two hexadecimal digits.
const ID: usize = 6;
const SECRET: usize = 32;

/// A key's id: twelve hexadecimal digits, or the name of a configured key.
/// Public.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// An id, or a whole key, of which only the id is kept; `None` where it is
    /// neither.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let id = id_of(text).unwrap_or(text);
        is_hex(id, ID).then(|| Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn named(name: &str) -> Self {
        Self(name.into())
    }
}

impl Borrow<str> for KeyId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A new key from the system's source of random numbers.
pub(super) fn make(role: &Role) -> Result<(KeyId, Secret), KeyError> {
    let (mut id, mut secret) = ([0; ID], Zeroizing::new([0; SECRET]));
    for bytes in [id.as_mut_slice(), secret.as_mut_slice()] {
        getrandom::fill(bytes).map_err(|error| KeyError::Random {
            reason: error.to_string(),
        })?;
    }
    let mut text = format!("{PREFIX}{}_", role.word());
    // Never grows: a copy left behind would not be wiped.
    text.reserve_exact(2 * (ID + SECRET) + 1);
    let start = text.len();
    push_hex(&mut text, &id);
    let id = KeyId(text.get(start..).unwrap_or_default().into());
    text.push('_');
    push_hex(&mut text, secret.as_slice());
    Ok((id, Secret::new(text)))
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // A text takes in whatever there is memory for.
        let _ = write!(text, "{byte:02x}");
    }
}

/// The id in a text that looks like a key.
pub(super) fn id_of(key: &str) -> Option<&str> {
    let mut parts = key.strip_prefix(PREFIX)?.split('_');
    let (_, id, secret) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && is_hex(id, ID) && !secret.is_empty();
    whole.then_some(id)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 2 * bytes && text.bytes().all(digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_its_role_and_id_and_holds_256_bits() {
        let (id, key) = make(&Role::AdminRead).unwrap();
        let parts: Vec<_> = key.expose().split('_').collect();
        assert_eq!(parts[..3], ["sg", "admin-read", id.as_str()]);
        assert!(is_hex(parts[3], 32) && parts.len() == 4);
        assert_eq!(id_of(key.expose()), Some(id.as_str()));
        assert_eq!(KeyId::read(key.expose()), Some(id.clone()));
        assert_eq!(KeyId::read(&format!(" {id}\n")), Some(id));
        let (_, other) = make(&Role::AdminRead).unwrap();
        assert!(key != other);
        // A key is good as a configured secret as well.
        assert!(Secret::chosen(key.expose()).is_ok());
    }

    #[test]
    fn what_is_no_key_has_no_id() {
        for text in [
            "",
            "sg_",
            "sg_broker",
            "sg_broker_",
            "sg_broker_0123456789ab",
            "sg_broker_0123456789ab_",
            "sg_broker_0123456789AB_x",
            "sg_broker_0123456789a_x",
            "sg_broker_0123456789ab_x_y",
            "SG_broker_0123456789ab_x",
            "xsg_broker_0123456789ab_x",
        ] {
            assert_eq!(id_of(text), None, "{text}");
            assert_eq!(KeyId::read(text), None, "{text}");
        }
    }
}
