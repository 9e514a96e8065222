//! What is read off the live lists when somebody scrapes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Health;
use crate::config::HostPort;
use crate::metrics::{Page, picture};
use crate::placement::{Snapshot, Timestamp};
use crate::tunnel::GuacdStanding;

impl Health {
    /// The figures of this moment, and the picture they were read from.
    pub(super) fn page(&self) -> (Page, Arc<Snapshot>) {
        let mut page = Page::default();
        let snapshot = self.fleet.snapshot();
        picture(&mut page, &snapshot, self.clock.now());
        self.tell_tunnels(&mut page);
        self.tell_load(&mut page);
        self.tell_guacd(&mut page);
        self.tell_losses(&mut page);
        self.tell_store(&mut page);
        self.tell_certificates(&mut page);
        let reload = self.reload.as_ref();
        let is_ok = reload.is_none_or(|reload| reload.state().is_ok());
        page.gauge(
            "config_last_reload_success",
            "Whether the files could be used when they were last read.",
        )
        .put(&[], f64::from(u8::from(is_ok)));
        self.tell_process(&mut page);
        self.tell_hash(&mut page, &snapshot.directory);
        (page, snapshot)
    }

    fn tell_tunnels(&self, page: &mut Page) {
        let totals = self.tunnels.totals();
        page.counter(
            "connections",
            "Connections of Guacamole that said something.",
        )
        .count(&[], totals.connections);
        page.gauge("connections_open", "Those of them that are open.")
            .put(&[], self.tunnels.count() as f64);
        let mut bytes = page.counter(
            "relay_bytes",
            "Bytes relayed after handshakes, those of open tunnels included.",
        );
        bytes.count(&[("direction", "to-guacd")], totals.to_guacd);
        bytes.count(&[("direction", "to-guacamole")], totals.to_guacamole);
    }

    fn tell_load(&self, page: &mut Page) {
        let load = self.limits.load();
        let gauges = [
            (
                "tunnels",
                "Tunnels, those whose handshake is not over among them.",
                load.tunnels,
            ),
            (
                "tunnels_max",
                "Most of them that are served at a time.",
                load.most_tunnels,
            ),
            (
                "guacd_dials",
                "Connections to guacd that are being opened.",
                load.dials,
            ),
            (
                "guacd_dials_max",
                "Most of them at a time.",
                load.most_dials,
            ),
            (
                "guacd_dials_waiting",
                "Tunnels that wait for their turn to dial guacd.",
                load.dials_waiting,
            ),
            (
                "guacamole_connections",
                "Connections of Guacamole, silent ones among them.",
                load.connections,
            ),
            (
                "guacamole_connections_max",
                "Most of them at a time.",
                load.most_connections,
            ),
        ];
        for (name, about, value) in gauges {
            page.gauge(name, about).put(&[], value as f64);
        }
        let counters = [
            (
                "tunnels_refused",
                "Tunnels refused since too many were open.",
                load.tunnels_refused,
            ),
            (
                "guacd_dials_refused",
                "Tunnels refused since their turn to dial guacd did not come.",
                load.dials_refused,
            ),
            (
                "guacamole_connections_closed",
                "Connections of Guacamole closed for want of a place.",
                load.connections_closed,
            ),
        ];
        for (name, about, value) in counters {
            page.counter(name, about).count(&[], value);
        }
    }

    /// By their places in the configuration: no label holds an address, and those
    /// behind a name come and go.
    fn tell_guacd(&self, page: &mut Page) {
        let configured = self.config.get();
        let standings = self.pool.standings(&configured.guacd);
        let names = configured.guacd.members.iter().map(|guacd| &guacd.address);
        let places: Vec<_> = names
            .enumerate()
            .map(|(at, name)| ((at + 1).to_string(), name))
            .collect();
        page.gauge(
            "guacd_up",
            "Whether guacd could be reached when it was last dialled; one of several is enough.",
        )
        .put(&[], f64::from(u8::from(self.metrics.is_guacd_up())));
        let mut samples = page.gauge(
            "guacd_tunnels",
            "Connections to guacd, those that are being opened among them, by its place in address of [guacd].",
        );
        for (place, name) in &places {
            let open: usize = of(&standings, name).map(|it| it.tunnels).sum();
            samples.put(&[("guacd", place)], open as f64);
        }
        let mut samples = page.gauge(
            "guacd_addresses",
            "Addresses that a name of guacd had when it was last dialled: used, or put aside since they failed.",
        );
        for (place, name) in &places {
            for (state, is_aside) in [("used", false), ("aside", true)] {
                let these = of(&standings, name).filter(|it| it.aside.is_some() == is_aside);
                let labels = [("guacd", place.as_str()), ("state", state)];
                samples.put(&labels, these.count() as f64);
            }
        }
    }

    /// Of a file with several certificates the one that ends first.
    fn tell_certificates(&self, page: &mut Page) {
        let mut samples = page.gauge(
            "tls_certificate_not_after_seconds",
            "When the first certificate of a file ends, in seconds since the Unix epoch.",
        );
        let mut ends: BTreeMap<_, Timestamp> = BTreeMap::new();
        for standing in self.certificates.standings() {
            let not_after = standing.not_after;
            let end = ends
                .entry((standing.key, standing.file))
                .or_insert(not_after);
            *end = not_after.min(*end);
        }
        for ((key, file), end) in ends {
            let seconds = end.as_millis() as f64 / 1000.0;
            samples.put(&[("key", key), ("file", &file)], seconds);
        }
    }

    fn tell_losses(&self, page: &mut Page) {
        let losses = self.decisions.losses();
        page.counter("decisions_lost", "Decisions that were not stored.")
            .count(&[], losses.decisions);
        page.counter("audit_lines_lost", "Lines missing in the audit trail.")
            .count(&[], losses.audit_lines);
    }
}

fn of<'a>(
    standings: &'a [GuacdStanding],
    name: &'a HostPort,
) -> impl Iterator<Item = &'a GuacdStanding> {
    standings.iter().filter(move |it| it.name == *name)
}
