//! `/api/v1/leases`: who belongs where, and the end of that at an
//! administrator's word.
//!
//! A key is named as it is stored and shown: `domain\user`, or
//! `domain\user|farm|resource` where each resource has its own; `%`, `|` and `\`
//! inside a part as `%25`, `%7c` and `%5c`. In a path all of it is
//! percent-encoded once more.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::caller::Caller;
use super::extract::{Filter, Named};
use super::listing::{MOST, given, limit};
use super::whole::to_its_end;
use super::whose::Whose;
use crate::broker::Released;
use crate::clock::rfc3339;
use crate::placement::{FarmId, LeaseKey, LeaseRecord, LeaseState, Snapshot, Timestamp};

/// Records read from the store at a time: others wait for it meanwhile.
const AT_A_TIME: usize = 256;

/// A user's lease in one farm.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Lease {
    /// What it is stored under.
    key: String,
    user: String,
    farm: String,
    pub(super) host: String,
    /// `claimed`, `live` or `lingering`.
    #[schema(value_type = String)]
    state: LeaseState,
    /// When it ends if nothing happens (RFC 3339).
    until: String,
    seconds_left: u64,
    /// The open tunnels that rely on it.
    holders: Vec<String>,
}

/// Leases, by key and farm.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeaseList {
    leases: Vec<Lease>,
    /// There may be more: ask again with this as `after`.
    next: Option<String>,
}

/// Which leases.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Of this user, spelled any way.
    user: Option<String>,
    /// On this host.
    host: Option<String>,
    /// Of this farm.
    farm: Option<String>,
    /// How many keys' leases: 1 to 1000, usually 1000.
    limit: Option<String>,
    /// Those of keys after this one.
    after: Option<String>,
}

/// Which of a key's leases.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfFarm {
    /// This farm's alone.
    farm: Option<String>,
}

/// What was released.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReleasedLeases {
    released: Vec<ReleasedLease>,
}

/// A lease that is no more.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReleasedLease {
    key: String,
    farm: String,
    host: String,
}

/// Leases, by key and farm
#[utoipa::path(get, path = "/leases", operation_id = "leases", params(Asked), responses(
    (status = 200, description = "At most so many keys' at a time.", body = LeaseList),
))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Filter(asked): Filter<Asked>,
) -> Answer<LeaseList> {
    let user = given("user", asked.user.as_deref())?;
    let user = user.map(|name| Whose::read(name, &api.fleet.snapshot()));
    let user = user.transpose()?;
    let host = given("host", asked.host.as_deref())?;
    let farm = given("farm", asked.farm.as_deref())?;
    let after = given("after", asked.after.as_deref())?;
    let after = after.map(|key| LeaseKey::from_stored(key.to_owned()));
    let limit = limit(asked.limit.as_deref(), MOST, MOST)?;
    let fits = |lease: &Lease| {
        host.is_none_or(|id| lease.host == id) && farm.is_none_or(|id| lease.farm == id)
    };
    let list = api.page(after, limit, user.as_ref(), fits).await?;
    Ok(Told(list))
}

/// One key's leases
#[utoipa::path(get, path = "/leases/{key}", operation_id = "lease",
    params(("key" = String, Path, description = "As it is shown, percent-encoded.")),
    responses((status = 200, description = "One a farm.", body = LeaseList)),
)]
pub(super) async fn one(State(api): State<Arc<Api>>, Named(key): Named) -> Answer<LeaseList> {
    let key = LeaseKey::from_stored(key);
    let record = api.broker.lease(&key).await?;
    let leases: Vec<_> = of(&key, &record, api.clock.now()).collect();
    if leases.is_empty() {
        return Err(api.no_lease(&key, None).await);
    }
    Ok(Told(LeaseList { leases, next: None }))
}

/// Release a key's leases
///
/// A lease that an open tunnel relies on is not released: end the tunnel
/// first. Where a user was last is remembered all the same, and breaks ties.
#[utoipa::path(delete, path = "/leases/{key}", operation_id = "release_lease",
    params(("key" = String, Path, description = "As it is shown, percent-encoded."), OfFarm),
    responses((status = 200, description = "Released, durably.", body = ReleasedLeases)),
)]
pub(super) async fn release(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(key): Named,
    Filter(of): Filter<OfFarm>,
) -> Answer<ReleasedLeases> {
    let key = LeaseKey::from_stored(key);
    let farm = given("farm", of.farm.as_deref())?.map(FarmId::from);
    to_its_end(async move { api.release(&caller, &key, farm.as_ref()).await }).await
}

impl Api {
    async fn release(
        &self,
        caller: &Caller,
        key: &LeaseKey,
        farm: Option<&FarmId>,
    ) -> Answer<ReleasedLeases> {
        match self.broker.release(key, farm).await? {
            Released::Done(done) => {
                let released = done.iter().map(|(farm, host)| {
                    self.tell_of_released(&caller.actor, key, (farm, host));
                    ReleasedLease {
                        key: key.to_string(),
                        farm: farm.to_string(),
                        host: host.to_string(),
                    }
                });
                let released = released.collect();
                Ok(Told(ReleasedLeases { released }))
            }
            Released::Nothing => Err(self.no_lease(key, farm).await),
            Released::InUse(tunnels) => {
                let tunnels: Vec<_> = tunnels.iter().map(ToString::to_string).collect();
                let text = format!(
                    "the lease of {key} is held by open tunnels: end them first ({})",
                    tunnels.join(", ")
                );
                Err(Failure::conflict(text))
            }
        }
    }

    /// The user's leases, all of them.
    pub(super) async fn leases_of(&self, user: &Whose) -> Result<Vec<Lease>, Failure> {
        Ok(self
            .page(None, usize::MAX, Some(user), |_| true)
            .await?
            .leases)
    }

    /// The leases of at most so many keys after this one.
    async fn page(
        &self,
        mut after: Option<LeaseKey>,
        limit: usize,
        user: Option<&Whose>,
        fits: impl Fn(&Lease) -> bool,
    ) -> Result<LeaseList, Failure> {
        let mut leases = Vec::new();
        // Where it is known who is meant there is no need to look at everybody.
        let known = user.filter(|user| user.is_known());
        let mut ranges = known
            .map_or_else(|| vec![String::new()], first_keys)
            .into_iter();
        let mut keys = 0;
        for prefix in &mut ranges {
            let start = LeaseKey::from_stored(prefix.clone());
            if keys >= limit {
                let next = after.map(|key| key.to_string());
                return Ok(LeaseList { leases, next });
            }
            if !prefix.is_empty() && after.as_ref().is_none_or(|after| *after < start) {
                let record = self.broker.lease(&start).await?;
                let before = leases.len();
                leases.extend(of(&start, &record, self.clock.now()).filter(&fits));
                keys += usize::from(leases.len() > before);
                after = Some(start);
            }
            loop {
                let some = self.broker.leases(after.as_ref(), AT_A_TIME).await?;
                let read = some.len();
                let mut left_range = read < AT_A_TIME;
                for (key, record) in some {
                    if !key.as_str().starts_with(&prefix) {
                        left_range = true;
                        break;
                    }
                    if keys >= limit {
                        let next = after.map(|key| key.to_string());
                        return Ok(LeaseList { leases, next });
                    }
                    if user.is_none_or(|user| user.is(&key.user())) {
                        let before = leases.len();
                        leases.extend(of(&key, &record, self.clock.now()).filter(&fits));
                        keys += usize::from(leases.len() > before);
                    }
                    after = Some(key);
                }
                if left_range {
                    break;
                }
            }
        }
        Ok(LeaseList { leases, next: None })
    }

    /// What is said of a key without a lease: with one that may have been
    /// meant.
    async fn no_lease(&self, key: &LeaseKey, farm: Option<&FarmId>) -> Failure {
        let farm = farm.map(|farm| format!(" in farm {farm}"));
        let mut text = format!("{key} has no lease{}", farm.unwrap_or_default());
        if let Some(meant) = self.meant_by(key, &self.fleet.snapshot()).await {
            text.push_str(&format!("; did you mean {meant}?"));
        }
        Failure::not_found(text)
    }

    async fn meant_by(&self, key: &LeaseKey, snapshot: &Snapshot) -> Option<String> {
        let user = Whose::read(key.as_str(), snapshot).ok()?;
        // Everybody would have to be looked at for a name nobody knows.
        let known = Some(&user).filter(|user| user.is_known())?;
        let page = self.page(None, 1, Some(known), |lease| lease.key != key.as_str());
        let found = page.await.ok()?.leases;
        found.first().map(|lease| lease.key.clone())
    }
}

/// The keys that each of these users' leases begin with, in order.
fn first_keys(user: &Whose) -> Vec<String> {
    let mut keys: Vec<_> = user.keys().map(LeaseKey::of_user).collect();
    keys.sort();
    keys.iter().map(ToString::to_string).collect()
}

fn of<'a>(
    key: &'a LeaseKey,
    record: &'a LeaseRecord,
    now: Timestamp,
) -> impl Iterator<Item = Lease> + 'a {
    record.views(now).map(move |view| Lease {
        key: key.to_string(),
        user: key.user().to_string(),
        farm: view.farm.to_string(),
        host: view.host.to_string(),
        state: view.state,
        until: rfc3339(view.until),
        seconds_left: view.until.since(now).as_secs(),
        holders: record
            .holders(view.farm, now)
            .map(ToString::to_string)
            .collect(),
    })
}
