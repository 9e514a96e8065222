//! Our tokens, filled in once and nowhere in the credentials.

use super::*;

/// The value of `locale` after it was sent as `text`.
fn filled_as(kind: ResourceKind, text: &str) -> String {
    let all = [
        "hostname",
        "port",
        "remote-app",
        "remote-app-dir",
        "remote-app-args",
    ];
    let mut pairs: Vec<_> = all.iter().map(|name| (*name, "")).collect();
    pairs.push(("locale", text));
    let mut parameters = parameters(&pairs);
    plain(&mut parameters, kind).unwrap();
    parameters.get("locale").unwrap().to_owned()
}

#[test]
fn every_token_has_its_value() {
    for (token, of_app, of_desktop) in [
        ("${SESSIONGUARD_HOST}", "10.1.1.1", "10.1.1.1"),
        ("${SESSIONGUARD_AGENT_ID}", "a", "a"),
        ("${SESSIONGUARD_RESOURCE_ID}", "r", "r"),
        ("${SESSIONGUARD_REMOTE_APP}", "||Sage", ""),
        ("${SESSIONGUARD_REMOTE_APP_DIR}", "C:\\Sage", ""),
        ("${SESSIONGUARD_REMOTE_APP_ARGS}", "/company:1", ""),
    ] {
        assert_eq!(filled_as(sage(), token), of_app, "{token}");
        assert_eq!(
            filled_as(ResourceKind::Desktop, token),
            of_desktop,
            "{token}"
        );
        assert_eq!(
            filled_as(ResourceKind::AsConnected, token),
            of_desktop,
            "{token}"
        );
        let within = format!("<{token}|{token}>");
        assert_eq!(filled_as(sage(), &within), format!("<{of_app}|{of_app}>"));
    }
}

#[test]
fn what_is_no_token_of_ours_stays_as_it_is() {
    for text in [
        "",
        "$",
        "${",
        "${}",
        "${GUAC_USERNAME}",
        "${JDBC_CONNECTION_ID}",
        "${SESSIONGUARD_}",
        "${SESSIONGUARD_HOSTS}",
        "${SESSIONGUARD_HOST",
        "${sessionguard_host}",
        "$SESSIONGUARD_HOST",
        "{SESSIONGUARD_HOST}",
        "${SESSIONGUARD_HOST }",
        "${SESSIONGUARD_REMOTE_APP_",
        "${SESSIONGUARD_ \u{1f600}",
    ] {
        assert_eq!(filled_as(sage(), text), text);
    }
}

#[test]
fn a_broken_token_does_not_hide_the_next_one() {
    for (text, expected) in [
        (
            "${SESSIONGUARD_X}${SESSIONGUARD_HOST}",
            "${SESSIONGUARD_X}10.1.1.1",
        ),
        (
            "${SESSIONGUARD_${SESSIONGUARD_HOST}",
            "${SESSIONGUARD_10.1.1.1",
        ),
        ("${${SESSIONGUARD_HOST}}", "${10.1.1.1}"),
        ("$${SESSIONGUARD_AGENT_ID}", "$a"),
        ("\u{fc}${SESSIONGUARD_AGENT_ID}\u{fc}", "\u{fc}a\u{fc}"),
    ] {
        assert_eq!(filled_as(sage(), text), expected, "{text}");
    }
}

#[test]
fn what_a_token_brings_in_is_not_filled_again() {
    let app = |args: &str| {
        ResourceKind::RemoteApp(RemoteApp {
            alias: "||Sage".to_owned(),
            dir: String::new(),
            args: args.to_owned(),
        })
    };
    let arguments = app("/on ${SESSIONGUARD_HOST}");
    let text = "${SESSIONGUARD_REMOTE_APP_ARGS}";
    assert_eq!(filled_as(arguments, text), "/on ${SESSIONGUARD_HOST}");
    // Two halves that a token joins are no token either.
    let half = app("SESSIONGUARD_HOST}");
    let text = "${${SESSIONGUARD_REMOTE_APP_ARGS}";
    assert_eq!(filled_as(half, text), "${SESSIONGUARD_HOST}");
}

#[test]
fn credentials_are_sent_as_they_were_typed() {
    let text = "${SESSIONGUARD_HOST}";
    let mut parameters = parameters(&[
        ("hostname", "x"),
        ("port", "1"),
        ("username", text),
        ("password", text),
        ("domain", text),
    ]);
    plain(&mut parameters, ResourceKind::Desktop).unwrap();
    reads(
        &parameters,
        &[
            ("username", text),
            ("password", text),
            ("domain", "10.1.1.1"),
        ],
    );
}

#[test]
fn what_host_resource_and_app_set_is_filled_too() {
    let app = ResourceKind::RemoteApp(RemoteApp {
        alias: "||Sage".to_owned(),
        dir: "\\\\${SESSIONGUARD_HOST}\\apps".to_owned(),
        args: "/host:${SESSIONGUARD_AGENT_ID}".to_owned(),
    });
    let names = [
        "hostname",
        "port",
        "remote-app",
        "remote-app-dir",
        "remote-app-args",
    ];
    let mut pairs: Vec<_> = names.iter().map(|name| (*name, "")).collect();
    pairs.extend([("sftp-hostname", ""), ("drive-path", "")]);
    let mut parameters = parameters(&pairs);
    let book = Book {
        of_host: values(&[("sftp-hostname", "${SESSIONGUARD_HOST}")]),
        of_resource: values(&[("drive-path", "/drives/${SESSIONGUARD_RESOURCE_ID}")]),
        ..Book::default()
    };
    book.rewrite(&mut parameters, app);
    reads(
        &parameters,
        &[
            ("remote-app-dir", "\\\\10.1.1.1\\apps"),
            ("remote-app-args", "/host:a"),
            ("sftp-hostname", "10.1.1.1"),
            ("drive-path", "/drives/r"),
        ],
    );
}
