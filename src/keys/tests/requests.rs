//! What is asked for wrongly.

use super::*;
use crate::keys::{ExpiryError, RequestError};

fn request(role: &str, host: Option<&str>) -> CreateRequest {
    CreateRequest {
        host: host.map(str::to_owned),
        ..wanted(role)
    }
}

#[tokio::test]
async fn each_mistake_has_its_reason_and_makes_no_key() {
    let room = Room::new().await;
    let expires = |role: &str, text: &str| CreateRequest {
        expires: Some(text.to_owned()),
        ..request(role, (role == "enrollment").then_some("rds1"))
    };
    let label = |text: &str| CreateRequest {
        label: Some(text.to_owned()),
        ..wanted("broker")
    };
    for (request, error) in [
        (wanted("root"), RequestError::Role),
        (wanted("agent"), RequestError::NoHost { role: "agent" }),
        (
            wanted("enrollment"),
            RequestError::NoHost { role: "enrollment" },
        ),
        (
            request("broker", Some("rds1")),
            RequestError::Host { role: "broker" },
        ),
        (request("agent", Some(" ")), RequestError::HostId),
        (request("agent", Some("a;b")), RequestError::HostId),
        (
            request("agent", Some(&"a".repeat(129))),
            RequestError::HostId,
        ),
        (label("two\nlines"), RequestError::Label),
        (label(&"a".repeat(101)), RequestError::Label),
        (
            expires("broker", "soon"),
            RequestError::Expiry(ExpiryError::Form),
        ),
        (
            expires("broker", "2020-01-01"),
            RequestError::Expiry(ExpiryError::Past),
        ),
        (
            expires("broker", "9999d"),
            RequestError::Expiry(ExpiryError::Far),
        ),
        (expires("enrollment", "31d"), RequestError::LongToken),
    ] {
        let asked = room
            .keyring
            .create(request.clone(), ADMIN, &room.directory)
            .await;
        assert_eq!(asked.unwrap_err(), error.into(), "{request:?}");
    }
    assert_eq!(room.keyring.list(), []);
}

#[tokio::test]
async fn a_host_that_is_not_configured_yet_is_warned_of() {
    let room = Room::new().await;
    assert_eq!(room.agent().await.warnings, Vec::<String>::new());
    let warnings = room.create("agent", Some("rds11")).await.warnings;
    assert_eq!(
        warnings,
        [
            "no host rds11 is configured: the key opens nothing until there is one; did you mean rds1?"
        ]
    );
    let warnings = room.create("agent", Some("elsewhere")).await.warnings;
    assert!(warnings[0].ends_with("until there is one"), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_always_ends_and_other_keys_where_they_are_to() {
    let room = Room::new().await;
    let now = room.clock.now();
    assert_eq!(room.token().await.expires_at, Some(now + DAY));
    assert_eq!(room.create("broker", None).await.expires_at, None);
    let request = CreateRequest {
        expires: Some("30d".to_owned()),
        ..wanted("broker")
    };
    let created = room
        .keyring
        .create(request, ADMIN, &room.directory)
        .await
        .unwrap();
    assert_eq!(created.expires_at, Some(now + 30 * DAY));
}
