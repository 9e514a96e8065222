//! The scenes, one after the other.

mod beside;
mod placing;
mod restart;

use std::collections::BTreeMap;

use super::script::Placed;

/// Where everybody is, and by which tunnel.
pub(super) type Users = BTreeMap<&'static str, Placed>;

const DESKTOP: &str = "Office Desktop";
const BY_ID: (&str, &str) = ("hostname", "sessionguard:resource=office-desktop");
