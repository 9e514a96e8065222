//! From what the connection asked for to what guacd is told: by name, never by
//! position. Pure.
//!
//! In this order: what leads past the placement is cleared, host and published
//! app are set, then the parameters of the host and, over them, those of the
//! resource; last the tokens are filled in.

use guac_protocol::Parameters;

use crate::placement::{Directory, Placement, Resource, ResourceId, ResourceKind};

/// A parameter the placement needs and guacd does not announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing(pub(super) &'static str);

/// What was rewritten: names for the log, never values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rewritten {
    /// Names that lost a value.
    pub(super) cleared: Vec<String>,
    /// Names that host or resource set.
    pub(super) set: Vec<String>,
    /// Names that host or resource would set and this guacd does not have.
    pub(super) unknown: Vec<String>,
}

const REMOTE_APP: [&str; 3] = ["remote-app", "remote-app-dir", "remote-app-args"];

/// Points the connection at its host and publishes what the resource says.
/// `tag` marks a tunnel without a user.
pub(super) fn rewrite(
    parameters: &mut Parameters,
    placement: &Placement,
    directory: &Directory,
    resource: Option<&ResourceId>,
    tag: Option<&str>,
) -> Result<Rewritten, Missing> {
    let host = directory.host(&placement.host);
    let resource = resource.and_then(|id| directory.resource(id));
    let mut rewritten = Rewritten {
        cleared: clear(parameters, &placement.kind, resource),
        ..Rewritten::default()
    };
    if let ResourceKind::RemoteApp(app) = &placement.kind {
        let [alias, dir, args] = REMOTE_APP;
        need(parameters, alias, &app.alias)?;
        need(parameters, dir, &app.dir)?;
        need(parameters, args, &app.args)?;
    }
    let of_host = host.map(|host| &host.parameters.0);
    let of_resource = resource.map(|resource| &resource.parameters.0);
    for (name, value) in of_host.into_iter().chain(of_resource).flatten() {
        let names = match parameters.set(name, value.as_str()) {
            true => &mut rewritten.set,
            false => &mut rewritten.unknown,
        };
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if let Some(tag) = tag {
        parameters.set("client-name", tag);
    }
    // Last, so that nothing above leads the connection elsewhere.
    need(parameters, "hostname", &placement.address)?;
    need(parameters, "port", &placement.port.to_string())?;
    fill_tokens(parameters, placement, resource);
    Ok(rewritten)
}

/// Clears what would bypass or confuse the placement, unless the resource keeps it.
fn clear(
    parameters: &mut Parameters,
    kind: &ResourceKind,
    resource: Option<&Resource>,
) -> Vec<String> {
    let mut cleared = Vec::new();
    for (name, value) in parameters.iter_mut() {
        let by_kind = match kind {
            ResourceKind::Desktop => REMOTE_APP.contains(&name),
            ResourceKind::RemoteApp(_) => name == "initial-program",
            ResourceKind::AsConnected => false,
        };
        let kept = resource.is_some_and(|r| r.keep_parameters.contains(name));
        if (by_kind || bypasses(name)) && !kept && !value.is_empty() {
            value.clear();
            cleared.push(name.to_owned());
        }
    }
    cleared
}

/// Whether a parameter leads the connection past the placement: an RD gateway,
/// a redirector's cookie, another console, a wake-up call for another machine,
/// a fingerprint of another host.
fn bypasses(name: &str) -> bool {
    let families = ["gateway-", "preconnection-", "wol-"];
    families.iter().any(|family| name.starts_with(family))
        || matches!(name, "load-balance-info" | "console" | "cert-fingerprints")
}

fn need(parameters: &mut Parameters, name: &'static str, value: &str) -> Result<(), Missing> {
    let announced = parameters.set(name, value);
    announced.then_some(()).ok_or(Missing(name))
}

/// Fills our tokens into every parameter but the credentials, which belong to
/// the user and reach the host as they were typed.
fn fill_tokens(parameters: &mut Parameters, placement: &Placement, resource: Option<&Resource>) {
    let (alias, dir, args) = match &placement.kind {
        ResourceKind::RemoteApp(app) => (app.alias.as_str(), app.dir.as_str(), app.args.as_str()),
        ResourceKind::Desktop | ResourceKind::AsConnected => ("", "", ""),
    };
    let tokens = [
        ("${SESSIONGUARD_HOST}", placement.address.as_str()),
        ("${SESSIONGUARD_AGENT_ID}", placement.host.as_str()),
        (
            "${SESSIONGUARD_RESOURCE_ID}",
            resource.map_or("", |r| r.id.as_str()),
        ),
        ("${SESSIONGUARD_REMOTE_APP}", alias),
        ("${SESSIONGUARD_REMOTE_APP_DIR}", dir),
        ("${SESSIONGUARD_REMOTE_APP_ARGS}", args),
    ];
    for (name, value) in parameters.iter_mut() {
        if matches!(name, "username" | "password") || !value.contains("${SESSIONGUARD_") {
            continue;
        }
        *value = filled(value, &tokens);
    }
}

/// One pass from left to right: what a token brings in is not looked at again.
fn filled(text: &str, tokens: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${SESSIONGUARD_") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match tokens.iter().find(|(token, _)| from.starts_with(token)) {
            Some((token, value)) => {
                out.push_str(value);
                rest = from.get(token.len()..).unwrap_or_default();
            }
            None => {
                out.push_str("${");
                rest = from.get(2..).unwrap_or_default();
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests;
