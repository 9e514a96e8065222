//! What differs between two configurations. Pure: two values in, a list out.
//!
//! Called by the reload, which tells the administrator what a new file did, and
//! by nobody else. It takes no part in carrying changes out: whoever holds a
//! live value works out for itself what becomes of it.
//!
//! Both configurations are taken apart field by field, so that a setting added
//! later does not compile until somebody has said here what a change of it
//! means.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::secrets::Purpose;
use super::settings::{ApiSettings, Attempts, Config, LogSettings, Timeouts};
use crate::placement::{Directory, Farm, FarmId, Host, HostId, Resource, ResourceId, Rules};

/// Ids written out in one log line; a new file may hold thousands.
const LISTED: usize = 50;

/// What differs, each thing by the name it has in the files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Changes {
    /// Hosts.
    pub hosts: Objects<HostId>,
    /// Farms.
    pub farms: Objects<FarmId>,
    /// Resources.
    pub resources: Objects<ResourceId>,
    /// Settings that are in force at once, as `table.key`; of a table that is
    /// one thing only its name.
    pub settings: Vec<&'static str>,
    /// Settings that stay as they were until the process starts anew.
    pub restart: Vec<&'static str>,
}

/// What became of the objects of one kind; ids in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Objects<Id> {
    /// Those that were not there before.
    pub added: Vec<Id>,
    /// Those that are there no more.
    pub removed: Vec<Id>,
    /// Those that are there and differ.
    pub changed: Vec<Id>,
}

impl<Id> Default for Objects<Id> {
    fn default() -> Self {
        Self {
            added: Vec::new(),
            removed: Vec::new(),
            changed: Vec::new(),
        }
    }
}

impl<Id> Objects<Id> {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl Changes {
    /// Whether nothing differs: a comment was edited, or the order of tables.
    pub fn is_empty(&self) -> bool {
        self.takes_nothing_over() && self.restart.is_empty()
    }

    /// Whether there is nothing that can be in force without a restart.
    pub fn takes_nothing_over(&self) -> bool {
        self.hosts.is_empty()
            && self.farms.is_empty()
            && self.resources.is_empty()
            && self.settings.is_empty()
    }
}

/// What turns the one configuration into the other.
pub fn change(old: &Config, new: &Config) -> Changes {
    let Config {
        listen,
        guacd,
        probe,
        store,
        timeouts: Timeouts { placement, drain },
        limits,
        attempts: Attempts { most, deadline },
        log:
            LogSettings {
                level,
                format,
                file,
                audit,
                traces,
                traces_users,
            },
        api,
        health,
        directory,
    } = old;
    let mut settings = rules(directory.rules(), new.directory.rules());
    let mut restart = Vec::new();
    note(&mut settings, "guacd", *guacd != new.guacd);
    note(&mut settings, "probe", *probe != new.probe);
    let times = &new.timeouts;
    note(
        &mut settings,
        "broker.placement_timeout",
        *placement != times.placement,
    );
    note(&mut settings, "broker.drain_timeout", *drain != times.drain);
    note(&mut settings, "limits", *limits != new.limits);
    let attempts = &new.attempts;
    note(&mut settings, "broker.max_attempts", *most != attempts.most);
    note(
        &mut settings,
        "broker.attempt_deadline",
        *deadline != attempts.deadline,
    );
    note(&mut settings, "log.level", *level != new.log.level);
    // Sockets, the open store and the form of the lines are made at the start.
    note(&mut restart, "listen", *listen != new.listen);
    note(&mut restart, "store", *store != new.store);
    note(&mut restart, "log.format", *format != new.log.format);
    note(&mut restart, "log.file", *file != new.log.file);
    note(&mut restart, "log.audit", *audit != new.log.audit);
    let same = *traces == new.log.traces && *traces_users == new.log.traces_users;
    note(&mut restart, "log.traces", !same);
    for (setting, purpose, path, later) in [
        (
            "api.broker_key_file",
            Purpose::BrokerKey,
            &api.broker_key_file,
            &new.api.broker_key_file,
        ),
        (
            "api.admin_key_file",
            Purpose::AdminKey,
            &api.admin_key_file,
            &new.api.admin_key_file,
        ),
    ] {
        let same = api.secrets.of(purpose) == new.api.secrets.of(purpose) && path == later;
        note(&mut settings, setting, !same);
    }
    note(&mut restart, "api", *api != new.api.with_keys_of(api));
    note(&mut restart, "health", *health != new.health);
    Changes {
        hosts: objects(&hosts(directory), &hosts(&new.directory)),
        farms: objects(&farms(directory), &farms(&new.directory)),
        resources: objects(&resources(directory), &resources(&new.directory)),
        settings,
        restart,
    }
}

impl Config {
    /// This configuration with those settings of `running` that cannot be
    /// changed in a running process: what is in force once it is taken over.
    #[must_use]
    pub(super) fn beside(&self, running: &Self) -> Self {
        Self {
            listen: running.listen.clone(),
            store: running.store.clone(),
            api: running.api.with_keys_of(&self.api),
            health: running.health.clone(),
            log: LogSettings {
                level: self.log.level,
                ..running.log.clone()
            },
            guacd: self.guacd.clone(),
            probe: self.probe.clone(),
            timeouts: self.timeouts.clone(),
            limits: self.limits.clone(),
            attempts: self.attempts.clone(),
            directory: Arc::clone(&self.directory),
        }
    }
}

impl ApiSettings {
    /// These settings with the configured keys of others.
    fn with_keys_of(&self, others: &Self) -> Self {
        let Self {
            broker_key_file,
            admin_key_file,
            secrets,
            ..
        } = others.clone();
        Self {
            broker_key_file,
            admin_key_file,
            secrets,
            ..self.clone()
        }
    }
}

fn rules(old: &Rules, new: &Rules) -> Vec<&'static str> {
    let Rules {
        reconnect_existing,
        single_session_per_user,
        lease,
        min_health_score,
        offline_after,
        reconnect_failover,
        default_farm,
        allow_farm_selector,
        weights,
        max_sessions,
        max_pending_logons,
        slow_start,
        max_tunnels_per_user,
        trust_agents,
        agent_trust_threshold,
        unmatched,
        conduct,
        identity_order,
        default_domain,
        domains,
        require_match,
    } = old;
    let mut differing = Vec::new();
    for (name, differs) in [
        (
            "broker.reconnect_existing",
            *reconnect_existing != new.reconnect_existing,
        ),
        (
            "broker.single_session_per_user",
            *single_session_per_user != new.single_session_per_user,
        ),
        ("broker.lease_seconds", *lease != new.lease),
        (
            "broker.min_health_score",
            *min_health_score != new.min_health_score,
        ),
        (
            "broker.offline_after_seconds",
            *offline_after != new.offline_after,
        ),
        (
            "broker.reconnect_failover",
            *reconnect_failover != new.reconnect_failover,
        ),
        ("broker.default_farm", *default_farm != new.default_farm),
        (
            "broker.allow_farm_selector",
            *allow_farm_selector != new.allow_farm_selector,
        ),
        ("broker.score", *weights != new.weights),
        ("broker.max_sessions", *max_sessions != new.max_sessions),
        (
            "broker.max_pending_logons",
            *max_pending_logons != new.max_pending_logons,
        ),
        ("broker.slow_start", *slow_start != new.slow_start),
        (
            "broker.max_tunnels_per_user",
            *max_tunnels_per_user != new.max_tunnels_per_user,
        ),
        ("broker.trust_agents", *trust_agents != new.trust_agents),
        (
            "broker.agent_trust_threshold",
            *agent_trust_threshold != new.agent_trust_threshold,
        ),
        ("broker.unmatched", *unmatched != new.unmatched),
        ("broker.mode", *conduct != new.conduct),
        ("identity.order", *identity_order != new.identity_order),
        (
            "identity.default_domain",
            *default_domain != new.default_domain,
        ),
        ("identity.domains", *domains != new.domains),
        (
            "identity.require_match",
            *require_match != new.require_match,
        ),
    ] {
        note(&mut differing, name, differs);
    }
    differing
}

fn note(names: &mut Vec<&'static str>, name: &'static str, differs: bool) {
    if differs {
        names.push(name);
    }
}

fn hosts(directory: &Directory) -> BTreeMap<&HostId, &Host> {
    directory.hosts().map(|host| (&host.id, host)).collect()
}

fn farms(directory: &Directory) -> BTreeMap<&FarmId, &Farm> {
    directory.farms().map(|farm| (&farm.id, farm)).collect()
}

fn resources(directory: &Directory) -> BTreeMap<&ResourceId, &Resource> {
    directory.resources().map(|one| (&one.id, one)).collect()
}

fn objects<Id: Ord + Clone, T: PartialEq>(
    old: &BTreeMap<&Id, &T>,
    new: &BTreeMap<&Id, &T>,
) -> Objects<Id> {
    let mut objects = Objects::default();
    for (id, object) in new {
        match old.get(id) {
            None => objects.added.push((*id).clone()),
            Some(before) if before != object => objects.changed.push((*id).clone()),
            Some(_) => {}
        }
    }
    let gone = old.keys().filter(|id| !new.contains_key(*id));
    objects.removed = gone.map(|id| (*id).clone()).collect();
    objects
}

/// In words, for a log line: `+rds3 -rds1 ~rds2`.
impl<Id: fmt::Display> fmt::Display for Objects<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed = [
            ('+', &self.added),
            ('-', &self.removed),
            ('~', &self.changed),
        ];
        let all = signed
            .into_iter()
            .flat_map(|(sign, ids)| ids.iter().map(move |id| (sign, id)));
        for (nth, (sign, id)) in all.enumerate() {
            if nth == LISTED {
                return f.write_str(" and more");
            }
            let space = if nth == 0 { "" } else { " " };
            write!(f, "{space}{sign}{id}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
