//! Written first, then in force, then answered.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Instant;

use super::*;
use crate::keys::KeyError;
use crate::store::Version;

#[tokio::test]
async fn keys_outlive_the_process() {
    let room = Room::new().await;
    let (kept, revoked) = (
        room.create("broker", None).await,
        room.create("broker", None).await,
    );
    room.keyring
        .revoke(revoked.key.expose(), ADMIN)
        .await
        .unwrap();
    let again = room.again().await;
    assert!(accepts(&again, &kept) && !accepts(&again, &revoked));
    assert_eq!(again.list().len(), 2);
}

#[tokio::test]
async fn what_cannot_be_written_is_not_in_force() {
    let room = Room::new().await;
    let key = room.create("broker", None).await;
    room.breaks(true);
    let failed = room
        .keyring
        .create(wanted("broker"), ADMIN, &room.directory)
        .await;
    assert!(matches!(failed, Err(KeyError::Store(_))));
    assert!(room.keyring.revoke(key.id.as_str(), ADMIN).await.is_err());
    assert!(room.accepts(&key));
    assert_eq!(room.keyring.list().len(), 1);
    room.breaks(false);
    room.keyring.revoke(key.id.as_str(), ADMIN).await.unwrap();
    assert!(!room.accepts(&key));
}

#[tokio::test]
async fn a_revocation_goes_on_though_whoever_asked_has_left() {
    let room = Room::new().await;
    let key = room.create("broker", None).await;
    {
        let mut asked = pin!(room.keyring.revoke(key.id.as_str(), ADMIN));
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(asked.as_mut().poll(&mut nobody).is_pending());
    }
    let until = Instant::now() + PATIENCE;
    while room.accepts(&key) {
        assert!(
            Instant::now() < until,
            "a revocation ended with whoever asked"
        );
        tokio::task::yield_now().await;
    }
    assert!(!accepts(&room.again().await, &key));
}

#[tokio::test]
async fn revoking_again_changes_nothing_and_an_unknown_id_is_told_the_nearest() {
    let room = Room::new().await;
    let key = room.create("broker", None).await;
    let first = room.keyring.revoke(key.id.as_str(), ADMIN).await.unwrap();
    let later = Actor::User {
        uid: Some(7),
        name: None,
    };
    let second = room.keyring.revoke(key.id.as_str(), later).await.unwrap();
    assert_eq!(first, second);
    let mut slip = key.id.as_str().to_owned();
    let last = if slip.pop() == Some('0') { '1' } else { '0' };
    slip.push(last);
    let error = room.keyring.revoke(&slip, ADMIN).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("there is no key {slip}; did you mean {}?", key.id)
    );
    for bad in ["", "x", "../status", "0123456789AB", "hunter2"] {
        let error = room.keyring.revoke(bad, ADMIN).await.unwrap_err();
        assert!(
            error.to_string().starts_with("a key's id is twelve of"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_long_ago_is_forgotten_and_never_comes_back() {
    let room = Room::new().await;
    let (older, newer) = (room.agent().await, room.agent().await);
    assert!(room.accepts(&newer));
    room.uses.write().await.unwrap();
    let revoked = room.create("broker", None).await;
    room.keyring
        .revoke(revoked.id.as_str(), ADMIN)
        .await
        .unwrap();
    after(30 * DAY).await;
    let again = room.again().await;
    let ids = |keyring: &Keyring| {
        keyring
            .list()
            .into_iter()
            .map(|key| key.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&again), [older.id.clone(), newer.id.clone()]);
    after(DAY).await;
    let again = room.again().await;
    assert_eq!(ids(&again), vec![newer.id.clone()]);
    assert!(!accepts(&again, &older) && accepts(&again, &newer));
    again.revoke(newer.id.as_str(), ADMIN).await.unwrap();
    after(31 * DAY).await;
    assert_eq!(ids(&room.again().await), []);
}

#[tokio::test]
async fn a_record_of_another_release_opens_nothing() {
    let room = Room::new().await;
    let key = room.create("broker", None).await;
    let text = Some("{\"role\":\"emperor\"}".to_owned());
    let edit = Edit {
        kind: Kind::Key,
        id: key.id.to_string(),
        expected: None,
        text,
    };
    let foreign = Edit {
        id: "no id".to_owned(),
        expected: Some(Version::ABSENT),
        ..edit.clone()
    };
    room.disk
        .store
        .edit(vec![edit, foreign], true)
        .await
        .unwrap();
    let again = room.again().await;
    assert!(!accepts(&again, &key));
    assert_eq!(again.list(), []);
}

#[tokio::test]
async fn nothing_of_a_key_is_printed_listed_or_stored() {
    let room = Room::new().await;
    let key = room.create("admin-write", None).await;
    let secret = key.key.expose().rsplit('_').next().unwrap();
    let listed = format!("{:?}", room.keyring.list());
    let identity = room.keyring.verify(key.key.expose()).unwrap();
    let stored = room.disk.store.documents(Kind::Key).await.unwrap();
    let printed = format!(
        "{key:?} {:?} {identity:?} {listed} {stored:?}",
        room.keyring
    );
    assert!(printed.contains(key.id.as_str()));
    assert!(!printed.contains(secret), "{printed}");
    let digest = stored[0].text.split("\"digest\":\"").nth(1).unwrap();
    assert!(!listed.contains(&digest[..64]), "{listed}");
}
