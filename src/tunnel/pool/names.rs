//! Which addresses the names of guacd have, looked up at every dial: pods come
//! and go. Who dials in the same moment shares one look-up, and one name that is
//! slow to look up holds nobody up who has another.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Member;
use crate::config::{Guacd, GuacdPool, HostPort};

/// How long the answer before may stand in for one that does not come.
const STALENESS: Duration = Duration::from_secs(60);

/// Where there are several names: the part of a dial's time that one may take
/// to be looked up.
const SHARE: u32 = 3;

/// How old a look-up must be before another one is begun beside it: the answer
/// may have been lost on the way.
const AGAIN: Duration = Duration::from_secs(3);

/// Most names of which anything is kept.
const MOST: usize = 256;

/// A name that could not be looked up, and why.
pub(super) type Unknown = (HostPort, io::Error);

#[derive(Debug, Default)]
pub(super) struct Names(Arc<Mutex<HashMap<HostPort, Known>>>);

#[derive(Debug, Default)]
struct Known {
    /// The last answer that had addresses, and when it came.
    addresses: Option<(Vec<SocketAddr>, Instant)>,
    /// What is being looked up, and since when.
    asked: Option<Asked>,
}

type Asked = (watch::Receiver<Option<Found>>, Instant);

/// What a look-up gave: the kind and text of an error, or addresses.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

impl Names {
    /// Every guacd behind the names, none twice, and one of the names that
    /// could not be looked up.
    pub(super) async fn members(&self, pool: &GuacdPool) -> (Vec<Member>, Option<Unknown>) {
        let within = match pool.members.len() {
            0 | 1 => pool.connect_timeout(),
            _ => pool.connect_timeout() / SHARE,
        };
        let (mut members, mut unknown) = (Vec::<Member>::new(), None);
        // All are asked before the first is waited for.
        let mut asked = Vec::new();
        for guacd in &pool.members {
            asked.push((guacd, self.ask(&guacd.address)));
        }
        let now = Instant::now();
        for (guacd, pending) in asked {
            // One that is known to be slow is not waited for where there are others.
            let since = pending.as_ref().map_or(now, |(_, since)| *since);
            let by = match pool.members.len() {
                0 | 1 => now + within,
                _ => since + within,
            };
            let pending = pending.map(|(pending, _)| pending);
            match self.wait(&guacd.address, pending, by).await {
                Ok(addresses) => add(&mut members, guacd, addresses),
                Err(error) => unknown = Some((guacd.address.clone(), error)),
            }
        }
        (members, unknown)
    }

    /// Has a name looked up, unless it is being so; `None` where there is
    /// nothing to wait for.
    fn ask(&self, name: &HostPort) -> Option<Asked> {
        if name.host.parse::<IpAddr>().is_ok() {
            return None;
        }
        let now = Instant::now();
        let mut names = self.lock();
        if names.len() >= MOST {
            names.retain(|_, known| known.asked.is_some());
        }
        let known = names.entry(name.clone()).or_default();
        if let Some(asked) = known.asked.as_ref().filter(|(_, at)| now - *at < AGAIN) {
            return Some(asked.clone());
        }
        let (answer, asked) = watch::channel(None);
        let asked = (asked, now);
        known.asked = Some(asked.clone());
        let (name, names) = (name.clone(), Arc::clone(&self.0));
        tokio::spawn(async move {
            let found = lookup_host((name.host.as_str(), name.port)).await;
            let found = match found.map(Iterator::collect) {
                Ok(addresses) => Ok(addresses),
                Err(error) => Err((error.kind(), error.to_string())),
            };
            let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
            let known = names.entry(name).or_default();
            if let Ok(addresses) = &found {
                known.addresses = Some((Vec::clone(addresses), Instant::now()));
            }
            let is_the_last = known.asked.as_ref().is_some_and(|(_, at)| *at == now);
            if is_the_last {
                known.asked = None;
            }
            answer.send_replace(Some(found));
        });
        Some(asked)
    }

    async fn wait(
        &self,
        name: &HostPort,
        asked: Option<watch::Receiver<Option<Found>>>,
        by: Instant,
    ) -> io::Result<Vec<SocketAddr>> {
        let Some(mut asked) = asked else {
            let ip = name.host.parse::<IpAddr>();
            let ip = ip.map_err(|_| io::ErrorKind::InvalidInput)?;
            return Ok(vec![SocketAddr::new(ip, name.port)]);
        };
        let left = by.saturating_duration_since(Instant::now());
        let found = match timeout(left, asked.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        match found {
            Some(Ok(addresses)) if !addresses.is_empty() => return Ok(addresses),
            // There is none any more.
            Some(Ok(_)) => {
                let none = "the name has no address";
                return Err(io::Error::new(io::ErrorKind::NotFound, none));
            }
            Some(Err(_)) | None => {}
        }
        if let Some(addresses) = self.lately(name) {
            return Ok(addresses);
        }
        match found {
            Some(Err((kind, text))) => Err(io::Error::new(kind, text)),
            _ => {
                let slow = "the name was not looked up in time";
                Err(io::Error::new(io::ErrorKind::TimedOut, slow))
            }
        }
    }

    fn lately(&self, name: &HostPort) -> Option<Vec<SocketAddr>> {
        let names = self.lock();
        let (addresses, at) = names.get(name)?.addresses.as_ref()?;
        (at.elapsed() < STALENESS).then(|| addresses.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HostPort, Known>> {
        // Plain values, each whole behind a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(members: &mut Vec<Member>, guacd: &Guacd, addresses: Vec<SocketAddr>) {
    for at in addresses {
        if !members.iter().any(|member| member.at == at) {
            let guacd = guacd.clone();
            members.push(Member { guacd, at });
        }
    }
}
