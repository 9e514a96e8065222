//! Two keys of one host: no report is ever turned away in a rotation.

use std::time::Instant;

use super::*;
use crate::keys::{GRACE, KeyError};

#[tokio::test(start_paused = true)]
async fn both_keys_are_good_until_the_newer_one_was_used_for_the_grace() {
    let room = Room::new().await;
    let older = room.agent().await;
    assert!(room.accepts(&older));
    let newer = room.agent().await;
    // The new one is on its way to the host, for however long.
    after(30 * DAY).await;
    assert!(room.accepts(&older));
    assert_eq!(
        (room.state(&older), room.state(&newer)),
        (State::Valid, State::Valid)
    );
    assert!(room.accepts(&newer));
    assert_eq!(
        (room.state(&older), room.state(&newer)),
        (State::Ending, State::Valid)
    );
    after(GRACE - HOUR).await;
    assert!(room.accepts(&older) && room.accepts(&newer));
    after(HOUR).await;
    assert!(!room.accepts(&older) && room.accepts(&newer));
    assert_eq!(
        (room.state(&older), room.state(&newer)),
        (State::Replaced, State::Valid)
    );
    // What was replaced stays so, whatever becomes of the newer one.
    room.keyring.revoke(newer.id.as_str(), ADMIN).await.unwrap();
    assert!(!room.accepts(&older) && !room.accepts(&newer));
}

#[tokio::test(start_paused = true)]
async fn a_newer_key_that_ends_first_leaves_the_older_one_as_it_was() {
    let room = Room::new().await;
    let older = room.agent().await;
    let newer = room.agent().await;
    assert!(room.accepts(&newer));
    after(GRACE / 2).await;
    room.keyring.revoke(newer.id.as_str(), ADMIN).await.unwrap();
    assert_eq!(room.state(&older), State::Valid);
    after(2 * GRACE).await;
    assert!(room.accepts(&older) && !room.accepts(&newer));
    // It expires within the grace: the same.
    let request = CreateRequest {
        expires: Some("12h".to_owned()),
        host: Some("rds1".to_owned()),
        ..wanted("agent")
    };
    let brief = room
        .keyring
        .create(request, ADMIN, &room.directory)
        .await
        .unwrap();
    assert!(room.accepts(&brief));
    after(2 * GRACE).await;
    assert!(room.accepts(&older) && !room.accepts(&brief));
}

#[tokio::test(start_paused = true)]
async fn the_grace_goes_on_over_a_restart() {
    let room = Room::new().await;
    let older = room.agent().await;
    let newer = room.agent().await;
    assert!(room.accepts(&newer));
    room.uses.write().await.unwrap();
    after(GRACE / 2).await;
    let again = room.again().await;
    assert!(accepts(&again, &older) && accepts(&again, &newer));
    after(GRACE / 2).await;
    assert!(!accepts(&again, &older) && accepts(&again, &newer));
    let again = room.again().await;
    assert!(!accepts(&again, &older) && accepts(&again, &newer));
}

#[tokio::test(start_paused = true)]
async fn a_first_use_is_written_once_the_store_is_well_again() {
    let room = Room::new().await;
    let older = room.agent().await;
    let newer = room.agent().await;
    room.breaks(true);
    assert!(room.accepts(&newer));
    assert!(room.uses.write().await.is_err());
    room.breaks(false);
    let Room {
        uses,
        disk,
        keyring,
        ..
    } = room;
    let running = tokio::spawn(uses.run());
    // Written by the task, which was told when the key was used.
    let stored = || async {
        let document = disk
            .store
            .document(Kind::Key, newer.id.as_str())
            .await
            .unwrap();
        document.unwrap().text.contains("\"used_at\":1")
    };
    let until = Instant::now() + PATIENCE;
    while !stored().await {
        assert!(Instant::now() < until, "not written down");
        tokio::task::yield_now().await;
    }
    running.abort();
    assert!(accepts(&keyring, &older));
}

#[tokio::test(start_paused = true)]
async fn other_hosts_and_roles_are_no_part_of_a_rotation() {
    let room = Room::new().await;
    let older = room.agent().await;
    let elsewhere = room.create("agent", Some("rds2")).await;
    let brokers = [
        room.create("broker", None).await,
        room.create("broker", None).await,
    ];
    assert!(room.accepts(&elsewhere) && brokers.iter().all(|key| room.accepts(key)));
    after(30 * DAY).await;
    assert!(room.accepts(&older) && brokers.iter().all(|key| room.accepts(key)));
}

#[tokio::test(start_paused = true)]
async fn a_third_key_has_to_wait() {
    let room = Room::new().await;
    let older = room.agent().await;
    let newer = room.agent().await;
    let request = || CreateRequest {
        host: Some("rds1".to_owned()),
        ..wanted("agent")
    };
    let refused = room
        .keyring
        .create(request(), ADMIN, &room.directory)
        .await
        .unwrap_err();
    let expected = KeyError::TwoAlready {
        role: Role::Agent(rds1()),
        first: older.id.clone(),
        second: newer.id.clone(),
    };
    assert_eq!(refused, expected);
    room.keyring.revoke(newer.id.as_str(), ADMIN).await.unwrap();
    let third = room.agent().await;
    assert!(room.accepts(&older) && room.accepts(&third));
}
