//! Restarts hosts that were drained for it: once for each order, when nobody is
//! on them.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::command::{Command, CommandKind, Drain, State, Target};
use super::queue::{Asked, CommandError, Commands};
use super::wish::Wish;
use crate::broker::{self, Modes};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::placement::{Actor, HostId, Mode, Order, Timestamp, is_drained, restart_order};

/// How long a restart waits for its agent, which was heard a moment ago.
const EXPIRES: Duration = Duration::from_secs(3600);

/// Restarts hosts that were drained for it.
#[derive(Debug, Clone)]
pub struct Restarts {
    /// Where restarts are asked for.
    pub commands: Commands,
    /// For hosts that are to be online afterwards.
    pub modes: Modes,
    /// The live picture.
    pub fleet: Arc<Fleet>,
    /// For what is fresh.
    pub clock: Clock,
}

impl Restarts {
    /// A host was heard: it may be empty by now, or back. Returns the restart
    /// that was asked for, where one was, and by whose order.
    pub async fn heard(&self, host: &HostId) -> Option<(Command, Actor)> {
        let (snapshot, now) = (self.fleet.snapshot(), self.clock.now());
        let order = restart_order(&snapshot, host, now)?;
        let report = snapshot.hosts.get(host)?.report.as_ref();
        let boot = report
            .and_then(|report| report.order)
            .map(|number| number.boot);
        if let Some(before) = self.commands.drained_by(host, order.at) {
            if order.online_after_restart && before.is_past(boot, now) {
                self.put_online(host, &order).await;
            }
            return None;
        }
        let since = order.from.unwrap_or(order.at);
        if !is_drained(&snapshot, host, since, now) {
            return None;
        }
        match self.restart(host, &order, boot).await {
            Ok(Asked { is_new: false, .. }) => None,
            Ok(Asked { command, .. }) => {
                info!(%host, command = %command.id, by = %order.by, "A drained host is to be restarted");
                Some((command, order.by.clone()))
            }
            Err(error) => {
                warn!(%host, %error, "A drained host cannot be restarted, its next heartbeat tries again");
                None
            }
        }
    }

    async fn restart(
        &self,
        host: &HostId,
        order: &Order,
        boot: Option<u64>,
    ) -> Result<Asked, CommandError> {
        let wish = Wish {
            kind: CommandKind::RestartServer,
            target: Target::default(),
            message: None,
            expires: Some(EXPIRES),
        };
        let drain = Drain {
            order: order.at,
            boot,
        };
        let by = order.by.to_string();
        self.commands.ask_for(host, wish, by, Some(drain)).await
    }

    async fn put_online(&self, host: &HostId, order: &Order) {
        let wish = broker::Wish {
            mode: Mode::Online,
            reason: Some("restarted when drained".to_owned()),
            ..broker::Wish::default()
        };
        let target = broker::Target::Host(host.clone());
        // It was so ordered, by whoever ordered the drain.
        if let Err(error) = self.modes.change(target, wish, order.by.clone()).await {
            warn!(%host, %error, "A restarted host is not online yet, its next heartbeat tries again");
        }
    }
}

impl Command {
    /// Whether the host has started anew since this restart was asked for, and
    /// by it.
    fn is_past(&self, boot: Option<u64>, now: Timestamp) -> bool {
        let before = self.drain.and_then(|drain| drain.boot);
        let given = matches!(
            self.state(now),
            State::Delivered | State::Done | State::Expired
        );
        given && before.zip(boot).is_some_and(|(before, boot)| boot > before)
    }
}
