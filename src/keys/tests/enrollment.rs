//! A token gets its host one key, once.

use super::*;
use crate::keys::EnrollError;

const REJECTED: EnrollError = EnrollError::Rejected(Rejected);

#[tokio::test]
async fn a_token_is_exchanged_once_and_for_its_host_alone() {
    let room = Room::new().await;
    let token = room.token().await;
    let created = room.keyring.enroll(token.key.expose()).await.unwrap();
    assert_eq!(created.role, Role::Agent(rds1()));
    assert!(room.accepts(&created) && !room.accepts(&token));
    assert_eq!(room.state(&token), State::Used);
    assert_eq!(
        room.keyring.enroll(token.key.expose()).await.unwrap_err(),
        REJECTED
    );
    let listed = room.keyring.list();
    let key = listed.iter().find(|key| key.id == created.id).unwrap();
    assert_eq!(key.created_by, format!("key {}", token.id));
    let again = room.again().await;
    assert!(accepts(&again, &created));
    assert_eq!(
        again.enroll(token.key.expose()).await.unwrap_err(),
        REJECTED
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_good_token_gets_nothing() {
    let room = Room::new().await;
    let broker = room.create("broker", None).await;
    let agent = room.agent().await;
    let revoked = room.token().await;
    room.keyring
        .revoke(revoked.id.as_str(), ADMIN)
        .await
        .unwrap();
    let expired = room.token().await;
    after(DAY).await;
    for key in [&broker, &agent, &revoked, &expired] {
        assert_eq!(
            room.keyring.enroll(key.key.expose()).await.unwrap_err(),
            REJECTED
        );
    }
    assert_eq!(room.keyring.enroll("").await.unwrap_err(), REJECTED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_the_same_instant_on_two_replicas_one_gets_a_key() {
    let room = Room::new().await;
    for _ in 0..20 {
        let token = room.create("enrollment", Some("rds2")).await;
        // Both know the token; neither tells the other.
        let replicas = [room.again().await, room.again().await];
        let start = Arc::new(tokio::sync::Barrier::new(8));
        let asking: Vec<_> = (0..8)
            .map(|nth: usize| {
                let (keyring, start) = (replicas[nth % 2].clone(), Arc::clone(&start));
                let token = token.key.clone();
                tokio::spawn(async move {
                    start.wait().await;
                    keyring.enroll(token.expose()).await
                })
            })
            .collect();
        let mut won = 0;
        for asked in asking {
            match asked.await.unwrap() {
                Ok(_) => won += 1,
                Err(error) => assert_eq!(error, REJECTED),
            }
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn enrolling_anew_ends_the_key_that_is_not_in_use() {
    let room = Room::new().await;
    let (used, idle) = (room.agent().await, room.agent().await);
    assert!(room.accepts(&used));
    let token = room.token().await;
    let created = room.keyring.enroll(token.key.expose()).await.unwrap();
    // The answer may be lost on the way: the agent goes on with what it has.
    assert!(room.accepts(&used) && !room.accepts(&idle));
    assert_eq!(room.state(&idle), State::Revoked);
    assert!(room.accepts(&created));
}

#[tokio::test]
async fn a_store_that_fails_uses_no_token_up() {
    let room = Room::new().await;
    let token = room.token().await;
    room.breaks(true);
    let error = room.keyring.enroll(token.key.expose()).await.unwrap_err();
    assert!(matches!(error, EnrollError::Failed(_)), "{error}");
    room.breaks(false);
    let created = room.keyring.enroll(token.key.expose()).await.unwrap();
    assert!(room.accepts(&created));
}
