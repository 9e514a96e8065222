//! What every store that replicas share promises about claims on one host: none
//! passes that had not seen the others'.

use std::collections::BTreeSet;

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::super::*;
use super::documents::edit;

const NOTHING: Standing = Standing {
    version: 0,
    claims: 0,
};

fn on(host: &str, standing: Standing, room: u32) -> Option<Footing> {
    let host = HostId::from(host);
    Some(Footing {
        host,
        standing,
        room,
    })
}

/// How far the feed tells a host has come by now.
async fn standing(store: &Postgres, host: &str) -> Standing {
    let told = store.changes(Mark::default()).await.unwrap();
    assert!(told.whole);
    let host = HostId::from(host);
    let found = told.standings.iter().find(|(id, _)| *id == host);
    found.map_or(NOTHING, |(_, standing)| *standing)
}

/// A claim on a host with no room for any other.
async fn claim(store: &Postgres, user: &str, host: &str, seen: Standing) -> Replaced {
    claim_with(store, user, host, (seen, 0)).await
}

async fn claim_with(
    store: &Postgres,
    user: &str,
    host: &str,
    (seen, room): (Standing, u32),
) -> Replaced {
    let record = record(host, user);
    let claimed = store
        .replace(&key(user), Version::ABSENT, record, on(host, seen, room))
        .await;
    claimed.unwrap()
}

pub(in crate::store::tests) async fn a_claim_that_had_not_seen_anothers_is_refused_and_writes_nothing(
    [one, other]: [Arc<Postgres>; 2],
) {
    assert!(claim(&one, "ann", "a", NOTHING).await.is_done());
    assert_eq!(claim(&other, "bob", "a", NOTHING).await, Replaced::Behind);
    assert_eq!(other.read(&key("bob")).await, Ok(Versioned::default()));
    assert!(
        claim(&other, "bob", "b", NOTHING).await.is_done(),
        "another host's"
    );
    let seen = standing(&other, "a").await;
    assert!(seen.version > 0);
    assert!(claim(&other, "carl", "a", seen).await.is_done());
    // Now the first one is behind, until it has heard as well.
    assert_eq!(claim(&one, "dora", "a", seen).await, Replaced::Behind);
    let newer = standing(&one, "a").await;
    assert!(newer.version > seen.version);
    assert_eq!(newer.claims, seen.claims + 1);
    // A move is a claim on where it leads.
    let ann = one.read(&key("ann")).await.unwrap();
    let moved = one
        .replace(
            &key("ann"),
            ann.version,
            record("b", "t"),
            on("b", NOTHING, 0),
        )
        .await;
    assert_eq!(moved, Ok(Replaced::Behind));
    assert_eq!(one.read(&key("ann")).await, Ok(ann));
    assert!(claim(&one, "dora", "a", newer).await.is_done());
}

pub(in crate::store::tests) async fn ones_own_claims_leave_nobody_behind_but_the_others(
    [one, other]: [Arc<Postgres>; 2],
) {
    for user in ["ann", "bob", "carl"] {
        assert!(claim(&one, user, "a", NOTHING).await.is_done(), "{user}");
    }
    let seen = standing(&one, "a").await;
    // Neither an older nor a newer view of one's own.
    assert!(claim(&one, "dora", "a", seen).await.is_done());
    assert!(claim(&one, "emil", "a", NOTHING).await.is_done());
    assert_eq!(claim(&other, "fred", "a", seen).await, Replaced::Behind);
    // Once another was there, what one had seen before no longer does.
    let seen = standing(&other, "a").await;
    assert!(claim(&other, "fred", "a", seen).await.is_done());
    assert_eq!(claim(&one, "gina", "a", seen).await, Replaced::Behind);
}

pub(in crate::store::tests) async fn what_places_nobody_or_is_refused_leaves_nobody_behind(
    [one, other]: [Arc<Postgres>; 2],
) {
    assert!(claim(&one, "ann", "a", NOTHING).await.is_done());
    let seen = standing(&other, "a").await;
    // A renewal and an end.
    let ann = one.read(&key("ann")).await.unwrap();
    let renewed = one
        .replace(&key("ann"), ann.version, record("a", "t2"), None)
        .await;
    let Replaced::Done(version) = renewed.unwrap() else {
        panic!("not renewed")
    };
    let ended = one
        .replace(&key("ann"), version, LeaseRecord::default(), None)
        .await;
    assert!(ended.unwrap().is_done());
    assert!(
        claim(&other, "bob", "a", seen).await.is_done(),
        "others' renewals and ends"
    );
    // Claims that come to nothing.
    let seen = standing(&one, "a").await;
    let stale = other
        .replace(&key("bob"), version, record("a", "t3"), on("a", seen, 0))
        .await;
    assert_eq!(stale, Ok(Replaced::Conflict));
    assert_eq!(claim(&one, "carl", "a", NOTHING).await, Replaced::Behind);
    assert!(claim(&one, "carl", "a", seen).await.is_done());
}

pub(in crate::store::tests) async fn anothers_order_for_a_host_is_seen_before_the_next_claim(
    [one, other]: [Arc<Postgres>; 2],
) {
    assert!(claim(&one, "ann", "a", NOTHING).await.is_done());
    let order = |id, expected| edit(Kind::Mode, id, expected, Some("maintenance"));
    let both = ["a", "b"].map(|id| order(id, Some(Version::ABSENT)));
    assert_eq!(other.edit(both.to_vec(), true).await, Ok(Edited::Done));
    for host in ["a", "b"] {
        assert_eq!(claim(&one, "bob", host, NOTHING).await, Replaced::Behind);
    }
    assert!(
        claim(&other, "carl", "b", NOTHING).await.is_done(),
        "it knows its own"
    );
    assert!(
        claim(&one, "bob", "c", NOTHING).await.is_done(),
        "another host's order"
    );
    let seen = standing(&one, "a").await;
    // A report is none, and an order that was not given is none either.
    let report = edit(Kind::Report, "a", None, Some("fine"));
    assert_eq!(other.edit(vec![report], false).await, Ok(Edited::Done));
    let late = vec![order("a", Some(Version::ABSENT))];
    assert_eq!(other.edit(late, true).await, Ok(Edited::Conflict));
    assert!(claim(&one, "dora", "a", seen).await.is_done());
    // Taking it back is an order.
    let seen = standing(&one, "b").await;
    let given = other.document(Kind::Mode, "b").await.unwrap().unwrap();
    let back = edit(Kind::Mode, "b", Some(given.version), None);
    assert_eq!(other.edit(vec![back], true).await, Ok(Edited::Done));
    assert_eq!(claim(&one, "emil", "b", seen).await, Replaced::Behind);
}

pub(in crate::store::tests) async fn anothers_claims_pass_as_far_as_there_is_room_for_them(
    [one, other]: [Arc<Postgres>; 2],
) {
    assert!(claim(&one, "ann", "a", NOTHING).await.is_done());
    let seen = standing(&other, "a").await;
    for user in ["bob", "carl"] {
        assert!(claim(&one, user, "a", seen).await.is_done(), "{user}");
    }
    // Two were placed since.
    let refused = claim_with(&other, "dora", "a", (seen, 1)).await;
    assert_eq!(refused, Replaced::Behind);
    assert_eq!(other.read(&key("dora")).await, Ok(Versioned::default()));
    assert!(claim_with(&other, "dora", "a", (seen, 2)).await.is_done());
    // By whomever: what both did counts, once they take turns.
    let refused = claim_with(&one, "emil", "a", (seen, 2)).await;
    assert_eq!(refused, Replaced::Behind);
    assert!(claim_with(&one, "emil", "a", (seen, 3)).await.is_done());
    // No room is room enough for an order that was not seen.
    let seen = standing(&one, "a").await;
    let order = edit(Kind::Mode, "a", Some(Version::ABSENT), Some("maintenance"));
    assert_eq!(other.edit(vec![order], true).await, Ok(Edited::Done));
    let refused = claim_with(&one, "fred", "a", (seen, u32::MAX)).await;
    assert_eq!(refused, Replaced::Behind);
    let seen = standing(&one, "a").await;
    assert!(
        claim_with(&one, "fred", "a", (seen, u32::MAX))
            .await
            .is_done()
    );
}

/// What one replica knows, all of it as of one moment.
#[derive(Default)]
struct Picture {
    seen: Standing,
    claims: BTreeSet<LeaseKey>,
    mark: Mark,
}

/// A claim that passed.
struct Granted {
    by: usize,
    key: LeaseKey,
    /// Claims on one host get theirs in the order in which they pass.
    version: Version,
    known: BTreeSet<LeaseKey>,
}

/// Many claims on one host by both, each as its replica's picture then was.
/// Returns those that passed unseen by a later one of the other's.
async fn unseen(replicas: [Arc<Postgres>; 2]) -> Vec<(LeaseKey, LeaseKey)> {
    const EACH: usize = 10;
    let mut crowd = JoinSet::new();
    for (by, replica) in replicas.into_iter().enumerate() {
        let picture = Arc::new(Mutex::new(Picture::default()));
        for n in 0..EACH {
            let (replica, picture) = (Arc::clone(&replica), Arc::clone(&picture));
            crowd.spawn(async move {
                let user = format!("user{by}-{n}");
                loop {
                    let (seen, known) = {
                        let picture = picture.lock().await;
                        (picture.seen, picture.claims.clone())
                    };
                    match claim(&replica, &user, "a", seen).await {
                        Replaced::Done(version) => {
                            let key = key(&user);
                            return Granted {
                                by,
                                key,
                                version,
                                known,
                            };
                        }
                        Replaced::Behind => look(&replica, &mut *picture.lock().await).await,
                        Replaced::Conflict => panic!("{user} is nobody else's"),
                    }
                }
            });
        }
    }
    let mut granted = crowd.join_all().await;
    assert_eq!(granted.len(), 2 * EACH);
    granted.sort_by_key(|one| one.version);
    let mut unseen = Vec::new();
    for (nth, later) in granted.iter().enumerate() {
        let earlier = granted.iter().take(nth).filter(|one| one.by != later.by);
        let missed = earlier.filter(|one| !later.known.contains(&one.key));
        unseen.extend(missed.map(|one| (one.key.clone(), later.key.clone())));
    }
    unseen
}

async fn look(replica: &Postgres, picture: &mut Picture) {
    let told = replica.changes(picture.mark).await.unwrap();
    if told.whole {
        *picture = Picture::default();
    }
    picture.mark = told.mark;
    let claims = told.leases.into_iter().map(|(key, _)| key);
    picture.claims.extend(claims);
    if let Some((_, standing)) = told.standings.first() {
        picture.seen = *standing;
    }
}

pub(in crate::store::tests) async fn of_many_claims_on_a_host_at_once_none_passes_unseen(
    replicas: [Arc<Postgres>; 2],
) {
    assert_eq!(unseen(replicas).await, Vec::new());
}

pub(in crate::store::tests) async fn without_its_condition_claims_pass_unseen_and_that_is_noticed(
    replicas: [Arc<Postgres>; 2],
) {
    replicas[0].break_claims().await;
    assert_ne!(unseen(replicas).await, Vec::new());
}
