//! The first question to guacd, or to whoever has the connection that is to be
//! joined, and the answer that Guacamole is shown.

use std::time::Duration;

use guac_protocol::{Event, Instruction, Select, Side};
use tokio::time::{Instant, timeout};

use super::Gateway;
use super::dial;
use super::joins::{Elsewhere, Seat};
use super::line::Line;
use super::pool::{Dialled, FIRST_WORD, Search};
use super::resolve;
use super::stop::Stop;
use crate::config::Config;

impl Gateway {
    /// Dials guacd (for a join the one that has the connection, wherever new
    /// ones go by now, or the replica that knows which), puts the question and
    /// shows Guacamole the answer, widened by our own parameter where a
    /// placement may follow.
    pub(super) async fn ask_guacd(
        &self,
        line: &mut Line,
        (select, seat): (&Select, Option<Seat>),
        config: &Config,
        turn_by: Instant,
    ) -> Result<(), Stop> {
        let stall = config.limits.stall;
        match seat {
            Some(Seat::Elsewhere(elsewhere)) => self.ask_replica(line, &elsewhere, stall).await?,
            Some(Seat::Here(owned)) => {
                let turn = self.limits.dial(turn_by).await?;
                let search = self.pool.only(&owned.guacd);
                let question = Select::Join(owned.guacd_id.clone()).to_instruction();
                match self.ask_one_of(line, search, &question, stall).await {
                    // How guacd before 1.4.0 says that it has no such connection.
                    Err(Stop::GuacdHungUp { .. } | Stop::Closed(Side::Guacd)) => {
                        return Err(Stop::UnknownJoin);
                    }
                    asked => asked?,
                }
                // guacd did its part, and Guacamole may be slow.
                drop(turn);
            }
            None => {
                let turn = self.limits.dial(turn_by).await?;
                let search = self.pool.search(&config.guacd).await;
                let question = select.to_instruction();
                self.ask_one_of(line, search, &question, stall).await?;
                drop(turn);
            }
        }
        line.show_args(resolve::extra_names(select)).await
    }

    /// Asks one after the other until one answers. Guacamole has heard nothing
    /// yet, so that a guacd that takes the question and says nothing, or leaves,
    /// is as good as one that could not be dialled.
    async fn ask_one_of(
        &self,
        line: &mut Line,
        mut search: Search,
        question: &Instruction,
        stall: Duration,
    ) -> Result<(), Stop> {
        let mut has_left = false;
        loop {
            let dialled = search.dial(stall).await;
            line.dialled(self.metrics.dialled(dialled)?);
            let others = search.has_others();
            match (first_word(line, question, others).await, others) {
                (Ok(()), _) => {
                    if let Some(guacd) = line.guacd() {
                        guacd.is_well();
                    }
                    return Ok(());
                }
                (Err(Stop::GuacdSilent), true) if !line.has_heard_guacd() => {
                    if let Some(guacd) = line.guacd() {
                        guacd.is_silent();
                    }
                }
                // One that lacks the protocol leaves, too: the others may, but
                // not each of them is asked.
                (Err(stop), true) if leaves(&stop) && !line.has_heard_guacd() && !has_left => {
                    has_left = true;
                }
                (Err(stop), _) => return Err(explained(stop, line)),
            }
        }
    }

    /// The replica answers as guacd would: with `args` once there is a desktop,
    /// with a refusal where it knows no such connection.
    async fn ask_replica(
        &self,
        line: &mut Line,
        Elsewhere { id, owner }: &Elsewhere,
        stall: Duration,
    ) -> Result<(), Stop> {
        let replica = dial::replica(owner, &self.certificates, stall).await?;
        line.dialled(Dialled::replica(replica));
        let question = Select::Join(id.clone()).to_instruction();
        match first_word(line, &question, false).await {
            // It has ended meanwhile.
            Err(stop) if leaves(&stop) => Err(Stop::UnknownJoin),
            Err(Stop::GuacdSpeaksTls) => Err(Stop::ReplicaUnreachable {
                address: owner.address.to_string(),
                reason: "it answers in TLS and said that it does not".to_owned(),
            }),
            asked => asked,
        }
    }
}

/// Puts the question and waits for `args`; not for long, where there are others.
async fn first_word(line: &mut Line, question: &Instruction, others: bool) -> Result<(), Stop> {
    let answered = async {
        line.tell_guacd(question).await?;
        match line.event().await {
            Ok(Event::Args(_)) => Ok(()),
            Ok(other) => Err(Stop::unexpected(&other)),
            Err(stop) => Err(stop),
        }
    };
    match others {
        true => timeout(FIRST_WORD, answered)
            .await
            .unwrap_or(Err(Stop::GuacdSilent)),
        false => answered.await,
    }
}

/// Who leaves with our question unread resets.
fn leaves(stop: &Stop) -> bool {
    matches!(
        stop,
        Stop::Closed(Side::Guacd)
            | Stop::Socket {
                side: Side::Guacd,
                ..
            }
    )
}

/// Why a guacd may leave without an answer.
fn explained(stop: Stop, line: &Line) -> Stop {
    let member = line.guacd().and_then(Dialled::member);
    match member.filter(|member| member.guacd.tls.is_none() && leaves(&stop)) {
        Some(member) => Stop::GuacdHungUp {
            address: member.to_string(),
        },
        None => stop,
    }
}
