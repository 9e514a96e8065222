//! Words for one host.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{NOW, ago, report, secs, user};
use crate::placement::*;

/// A host of the farm it is put into.
pub(in super::super) fn host(id: &str) -> HostWords {
    let host = Host {
        id: id.into(),
        address: format!("{id}.example.com"),
        port: 3389,
        farm_ids: Vec::new(),
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    };
    HostWords {
        host,
        view: HostView::default(),
        gone: false,
    }
}

/// A host under construction.
#[derive(Clone)]
pub(in super::super) struct HostWords {
    pub(super) host: Host,
    pub(super) view: HostView,
    pub(super) gone: bool,
}

impl HostWords {
    pub(in super::super) fn configured(mut self, change: impl FnOnce(&mut Host)) -> Self {
        change(&mut self.host);
        self
    }

    pub(in super::super) fn view(mut self, change: impl FnOnce(&mut HostView)) -> Self {
        change(&mut self.view);
        self
    }

    fn reported(self, change: impl FnOnce(&mut Report)) -> Self {
        self.view(|view| {
            change(Arc::make_mut(
                view.report.get_or_insert_with(|| Arc::new(report())),
            ))
        })
    }

    pub(in super::super) fn also_in(self, farm: &str) -> Self {
        self.configured(|host| host.farm_ids.push(farm.into()))
    }

    /// It does not say that it belongs to the farm it is put into.
    pub(in super::super) fn gone(mut self) -> Self {
        self.gone = true;
        self
    }

    pub(in super::super) fn mode(self, mode: Mode) -> Self {
        self.view(|view| view.modes = mode.into())
    }

    pub(in super::super) fn answering(self) -> Self {
        self.view(|view| view.probe = Probe::Answering { since: ago(600) })
    }

    pub(in super::super) fn failing(self, seconds: u64) -> Self {
        let since = ago(seconds);
        self.view(|view| view.probe = Probe::Failing { since })
    }

    /// A fresh report: healthy, idle, empty.
    pub(in super::super) fn reporting(self) -> Self {
        self.answering().reported(|_| {})
    }

    pub(in super::super) fn silent(self, seconds: u64) -> Self {
        self.reported(|report| report.received = ago(seconds))
    }

    pub(in super::super) fn health(self, health: u8) -> Self {
        self.reported(|report| report.health = health)
    }

    pub(in super::super) fn cpu(self, percent: impl Into<Option<f64>>) -> Self {
        let percent = percent.into();
        self.reported(|report| report.cpu_percent = percent)
    }

    pub(in super::super) fn memory(self, percent: impl Into<Option<f64>>) -> Self {
        let percent = percent.into();
        self.reported(|report| report.memory_used_percent = percent)
    }

    pub(in super::super) fn without_listener(self) -> Self {
        self.reported(|report| report.rdp_listener_ok = false)
    }

    pub(in super::super) fn lacking(self, alias: &str) -> Self {
        self.reported(|report| report.missing_remote_apps.push(alias.into()))
    }

    pub(in super::super) fn session(self, who: &str, state: SessionState) -> Self {
        self.session_from(who, state, ago(300))
    }

    pub(in super::super) fn session_from(
        self,
        who: &str,
        state: SessionState,
        latest: Timestamp,
    ) -> Self {
        let user = user(who);
        let session = Session {
            user,
            state,
            latest,
            client_name: None,
        };
        self.reported(|report| report.sessions.push(session))
    }

    /// A tunnel that has not stood; nobody's where `who` is empty.
    pub(in super::super) fn pending(self, who: &str) -> Self {
        self.tunnel(who, None)
    }

    /// A tunnel that stood so many seconds ago.
    pub(in super::super) fn stood(self, who: &str, seconds: u64) -> Self {
        self.tunnel(who, Some(ago(seconds)))
    }

    /// A tunnel that has not stood, of somebody who only says to be that user.
    pub(in super::super) fn pending_in_doubt(self, who: &str) -> Self {
        let mut host = self.pending(who);
        let tunnel = host.view.tunnels.last_mut().unwrap();
        Arc::make_mut(tunnel).trust = Trust::Doubtful;
        host
    }

    fn tunnel(mut self, who: &str, stood: Option<Timestamp>) -> Self {
        let user = UserKey::new(who, "");
        self.view.tunnels.push(Arc::new(TunnelView {
            trust: Trust::Plain,
            tunnel: format!("{} {}", self.host.id, self.view.tunnels.len()).into(),
            key: user.as_ref().map(LeaseKey::of_user),
            user,
            // The farm it is put into.
            farm: "".into(),
            resource: None,
            since: stood.unwrap_or(NOW),
            stood,
            elsewhere: false,
        }));
        self
    }

    /// Somebody's lease lingers here, without a tunnel, for so many seconds more.
    pub(in super::super) fn lease_of(self, who: &str, left: u64) -> Self {
        let key = LeaseKey::of_user(&user(who));
        self.view(|view| {
            std::sync::Arc::make_mut(&mut view.lingering).insert(key, NOW + secs(left));
        })
    }
}
