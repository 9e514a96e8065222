//! What was read of the presences, and since when each has been the same.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::presence::Presence;
use super::{EVERY, Neighbour, Tag};
use crate::store::{Document, Version};

/// A presence that is not written anew for so long is of one that is gone.
const GONE: Duration = Duration::from_secs(45);

/// After that it may be taken out of the store.
const LONG_GONE: Duration = Duration::from_secs(3600);

/// From one reading to the next, at most, for the time in between to count: a
/// replica need not have been silent while we did not look.
const UNSEEN: Duration = Duration::from_secs(2 * EVERY.as_secs());

#[derive(Debug, Default)]
pub(super) struct Picture {
    seen: BTreeMap<Tag, Seen>,
    read: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    version: Version,
    presence: Option<Presence>,
    /// When this writing was seen first.
    since: Instant,
}

impl Picture {
    /// These are all there are.
    pub(super) fn note(&mut self, read: Vec<Document>, now: Instant) {
        let looked_away = self
            .read
            .is_none_or(|read| now.saturating_duration_since(read) > UNSEEN);
        let mut before = std::mem::take(&mut self.seen);
        for document in read {
            let Some(tag) = Tag::parse(&document.id) else {
                continue;
            };
            let known = before.remove(&tag);
            let known = known.filter(|seen| seen.version == document.version && !looked_away);
            let seen = known.unwrap_or_else(|| Seen {
                version: document.version,
                presence: Presence::read(&document.text),
                since: now,
            });
            self.seen.insert(tag, seen);
        }
        self.read = Some(now);
    }

    /// How the replica of this tag is reached, where it is not gone.
    pub(super) fn find(&self, tag: Tag, now: Instant) -> Option<Neighbour> {
        let seen = self.seen.get(&tag)?;
        // What was not read cannot have changed for us.
        let until = self.read.unwrap_or(now);
        let same = until.saturating_duration_since(seen.since);
        let presence = seen.presence.as_ref().filter(|_| same < GONE)?;
        presence.neighbour()
    }

    pub(super) fn long_gone(&self) -> Vec<(Tag, Version)> {
        let until = self.read;
        let is_long = |seen: &&Seen| {
            until.is_some_and(|read| read.saturating_duration_since(seen.since) > LONG_GONE)
        };
        let seen = self.seen.iter();
        let left = seen.filter(|(_, seen)| is_long(seen));
        left.map(|(tag, seen)| (*tag, seen.version)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Documents, Edit, Embedded, Kind};

    const TAG: u32 = 0x0a_0b_0c;

    /// Presences as a store gives them, each with a version of its own.
    async fn written(store: &Embedded) -> Vec<Document> {
        let edit = Edit {
            kind: Kind::Replica,
            id: Tag::from_bits(TAG).to_string(),
            expected: None,
            text: Some(r#"{"host":"a","port":4822}"#.to_owned()),
        };
        store.edit(vec![edit], true).await.unwrap();
        store.documents(Kind::Replica).await.unwrap()
    }

    #[tokio::test]
    async fn who_is_not_written_anew_while_we_look_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("s.redb")).unwrap();
        let (tag, start) = (Tag::from_bits(TAG), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let found = |picture: &Picture, seconds| picture.find(tag, at(seconds)).is_some();
        let mut picture = Picture::default();
        let first = written(&store).await;
        for seconds in (0..45).step_by(10) {
            picture.note(first.clone(), at(seconds));
            assert!(found(&picture, seconds));
        }
        // Nobody is gone for that we cannot read.
        assert!(found(&picture, 400));
        picture.note(first.clone(), at(50));
        assert!(!found(&picture, 50));
        // It writes again.
        let second = written(&store).await;
        picture.note(second.clone(), at(60));
        assert!(found(&picture, 60));
        // We looked away for long: it may have been there all the time.
        picture.note(second.clone(), at(600));
        assert!(found(&picture, 600));
        for seconds in (610..660).step_by(10) {
            picture.note(second.clone(), at(seconds));
        }
        assert!(!found(&picture, 650));
        assert_eq!(picture.long_gone(), []);
        for seconds in (660..4300).step_by(10) {
            picture.note(second.clone(), at(seconds));
        }
        assert_eq!(picture.long_gone(), [(tag, second[0].version)]);
        picture.note(Vec::new(), at(4300));
        assert!(!found(&picture, 4300) && picture.long_gone().is_empty());
    }
}
