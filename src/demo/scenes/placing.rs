//! Users are placed, come back, and open an application besides.

use std::io::Write;

use super::{BY_ID, DESKTOP, Users};
use crate::demo::fault::{Fault, same, that};
use crate::demo::guacd::CONFESSION;
use crate::demo::script::{Placed, Rewrite, Script};

impl<W: Write> Script<W> {
    /// As many users as there are hosts, three at most, each on a host alone.
    pub(in crate::demo) async fn users_spread(&mut self) -> Result<Users, Fault> {
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
    pub(in crate::demo) async fn user_returns(&mut self, users: &mut Users) -> Result<(), Fault> {
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

    /// A user with a desktop opens an application as well.
    pub(in crate::demo) async fn remote_app(&mut self, users: &Users) -> Result<(), Fault> {
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
}
