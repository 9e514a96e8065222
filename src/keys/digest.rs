//! The hash that is kept in the place of a key.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

const BYTES: usize = 32;

/// SHA-256 of a whole key.
///
/// A fast hash is right here, unlike for passwords: the secret in a key is 256
/// random bits, so that nobody guesses it however fast guesses are tried, and
/// salt and delay would only slow down every request. It covers id and role as
/// well: a secret is good for nothing but the key that it was made for.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Digest([u8; BYTES]);

impl Digest {
    pub(super) fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// In constant time.
    pub(super) fn fits(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        let digits = hex.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Option<Vec<u8>> = digits.collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(Self)
            .ok_or_else(|| de::Error::custom("the hash of a key is 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sha_256_that_others_compute() {
        // What `printf abc | sha256sum` says.
        let hex = "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"";
        let digest = Digest::of("abc");
        assert_eq!(serde_json::to_string(&digest).unwrap(), hex);
        assert_eq!(serde_json::from_str::<Digest>(hex).unwrap(), digest);
        for broken in ["\"\"", "\"ba78\"", "\"zz\"", "5"] {
            assert!(serde_json::from_str::<Digest>(broken).is_err(), "{broken}");
        }
        assert_eq!(format!("{digest:?}"), "Digest");
    }
}
