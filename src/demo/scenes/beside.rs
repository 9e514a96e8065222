//! What is not placed: a join, another protocol, and what leads nowhere.

use std::io::Write;

use guac_protocol::Status;

use crate::demo::fault::{Fault, same, that};
use crate::demo::script::{EXTRA, Script, check_arrival};
use crate::demo::visitor::Click;

impl<W: Write> Script<W> {
    /// Somebody joins a connection by the id its page knows.
    pub(in crate::demo) async fn second_client(&mut self) -> Result<(), Fault> {
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
        let placed = self.stage.witness.heard(mark, "Placed");
        that(!placed, "the broker, of a join", "no placement", "one")?;
        same("id of the joined page", &id, joined.id.unwrap_or_default())?;
        that(
            !visit.shown.iter().any(|n| n == EXTRA),
            "names shown to a joiner",
            "guacd's",
            "ours",
        )?;
        let arrival = self.stage.arrival().await?;
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
        self.show.fact(
            "",
            "guacd's own name for it, which is not the one Anna's page has",
        )?;
        self.show.fact("page", "got its first picture")?;
        visit.leave().await;
        self.show
            .proven("joined at guacd, and nobody was placed anywhere")?;
        Ok(())
    }

    /// A connection that is none of ours.
    pub(in crate::demo) async fn vnc_passes(&mut self) -> Result<(), Fault> {
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
        let arrival = self.stage.arrival().await?;
        check_arrival(&visit, &arrival, &[], &[])?;
        let count = arrival.parameters.len();
        self.show.fact(
            "at guacd",
            format_args!("{count} parameters, each as Guacamole sent it"),
        )?;
        if !self.stage.is_real() {
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
    pub(in crate::demo) async fn refusals(&mut self) -> Result<(), Fault> {
        self.show
            .scene("Refusals: the page is told, nothing is guessed")
            .await?;
        let misspelt = [("hostname", "sessionguard:resource=ofice-desktop")];
        self.refused(misspelt, Status::ResourceNotFound).await?;
        let shut = [("hostname", "sessionguard:resource=cad")];
        self.refused(shut, Status::ServerBusy).await?;
        self.show
            .proven("an unknown resource, and a farm whose only host is in maintenance;")?;
        self.show.text(
            "      codes on which the page does not try again, and guacd was told of neither",
        )?;
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
}
