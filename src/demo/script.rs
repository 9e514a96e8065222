//! What the scenes are made of: one click, what was decided about it, what
//! arrived at guacd and what the page got. Nothing is printed that was not
//! looked at, and everything that was looked at is held against what had to be.

use std::collections::BTreeMap;
use std::io::Write;

use tokio::time::timeout;

use super::fault::{Fault, same, that};
use super::overheard::{Arrival, Names};
use super::show::Show;
use super::stage::Stage;
use super::visitor::{self, Click, Page, Visit};
use super::witness::Line;
use crate::placement::HostId;

/// Our own parameter: Guacamole is shown it, guacd must never see it.
pub(super) const EXTRA: &str = "sessionguard-resource";

/// A story in the telling.
pub(super) struct Script<W> {
    pub(super) stage: Stage,
    pub(super) show: Show<W>,
    pub(super) open: BTreeMap<&'static str, Vec<Visit>>,
    /// For the table at the end: user, connection, host, why.
    pub(super) rows: Vec<[String; 4]>,
}

/// What the broker decided, in its own words.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) host: HostId,
    pub(super) reason: String,
    /// `None` where no host had to be compared.
    pub(super) score: Option<f64>,
    /// The tunnel's id.
    pub(super) tunnel: String,
}

/// What a scene expects of a placement besides host and port: values set, and
/// the names that must have lost theirs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rewrite {
    pub(super) set: &'static [(&'static str, &'static str)],
    pub(super) cleared: &'static [&'static str],
}

impl<W: Write> Script<W> {
    /// A click on an RDP connection with these parameters.
    pub(super) fn click(
        &self,
        login: &'static str,
        connection: &'static str,
        typed: &[(&'static str, &str)],
    ) -> Click {
        let typed = typed
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        Click {
            login,
            name: self.stage.name_of(login),
            connection,
            select: "rdp".to_owned(),
            typed: typed.collect(),
            credentials: self.stage.credentials(login),
        }
    }

    /// Clicks, and shows what was typed.
    pub(super) async fn visit(&mut self, click: &Click) -> Result<Visit, Fault> {
        let user = capital(click.login);
        self.show
            .action(format_args!("{user} opens \"{}\"", click.connection))?;
        for (at, (name, value)) in click.typed.iter().enumerate() {
            let label = if at == 0 { "typed" } else { "" };
            self.show.fact(label, format_args!("{name} = {value}"))?;
        }
        let visit = visitor::click(self.stage.broker()?, click).await;
        visit.map_err(|error| Fault::Broken {
            what: format!("the handshake of {user}"),
            error: error.to_string(),
        })
    }

    /// A click that must be placed: looks at the decision, at what arrived and
    /// at the page, and shows all three.
    pub(super) async fn place(&mut self, click: &Click, rewrite: Rewrite) -> Result<Placed, Fault> {
        let mark = self.stage.witness.mark();
        let mut visit = self.visit(click).await?;
        let page = self.picture(&mut visit).await?;
        let line = self.said(mark, "Placed", "").await?;
        let user = line.field("user").to_lowercase();
        same(
            "user of the decision",
            self.stage.user_of(click.login),
            user,
        )?;
        let placed = Placed::read(&line);
        let address = match self.stage.host(placed.host.as_str()) {
            Some(host) => host.address.clone(),
            None => return Err(Fault::Missing(format!("host {} in the farm", placed.host))),
        };
        let score = placed
            .score
            .map_or_else(String::new, |score| format!(", score {score}"));
        let host = &placed.host;
        self.show.fact(
            "decided",
            format_args!("{host}{score}, chosen by: {}", placed.reason),
        )?;
        self.show
            .fact("", format_args!("decision {}", line.field("decision_id")))?;
        let mut cleared: Vec<_> = line.field("cleared").split(',').collect();
        cleared.retain(|name| !name.is_empty());
        cleared.sort_unstable();
        same(
            "parameters the broker cleared",
            rewrite.cleared.join(","),
            cleared.join(","),
        )?;
        let arrival = self.stage.arrival().await?;
        same("login at guacd", &click.name, &arrival.login)?;
        let port = address.port.to_string();
        let mut set = vec![("hostname", address.host.as_str()), ("port", port.as_str())];
        set.extend(rewrite.set);
        check_arrival(&visit, &arrival, &set, rewrite.cleared)?;
        self.show_arrival(&arrival, &set, rewrite.cleared)?;
        self.show_host_and_page(click, &placed, &page)?;
        let row = [
            click.login,
            click.connection,
            placed.host.as_str(),
            &placed.reason,
        ];
        self.rows.push(row.map(str::to_owned));
        self.open.entry(click.login).or_default().push(visit);
        Ok(placed)
    }

    fn show_arrival(
        &mut self,
        arrival: &Arrival,
        set: &[(&str, &str)],
        cleared: &[&str],
    ) -> Result<(), Fault> {
        self.show.fact("at guacd", arrival.told.join(", "))?;
        for (name, value) in set {
            self.show.fact("", format_args!("{name} = {value}"))?;
        }
        if !cleared.is_empty() {
            self.show
                .fact("", format_args!("cleared: {}", cleared.join(", ")))?;
        }
        let filled = arrival.parameters.iter().filter(|(_, v)| !v.is_empty());
        let is_set = |name: &str| set.iter().any(|(known, _)| *known == name);
        let kept = filled.map(|(name, _)| name.as_str()).filter(|n| !is_set(n));
        let kept = Names::of(kept);
        self.show.fact(
            "",
            format_args!("as Guacamole sent them, not shown: {kept}"),
        )?;
        let empty = arrival.parameters.iter().filter(|(_, v)| v.is_empty());
        let empty = empty.count() - cleared.len();
        Ok(self
            .show
            .fact("", format_args!("empty, as sent: {empty} more"))?)
    }

    fn show_host_and_page(
        &mut self,
        click: &Click,
        placed: &Placed,
        page: &Page,
    ) -> Result<(), Fault> {
        let host = self.stage.host(placed.host.as_str());
        if let Some(caller) = host.and_then(super::host::Host::last_caller) {
            let what = format!("who was brought to {}", placed.host);
            same(&what, click.login, &caller)?;
            self.show
                .fact("at host", format_args!("{} saw {caller} come", placed.host))?;
        }
        let id = page.id.as_deref().unwrap_or_default();
        Ok(self.show.fact(
            "page",
            format_args!("got its first picture, as connection {id}"),
        )?)
    }

    /// Waits for the page's first picture.
    pub(super) async fn picture(&self, visit: &mut Visit) -> Result<Page, Fault> {
        let page = self
            .page(visit, |page| page.pictures > 0 || page.over)
            .await?;
        let error = page.error.as_ref();
        let got = error.map_or_else(
            || "the end of the connection".to_owned(),
            |(text, code)| format!("error 0x{code:X} ({text})"),
        );
        that(page.pictures > 0, "the page", "a picture", &got)?;
        that(
            page.id.is_some(),
            "the page",
            "a `ready` before the picture",
            "none",
        )?;
        Ok(page)
    }

    /// Waits until the page is as it should be.
    pub(super) async fn page(
        &self,
        visit: &mut Visit,
        is: impl FnMut(&Page) -> bool,
    ) -> Result<Page, Fault> {
        let waited = timeout(self.stage.patience(), visit.page.wait_for(is)).await;
        match waited {
            Ok(Ok(page)) => Ok(page.clone()),
            _ => Err(Fault::Missing("what the page waited for".to_owned())),
        }
    }

    /// What the broker said since `mark`, about this tunnel where one is given.
    pub(super) async fn said(
        &self,
        mark: usize,
        message: &str,
        tunnel: &str,
    ) -> Result<Line, Fault> {
        let fits =
            |line: &Line| line.is(message) && (tunnel.is_empty() || line.field("tunnel") == tunnel);
        let heard = self.stage.witness.hear(mark, fits).await;
        heard.ok_or_else(|| Fault::Missing(format!("the log line \"{message}\"")))
    }

    /// Closes all of a user's pages, and waits until the broker has noticed.
    pub(super) async fn leave(&mut self, login: &str, tunnel: &str) -> Result<(), Fault> {
        let mark = self.stage.witness.mark();
        for visit in self.open.remove(login).unwrap_or_default() {
            visit.leave().await;
        }
        self.said(mark, "Tunnel ended", tunnel).await?;
        Ok(())
    }
}

impl Placed {
    fn read(line: &Line) -> Self {
        Self {
            host: line.field("host").into(),
            reason: line.field("reason").to_owned(),
            score: line.field("score").parse().ok(),
            tunnel: line.field("tunnel").to_owned(),
        }
    }

    /// The score a decision by score must have.
    pub(super) fn by_score(&self, who: &str) -> Result<f64, Fault> {
        same(&format!("why {who} was placed"), "best score", &self.reason)?;
        self.known_score(who)
    }

    pub(super) fn known_score(&self, who: &str) -> Result<f64, Fault> {
        self.score
            .ok_or_else(|| Fault::Missing(format!("the score of {who}'s host")))
    }
}

/// Holds what arrived at guacd against what Guacamole sent: set and cleared as
/// expected, all else untouched. Values are not in the fault, whatever they are.
pub(super) fn check_arrival(
    visit: &Visit,
    arrival: &Arrival,
    set: &[(&str, &str)],
    cleared: &[&str],
) -> Result<(), Fault> {
    let sent = visit.sent.iter().filter(|(name, _)| name != EXTRA);
    let names = |all: &mut dyn Iterator<Item = &String>| {
        all.map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    let expected = names(&mut sent.clone().map(|(name, _)| name));
    let arrived = names(&mut arrival.parameters.iter().map(|(name, _)| name));
    same("names at guacd", expected, arrived)?;
    for ((name, sent), (_, arrived)) in sent.zip(&arrival.parameters) {
        let wanted = set.iter().find(|(known, _)| known == name);
        let (wanted, words) = match wanted {
            Some((_, value)) => (*value, "the value set"),
            None if cleared.contains(&name.as_str()) => ("", "nothing"),
            None => (sent.as_str(), "what Guacamole sent"),
        };
        let what = format!("{name} at guacd");
        that(wanted == arrived, &what, words, "something else")?;
        let lost = !cleared.contains(&name.as_str()) || !sent.is_empty();
        that(lost, &what, "a value to clear", "none was sent")?;
    }
    Ok(())
}

/// A login as a person's name.
pub(super) fn capital(login: &str) -> String {
    let mut letters = login.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
