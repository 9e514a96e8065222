//! `GET /api/v1/farms`: farms, and how full they are.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Told};
use super::extract::{Filter, Named};
use super::hosts::{self, Host, known_farm};
use super::listing::{Nothing, unknown};
use crate::placement::{self, Snapshot, Timestamp};

/// One farm; its figures are sums over its hosts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Farm {
    id: String,
    name: String,
    /// A disabled farm places nobody.
    enabled: bool,
    /// Its hosts' ids.
    hosts: Vec<String>,
    /// How many of them take newcomers now.
    hosts_open: usize,
    /// The resources that lead to it.
    resources: Vec<String>,
    /// Users on its hosts.
    users: u64,
    /// Sessions in use.
    active: u64,
    /// Sessions left behind.
    disconnected: u64,
    /// Our open tunnels to its hosts.
    tunnels: usize,
}

/// Farms, by id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Farms {
    farms: Vec<Farm>,
}

/// Every farm, by id
#[utoipa::path(get, path = "/farms", operation_id = "farms", responses(
    (status = 200, description = "Disabled ones, too.", body = Farms),
))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Filter(Nothing {}): Filter<Nothing>,
) -> Answer<Farms> {
    let farms = all(&api.fleet.snapshot(), api.clock.now());
    Ok(Told(Farms { farms }))
}

/// One farm
#[utoipa::path(get, path = "/farms/{id}", operation_id = "farm",
    params(("id" = String, Path, description = "The farm's id.")),
    responses((status = 200, description = "The farm.", body = Farm)),
)]
pub(super) async fn one(State(api): State<Arc<Api>>, Named(id): Named) -> Answer<Farm> {
    let snapshot = api.fleet.snapshot();
    let id = known_farm(&snapshot, &id)?;
    let farms = all(&snapshot, api.clock.now());
    let farm = farms.into_iter().find(|farm| farm.id == id.as_str());
    farm.map(Told)
        .ok_or_else(|| unknown("farm", id.as_str(), std::iter::empty()))
}

fn all(snapshot: &Snapshot, now: Timestamp) -> Vec<Farm> {
    let hosts = hosts::all(snapshot, now);
    let farms = snapshot.directory.farms();
    farms.map(|farm| of(snapshot, farm, &hosts)).collect()
}

fn of(snapshot: &Snapshot, farm: &placement::Farm, hosts: &[Host]) -> Farm {
    let members: Vec<_> = hosts.iter().filter(|host| host.is_in(&farm.id)).collect();
    let takes_newcomers = |host: &&&Host| {
        let mut says = host.newcomer.iter();
        says.any(|says| says.farm == farm.id.as_str() && says.out.is_none())
    };
    let rules = snapshot.directory.rules();
    let resources = snapshot.directory.resources().filter(|resource| {
        let leads_to = resource.farm_id.as_ref().or(rules.default_farm.as_ref());
        leads_to == Some(&farm.id)
    });
    let sum = |of: fn(&Host) -> u32| members.iter().map(|host| u64::from(of(host))).sum();
    Farm {
        id: farm.id.to_string(),
        name: farm.name.clone(),
        enabled: farm.enabled,
        hosts: members.iter().map(|host| host.id().to_owned()).collect(),
        hosts_open: members.iter().filter(takes_newcomers).count(),
        resources: resources.map(|resource| resource.id.to_string()).collect(),
        users: sum(|host| host.occupancy.as_ref().map_or(0, |o| o.users)),
        active: sum(|host| host.active),
        disconnected: sum(|host| host.disconnected),
        tunnels: members.iter().map(|host| host.tunnels).sum(),
    }
}
