//! One statement at a time, within the time for an answer: sent again where that
//! is safe, and what it means where it fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::dial::Dialer;
use super::error::{Effect, Whereabouts, effect};
use super::pool::{Lent, Pool, connections, lend, pool};
use crate::clock::Clock;
use crate::config::PostgresSettings;
use crate::placement::Timestamp;
use crate::store::{Connections, Losses, StoreError};
use crate::tls::Connector;

/// Between two tries; doubled each time.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A statement with its parameters. The types are named, so that it takes one
/// round trip and no statement with a name.
#[derive(Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) sql: &'static str,
    pub(super) values: &'a [(&'a (dyn ToSql + Sync), Type)],
}

/// Rows, and between which moments of our clock they came about.
pub(super) struct Answered {
    pub(super) rows: Vec<Row>,
    pub(super) sent: Timestamp,
    pub(super) received: Timestamp,
    /// An earlier try was sent whose outcome nobody knows.
    pub(super) in_doubt: bool,
}

/// Whoever asks the database.
#[derive(Debug)]
pub(super) struct Asking {
    pool: Pool,
    dialer: Arc<Dialer>,
    clock: Clock,
}

/// Why one try came to nothing.
enum Failed {
    /// Nothing was changed; another try may go better.
    Before(StoreError),
    /// It was sent, and nobody knows.
    Lost(StoreError),
    /// It was refused.
    Refused(StoreError),
}

impl Asking {
    pub(super) fn new(
        settings: PostgresSettings,
        tls: Option<Connector>,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let dialer = Arc::new(Dialer::new(settings, tls));
        let pool = pool(Arc::clone(&dialer))?;
        Ok(Self {
            pool,
            dialer,
            clock,
        })
    }

    pub(super) fn whereabouts(&self) -> Whereabouts {
        self.dialer.whereabouts()
    }

    /// Connections that were lost.
    pub(super) fn losses(&self) -> &Losses {
        self.dialer.losses()
    }

    pub(super) fn connections(&self) -> Connections {
        connections(&self.pool)
    }

    fn patience(&self) -> Duration {
        self.dialer.settings().query_timeout
    }

    /// By when an answer that is asked for now must be there.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.patience()
    }

    /// A connection for more than one statement.
    pub(super) async fn lend(&self) -> Result<Lent, StoreError> {
        lend(&self.pool, &self.dialer).await
    }

    /// Asks for something that may be asked any number of times.
    pub(super) async fn ask(&self, statement: Statement<'_>) -> Result<Answered, StoreError> {
        self.ask_until(statement, self.deadline()).await
    }

    /// The same by `deadline`. [`Answered::in_doubt`] says whether it may have
    /// been done more than once.
    pub(super) async fn ask_until(
        &self,
        statement: Statement<'_>,
        deadline: Instant,
    ) -> Result<Answered, StoreError> {
        let (mut last, mut in_doubt, mut pause) = (None, false, PAUSE);
        let asked = timeout_at(deadline, async {
            loop {
                match self.once(statement).await {
                    Ok(answered) => return Ok(answered),
                    Err(Failed::Refused(error)) => return Err(error),
                    Err(Failed::Before(error)) => last = Some(error),
                    Err(Failed::Lost(error)) => {
                        in_doubt = true;
                        last = Some(error);
                    }
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
        let asked = asked.await.ok();
        match asked {
            Some(asked) => asked.map(|answered| Answered {
                in_doubt,
                ..answered
            }),
            None => Err(last.unwrap_or_else(|| self.whereabouts().silent())),
        }
    }

    /// Asks for something that must not be done twice.
    pub(super) async fn ask_once(&self, statement: Statement<'_>) -> Result<Answered, StoreError> {
        let asked = timeout_at(self.deadline(), self.once(statement)).await;
        asked
            .unwrap_or_else(|_| Err(Failed::Lost(self.whereabouts().silent())))
            .map_err(|failed| match failed {
                Failed::Before(error) | Failed::Lost(error) | Failed::Refused(error) => error,
            })
    }

    async fn once(&self, statement: Statement<'_>) -> Result<Answered, Failed> {
        let link = self.lend().await.map_err(Failed::Before)?;
        let client = link.client().map_err(Failed::Before)?;
        link.owes_answer(true);
        let sent = self.clock.now();
        let asked = client.query_typed(statement.sql, statement.values);
        match asked.await {
            Ok(rows) => {
                link.owes_answer(false);
                Ok(Answered {
                    rows,
                    sent,
                    received: self.clock.now(),
                    in_doubt: false,
                })
            }
            Err(error) => {
                let said = self.whereabouts().said(&error);
                Err(match effect(&error) {
                    Effect::None => {
                        link.owes_answer(false);
                        Failed::Refused(said)
                    }
                    // Left as it is, so that the connection is given up.
                    Effect::WrongDatabase => {
                        self.dialer.losses().note();
                        Failed::Before(said)
                    }
                    Effect::Unknown => {
                        // Where the connection ended, that was noted by then.
                        // Where the server says that it ends it, we are first.
                        let code = error.code();
                        if code.is_some_and(|code| *code != SqlState::QUERY_CANCELED) {
                            self.dialer.losses().note();
                        }
                        Failed::Lost(said)
                    }
                })
            }
        }
    }
}
