//! What is accepted, and what never is.

use std::sync::LazyLock;

use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::*;
use crate::config::{Configured, Place, Purpose, Secret};

static ROOM: LazyLock<(Room, Vec<Created>)> = LazyLock::new(|| {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let room = Room::new().await;
        let mut keys = Vec::new();
        for (role, host) in [
            ("broker", None),
            ("agent", Some("rds1")),
            ("admin-read", None),
        ] {
            keys.push(room.create(role, host).await);
        }
        keys.push(room.token().await);
        (room, keys)
    })
});

proptest! {
    #[test]
    fn only_the_exact_key_is_accepted(
        which in 0_usize..4,
        at in any::<prop::sample::Index>(),
        c in "[ -~]",
        how in 0_u8..3,
    ) {
        let (room, keys) = &*ROOM;
        let key = keys[which].key.expose();
        prop_assert!(room.keyring.verify(key).is_ok());
        let at = at.index(key.len());
        let (before, rest) = key.split_at(at);
        let changed = match how {
            0 => format!("{before}{c}{}", &rest[1..]),
            1 => format!("{before}{c}{rest}"),
            _ => format!("{before}{}", &rest[1..]),
        };
        prop_assume!(changed != key);
        prop_assert_eq!(room.keyring.verify(&changed), Err(Rejected));
    }

    #[test]
    fn nobody_gets_in_by_chance(text in ".{0,200}", id in "[0-9a-f]{12}", secret in "[0-9a-f]{64}") {
        let (room, keys) = &*ROOM;
        let known = &keys[0].id;
        for text in [text, format!("sg_broker_{id}_{secret}"), format!("sg_broker_{known}_{secret}")] {
            prop_assert_eq!(room.keyring.verify(&text), Err(Rejected));
        }
    }
}

#[test]
fn one_keys_secret_is_no_good_with_anothers_id_or_role() {
    let (room, keys) = &*ROOM;
    let parts: Vec<Vec<_>> = keys
        .iter()
        .map(|key| key.key.expose().split('_').collect())
        .collect();
    let (broker, agent) = (&parts[0], &parts[1]);
    for text in [
        format!("sg_{}_{}_{}", broker[1], broker[2], agent[3]),
        format!("sg_{}_{}_{}", broker[1], agent[2], agent[3]),
        format!("sg_admin-write_{}_{}", broker[2], broker[3]),
    ] {
        assert_eq!(room.keyring.verify(&text), Err(Rejected), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_turned_away_learns_nothing_from_it() {
    let room = Room::new().await;
    let revoked = room.create("broker", None).await;
    room.keyring
        .revoke(revoked.id.as_str(), ADMIN)
        .await
        .unwrap();
    let short = CreateRequest {
        expires: Some("1h".to_owned()),
        ..wanted("broker")
    };
    let expired = room
        .keyring
        .create(short, ADMIN, &room.directory)
        .await
        .unwrap();
    let good = room.create("broker", None).await;
    assert!(room.accepts(&expired) && room.accepts(&good));
    after(HOUR).await;
    assert!(!room.accepts(&expired) && room.accepts(&good));
    let wrong = format!("{}0", good.key.expose());
    let unknown = "sg_broker_000000000000_00";
    let rejected = [
        revoked.key.expose(),
        expired.key.expose(),
        &wrong,
        unknown,
        "",
        "Bearer",
    ];
    let told = rejected.map(|key| format!("{0} {0:?}", room.keyring.verify(key).unwrap_err()));
    assert!(
        told.iter()
            .all(|one| one == "the key is not accepted Rejected"),
        "{told:?}"
    );
    assert_eq!(
        (room.state(&expired), room.state(&revoked)),
        (State::Expired, State::Revoked)
    );
}

fn configured(purpose: Purpose, text: &str) -> Configured {
    let place = Place::Variable {
        name: "A".to_owned(),
    };
    Configured {
        purpose,
        secret: Secret::new(text.to_owned()),
        place,
    }
}

#[tokio::test]
async fn configured_keys_are_accepted_and_cannot_be_revoked() {
    let secrets = [(Purpose::BrokerKey, "one"), (Purpose::AdminKey, "two")];
    let secrets = secrets
        .map(|(purpose, text)| configured(purpose, text))
        .into_iter()
        .collect();
    let room = Room::with(secrets).await;
    let role = |text: &str| room.keyring.verify(text).map(|identity| identity.role);
    assert_eq!(role("one"), Ok(Role::Broker));
    assert_eq!(role("two"), Ok(Role::AdminWrite));
    assert_eq!(role("three"), Err(Rejected));
    let ids: Vec<_> = room
        .keyring
        .list()
        .iter()
        .map(|key| key.id.to_string())
        .collect();
    assert_eq!(ids, ["configured-broker", "configured-admin"]);
    let error = room
        .keyring
        .revoke("configured-admin", ADMIN)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("comes from the configuration"),
        "{error}"
    );
    assert_eq!(role("two"), Ok(Role::AdminWrite));
}

#[tokio::test]
async fn a_stored_key_that_is_configured_too_is_what_the_store_says() {
    let room = Room::new().await;
    let key = room.create("admin-read", None).await;
    let secrets = [configured(Purpose::AdminKey, key.key.expose())]
        .into_iter()
        .collect();
    let again = room.again_with(&secrets).await;
    assert_eq!(
        again.verify(key.key.expose()).unwrap().role,
        Role::AdminRead
    );
    again.revoke(key.id.as_str(), ADMIN).await.unwrap();
    assert_eq!(again.verify(key.key.expose()), Err(Rejected));
    // To a broker that does not know it, it is a secret like any other.
    let elsewhere = Room::with(secrets).await;
    assert_eq!(
        elsewhere.keyring.verify(key.key.expose()).unwrap().role,
        Role::AdminWrite
    );
}
