//! `GET /api/v1/resources`: what is published, how connections name it, and
//! whether any did since the start.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Api;
use super::answer::{Answer, Told};
use super::extract::{Filter, Named};
use super::hosts::known_farm;
use super::listing::{given, unknown};
use crate::broker::Sightings;
use crate::clock::rfc3339;
use crate::placement::{self, ResourceId, ResourceKind, Rules, Timestamp};

/// One resource.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Resource {
    id: String,
    name: String,
    /// `desktop`, `remoteapp` or `as-connected`.
    kind: &'static str,
    /// The alias, for a RemoteApp.
    remote_app: Option<String>,
    /// The farm it leads to; `None`: to none, so that it is refused.
    farm: Option<String>,
    /// A disabled resource is refused, never passed through.
    enabled: bool,
    /// What in a connection names it.
    carriers: Carriers,
    /// How often a connection named it since the start.
    matched: u64,
    /// When last (RFC 3339).
    matched_last: Option<String>,
    /// How long ago that was.
    matched_seconds_ago: Option<u64>,
}

/// What in a connection names a resource, besides its id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Carriers {
    /// The text to type into the hostname.
    selector: String,
    guacamole_connection_id: Option<String>,
    guacamole_connection_name: Option<String>,
    /// The Guacamole that id and name are of; `None`: any.
    source: Option<String>,
    hostnames: Vec<String>,
    load_balance_info: Option<String>,
}

/// Resources, by id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Resources {
    resources: Vec<Resource>,
}

/// Which resources.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Those that lead to this farm.
    farm: Option<String>,
}

/// Every resource, by id
#[utoipa::path(get, path = "/resources", operation_id = "resources", params(Asked), responses(
    (status = 200, description = "Disabled ones, too.", body = Resources),
))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Filter(asked): Filter<Asked>,
) -> Answer<Resources> {
    let snapshot = api.fleet.snapshot();
    let farm = given("farm", asked.farm.as_deref())?;
    let farm = farm.map(|id| known_farm(&snapshot, id)).transpose()?;
    let farm = farm.map(|id| id.to_string());
    let resources = snapshot.directory.resources();
    let resources = resources.map(|resource| api.resource(snapshot.directory.rules(), resource));
    let fits = |resource: &Resource| farm.is_none() || resource.farm == farm;
    let resources = resources.filter(fits).collect();
    Ok(Told(Resources { resources }))
}

/// One resource
#[utoipa::path(get, path = "/resources/{id}", operation_id = "resource",
    params(("id" = String, Path, description = "The resource's id.")),
    responses((status = 200, description = "The resource.", body = Resource)),
)]
pub(super) async fn one(State(api): State<Arc<Api>>, Named(id): Named) -> Answer<Resource> {
    let snapshot = api.fleet.snapshot();
    let directory = &snapshot.directory;
    let found = directory.resource(&ResourceId::from(id.as_str()));
    let known = directory.resources().map(|resource| resource.id.as_str());
    let found = found.ok_or_else(|| unknown("resource", &id, known))?;
    Ok(Told(api.resource(directory.rules(), found)))
}

impl Api {
    fn resource(&self, rules: &Rules, resource: &placement::Resource) -> Resource {
        of(
            rules,
            resource,
            self.broker.decisions().sightings(),
            self.clock.now(),
        )
    }
}

fn of(
    rules: &Rules,
    resource: &placement::Resource,
    sightings: &Sightings,
    now: Timestamp,
) -> Resource {
    let seen = sightings.of_resource(&resource.id);
    let (kind, remote_app) = match &resource.kind {
        ResourceKind::Desktop => ("desktop", None),
        ResourceKind::RemoteApp(app) => ("remoteapp", Some(app.alias.clone())),
        ResourceKind::AsConnected => ("as-connected", None),
    };
    let farm = resource.farm_id.as_ref().or(rules.default_farm.as_ref());
    Resource {
        id: resource.id.to_string(),
        name: resource.name.clone(),
        kind,
        remote_app,
        farm: farm.map(ToString::to_string),
        enabled: resource.enabled,
        carriers: Carriers {
            selector: format!("sessionguard:resource={}", resource.id),
            guacamole_connection_id: resource.guacamole_connection_id.clone(),
            guacamole_connection_name: resource.guacamole_connection_name.clone(),
            source: resource.source.clone(),
            hostnames: resource.hostnames.clone(),
            load_balance_info: resource.load_balance_info.clone(),
        },
        matched: seen.map_or(0, |seen| seen.times),
        matched_last: seen.map(|seen| rfc3339(seen.last)),
        matched_seconds_ago: seen.map(|seen| now.since(seen.last).as_secs()),
    }
}
