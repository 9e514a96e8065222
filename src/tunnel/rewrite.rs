//! From what the connection asked for to what guacd is told: by name, never by
//! position. Pure.

use guac_protocol::Parameters;

use crate::placement::{Placement, ResourceKind};

/// A parameter the placement needs and guacd does not announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing(pub(super) &'static str);

const REMOTE_APP: [&str; 3] = ["remote-app", "remote-app-dir", "remote-app-args"];

/// Points the connection at its host and publishes what the resource says.
/// Everything that would bypass or confuse the placement is cleared. Returns
/// the names that lost a value, for the log; values are not returned.
pub(super) fn rewrite(
    parameters: &mut Parameters,
    placement: &Placement,
) -> Result<Vec<String>, Missing> {
    let mut cleared = Vec::new();
    for (name, value) in parameters.iter_mut() {
        let cleared_by_kind = match placement.kind {
            ResourceKind::Desktop => REMOTE_APP.contains(&name),
            ResourceKind::RemoteApp(_) => name == "initial-program",
        };
        if (bypasses(name) || cleared_by_kind) && !value.is_empty() {
            value.clear();
            cleared.push(name.to_owned());
        }
    }
    set(parameters, "hostname", &placement.address)?;
    set(parameters, "port", &placement.port.to_string())?;
    if let ResourceKind::RemoteApp(app) = &placement.kind {
        let [alias, dir, args] = REMOTE_APP;
        set(parameters, alias, &app.alias)?;
        set(parameters, dir, &app.dir)?;
        set(parameters, args, &app.args)?;
    }
    Ok(cleared)
}

/// Whether a parameter leads the connection past the placement: an RD gateway,
/// a redirector's cookie, another console, a wake-up call for another machine,
/// a fingerprint of another host.
fn bypasses(name: &str) -> bool {
    let families = ["gateway-", "preconnection-", "wol-"];
    families.iter().any(|family| name.starts_with(family))
        || matches!(name, "load-balance-info" | "console" | "cert-fingerprints")
}

fn set(parameters: &mut Parameters, name: &'static str, value: &str) -> Result<(), Missing> {
    parameters
        .set(name, value)
        .then_some(())
        .ok_or(Missing(name))
}

#[cfg(test)]
mod tests;
