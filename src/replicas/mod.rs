//! Who else is there: the replicas that share our store, where each is reached,
//! and which of the connection ids in the world are whose.
//!
//! ```text
//! at the start, each 10 s, when a certificate is exchanged:  presence --> store
//! at a join of an id that is not ours (at most four times a second) <-- all presences
//! at the stop:                                             no presence
//! ```
//!
//! Each replica owns a [`Tag`], taken by a write that only one can make, and the
//! ids it gives out carry it. Whoever reads a tag finds the replica's presence
//! under it, and in it the address for joins. A process has a new tag at every
//! start: ids of one that is gone lead nowhere.
//!
//! No clock is asked: a presence that was not written anew for 45 s while we
//! looked is of a replica that is gone. While the store cannot be read nobody
//! is taken for gone by it.
//!
//! Nothing of this runs where the store is a file of one process.

mod picture;
mod predecessors;
mod presence;
mod tag;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::future::Cache;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::config::{Fingerprint, HostPort};
use crate::store::{Documents, Edit, Edited, Kind, StoreError, Version};

use picture::Picture;
pub use predecessors::{Asked, Predecessors, Question, There};
use presence::Presence;
pub use tag::Tag;

/// From one writing of our presence to the next, and from one look at the
/// others' to the next.
const EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether our presence says what is so.
const LOOK: Duration = Duration::from_secs(1);

/// How old what a join reads of the others may be, as long as the store
/// answers.
const STALENESS: Duration = Duration::from_millis(250);

/// How long a join waits for the store, before what was read last must do.
const PATIENCE: Duration = Duration::from_secs(1);

/// For taking our presence away at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// How many tags are tried at the start: two tries with the same outcome are
/// one in a million already.
const TRIES: usize = 8;

/// Where others reach us for joins.
pub struct Reached {
    /// Name or IP address, and port; `None`: nowhere.
    pub address: Option<HostPort>,
    /// The certificate that is shown there at the moment; `None` where it
    /// speaks plain text.
    pub certificate: Box<dyn Fn() -> Option<Fingerprint> + Send + Sync>,
}

/// Another replica, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Name or IP address, and port, of its Guacamole port.
    pub address: HostPort,
    /// The certificate it shows there; `None` where it speaks plain text.
    pub certificate: Option<Fingerprint>,
}

/// Us among the replicas.
pub struct Replicas {
    documents: Arc<dyn Documents>,
    me: Tag,
    reached: Reached,
    picture: Mutex<Picture>,
    /// Holds nothing but that the picture is fresh, for [`STALENESS`]: whoever
    /// finds nothing in it reads, one for all who wait.
    fresh: Cache<(), ()>,
}

impl Replicas {
    /// Takes a tag of our own and says in the store that we are there.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn open(
        documents: Arc<dyn Documents>,
        reached: Reached,
    ) -> Result<Arc<Self>, StoreError> {
        let presence = Presence::of(&reached);
        let mut me = Tag::random();
        for _ in 0..TRIES {
            let edit = Edit {
                kind: Kind::Replica,
                id: me.to_string(),
                expected: Some(Version::ABSENT),
                text: Some(presence.to_text()),
            };
            match documents.edit(vec![edit], true).await? {
                Edited::Done => break,
                Edited::Conflict => me = Tag::random(),
            }
        }
        let address = reached.address.as_ref().map(ToString::to_string);
        match address {
            Some(address) => info!(replica = %me, address, "Joins can be made at every replica"),
            None => warn!(
                replica = %me,
                "Joins of tunnels of this replica can be made here only: set advertise in [[listen]] \
                 to where other replicas reach it"
            ),
        }
        Ok(Arc::new(Self {
            documents,
            me,
            reached,
            picture: Mutex::default(),
            fresh: Cache::builder()
                .max_capacity(1)
                .time_to_live(STALENESS)
                .build(),
        }))
    }

    /// What the ids that we give out carry.
    pub fn me(&self) -> Tag {
        self.me
    }

    /// The replica whose ids carry this tag, where it is there and another
    /// than we are. As of 250 ms ago; where the store does not answer, as it
    /// was known last. Who finds nobody looks once more when that is over, for a
    /// replica that has just started: ids of nobody cost four readings a second.
    pub async fn find(&self, tag: Tag) -> Option<Neighbour> {
        if tag == self.me {
            return None;
        }
        let known = self.known(tag).await;
        if known.is_some() {
            return known;
        }
        tokio::time::sleep(STALENESS).await;
        self.known(tag).await
    }

    async fn known(&self, tag: Tag) -> Option<Neighbour> {
        let reading = self.fresh.try_get_with((), self.read());
        match timeout(PATIENCE, reading).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "Other replicas are as known last"),
            Err(_) => debug!("Other replicas are as known last: the store is slow"),
        }
        let found = self.lock().find(tag, Instant::now())?;
        // An address that leads to us owns nothing that we do not.
        let ours = self.reached.address.as_ref() == Some(&found.address);
        (!ours).then_some(found)
    }

    /// Keeps our presence, and an eye on the others', until `stop`; then takes
    /// ours away: whoever stops accepts no joins any more.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        stop.run_until_cancelled(self.keep()).await;
        let gone = self.write(None);
        if !matches!(timeout(FAREWELL, gone).await, Ok(Ok(()))) {
            debug!("Our presence stays in the store until others see that nobody renews it");
        }
    }

    async fn keep(&self) {
        let mut said = Presence::of(&self.reached);
        let (mut written, mut is_well) = (Instant::now(), true);
        let _ = self.read().await;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = Presence::of(&self.reached);
            if is_well && now == said && written.elapsed() < EVERY {
                continue;
            }
            let renewed = self.write(Some(now.to_text())).await;
            let renewed = match renewed {
                Ok(()) => self.read().await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match renewed {
                Ok(()) => {
                    if !is_well {
                        info!("Other replicas see this one again");
                    }
                    (said, written, is_well) = (now, Instant::now(), true);
                    self.forget_the_gone().await;
                }
                Err(error) => {
                    if is_well {
                        warn!(%error, "Other replicas may soon take this one for gone, and find no tunnel here to join");
                    }
                    is_well = false;
                }
            }
        }
    }

    async fn write(&self, text: Option<String>) -> Result<(), StoreError> {
        let edit = Edit {
            kind: Kind::Replica,
            id: self.me.to_string(),
            // Nobody else writes under our tag.
            expected: None,
            text,
        };
        self.documents.edit(vec![edit], true).await.map(drop)
    }

    async fn read(&self) -> Result<(), StoreError> {
        let read = self.documents.documents(Kind::Replica).await?;
        self.lock().note(read, Instant::now());
        Ok(())
    }

    /// Takes out what was left by those that ended without a word.
    async fn forget_the_gone(&self) {
        let left = self.lock().long_gone();
        for (tag, version) in left {
            let edit = Edit {
                kind: Kind::Replica,
                id: tag.to_string(),
                expected: Some(version),
                text: None,
            };
            // Somebody else may do it, or next time.
            let _ = self.documents.edit(vec![edit], false).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Picture> {
        // Each change of it leaves it whole.
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}
