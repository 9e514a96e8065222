//! Which replica an id belongs to: 24 bits that only one replica has.

use std::fmt;

use uuid::Uuid;

/// A replica's tag. No secret: it stands in every id the replica gives out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(
    // INVARIANT: below 1 << Tag::BITS.
    u32,
);

impl Tag {
    /// How many bits there are.
    pub const BITS: u32 = 24;

    const MASK: u32 = (1 << Self::BITS) - 1;

    pub(super) fn random() -> Self {
        let [.., a, b, c] = *Uuid::new_v4().as_bytes();
        Self(u32::from_be_bytes([0, a, b, c]))
    }

    /// The tag of these bits, the lowest ones that there are.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & Self::MASK)
    }

    /// Its bits.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Reads what [`fmt::Display`] writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let read = u32::from_str_radix(text, 16).ok().map(Self)?;
        (read.0 <= Self::MASK && read.to_string() == text).then_some(read)
    }
}

/// Six hexadecimal digits, in lower case.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_they_are_written() {
        for _ in 0..100 {
            let tag = Tag::random();
            assert_eq!(Tag::parse(&tag.to_string()), Some(tag));
            assert_eq!(Tag::from_bits(tag.bits()), tag);
        }
        for bad in ["", "12345", "1234567", "12345G", "ABCDEF", "+12345"] {
            assert_eq!(Tag::parse(bad), None, "{bad}");
        }
    }
}
