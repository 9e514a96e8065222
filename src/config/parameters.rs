//! Which connection parameters a configuration may set, and which of them a
//! placement clears.
//!
//! Asked by [`super::objects`] with names that are well formed. What is refused
//! here would set aside what the broker is for: the address it chose, the user
//! it placed.

use super::value_error::ValueError;

/// Why a host must not set this parameter.
pub(super) fn refused_in_host(name: &str) -> Option<ValueError> {
    match name {
        "username" | "password" | "domain" => Some(ValueError::IdentityParameter),
        _ => refused_in_resource(name),
    }
}

/// Why a resource must not set this parameter.
pub(super) fn refused_in_resource(name: &str) -> Option<ValueError> {
    match name {
        "hostname" | "port" => Some(ValueError::AddressParameter),
        "sessionguard-resource" => Some(ValueError::CarrierParameter),
        _ if name.starts_with("remote-app") => Some(ValueError::RemoteAppParameter),
        _ => None,
    }
}

/// Whether a placement clears what Guacamole sent for this parameter, because
/// it would lead past the chosen host or confuse it.
pub(super) fn is_cleared(name: &str) -> bool {
    let families = ["gateway-", "preconnection-", "wol-"];
    let names = [
        "load-balance-info",
        "console",
        "cert-fingerprints",
        "initial-program",
    ];
    names.contains(&name) || families.iter().any(|family| name.starts_with(family))
}
