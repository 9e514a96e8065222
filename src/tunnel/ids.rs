//! The connection ids that we give out, and what can be read from one.
//!
//! ```text
//! $tttttttt-rrrr-8rrr-vrrr-rrrrrrrrrrrr     a replica's (UUID version 8)
//!  ^ 24 bits of tag, then random             v: a or b
//! $rrrrrrrr-rrrr-4rrr-vrrr-rrrrrrrrrrrr     of a broker that is alone (version 4)
//! ```
//!
//! The tag says which replica gave the id out; it is no secret. 97 bits are
//! random: whoever could ask a million times a second for a hundred years would
//! not have met one of a million open tunnels (a chance of 2e-8), and each wrong
//! id costs a whole connection.
//!
//! A join that was sent on by another replica comes with the same id in upper
//! case, which is the same UUID. Whoever is asked like that looks at its own
//! tunnels and nowhere else, so that nothing is ever sent on twice, whatever
//! addresses the replicas were given. To say so falsely makes an id lead to
//! fewer places, never to more. Each id has a letter, the `v`, so that both
//! ways to write it differ.

use guac_protocol::ConnectionId;
use uuid::Uuid;

use crate::replicas::Tag;

const TAG_AT: u32 = u128::BITS - Tag::BITS;
/// Where the version stands, and the two letters that the variant leaves with
/// three of its bits set.
const VERSION_AT: u32 = 76;
const VARIANT_AT: u32 = 61;
const TAGGED: u128 = 0x8;
const VARIANT: u128 = 0b101;

/// An id as somebody asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// As it was given out, if it was.
    pub(super) id: ConnectionId,
    /// Another replica sends it on, and whoever hears it must not.
    pub(super) is_sent_on: bool,
}

/// An id of our own that nobody can guess; it carries our tag, where there are
/// replicas.
pub(super) fn mint(tag: Option<Tag>) -> ConnectionId {
    let random = Uuid::new_v4().as_u128();
    let Some(tag) = tag else {
        return ConnectionId::from_bits(random);
    };
    // What a random UUID has fixed is fixed here, too.
    let fixed = (0xf << VERSION_AT) | (0b111 << VARIANT_AT) | (u128::MAX << TAG_AT);
    let set = (TAGGED << VERSION_AT) | (VARIANT << VARIANT_AT) | (u128::from(tag.bits()) << TAG_AT);
    ConnectionId::from_bits((random & !fixed) | set)
}

/// What somebody asks for.
pub(super) fn read(asked: &ConnectionId) -> Asked {
    let text = asked.as_str();
    let lower = text.to_ascii_lowercase();
    let is_sent_on = text != lower && text == text.to_ascii_uppercase();
    let uuid = lower.strip_prefix('$').unwrap_or_default();
    match ConnectionId::from_uuid_text(uuid).filter(|_| is_sent_on) {
        Some(id) => Asked { id, is_sent_on },
        None => Asked {
            id: asked.clone(),
            is_sent_on: false,
        },
    }
}

/// The same id, for the replica it is sent on to.
pub(super) fn sent_on(id: &ConnectionId) -> Option<ConnectionId> {
    let uuid = id.as_str().strip_prefix('$')?;
    ConnectionId::from_uuid_text(&uuid.to_ascii_uppercase())
}

/// The replica that gave it out; `None` where it is none of a replica's.
pub(super) fn tag_of(id: &ConnectionId) -> Option<Tag> {
    let digits: String = id
        .as_str()
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect();
    let bits = u128::from_str_radix(&digits, 16).ok()?;
    // Ids that differ in case are different ids, and ours are in lower case.
    let is_ours = ConnectionId::from_bits(bits) == *id
        && (bits >> VERSION_AT) & 0xf == TAGGED
        && (bits >> VARIANT_AT) & 0b111 == VARIANT;
    let tag = u32::try_from(bits >> TAG_AT).ok()?;
    is_ours.then(|| Tag::from_bits(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_replicas_tag_and_else_nothing_that_stays() {
        let tag = Tag::from_bits(0x00c0_ffee);
        let (mut ones, mut zeros) = (0_u128, 0_u128);
        for _ in 0..2000 {
            let id = mint(Some(tag));
            assert_eq!(tag_of(&id), Some(tag), "{id}");
            let uuid = Uuid::parse_str(&id.as_str()[1..]).unwrap();
            assert_eq!(uuid.get_version_num(), 8);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
            ones |= uuid.as_u128();
            zeros |= !uuid.as_u128();
        }
        let random = (ones & zeros).count_ones();
        assert_eq!(random, 97, "bits that are one thing and the other");
    }

    #[test]
    fn ids_of_nobody_have_no_tag() {
        let ours = mint(Some(Tag::from_bits(5)));
        let random = mint(None);
        let loud = sent_on(&ours).unwrap();
        let other = ConnectionId::parse("$0000a000-0000-8000-8000-000000000000").unwrap();
        for id in [random, loud, other] {
            assert_eq!(tag_of(&id), None, "{id}");
        }
    }

    #[test]
    fn what_is_sent_on_is_told_from_what_is_not() {
        for _ in 0..200 {
            let id = mint(Some(Tag::from_bits(0)));
            let loud = sent_on(&id).unwrap();
            assert_ne!(loud, id);
            let is_sent_on = true;
            let plain = id.clone();
            assert_eq!(
                read(&loud),
                Asked {
                    id: plain,
                    is_sent_on
                }
            );
            assert!(!read(&id).is_sent_on);
        }
        // Neither one nor the other: nobody's.
        let mixed = ConnectionId::parse("$0000a000-0000-8000-B000-000000000000").unwrap();
        let asked = read(&mixed);
        assert_eq!((asked.id.clone(), asked.is_sent_on), (mixed, false));
        assert_eq!(tag_of(&asked.id), None);
    }
}
