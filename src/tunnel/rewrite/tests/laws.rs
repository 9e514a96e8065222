//! What holds whatever a connection carries.

use proptest::collection::btree_map;
use proptest::prelude::*;

use super::*;

/// Names a placement may touch, by kind or by family.
fn may_change(name: &str) -> bool {
    let names = [
        "hostname",
        "port",
        "initial-program",
        "load-balance-info",
        "console",
        "cert-fingerprints",
    ];
    let families = ["remote-app", "gateway-", "preconnection-", "wol-"];
    names.contains(&name) || families.iter().any(|family| name.starts_with(family))
}

/// Text as people and programs write it, now and then with a token in it.
fn text() -> impl Strategy<Value = String> {
    // guacd ends a text at a NUL, so that none comes this far.
    let any = any::<String>().prop_map(|text| text.replace('\0', ""));
    let pieces = prop::sample::select(vec![
        "${SESSIONGUARD_HOST}",
        "${SESSIONGUARD_AGENT_ID}",
        "${SESSIONGUARD_REMOTE_APP_ARGS}",
        "${SESSIONGUARD_",
        "${GUAC_USERNAME}",
        "${",
        "}",
        "pass\u{1f600}word",
        "u\u{308}",
    ]);
    prop_oneof![
        any,
        prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
    ]
}

fn kind() -> impl Strategy<Value = ResourceKind> {
    let app = (text(), text()).prop_map(|(dir, args)| {
        let alias = "||Sage".to_owned();
        ResourceKind::RemoteApp(RemoteApp { alias, dir, args })
    });
    prop_oneof![
        Just(ResourceKind::Desktop),
        Just(ResourceKind::AsConnected),
        app
    ]
}

/// A whole connection: what is needed, credentials, and other names.
fn connection() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = prop_oneof![
        "[a-z][a-z0-9-]{0,20}",
        prop::sample::select(vec![
            "gateway-hostname",
            "console",
            "wol-mac-addr",
            "domain",
            "locale"
        ])
        .prop_map(str::to_owned),
    ];
    let needed = [
        "hostname",
        "port",
        "username",
        "password",
        "remote-app",
        "remote-app-dir",
        "remote-app-args",
    ];
    let needed = prop::array::uniform7(text()).prop_map(move |values| {
        let names = needed.iter().map(ToString::to_string);
        names.zip(values).collect::<BTreeMap<_, _>>()
    });
    (needed, btree_map(name, text(), 0..8)).prop_map(|(needed, mut all)| {
        all.extend(needed);
        all
    })
}

fn as_parameters(connection: &BTreeMap<String, String>) -> Parameters {
    parameters(&connection.iter().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn credentials_are_never_changed(connection in connection(), kind in kind()) {
        let mut parameters = as_parameters(&connection);
        plain(&mut parameters, kind).unwrap();
        for name in ["username", "password"] {
            prop_assert_eq!(parameters.get(name), connection.get(name).map(String::as_str));
        }
    }

    #[test]
    fn hostname_and_port_are_the_placements_whatever_was_there(connection in connection(), kind in kind()) {
        let mut parameters = as_parameters(&connection);
        plain(&mut parameters, kind).unwrap();
        prop_assert_eq!(parameters.get("hostname"), Some("10.1.1.1"));
        prop_assert_eq!(parameters.get("port"), Some("3390"));
    }

    #[test]
    fn what_is_not_named_goes_through_as_it_came(connection in connection(), kind in kind()) {
        let mut parameters = as_parameters(&connection);
        plain(&mut parameters, kind).unwrap();
        for (name, value) in &connection {
            if !may_change(name) && !value.contains("${SESSIONGUARD_") {
                prop_assert_eq!(parameters.get(name), Some(value.as_str()), "{}", name);
            }
        }
    }

    #[test]
    fn names_and_their_order_never_change(connection in connection(), kind in kind()) {
        let before = as_parameters(&connection);
        let mut after = before.clone();
        plain(&mut after, kind).unwrap();
        prop_assert!(before.names().eq(after.names()));
    }

    #[test]
    fn only_names_that_had_a_value_are_told_as_cleared(connection in connection(), kind in kind()) {
        let mut parameters = as_parameters(&connection);
        let told = plain(&mut parameters, kind).unwrap();
        for name in &told.cleared {
            prop_assert!(may_change(name));
            prop_assert!(!connection[name].is_empty());
        }
    }

    #[test]
    fn filling_is_one_pass_from_left_to_right(pieces in prop::collection::vec((text(), any::<bool>()), 0..6)) {
        // Plain text cannot be told from a token: what stands between does not hold one.
        let pieces: Vec<_> = pieces
            .into_iter()
            .map(|(text, is_token)| (text.replace(['$', '{'], ""), is_token))
            .collect();
        let join = |token: &str| {
            let parts = pieces.iter().map(|(text, is)| if *is { token.to_owned() } else { text.clone() });
            parts.collect::<String>()
        };
        for value in ["", "x", "${T}", "${T}${T}"] {
            prop_assert_eq!(filled_with(&join("${SESSIONGUARD_T}"), value), join(value));
        }
    }

    #[test]
    fn text_without_our_tokens_is_never_changed(text in any::<String>()) {
        prop_assume!(!text.contains("${SESSIONGUARD_T}"));
        prop_assert_eq!(filled_with(&text, "x"), text);
    }
}

fn filled_with(text: &str, value: &str) -> String {
    filled(text, &[("${SESSIONGUARD_T}", value)])
}
