//! What guacd must be told, worked out from the case alone.

use sessionguard::placement::{ResourceKind, UserKey};

use super::case::Case;

/// Where the case's only host is said to be, beside its port.
pub(super) const HOST: &str = "127.0.0.1";

const TRIO: [&str; 3] = ["remote-app", "remote-app-dir", "remote-app-args"];

/// The values of a connection that is placed, the port of the host left open.
pub(super) fn placed(case: &Case) -> Vec<String> {
    let version = case.version.iter().cloned();
    version
        .chain(case.names.iter().map(|name| value(case, name)))
        .collect()
}

/// The values of a connection that is none of the broker's.
pub(super) fn passed_through(case: &Case) -> Vec<String> {
    let names = case.names.iter().map(|name| case.answer(name).to_owned());
    case.version.iter().cloned().chain(names).collect()
}

/// Whether these are the values expected; the port is the host's own, and who
/// has no name is marked.
pub(super) fn same(case: &Case, values: &[String], expected: &[String]) -> bool {
    let versions = usize::from(case.version.is_some());
    let key = UserKey::new(case.answer("username"), case.answer("domain"));
    let names = (0..versions)
        .map(|_| "")
        .chain(case.names.iter().map(String::as_str));
    let mut all = names.zip(values).zip(expected);
    all.all(|((name, value), expected)| match name {
        "port" => value.parse::<u16>().is_ok_and(|port| port > 0),
        "client-name" if key.is_none() && is_mark(value) => true,
        _ => value == expected,
    })
}

fn is_mark(value: &str) -> bool {
    let mark = value.strip_prefix("sg-");
    mark.is_some_and(|mark| mark.len() == 12 && mark.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn value(case: &Case, name: &str) -> String {
    let configured = case.of_resource.get(name).or(case.of_host.get(name));
    let app = match &case.kind {
        ResourceKind::RemoteApp(app) => [app.alias.as_str(), &app.dir, &app.args],
        _ => ["", "", ""],
    };
    let of_app = match case.kind {
        ResourceKind::RemoteApp(_) => TRIO.iter().position(|known| *known == name),
        _ => None,
    };
    let value = match (name, of_app, configured) {
        ("hostname", ..) => return HOST.to_owned(),
        (_, Some(index), _) => app[index],
        (_, _, Some(configured)) => configured,
        _ if leads_past(case, name) && !case.keep.contains(name) => "",
        _ => case.answer(name),
    };
    match name {
        "username" | "password" => value.to_owned(),
        _ => filled(value, app),
    }
}

fn leads_past(case: &Case, name: &str) -> bool {
    let by_kind = match case.kind {
        ResourceKind::Desktop => TRIO.contains(&name),
        ResourceKind::RemoteApp(_) => name == "initial-program",
        ResourceKind::AsConnected => false,
    };
    by_kind
        || ["load-balance-info", "console", "cert-fingerprints"].contains(&name)
        || ["gateway-", "preconnection-", "wol-"]
            .iter()
            .any(|family| name.starts_with(family))
}

/// Each of our tokens replaced once; what it brings in is not looked at again.
fn filled(text: &str, [alias, dir, args]: [&str; 3]) -> String {
    let mut pieces = text.split("${SESSIONGUARD_");
    let mut filled = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let token = piece
            .split_once('}')
            .map(|(token, rest)| (token, Some(rest)));
        let (token, rest) = token.unwrap_or((piece, None));
        let value = match (token, rest) {
            ("HOST", Some(_)) => Some(HOST),
            ("AGENT_ID", Some(_)) => Some("h"),
            ("RESOURCE_ID", Some(_)) => Some("desk"),
            ("REMOTE_APP", Some(_)) => Some(alias),
            ("REMOTE_APP_DIR", Some(_)) => Some(dir),
            ("REMOTE_APP_ARGS", Some(_)) => Some(args),
            _ => None,
        };
        match (value, rest) {
            (Some(value), Some(rest)) => filled.extend([value, rest]),
            _ => filled.extend(["${SESSIONGUARD_", piece]),
        }
    }
    filled
}
