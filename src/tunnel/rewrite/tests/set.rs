//! What host and resource set or keep: the resource wins over the host, both
//! over Guacamole, none over the placement.

use super::*;

fn target() -> [(&'static str, &'static str); 2] {
    [("hostname", "x"), ("port", "1")]
}

fn kept(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn the_resource_wins_over_the_host_and_both_over_guacamole() {
    let pairs = [
        &target()[..],
        &[
            ("security", "any"),
            ("timezone", "UTC"),
            ("locale", "en"),
            ("width", "800"),
        ],
    ]
    .concat();
    let mut parameters = parameters(&pairs);
    let book = Book {
        of_host: values(&[("security", "nla"), ("timezone", "Europe/Berlin")]),
        of_resource: values(&[("security", "tls"), ("locale", "de")]),
        ..Book::default()
    };
    let told = book.rewrite(&mut parameters, ResourceKind::Desktop);
    assert_eq!(told.set, ["security", "timezone", "locale"]);
    reads(
        &parameters,
        &[
            ("security", "tls"),
            ("timezone", "Europe/Berlin"),
            ("locale", "de"),
            ("width", "800"),
        ],
    );
}

#[test]
fn what_is_cleared_comes_back_where_host_or_resource_sets_it() {
    let pairs = [
        &target()[..],
        &[
            ("cert-fingerprints", "stranger"),
            ("gateway-hostname", "stranger"),
            ("console", "true"),
        ],
    ]
    .concat();
    let mut parameters = parameters(&pairs);
    let book = Book {
        of_host: values(&[("cert-fingerprints", "aa:bb")]),
        of_resource: values(&[("gateway-hostname", "gw.example.com")]),
        ..Book::default()
    };
    book.rewrite(&mut parameters, ResourceKind::Desktop);
    reads(
        &parameters,
        &[
            ("cert-fingerprints", "aa:bb"),
            ("gateway-hostname", "gw.example.com"),
            ("console", ""),
        ],
    );
}

#[test]
fn what_the_resource_keeps_is_left_as_guacamole_sent_it() {
    let pairs = [
        &target()[..],
        &[("console", "true"), ("wol-mac-addr", "aa")],
    ]
    .concat();
    let mut parameters = parameters(&pairs);
    let book = Book {
        kept: kept(&["console"]),
        ..Book::default()
    };
    let told = book.rewrite(&mut parameters, ResourceKind::Desktop);
    assert_eq!(told.cleared, ["wol-mac-addr"]);
    reads(&parameters, &[("console", "true"), ("wol-mac-addr", "")]);
}

#[test]
fn a_kept_parameter_that_is_also_set_is_set() {
    let pairs = [&target()[..], &[("console", "true")]].concat();
    let mut parameters = parameters(&pairs);
    let book = Book {
        of_resource: values(&[("console", "false")]),
        kept: kept(&["console"]),
        ..Book::default()
    };
    book.rewrite(&mut parameters, ResourceKind::Desktop);
    reads(&parameters, &[("console", "false")]);
}

#[test]
fn another_resources_wishes_do_not_count() {
    let pairs = [&target()[..], &[("console", "true"), ("locale", "en")]].concat();
    let mut parameters = parameters(&pairs);
    let book = Book {
        of_resource: values(&[("locale", "de")]),
        kept: kept(&["console"]),
        ..Book::default()
    };
    let directory = book.directory(&ResourceKind::Desktop);
    let told = rewrite(
        &mut parameters,
        &placement(ResourceKind::Desktop),
        &directory,
        None,
        None,
    );
    assert_eq!(told.unwrap().cleared, ["console"]);
    reads(&parameters, &[("console", ""), ("locale", "en")]);
}

#[test]
fn nothing_anybody_sets_or_keeps_leads_to_another_host() {
    let mut parameters = parameters(&target());
    let book = Book {
        of_host: values(&[("hostname", "evil.example.com"), ("port", "22")]),
        of_resource: values(&[("hostname", "worse.example.com"), ("port", "23")]),
        kept: kept(&["hostname", "port"]),
    };
    book.rewrite(&mut parameters, ResourceKind::Desktop);
    reads(&parameters, &[("hostname", "10.1.1.1"), ("port", "3390")]);
}

#[test]
fn what_this_guacd_does_not_have_is_told_by_name_once() {
    let mut parameters = parameters(&target());
    let book = Book {
        of_host: values(&[("force-lossless", "true"), ("new-thing", "1")]),
        of_resource: values(&[("new-thing", "2")]),
        ..Book::default()
    };
    let told = book.rewrite(&mut parameters, ResourceKind::Desktop);
    assert_eq!(told.unknown, ["force-lossless", "new-thing"]);
    assert!(told.set.is_empty());
}

#[test]
fn a_resource_may_set_who_logs_on() {
    let pairs = [&target()[..], &[("username", "ann"), ("domain", "corp")]].concat();
    let mut parameters = parameters(&pairs);
    let book = Book {
        of_resource: values(&[("username", "kiosk"), ("domain", "")]),
        ..Book::default()
    };
    book.rewrite(&mut parameters, ResourceKind::Desktop);
    reads(&parameters, &[("username", "kiosk"), ("domain", "")]);
}

#[test]
fn no_value_is_told() {
    let secret = "hunter2-secret";
    let pairs = [
        &target()[..],
        &[("gateway-password", secret), ("locale", secret)],
    ]
    .concat();
    let mut parameters = parameters(&pairs);
    let book = Book {
        of_host: values(&[("locale", secret), ("absent", secret)]),
        ..Book::default()
    };
    let told = book.rewrite(&mut parameters, ResourceKind::Desktop);
    assert!(!format!("{told:?}").contains(secret));
    assert!(!format!("{:?}", book.of_host).contains(secret));
}
