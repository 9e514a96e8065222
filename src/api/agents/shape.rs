//! What a heartbeat looks like, for the API's document: the room that reads it
//! knows nothing of documents. `tests/real/test_api.py` holds the two together:
//! what fits this must be taken, what does not must not.

use utoipa::ToSchema;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, Schema};

/// Longest name that is taken, in characters.
const NAME: usize = 256;

/// A host's state; fields that are not known are skipped.
#[derive(ToSchema)]
#[schema(as = Heartbeat)]
#[expect(dead_code, reason = "describes what another room reads")]
pub(in crate::api) struct HeartbeatBody {
    /// 4, or later.
    #[schema(format = Int64, minimum = 4, maximum = 4_294_967_295_u32)]
    protocol_version: u32,
    /// The host that the key is of.
    agent_id: String,
    /// Which start of the host this is; only compared.
    #[schema(max_length = 256)]
    boot_id: Option<String>,
    /// Grows with every heartbeat of one boot.
    #[schema(schema_with = sequence, required = false)]
    seq: (),
    #[serde(default)]
    server: ServerBody,
    #[serde(default)]
    health: HealthBody,
    /// Who is there, 10,000 at most; `null` where the agent cannot tell, which
    /// is not the same as nobody.
    sessions: Option<Vec<SessionBody>>,
    remote_apps: Option<Vec<RemoteAppBody>>,
    command_results: Option<Vec<CommandResultBody>>,
    /// Now by the agent's own clock (RFC 3339): what ages are worked out from.
    time: Option<String>,
}

/// The machine. A figure that is no number counts as unknown.
#[derive(ToSchema)]
#[schema(as = HeartbeatServer)]
#[expect(dead_code, reason = "describes what another room reads")]
struct ServerBody {
    /// For people.
    #[schema(max_length = 256)]
    hostname: Option<String>,
    /// Bytes.
    #[schema(value_type = serde_json::Value, required = false)]
    memory_total: (),
    /// Bytes.
    #[schema(value_type = serde_json::Value, required = false)]
    memory_available: (),
    /// 0 to 100.
    #[schema(value_type = serde_json::Value, required = false)]
    cpu_percent: (),
}

/// How the agent finds the host.
#[derive(ToSchema)]
#[schema(as = HeartbeatHealth)]
#[expect(dead_code, reason = "describes what another room reads")]
struct HealthBody {
    /// 0 to 100.
    #[schema(value_type = serde_json::Value, required = false)]
    score: (),
    /// Whether something listens for RDP.
    rdp_listener_ok: Option<bool>,
    checks: Option<Vec<CheckBody>>,
}

/// One thing that was looked at.
#[derive(ToSchema)]
#[schema(as = HeartbeatCheck)]
#[expect(dead_code, reason = "describes what another room reads")]
struct CheckBody {
    name: String,
    ok: bool,
    message: Option<String>,
}

/// One login; moments by the agent's own clock (RFC 3339).
#[derive(ToSchema)]
#[schema(as = HeartbeatSession)]
#[expect(dead_code, reason = "describes what another room reads")]
struct SessionBody {
    /// The host's own number for it.
    #[schema(schema_with = short_number_or_text, required = false)]
    id: (),
    /// As Windows names it, in any letter case.
    #[schema(max_length = 256)]
    state: String,
    #[schema(max_length = 256)]
    user: Option<String>,
    #[schema(max_length = 256)]
    domain: Option<String>,
    logon_at: Option<String>,
    connect_at: Option<String>,
    disconnected_since: Option<String>,
    #[schema(max_length = 256)]
    client_name: Option<String>,
}

/// One RemoteApp; its alias with the bars has 256 characters at most.
#[derive(ToSchema)]
#[schema(as = HeartbeatRemoteApp)]
#[expect(dead_code, reason = "describes what another room reads")]
struct RemoteAppBody {
    alias: String,
    published: Option<bool>,
    path_exists: Option<bool>,
}

/// What became of a command.
#[derive(ToSchema)]
#[schema(as = HeartbeatCommandResult)]
#[expect(dead_code, reason = "describes what another room reads")]
struct CommandResultBody {
    /// The command's id.
    #[schema(schema_with = number_or_text)]
    id: (),
    /// Whether it was carried out.
    ok: bool,
    #[serde(default)]
    message: String,
}

fn sequence() -> Schema {
    let kinds = SchemaType::from_iter([Type::Integer, Type::Null]);
    let number = ObjectBuilder::new().schema_type(kinds);
    number.minimum(Some(0_u64)).maximum(Some(u64::MAX)).into()
}

fn number_or_text() -> Schema {
    either().into()
}

fn short_number_or_text() -> Schema {
    either().max_length(Some(NAME)).into()
}

/// Ids are numbers with some agents and texts with others.
fn either() -> ObjectBuilder {
    let kinds = SchemaType::from_iter([Type::String, Type::Integer]);
    let either = ObjectBuilder::new().schema_type(kinds);
    either.minimum(Some(i64::MIN)).maximum(Some(i64::MAX))
}
