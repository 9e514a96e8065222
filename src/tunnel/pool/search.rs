//! One look through the guacds for one that answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::names::Unknown;
use super::{ASIDE, Dialled, Member, Pool, Taken};
use crate::tunnel::dial;
use crate::tunnel::stop::Stop;

/// How many have a part each in the time that is left for a dial: one that
/// swallows connections must not eat the time of the ones after it, and one that
/// is slow needs some.
const SHARES: usize = 3;

/// How long one may take over its first word, while there are others.
pub(in crate::tunnel) const FIRST_WORD: Duration = Duration::from_secs(2);

/// Those that have not been tried yet.
#[derive(Debug)]
pub(in crate::tunnel) struct Search {
    pool: Arc<Pool>,
    left: Vec<Member>,
    /// There were several from the start.
    several: bool,
    unknown: Option<Unknown>,
    /// For dialling, all of them together.
    within: Duration,
}

impl Search {
    pub(super) fn new(
        pool: Arc<Pool>,
        left: Vec<Member>,
        unknown: Option<Unknown>,
        within: Duration,
    ) -> Self {
        Self {
            pool,
            several: left.len() > 1,
            left,
            unknown,
            within,
        }
    }

    /// Dials one after the other until one takes the connection.
    ///
    /// # Errors
    /// How the last one failed.
    pub(in crate::tunnel) async fn dial(&mut self, stall: Duration) -> Result<Dialled, Stop> {
        let mut failed = None;
        loop {
            let shares = self.left.len().clamp(1, SHARES);
            let Some(taken) = self.take_best() else {
                return Err(failed.unwrap_or_else(|| self.nobody()));
            };
            // What goes on in place of one that failed is told of here.
            if failed.is_some() {
                self.pool.metrics.passed_over();
            }
            let share = match self.left.is_empty() {
                true => self.within,
                false => self.within / u32::try_from(shares).unwrap_or(1),
            };
            let began = Instant::now();
            let dialled = dial::guacd(&taken.member, share, &self.pool.certificates, stall).await;
            self.within = self.within.saturating_sub(began.elapsed());
            match dialled {
                Ok(stream) => {
                    let taken = Some(taken);
                    return Ok(Dialled { stream, taken });
                }
                Err(stop) => {
                    taken.put_aside(&stop.to_string(), self.several);
                    failed = Some(stop);
                }
            }
        }
    }

    /// Whether there are others that nothing speaks against.
    pub(in crate::tunnel) fn has_others(&self) -> bool {
        let (standings, now) = (self.pool.lock(), Instant::now());
        self.left.iter().any(|member| {
            let standing = standings.get(&member.key());
            standing.is_none_or(|standing| !standing.is_aside(now))
        })
    }

    /// The one with the fewest tunnels, of equals the one whose turn it is; one
    /// that is put aside only where nobody else is left. It counts from now on,
    /// so that whoever comes in the same moment is sent elsewhere.
    fn take_best(&mut self) -> Option<Taken> {
        let (mut standings, now) = (self.pool.lock(), Instant::now());
        let count = self.left.len();
        let turn = self.pool.turn.fetch_add(1, Ordering::Relaxed);
        let rank = |at: usize, member: &Member| {
            let standing = standings.get(&member.key());
            let place = (at + count - turn % count) % count;
            match standing {
                Some(standing) => (standing.is_aside(now), standing.open, place),
                None => (false, 0, place),
            }
        };
        let members = self.left.iter().enumerate();
        let best = members.min_by_key(|(at, member)| rank(*at, member));
        let member = self.left.remove(best.map(|(at, _)| at)?);
        let standing = standings.entry(member.key()).or_default();
        standing.open += 1;
        // While this one tries it, nobody else does.
        if let Some(aside) = &mut standing.aside {
            aside.until = now + ASIDE;
        }
        let known = standing.member.take().filter(|known| **known == member);
        let member = known.unwrap_or_else(|| Arc::new(member));
        standing.member = Some(Arc::clone(&member));
        drop(standings);
        Some(Taken {
            member,
            pool: Arc::clone(&self.pool),
        })
    }

    /// Nothing to be dialled at all.
    fn nobody(&mut self) -> Stop {
        match self.unknown.take() {
            Some((name, error)) => Stop::GuacdUnreachable {
                address: name.to_string(),
                error,
            },
            None => Stop::GuacdUnreachable {
                address: "any address".to_owned(),
                error: io::ErrorKind::NotFound.into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::config::{Guacd, GuacdPool, HostPort};
    use crate::metrics::Metrics;
    use crate::tls::Certificates;

    fn guacd(nth: u8) -> Guacd {
        Guacd {
            address: HostPort {
                host: Ipv4Addr::new(127, 0, 0, nth).to_string(),
                port: 4822,
            },
            ..Guacd::default()
        }
    }

    fn three() -> (Arc<Pool>, GuacdPool) {
        let pool = Pool::new(
            Arc::new(Certificates::default()),
            Arc::new(Metrics::default()),
        );
        let members = [1, 2, 3].map(guacd).to_vec();
        (pool, GuacdPool { members })
    }

    async fn taken(pool: &Arc<Pool>, of: &GuacdPool) -> Taken {
        pool.search(of).await.take_best().unwrap()
    }

    fn counts(pool: &Pool, of: &GuacdPool) -> Vec<usize> {
        let standings = pool.standings(of);
        standings.iter().map(|standing| standing.tunnels).collect()
    }

    #[tokio::test]
    async fn each_new_one_goes_where_the_fewest_are() {
        let (pool, of) = three();
        let mut open = Vec::new();
        for _ in 0..9 {
            open.push(taken(&pool, &of).await);
        }
        assert_eq!(counts(&pool, &of), [3, 3, 3]);
        let second = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 4822));
        open.retain(|taken| taken.member.at != second);
        assert_eq!(counts(&pool, &of), [3, 0, 3]);
        for _ in 0..3 {
            let next = taken(&pool, &of).await;
            assert_eq!(next.member.at, second);
            open.push(next);
        }
        drop(open);
        assert_eq!(counts(&pool, &of), [0, 0, 0]);
    }

    #[tokio::test]
    async fn equals_have_their_turns() {
        let (pool, of) = three();
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..9 {
            *seen.entry(taken(&pool, &of).await.member.at).or_insert(0) += 1;
        }
        assert_eq!(seen.into_values().collect::<Vec<_>>(), [3, 3, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_failed_is_last_for_a_while_and_then_tried_by_one() {
        let (pool, of) = three();
        let first = taken(&pool, &of).await;
        let at = first.member.at;
        first.put_aside("refused", true);
        drop(first);
        let others = [taken(&pool, &of).await, taken(&pool, &of).await];
        assert!(others.iter().all(|other| other.member.at != at));
        let mut search = pool.search(&of).await;
        let last: Vec<_> = std::iter::from_fn(|| search.take_best()).collect();
        assert_eq!(last.len(), 3, "nobody is left out where all else fails");
        assert_eq!(last[2].member.at, at);
        drop(last);
        tokio::time::advance(ASIDE).await;
        let trial = taken(&pool, &of).await;
        assert_eq!(trial.member.at, at, "it has the fewest");
        assert_ne!(taken(&pool, &of).await.member.at, at);
        trial.is_well();
        drop(trial);
        assert_eq!(taken(&pool, &of).await.member.at, at);
        assert!(pool.standings(&of).iter().all(|one| one.failure.is_none()));
    }

    #[tokio::test]
    async fn what_is_named_no_more_is_forgotten_once_nobody_uses_it() {
        let (pool, of) = three();
        let stays = taken(&pool, &of).await;
        let one = GuacdPool::from(guacd(9));
        drop(taken(&pool, &one).await);
        assert_eq!(pool.lock().len(), 2);
        drop(stays);
        drop(taken(&pool, &one).await);
        assert_eq!(pool.lock().len(), 1);
        assert_eq!(counts(&pool, &one), [0]);
    }
}
