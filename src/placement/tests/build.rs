//! Words to build farms with, so that an example is one readable block:
//!
//! ```text
//! farm("office")
//!     .with(host("a").reporting().session("ann", Disconnected))
//!     .with(host("b").answering())
//!     .ask("ann")
//! ```
//!
//! A farm brings a desktop resource of its own name; a host belongs to the
//! farm named before it, and nothing is known of it until a word says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::placement::*;

mod hosts;
mod life;

pub(super) use hosts::{HostWords, host};
pub(super) use life::{LEASE, Life, life};

/// When every example takes place.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// What a connection names: a resource, nothing of ours, or a refusal.
pub(super) type Named = Result<Option<ResourceId>, Refusal>;

/// What an example expects: a host and why, or a refusal.
pub(super) type Went = Result<(HostId, Reason), Refusal>;

pub(super) fn on(host: &str, reason: Reason) -> Went {
    Ok((host.into(), reason))
}

pub(super) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(super) fn ago(n: u64) -> Timestamp {
    NOW - secs(n)
}

pub(super) fn user(text: &str) -> UserKey {
    UserKey::new(text, "").unwrap()
}

pub(super) fn claims(text: &str) -> Claims {
    Claims {
        username: text.into(),
        ..Claims::default()
    }
}

pub(super) fn desktop(id: &str) -> Resource {
    Resource {
        id: id.into(),
        name: id.into(),
        kind: ResourceKind::Desktop,
        farm_id: None,
        enabled: true,
        guacamole_connection_id: None,
        guacamole_connection_name: None,
        source: None,
        hostnames: Vec::new(),
        load_balance_info: None,
        attempt_deadline: None,
        keep_parameters: BTreeSet::new(),
        parameters: ParameterValues::default(),
    }
}

pub(super) fn remote_app(id: &str, alias: &str) -> Resource {
    let app = RemoteApp {
        alias: alias.into(),
        dir: String::new(),
        args: String::new(),
    };
    Resource {
        kind: ResourceKind::RemoteApp(app),
        ..desktop(id)
    }
}

pub(super) fn by_resource(id: &str) -> Carriers {
    Carriers {
        resource: Some(id.into()),
        ..Carriers::default()
    }
}

/// What a connection with these three parameters carries.
pub(super) fn read(hostname: &str, extra: &str, remote_app: &str) -> Result<Carriers, Refusal> {
    Carriers::read(Carried {
        hostname,
        extra,
        remote_app,
        ..Carried::default()
    })
}

/// What came of a decision that is not about a connection of somebody else's.
#[track_caller]
pub(super) fn went(decision: Decision) -> Went {
    match decision.outcome {
        Outcome::Placed(placement) => Ok((placement.host, placement.reason)),
        Outcome::Refused(refusal) => Err(refusal),
        Outcome::Unmatched => panic!("the connection names nothing"),
    }
}

pub(super) fn report() -> Report {
    Report {
        received: NOW,
        health: 100,
        rdp_listener_ok: true,
        cpu_percent: Some(0.0),
        memory_used_percent: Some(0.0),
        sessions: Vec::new(),
        missing_remote_apps: Vec::new(),
        order: None,
        taken: NOW,
        overclaims: false,
    }
}

pub(super) fn farm(id: &str) -> World {
    World::default().farm(id)
}

/// Everything a decision reads, under construction.
#[derive(Clone, Default)]
pub(super) struct World {
    rules: Rules,
    farms: Vec<Farm>,
    hosts: Vec<(Host, HostView)>,
    resources: Vec<Resource>,
    leases: LeaseRecord,
    people: People,
    tried: BTreeSet<HostId>,
}

/// The whole.
impl World {
    pub(super) fn farm(mut self, id: &str) -> Self {
        self.farms.push(Farm {
            id: id.into(),
            name: id.into(),
            enabled: true,
            agent_ids: Vec::new(),
            required_tags: BTreeMap::new(),
            overrides: FarmOverrides::default(),
        });
        self.resource(Resource {
            farm_id: Some(id.into()),
            ..desktop(id)
        })
    }

    pub(super) fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    pub(super) fn rules(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(&mut self.rules);
        self
    }

    /// Puts a host, and the tunnels on it, into the farm named last.
    pub(super) fn with(mut self, words: HostWords) -> Self {
        let farm = self.current_farm();
        let HostWords {
            mut host,
            mut view,
            gone,
        } = words;
        if !gone {
            host.farm_ids.insert(0, farm.clone());
        }
        for tunnel in &mut view.tunnels {
            if tunnel.farm.as_str().is_empty() {
                Arc::make_mut(tunnel).farm = farm.clone();
            }
        }
        self.hosts.push((host, view));
        self
    }

    /// Changes the farm named last.
    pub(super) fn whose_farm(mut self, change: impl FnOnce(&mut Farm)) -> Self {
        change(self.farms.last_mut().unwrap());
        self
    }

    fn current_farm(&self) -> FarmId {
        self.farms.last().unwrap().id.clone()
    }

    /// Changes the leases of the user who will ask.
    pub(super) fn leases(mut self, change: impl FnOnce(&mut LeaseRecord)) -> Self {
        change(&mut self.leases);
        self
    }

    /// This host failed the one who asks.
    pub(super) fn tried(mut self, host: &str) -> Self {
        self.tried.insert(host.into());
        self
    }

    /// Somebody whose qualified name was seen before.
    pub(super) fn knows(mut self, who: &str) -> Self {
        self.people.remember(&user(who), &"elsewhere".into(), NOW);
        self
    }

    /// Somebody who was on that host through us before.
    pub(super) fn took(mut self, who: &str, host: &str) -> Self {
        self.people.remember(&user(who), &host.into(), NOW);
        self
    }

    /// The asking user's lease lingers there for so many seconds more.
    pub(super) fn lingers(self, farm: &str, host: &str, left: u64) -> Self {
        let tunnel = TunnelId::from(format!("was {farm} {host}"));
        self.leases(|record| {
            assert!(record.claim(&farm.into(), &host.into(), &tunnel, Trust::Plain, NOW));
            record.stood(&tunnel, &user("asker"), secs(left), NOW);
            record.end(&tunnel, secs(left), NOW);
        })
    }

    /// A pending tunnel of the asking user claims that host.
    pub(super) fn claimed(self, farm: &str, host: &str) -> Self {
        let tunnel = TunnelId::from(format!("claims {farm} {host}"));
        self.leases(|record| {
            assert!(record.claim(&farm.into(), &host.into(), &tunnel, Trust::Plain, NOW));
        })
    }

    /// A tunnel of the asking user stands there.
    pub(super) fn live(self, farm: &str, host: &str) -> Self {
        let tunnel = TunnelId::from(format!("stands {farm} {host}"));
        self.leases(|record| {
            assert!(record.claim(&farm.into(), &host.into(), &tunnel, Trust::Plain, NOW));
            record.stood(&tunnel, &user("asker"), secs(900), NOW);
        })
    }
}

/// The questions.
impl World {
    pub(super) fn directory(&self) -> Directory {
        Directory::new(
            self.rules.clone(),
            self.hosts.iter().map(|(host, _)| host.clone()),
            self.farms.clone(),
            self.resources.clone(),
        )
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let hosts = self.hosts.iter();
        Snapshot {
            generation: 7,
            directory: Arc::new(self.directory()),
            hosts: hosts
                .map(|(host, view)| (host.id.clone(), Arc::new(view.clone().into())))
                .collect(),
            people: Arc::new(self.people.clone()),
            ..Snapshot::default()
        }
    }

    pub(super) fn decide(&self, carriers: Carriers, who: &str) -> Decision {
        self.decide_as(carriers, claims(who))
    }

    /// What is decided for somebody with more to say than an RDP user name.
    pub(super) fn decide_as(&self, carriers: Carriers, claims: Claims) -> Decision {
        let request = Request {
            carriers,
            claims,
            tried: self.tried.clone(),
            ..Request::default()
        };
        decide(&self.snapshot(), &request, &self.leases, NOW)
    }

    /// Where this user ends up who asks for that resource.
    pub(super) fn ask_for(&self, resource: &str, who: &str) -> Went {
        went(self.decide(by_resource(resource), who))
    }

    /// Where this user ends up who asks for the first farm's desktop.
    pub(super) fn ask(&self, who: &str) -> Went {
        self.ask_for(self.farms[0].id.as_str(), who)
    }

    /// What these carriers name.
    pub(super) fn names(&self, carriers: Carriers) -> Named {
        let snapshot = self.snapshot();
        let claims = claims("ann");
        match Aim::take(
            &snapshot,
            &Request {
                carriers,
                claims,
                ..Request::default()
            },
        ) {
            Ok(aim) => Ok(aim.resource.map(|resource| resource.id.clone())),
            Err(astray) => astray.refusal.map_or(Ok(None), Err),
        }
    }

    /// What a connection with these three parameters names.
    pub(super) fn typed(&self, hostname: &str, extra: &str, remote_app: &str) -> Named {
        self.names(read(hostname, extra, remote_app)?)
    }

    /// What the farm says of one of its hosts to a newcomer.
    pub(super) fn candidate(&self, host: &str) -> Candidate {
        let farm = self.farms[0].id.as_str();
        let mut all = self.decide(by_resource(farm), "newcomer").candidates;
        all.retain(|candidate| candidate.host.as_str() == host);
        all.pop().unwrap()
    }
}
