//! Judges what was gathered as a whole and makes the [`Config`] of it.
//!
//! What collides is refused in [`super::overlaps`], what leads nowhere warned of
//! in [`super::references`]; here are the rules between settings.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::placement::Directory;

use super::draft::Gathered;
use super::guacd;
use super::overlaps;
use super::problem::Problem;
use super::references::{self, Members};
use super::report::Report;
use super::settings::{Config, HostPort, Listen};
use super::store;
use super::tls;

/// Guacamole gives up when the next instruction does not come within this.
const PATIENCE: Duration = Duration::from_secs(15);

/// Reports what is wrong with the whole; the result counts only if nothing is.
pub(super) fn conclude(mut gathered: Gathered, report: &mut Report) -> Config {
    guacd::conclude(&mut gathered, report);
    tls::conclude(&mut gathered, report);
    guacd::judge_advertised(&gathered, report);
    overlaps::refuse(&gathered, report);
    refuse_overlapping_probes(&gathered.config, report);
    refuse_guacd_that_is_us(&gathered, report);
    refuse_exposed_api(&gathered.config, report);
    store::judge(&gathered, report);
    warn_of_impatience(&gathered, report);
    warn_of_empty_tags(&gathered, report);
    if !gathered.incomplete {
        references::follow(&gathered, report);
    }
    let members = Members::note(&gathered);
    let config = assemble(&mut gathered);
    if report.is_sound() && !gathered.incomplete {
        members.judge(&gathered, &config.directory, report);
        references::advise(&gathered, &config.directory, report);
    }
    config
}

fn refuse_overlapping_probes(config: &Config, report: &mut Report) {
    if config.probe.timeout > config.probe.interval {
        let written = ["probe.timeout", "probe.interval"];
        if let Some(at) = written.into_iter().find_map(|key| report.origin_of(key)) {
            report.fault(at, Problem::ProbeOverlap);
        }
    }
}

/// One `select` would dial us, and that one again, until descriptors run out.
fn refuse_guacd_that_is_us(gathered: &Gathered, report: &mut Report) {
    let mut listens: Vec<_> = gathered.listen.iter().map(|d| d.listen.address).collect();
    if listens.is_empty() {
        listens.push(Listen::default().address);
    }
    let is_us = |guacd: &HostPort| {
        let ip = match guacd.host.as_str() {
            "localhost" => Ok(IpAddr::from(Ipv4Addr::LOCALHOST)),
            host => host.parse(),
        };
        let same = |listen: &SocketAddr, ip: IpAddr| {
            listen.ip() == ip || (listen.ip().is_unspecified() && ip.is_loopback())
        };
        let mut listens = listens.iter().filter(|listen| listen.port() == guacd.port);
        listens.any(|listen| ip.as_ref().is_ok_and(|ip| same(listen, *ip)))
    };
    let members = gathered.config.guacd.members.iter();
    let us = members.map(|guacd| &guacd.address).find(|it| is_us(it));
    let written = ["guacd.address", "listen.address"];
    let at = written.into_iter().find_map(|key| report.origin_of(key));
    let at = at.or_else(|| gathered.listen.iter().find_map(|draft| draft.address_at));
    if let (Some(at), Some(us)) = (at, us) {
        let address = us.to_string();
        report.fault(at, Problem::GuacdIsUs { address });
    }
}

/// Keys that travel in plain text are everybody's on the way.
fn refuse_exposed_api(config: &Config, report: &mut Report) {
    let Some(address) = config.api.listen else {
        return;
    };
    let private = address.ip().to_canonical().is_loopback() || config.api.tls.is_some();
    let exposed = !private && !config.api.insecure;
    if let (Some(at), true) = (report.origin_of("api.listen"), exposed) {
        report.fault(at, Problem::ExposedApi { address });
    }
}

/// Budgets that Guacamole does not wait for.
fn warn_of_impatience(gathered: &Gathered, report: &mut Report) {
    let dial = gathered.config.guacd.connect_timeout();
    let placement = gathered.config.timeouts.placement;
    if dial + placement > PATIENCE {
        let written = ["broker.placement_timeout", "guacd.connect_timeout"];
        if let Some(at) = written.into_iter().find_map(|key| report.origin_of(key)) {
            let together = dial + placement;
            report.warning(at, Problem::LongBudgets { together });
        }
    }
    for draft in &gathered.listen {
        let handshake = draft.listen.handshake_timeout;
        if let (Some(at), true) = (draft.handshake_at, handshake > PATIENCE) {
            report.warning(at, Problem::LongHandshake { handshake });
        }
    }
}

fn warn_of_empty_tags(gathered: &Gathered, report: &mut Report) {
    for draft in &gathered.farms {
        if let (Some(at), true) = (draft.tags_at, draft.farm.required_tags.is_empty()) {
            let farm = draft.farm.id.to_string();
            report.warning(at, Problem::EmptyTags { farm });
        }
    }
}

fn assemble(gathered: &mut Gathered) -> Config {
    let mut config = std::mem::take(&mut gathered.config);
    let mut rules = std::mem::take(&mut gathered.rules);
    rules.default_farm = gathered
        .default_farm
        .as_ref()
        .map(|farm| farm.value.clone());
    let global = rules.weights;
    let farms = gathered.farms.drain(..).map(|mut draft| {
        draft.farm.overrides.weights = draft.score.map(|score| score.over(global));
        draft.farm
    });
    let hosts = gathered.hosts.drain(..).map(|draft| draft.host);
    let resources = gathered.resources.drain(..).map(|draft| draft.resource);
    config.directory = Arc::new(Directory::new(rules, hosts, farms, resources));
    let listen: Vec<Listen> = gathered
        .listen
        .drain(..)
        .map(|draft| draft.listen)
        .collect();
    if !listen.is_empty() {
        config.listen = listen;
    }
    config
}
