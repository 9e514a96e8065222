//! The keys of what an administrator names: hosts, farms and resources.

use super::{ATTEMPTS, HEALTH, LOGONS, SLOW_START, USERS};
use crate::config::form::{Form, Key, key};
use crate::config::shape::Shape;
use crate::config::words::{KINDS, MODES, spelt};

pub(in crate::config) const HOST: &[Key] = &[
    key(
        "id",
        Form::Id,
        "Also the id of the agent on this host; derived from the name if left out.",
    ),
    key(
        "name",
        Form::Name,
        "What people call it; the id if left out.",
    ),
    key("address", Form::Host, "Name or IP address, without port."),
    key("port", Form::Number(1, 65_535), "RDP port.").or("3389"),
    key(
        "farm_ids",
        Form::Ids,
        "Farms it belongs to; where one must be chosen the first rules.",
    ),
    key("tags", Form::Texts, "Tags that farms may ask for."),
    key(
        "mode",
        Form::Word(|| spelt(MODES)),
        "Mode at the first start; one set while running is kept.",
    )
    .or("\"online\""),
    key(
        "max_sessions",
        USERS,
        "Most users on it at a time, for new sessions; the farm's if left out.",
    ),
    key(
        "max_pending_logons",
        LOGONS,
        "Most logons under way at a time; the farm's if left out.",
    ),
    key(
        "parameters",
        Form::Parameters,
        "Connection parameters set for every tunnel to this host.",
    ),
];

pub(in crate::config) const FARM: &[Key] = &[
    key("id", Form::Id, "Derived from the name if left out."),
    key(
        "name",
        Form::Name,
        "What people call it; the id if left out.",
    ),
    key("enabled", Form::Switch, "A disabled farm places nobody.").or("true"),
    key("agent_ids", Form::Ids, "Hosts that belong to it."),
    key(
        "required_tags",
        Form::Texts,
        "A host that carries every one of these belongs to it.",
    ),
    key(
        "reconnect_existing",
        Form::Switch,
        "As in [broker], for this farm.",
    ),
    key("min_health_score", HEALTH, "As in [broker], for this farm."),
    key(
        "max_sessions",
        USERS,
        "As in [broker], for each host of this farm.",
    ),
    key(
        "max_pending_logons",
        LOGONS,
        "As in [broker], for each host of this farm.",
    ),
    key("slow_start", SLOW_START, "As in [broker], for this farm."),
    key(
        "default_domain",
        Form::Name,
        "As in [identity], for this farm.",
    ),
    key(
        "score",
        Form::Table(Shape::FarmScore),
        "As in [broker], for this farm; may name some weights only.",
    ),
];

pub(in crate::config) const RESOURCE: &[Key] = &[
    key("id", Form::Id, "Derived from the name if left out."),
    key(
        "name",
        Form::Name,
        "What people call it; the id if left out.",
    ),
    key("kind", Form::Word(|| spelt(KINDS)), "What is published."),
    key(
        "farm_id",
        Form::Id,
        "Farm it lives on; default_farm of [broker] if left out.",
    ),
    key(
        "enabled",
        Form::Switch,
        "A disabled resource is refused, never passed through.",
    )
    .or("true"),
    key(
        "guacamole_connection_id",
        Form::ConnectionId,
        "Id of the Guacamole connection that stands for it.",
    ),
    key(
        "guacamole_connection_name",
        Form::Name,
        "Name of that connection, in any letter case.",
    ),
    key(
        "source",
        Form::Name,
        "The listener's source that id and name belong to; any if left out.",
    ),
    key(
        "hostnames",
        Form::Hosts,
        "Host names in a connection that mean this resource.",
    ),
    key(
        "load_balance_info",
        Form::Name,
        "The load-balance-info in a connection that means this resource.",
    ),
    key(
        "remote_app",
        Form::Alias,
        "Alias of the RemoteApp, with or without its bars.",
    ),
    key(
        "remote_app_dir",
        Form::FreeText,
        "Working directory of the RemoteApp.",
    ),
    key(
        "remote_app_args",
        Form::FreeText,
        "Command-line arguments of the RemoteApp.",
    ),
    key(
        "keep_parameters",
        Form::ParameterNames,
        "Parameters left as Guacamole sent them though a placement clears them.",
    ),
    key(
        "attempt_deadline",
        ATTEMPTS,
        "As in [broker], for this resource.",
    ),
    key(
        "parameters",
        Form::Parameters,
        "Connection parameters set for every tunnel of this resource; they win over the host's.",
    ),
];
