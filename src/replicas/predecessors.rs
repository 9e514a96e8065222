//! Processes on this machine that we took over from and whose tunnels are still
//! open: asked for what only they know.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Neighbour;
use crate::config::HostPort;

/// How long one may take to answer: it is on this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Whether it gave this connection id out: true or false.
    Owns(String),
    /// Its open tunnels, as the API shows them: a list.
    Tunnels,
    /// To end these tunnels: the ids of those it had.
    End(Vec<String>),
    /// To end all its tunnels: the ids of those.
    EndAll,
}

/// A question, and where its answer goes.
pub type Asked = (Question, oneshot::Sender<Value>);

/// Those that are there; clones are one.
#[derive(Debug, Clone, Default)]
pub struct Predecessors(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: Mutex<Known>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    there: BTreeMap<u64, Predecessor>,
}

#[derive(Debug, Clone)]
struct Predecessor {
    /// Where it takes joins of its tunnels.
    joins: Option<SocketAddr>,
    asked: mpsc::Sender<Asked>,
}

/// One of them, there until this is dropped.
#[derive(Debug)]
pub struct There(Predecessors, u64);

impl Predecessors {
    /// One more, reached for joins at this address, and asked by that way.
    pub fn add(&self, joins: Option<SocketAddr>, asked: mpsc::Sender<Asked>) -> There {
        let mut known = self.lock();
        known.next += 1;
        let number = known.next;
        known.there.insert(number, Predecessor { joins, asked });
        self.0.count.send_replace(known.there.len());
        drop(known);
        There(self.clone(), number)
    }

    /// Returns once there is none.
    pub async fn gone(&self) {
        let mut count = self.0.count.subscribe();
        // We hold the sender.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().there.len()
    }

    /// The one that gave a connection id out, and how it is reached for a join.
    pub async fn owner_of(&self, id: &str) -> Option<Neighbour> {
        let owned = self.ask(&Question::Owns(id.to_owned())).await;
        let mut owners = owned.into_iter().filter(|(_, it)| it == &Value::Bool(true));
        let (joins, _) = owners.find_map(|(joins, it)| Some((joins?, it)))?;
        Some(Neighbour {
            address: HostPort {
                host: joins.ip().to_string(),
                port: joins.port(),
            },
            certificate: None,
        })
    }

    /// The open tunnels of all of them, as the API shows them.
    pub async fn tunnels(&self) -> Vec<Value> {
        let told = self.ask(&Question::Tunnels).await.into_iter();
        let lists = told.filter_map(|(_, list)| match list {
            Value::Array(list) => Some(list),
            _ => None,
        });
        lists.flatten().collect()
    }

    /// Has those of these tunnels end that are theirs; returns their ids.
    pub async fn end(&self, ids: Vec<String>) -> Vec<String> {
        let told = self.ask(&Question::End(ids)).await.into_iter();
        let lists = told.filter_map(|(_, list)| serde_json::from_value::<Vec<String>>(list).ok());
        lists.flatten().collect()
    }

    /// Has all their tunnels end.
    pub async fn end_all(&self) {
        self.ask(&Question::EndAll).await;
    }

    /// Asks all at once; who does not answer is left out.
    async fn ask(&self, question: &Question) -> Vec<(Option<SocketAddr>, Value)> {
        let there: Vec<_> = self.lock().there.values().cloned().collect();
        let mut asking = JoinSet::new();
        for Predecessor { joins, asked } in there {
            let question = question.clone();
            asking.spawn(timeout(PATIENCE, async move {
                let (answer, answered) = oneshot::channel();
                asked.send((question, answer)).await.ok()?;
                answered.await.ok().map(|told| (joins, told))
            }));
        }
        let told = asking.join_all().await.into_iter();
        told.filter_map(|told| told.ok().flatten()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Each change of it leaves it whole.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for There {
    fn drop(&mut self) {
        let mut known = self.0.lock();
        known.there.remove(&self.1);
        self.0.0.count.send_replace(known.there.len());
    }
}
