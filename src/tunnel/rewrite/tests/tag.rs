//! The mark of a tunnel whose user is not known yet.

use uuid::Uuid;

use super::*;
use crate::placement::TunnelId;

fn tag(tunnel: &str) -> String {
    TunnelId::from(tunnel).tag()
}

#[test]
fn a_tag_fits_a_client_name_and_comes_from_the_random_end() {
    assert_eq!(
        tag("0190b5e4-7d2c-7c11-8a3f-0123456789ab"),
        "sg-0123456789ab"
    );
    for _ in 0..100 {
        let tag = tag(&Uuid::now_v7().to_string());
        assert_eq!(tag.encode_utf16().count(), TunnelId::TAG);
    }
}

#[test]
fn two_tunnels_have_two_tags() {
    let tags: BTreeSet<_> = (0..1000)
        .map(|_| tag(&Uuid::now_v7().to_string()))
        .collect();
    assert_eq!(tags.len(), 1000);
}

#[test]
fn an_id_without_digits_makes_a_short_tag_and_no_panic() {
    assert_eq!(tag(""), "sg-");
    assert_eq!(tag("t-\u{fc}1"), "sg-1");
}

#[test]
fn a_tag_wins_over_every_other_client_name() {
    let pairs = [
        ("hostname", "x"),
        ("port", "1"),
        ("client-name", "reception"),
    ];
    let book = Book {
        of_host: values(&[("client-name", "host")]),
        of_resource: values(&[("client-name", "resource")]),
        ..Book::default()
    };
    let kind = ResourceKind::Desktop;
    let directory = book.directory(&kind);
    let rewritten = |tag| {
        let mut parameters = parameters(&pairs);
        let resource = ResourceId::from("r");
        let placement = placement(kind.clone());
        rewrite(
            &mut parameters,
            &placement,
            &directory,
            Some(&resource),
            tag,
        )
        .unwrap();
        parameters.get("client-name").unwrap().to_owned()
    };
    assert_eq!(rewritten(Some("sg-0123456789ab")), "sg-0123456789ab");
    assert_eq!(rewritten(None), "resource");
}

#[test]
fn a_guacd_without_client_names_is_placed_all_the_same() {
    let mut parameters = parameters(&[("hostname", "x"), ("port", "1")]);
    let kind = ResourceKind::Desktop;
    let directory = Book::default().directory(&kind);
    let told = rewrite(
        &mut parameters,
        &placement(kind),
        &directory,
        None,
        Some("sg-1"),
    );
    assert_eq!(told, Ok(Rewritten::default()));
}
