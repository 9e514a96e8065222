//! The broker is stopped and started again on the same store; leases last.

use std::io::Write;
use std::time::Duration;

use guac_protocol::Status;
use tokio::time::sleep;

use super::{BY_ID, DESKTOP, Users};
use crate::demo::fault::{Fault, same, that};
use crate::demo::script::{Placed, Rewrite, Script, capital};
use crate::placement::HostId;

/// How often a user who left comes back before the lease is written, and how
/// long the page is closed in between.
const RETURNS: u32 = 20;
const AWAY: Duration = Duration::from_millis(100);

impl<W: Write> Script<W> {
    /// Stops the broker and starts it again with one host in drain: a host of
    /// one user only, so that it is the one a newcomer would get. Returns that
    /// host and its user.
    pub(in crate::demo) async fn restart_with_a_drained_host(
        &mut self,
        users: &Users,
    ) -> Result<(&'static str, HostId), Fault> {
        self.show
            .scene("The broker is restarted, with one host in drain")
            .await?;
        let alone = |host: &HostId| users.values().filter(|user| user.host == *host).count() == 1;
        let mut others = users
            .iter()
            .filter(|(login, _)| ["ben", "cleo"].contains(login));
        let chosen = others
            .clone()
            .find(|(_, user)| alone(&user.host))
            .or_else(|| others.next());
        let Some((login, Placed { host, .. })) = chosen else {
            return Err(Fault::Missing("a user to drain a host of".to_owned()));
        };
        let mut visits: Vec<_> = std::mem::take(&mut self.open)
            .into_values()
            .flatten()
            .collect();
        self.stage.stop().await?;
        for visit in &mut visits {
            let page = self.page(visit, |page| page.over).await?;
            let code = page.error.and_then(|(_, code)| Status::from_code(code));
            let got = code.map_or("none", Status::name);
            same("status on an open page", Status::SessionClosed.name(), got)?;
        }
        let (count, status) = (visits.len(), Status::SessionClosed);
        let code = status.code();
        self.show.fact(
            "pages",
            format_args!("all {count} were told 0x{code:X} {status}"),
        )?;
        for visit in visits {
            visit.leave().await;
        }
        self.stage.start(Some(host.as_str())).await?;
        self.show
            .fact("store", "the same file, written before the restart")?;
        self.show.fact(
            "drained",
            format_args!("{host}, where {} was", capital(login)),
        )?;
        Ok((login, host.clone()))
    }

    /// Nobody new on it, and its user back on it.
    pub(in crate::demo) async fn drained_host(
        &mut self,
        (login, drained): &(&'static str, HostId),
    ) -> Result<(), Fault> {
        let gus = self
            .place(&self.click("gus", DESKTOP, &[BY_ID]), Rewrite::default())
            .await?;
        let elsewhere = gus.by_score("gus")?;
        that(
            gus.host != *drained,
            "host of gus",
            "another than the drained one",
            drained.as_str(),
        )?;
        let back = self.comes_back(login, drained).await?;
        let here = back.known_score(login)?;
        self.show.proven(format_args!(
            "{} is back on {drained}: the lease outlived the restart",
            capital(login)
        ))?;
        if here > elsewhere {
            self.show.text(format_args!(
                "      Gus, who is new, was kept off {drained}, though its {here} beat {elsewhere} on {}",
                gus.host
            ))?;
        } else {
            self.show.text(format_args!(
                "      Gus, who is new, was placed on {}",
                gus.host
            ))?;
        }
        Ok(())
    }

    /// A user whose lease lingers opens the desktop again. Where the broker is
    /// still writing that the old tunnel has ended it says so; then once more.
    pub(in crate::demo) async fn comes_back(
        &mut self,
        login: &'static str,
        home: &HostId,
    ) -> Result<Placed, Fault> {
        for _ in 0..RETURNS {
            sleep(AWAY).await;
            let placed = self
                .place(&self.click(login, DESKTOP, &[BY_ID]), Rewrite::default())
                .await?;
            same(
                &format!("host of {login}, returning"),
                home.as_str(),
                placed.host.as_str(),
            )?;
            if placed.reason != "tunnel already open there" {
                same(
                    &format!("why {login} returned there"),
                    "lease",
                    &placed.reason,
                )?;
                return Ok(placed);
            }
            self.leave(login, &placed.tunnel).await?;
        }
        Err(Fault::Missing(format!("the end of {login}'s old tunnel")))
    }
}
