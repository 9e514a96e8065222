//! The scenes, one after the other.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use guac_protocol::Status;
use tokio::time::sleep;

use super::fault::{Fault, same, that};
use super::guacd::CONFESSION;
use super::script::{EXTRA, Placed, Rewrite, Script, capital, check_arrival};
use super::visitor::Click;
use crate::placement::HostId;

/// Where everybody is, and by which tunnel.
pub(super) type Users = BTreeMap<&'static str, Placed>;

const DESKTOP: &str = "Office Desktop";
const BY_ID: (&str, &str) = ("hostname", "sessionguard:resource=office-desktop");

/// How often a user who left comes back before the lease is written, and how
/// long the page is closed in between.
const RETURNS: u32 = 20;
const AWAY: Duration = Duration::from_millis(100);

impl<W: Write> Script<W> {
    /// As many users as there are hosts, three at most, each on a host alone.
    pub(super) async fn users_spread(&mut self) -> Result<Users, Fault> {
        let all = [
            ("anna", BY_ID),
            ("ben", ("hostname", "sessionguard:name=Office Desktop")),
            ("cleo", ("hostname", "office.example.com")),
        ];
        let count = self.stage.hosts.len().min(all.len());
        let title = format!("{count} users open the same desktop, each typed in another way");
        self.show.scene(&title).await?;
        let mut users = Users::new();
        for (login, typed) in all.into_iter().take(count) {
            let click = self.click(login, DESKTOP, &[typed]);
            let placed = self.place(&click, Rewrite::default()).await?;
            placed.by_score(login)?;
            let host = &placed.host;
            let taken = users.values().any(|earlier: &Placed| earlier.host == *host);
            that(
                !taken,
                &format!("host of {login}"),
                "an empty one",
                host.as_str(),
            )?;
            users.insert(login, placed);
        }
        if !self.stage.is_real() {
            let page = self.open.get("anna").and_then(|visits| visits.first());
            let log = page.and_then(|visit| visit.page.borrow().log.clone());
            same(
                "guacd's log on Anna's page",
                CONFESSION,
                log.unwrap_or_default(),
            )?;
        }
        self.show.proven(format_args!(
            "{count} users on {count} hosts: the best score decided"
        ))?;
        Ok(users)
    }

    /// A user leaves, another one comes, the first returns.
    pub(super) async fn user_returns(&mut self, users: &mut Users) -> Result<(), Fault> {
        self.show.scene("A user disconnects and returns").await?;
        let Some(before) = users.get("anna").cloned() else {
            return Ok(());
        };
        let home = before.host.clone();
        self.show.action("Anna closes her browser")?;
        self.leave("anna", &before.tunnel).await?;
        if self.stage.is_real() {
            users.insert("anna", self.comes_back("anna", &home).await?);
            self.show
                .proven(format_args!("Anna is back on {home}, where she was"))?;
            return Ok(());
        }
        let dora = self
            .place(&self.click("dora", DESKTOP, &[BY_ID]), Rewrite::default())
            .await?;
        dora.by_score("dora")?;
        same(
            "host of dora, the one Anna left",
            home.as_str(),
            dora.host.as_str(),
        )?;
        users.insert("dora", dora);

        let anna = self.comes_back("anna", &home).await?;
        let at_home = anna.known_score("anna")?;
        users.insert("anna", anna);

        // Nothing has changed meanwhile on the host this newcomer gets: its
        // score is what Anna passed by.
        let emil = self
            .place(&self.click("emil", DESKTOP, &[BY_ID]), Rewrite::default())
            .await?;
        let elsewhere = emil.by_score("emil")?;
        let found = format!("{} at {elsewhere}", emil.host);
        let better = emil.host != home && elsewhere > at_home;
        that(
            better,
            "host of emil",
            &format!("another than {home}, above {at_home}"),
            &found,
        )?;
        self.show.proven(format_args!(
            "Anna is back on {home}, where she was, although {} scored {elsewhere} against {at_home};",
            emil.host
        ))?;
        self.show.text(format_args!(
            "      Emil, who is new, went to {} by that score",
            emil.host
        ))?;
        users.insert("emil", emil);
        Ok(())
    }

    /// A user whose lease lingers opens the desktop again. Where the broker is
    /// still writing that the old tunnel has ended it says so; then once more.
    async fn comes_back(&mut self, login: &'static str, home: &HostId) -> Result<Placed, Fault> {
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

    /// A user with a desktop opens an application as well.
    pub(super) async fn remote_app(&mut self, users: &Users) -> Result<(), Fault> {
        self.show
            .scene("A RemoteApp, for a user who has a desktop open")
            .await?;
        let typed = [
            ("hostname", "sessionguard:resource=sage"),
            (
                "load-balance-info",
                "tsv://MS Terminal Services Plugin.1.Office",
            ),
            ("gateway-hostname", "rdgw.example.com"),
            ("initial-program", "notepad.exe"),
        ];
        let rewrite = Rewrite {
            set: &[
                ("remote-app", "||Sage"),
                ("remote-app-dir", r"C:\Program Files\Sage"),
                ("remote-app-args", "/company 7"),
            ],
            cleared: &["gateway-hostname", "initial-program", "load-balance-info"],
        };
        let sage = self
            .place(&self.click("ben", "Sage", &typed), rewrite)
            .await?;
        let home = users
            .get("ben")
            .map(|ben| ben.host.as_str())
            .unwrap_or_default();
        same("host of ben's Sage", home, sage.host.as_str())?;
        same(
            "why Sage opens there",
            "tunnel already open there",
            &sage.reason,
        )?;
        self.show.proven(format_args!(
            "Sage opens on {home} beside Ben's desktop; what could lead past it was cleared"
        ))?;
        Ok(())
    }

    /// Somebody joins a connection by the id its page knows.
    pub(super) async fn second_client(&mut self) -> Result<(), Fault> {
        self.show
            .scene("A second client joins Anna's desktop")
            .await?;
        let anna = self.open.get("anna").and_then(|visits| visits.last());
        let page = anna
            .map(|visit| visit.page.borrow().clone())
            .unwrap_or_default();
        let id = page
            .id
            .ok_or_else(|| Fault::Missing("the id of Anna's page".to_owned()))?;
        let click = Click {
            select: id.clone(),
            ..self.click("viewer", "Anna's desktop, shared", &[])
        };
        let mark = self.stage.witness.mark();
        let mut visit = self.visit(&click).await?;
        self.show.fact("selects", &id)?;
        let joined = self.picture(&mut visit).await?;
        self.said(mark, "Joined", "").await?;
        same("id of the joined page", &id, joined.id.unwrap_or_default())?;
        that(
            !visit.shown.iter().any(|n| n == EXTRA),
            "names shown to a joiner",
            "guacd's",
            "ours",
        )?;
        if let Some(arrival) = self.stage.arrival().await? {
            let guacds = &arrival.id;
            that(
                *guacds != id,
                "guacd's own id",
                "another than the page's",
                "the same",
            )?;
            same("what was joined at guacd", guacds, &arrival.selected)?;
            check_arrival(&visit, &arrival, &[], &[])?;
            self.show
                .fact("at guacd", format_args!("a join of {guacds}"))?;
            self.show
                .fact("", "guacd's own name for it, which no page ever learns")?;
        }
        self.show.fact("page", "got its first picture")?;
        visit.leave().await;
        self.show
            .proven("joined, with no placement and no seat taken")?;
        Ok(())
    }

    /// A connection that is none of ours.
    pub(super) async fn vnc_passes(&mut self) -> Result<(), Fault> {
        self.show
            .scene("A VNC connection that nobody mapped")
            .await?;
        let typed = [("hostname", "vnc-7.example.com"), ("port", "5901")];
        let mut click = self.click("anna", "Lab machine", &typed);
        click.select = "vnc".to_owned();
        let mark = self.stage.witness.mark();
        let mut visit = self.visit(&click).await?;
        self.page(&mut visit, |page| page.id.is_some()).await?;
        let line = self.said(mark, "Passed through", "").await?;
        same("protocol passed through", "vnc", line.field("protocol"))?;
        self.show.fact("decided", "nothing: passed through")?;
        that(
            !visit.shown.iter().any(|n| n == EXTRA),
            "names shown for VNC",
            "guacd's",
            "ours",
        )?;
        if let Some(arrival) = self.stage.arrival().await? {
            check_arrival(&visit, &arrival, &[], &[])?;
            let count = arrival.parameters.len();
            self.show.fact(
                "at guacd",
                format_args!("{count} parameters, each as Guacamole sent it"),
            )?;
            self.picture(&mut visit).await?;
            self.show
                .fact("page", "got its first picture (the stand-in dials no VNC)")?;
        }
        visit.leave().await;
        self.show
            .proven("untouched: brokered and plain connections live side by side")?;
        Ok(())
    }

    /// Two clicks that lead nowhere.
    pub(super) async fn refusals(&mut self) -> Result<(), Fault> {
        self.show
            .scene("Refusals: the page is told, nothing is guessed")
            .await?;
        let misspelt = [("hostname", "sessionguard:resource=ofice-desktop")];
        self.refused(misspelt, Status::ResourceNotFound).await?;
        let shut = [("hostname", "sessionguard:resource=cad")];
        self.refused(shut, Status::ServerBusy).await?;
        self.show
            .proven("an unknown resource, and a farm whose only host is in maintenance;")?;
        let unseen = if self.stage.is_real() {
            ""
        } else {
            ", and guacd was told of neither"
        };
        self.show.text(format_args!(
            "      codes on which the page does not try again{unseen}"
        ))?;
        Ok(())
    }

    async fn refused(
        &mut self,
        typed: [(&'static str, &str); 1],
        with: Status,
    ) -> Result<(), Fault> {
        let mark = self.stage.witness.mark();
        let click = self.click("fritz", "Something", &typed);
        let mut visit = self.visit(&click).await?;
        let page = self.page(&mut visit, |page| page.over).await?;
        let (text, code) = page.error.unwrap_or_default();
        same(
            "status on the page",
            with.name(),
            Status::from_code(code).map_or("none", Status::name),
        )?;
        that(
            !with.page_retries(),
            "the page",
            "no second try",
            "it tries again",
        )?;
        that(
            page.id.is_some(),
            "the page",
            "`ready` before the error",
            "the error alone",
        )?;
        let line = self.said(mark, "Refused", "").await?;
        let (reason, decision) = (line.field("reason"), line.field("decision_id"));
        self.show
            .fact("decided", format_args!("refused: {reason}"))?;
        self.show.fact("", format_args!("decision {decision}"))?;
        self.show.fact(
            "page",
            format_args!("error 0x{code:X} {}, with this reason", with.name()),
        )?;
        let told = !decision.is_empty() && text.contains(decision) && text.contains(reason);
        that(
            told,
            "text of the error",
            "the reason and the decision's id",
            &text,
        )?;
        let quiet = self.stage.nothing_arrived();
        that(
            quiet,
            "guacd",
            "nothing of a refused connection",
            "a `connect`",
        )?;
        self.rows
            .push([click.login, click.connection, "-", reason].map(str::to_owned));
        Ok(())
    }

    /// Stops the broker and starts it again with one host in drain: a host of
    /// one user only, so that it is the one a newcomer would get. Returns that
    /// host and its user.
    pub(super) async fn restart_with_a_drained_host(
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
    pub(super) async fn drained_host(
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
}
