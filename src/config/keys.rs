//! Every key of the configuration: its form, its default, what it is for. What
//! a form is says [`super::form`].
//!
//! The one list. [`super::reader`] refuses what is not in it and takes ranges
//! from it, suggestions come from it, `config schema` is made of it and
//! `config show` walks it; tests hold the sample file against it.

mod objects;
mod store;

use std::time::Duration;

use super::form::{Form, Key, key};
use super::shape::Shape;
use super::words::{CONDUCTS, FORMATS, LEVELS, SOURCES, TRUST_AGENTS, UNMATCHED, spelt};

pub(super) use objects::{FARM, HOST, RESOURCE};
pub(super) use store::STORE;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Ranges are wide: they refuse what cannot work, not what is unusual.
const DAY: u64 = 86_400;
const HEALTH: Form = Form::Number(0, 100);
const WEIGHT: Form = Form::Number(0, 10_000);
const USERS: Form = Form::Number(1, 100_000);
const LOGONS: Form = Form::Number(1, 10_000);
const SLOW_START: Form = Form::Time(s(0), s(3600));
const ATTEMPTS: Form = Form::Time(s(3), s(600));

pub(super) const DOCUMENT: &[Key] = &[
    key(
        "broker",
        Form::Table(Shape::Broker),
        "How users are placed.",
    ),
    key("identity", Form::Table(Shape::Identity), "Who the user is."),
    key("guacd", Form::Table(Shape::Guacd), "The guacd behind us."),
    key(
        "listen",
        Form::Tables(Shape::Listen),
        "Where Guacamole reaches us.",
    ),
    key(
        "probe",
        Form::Table(Shape::Probe),
        "Whether hosts answer on their RDP port.",
    ),
    key(
        "store",
        Form::Table(Shape::Store),
        "Where leases and host modes are kept.",
    ),
    key(
        "api",
        Form::Table(Shape::Api),
        "How the running broker is asked.",
    ),
    key(
        "health",
        Form::Table(Shape::Health),
        "Where health and metrics are asked for.",
    ),
    key(
        "limits",
        Form::Table(Shape::Limits),
        "How much is served at a time.",
    ),
    key("log", Form::Table(Shape::Log), "What is logged, and how."),
    key("hosts", Form::Tables(Shape::Host), "The RDP session hosts."),
    key("farms", Form::Tables(Shape::Farm), "Named groups of hosts."),
    key(
        "resources",
        Form::Tables(Shape::Resource),
        "Published desktops and RemoteApps.",
    ),
];

pub(super) const BROKER: &[Key] = &[
    key("mode", Form::Word(|| spelt(CONDUCTS)),
        "Whether decisions are acted on, or only made and logged.").or("\"broker\""),
    key("unmatched", Form::Word(|| spelt(UNMATCHED)),
        "What becomes of an RDP connection that names no resource.").or("\"pass\""),
    key("reconnect_existing", Form::Switch,
        "Take users back to a session they left, wherever in the farm it is.").or("true"),
    key("single_session_per_user", Form::Switch,
        "One lease per user, or one per user, farm and resource.").or("true"),
    key("lease_seconds", Form::Seconds(30, 30 * DAY),
        "How long a lease outlives its last tunnel.").or("900"),
    key("min_health_score", HEALTH,
        "A host whose agent reports less health gets no new session.").or("60"),
    key("offline_after_seconds", Form::Seconds(1, DAY),
        "A report older than this means offline for new sessions.").or("30"),
    key("reconnect_failover", Form::Time(s(0), s(3600)),
        "How long a host must have failed its probe before a user with a session on it is placed elsewhere.").or("\"30s\""),
    key("max_sessions", USERS,
        "Most users on one host at a time, for new sessions; no bound if left out."),
    key("max_pending_logons", LOGONS,
        "Most logons under way on one host at a time.").or("10"),
    key("slow_start", SLOW_START,
        "How long a host that turned usable is filled slowly.").or("\"60s\""),
    key("max_tunnels_per_user", Form::Number(1, 10_000),
        "Most tunnels one user may have open; no bound if left out."),
    key("trust_agents", Form::Word(|| spelt(TRUST_AGENTS)),
        "Whether an agent is believed about sessions until something speaks against it, or only where our own tunnels, leases and 30-day history say the same.").or("\"always\""),
    key("agent_trust_threshold", Form::Number(1, 100_000),
        "Most users who may come to one host within a minute without us before its agent is mistrusted.").or("20"),
    key("default_farm", Form::Id, "Farm of the resources that name none."),
    key("allow_farm_selector", Form::Switch,
        "Whether a connection may choose its farm itself with farm= in its host name.").or("false"),
    // guacd hangs up 15 s after its last input; a second is kept for the answer.
    key("placement_timeout", Form::Time(s(1), s(14)), "Time for one placement.").or("\"10s\""),
    key("max_attempts", Form::Number(1, 16),
        "Most hosts that guacd is sent to for one connection until a desktop stands; 1: no second one.").or("4"),
    key("attempt_deadline", ATTEMPTS,
        "How long other hosts are tried, counted from the click; Guacamole's balancing groups wait 15 s only.").or("\"13s\""),
    key("drain_timeout", Form::Time(s(0), s(30 * DAY)),
        "How long a shutdown waits for running tunnels to end by themselves.").or("\"8h\""),
    key("score", Form::Table(Shape::BrokerScore), "What makes a host better than another."),
];

pub(super) const BROKER_SCORE: &[Key] = &[
    key(
        "health",
        WEIGHT,
        "Weight of each health point, for the host.",
    )
    .or("10"),
    key(
        "active",
        WEIGHT,
        "Weight of each active session, against the host.",
    )
    .or("20"),
    key(
        "disconnected",
        WEIGHT,
        "Weight of each disconnected session, against the host.",
    )
    .or("5"),
    key(
        "cpu",
        WEIGHT,
        "Weight of each CPU percent, against the host.",
    )
    .or("2"),
    key(
        "memory",
        WEIGHT,
        "Weight of each percent of memory used, against the host.",
    )
    .or("1"),
];

/// As the global ones, which are the defaults.
pub(super) const FARM_SCORE: &[Key] = &[
    key(
        "health",
        WEIGHT,
        "Weight of each health point, for the host.",
    ),
    key(
        "active",
        WEIGHT,
        "Weight of each active session, against the host.",
    ),
    key(
        "disconnected",
        WEIGHT,
        "Weight of each disconnected session, against the host.",
    ),
    key(
        "cpu",
        WEIGHT,
        "Weight of each CPU percent, against the host.",
    ),
    key(
        "memory",
        WEIGHT,
        "Weight of each percent of memory used, against the host.",
    ),
];

pub(super) const IDENTITY: &[Key] = &[
    key(
        "order",
        Form::Words(|| spelt(SOURCES)),
        "Where the user's name is taken from, the first that is there.",
    )
    .or("[\"username\", \"name\"]"),
    key(
        "default_domain",
        Form::Name,
        "Domain of users who come without one.",
    ),
    key(
        "require_match",
        Form::Switch,
        "Refuse a connection whose Guacamole login and RDP user are two people.",
    )
    .or("false"),
    key(
        "domains",
        Form::Texts,
        "DNS domains and UPN suffixes, and the domains they stand for.",
    ),
];

pub(super) const GUACD: &[Key] = &[
    key(
        "address",
        Form::OneOrMoreHostPorts,
        "Name or IP address, with the port, or a list of them for several guacd; of a name with several addresses each is a guacd of its own.",
    )
    .or("\"127.0.0.1:4823\""),
    key(
        "connect_timeout",
        Form::Time(ms(100), s(14)),
        "Time for the whole dial, TLS included.",
    )
    .or("\"3s\""),
    key(
        "tls",
        Form::Switch,
        "Whether it speaks TLS: a guacd started with -C and -K.",
    )
    .or("false"),
    key(
        "pin_sha256",
        Form::Fingerprints,
        "SHA-256 sums of whole certificates, one of which is guacd's; neither names nor signatures on it matter then.",
    ),
    key(
        "ca_file",
        Form::File,
        "Authorities that sign guacd's certificate, in PEM form; relative to the main file.",
    ),
    key(
        "tls_server_name",
        Form::Host,
        "The name in guacd's certificate; that in the address if left out.",
    ),
];

pub(super) const LISTEN: &[Key] = &[
    key(
        "address",
        Form::Listener,
        "IP address and port to listen on.",
    )
    .or("\"127.0.0.1:4822\""),
    key(
        "advertise",
        Form::Reached,
        "Where other replicas reach this listener, to join tunnels of this one; its own port if none is given, none do if left out.",
    ),
    key(
        "source",
        Form::Name,
        "Which Guacamole comes in here, where connection ids of several overlap.",
    ),
    key(
        "first_byte_timeout",
        Form::Time(s(1), s(600)),
        "A connection that says nothing for this long is closed.",
    )
    .or("\"30s\""),
    key(
        "handshake_timeout",
        Form::Time(s(1), s(60)),
        "Time for the complete handshake.",
    )
    .or("\"15s\""),
    key(
        "tls_cert_file",
        Form::File,
        "The certificate shown to Guacamole and what leads to its authority, in PEM form; relative to the main file. Plain text if left out.",
    ),
    key(
        "tls_key_file",
        Form::File,
        "Its private key, in PEM form without a passphrase.",
    ),
    key(
        "tls_client_ca_file",
        Form::File,
        "Authorities that sign the certificates clients must show, in PEM form; none is asked for if left out.",
    ),
];

pub(super) const PROBE: &[Key] = &[
    key(
        "interval",
        Form::Time(s(1), s(3600)),
        "From one probe of a host to the next.",
    )
    .or("\"10s\""),
    key(
        "timeout",
        Form::Time(ms(50), s(60)),
        "An answer later than this is none; at most the interval.",
    )
    .or("\"2s\""),
];

/// What may stand for a path.
pub(super) const SOCKET: &[&str] = &["off"];
pub(super) const LOG_FILE: &[&str] = &["stderr"];
pub(super) const AUDIT: &[&str] = &["off", "stdout"];

pub(super) const API: &[Key] = &[
    key(
        "socket",
        Form::Place(SOCKET),
        "The command line's socket, for root and the broker's user only: a path or \"off\"; beside the store if left out.",
    ),
    key(
        "listen",
        Form::ListenerOrOff,
        "Where programs ask: an IP address with a port, or \"off\".",
    )
    .or("\"127.0.0.1:9822\""),
    key(
        "insecure",
        Form::Switch,
        "Lets it listen on an address that others reach, in plain text: keys can be read on the way.",
    )
    .or("false"),
    key(
        "tls_cert_file",
        Form::File,
        "The certificate shown to programs and what leads to its authority, in PEM form; relative to the main file. Plain text if left out.",
    ),
    key(
        "tls_key_file",
        Form::File,
        "Its private key, in PEM form without a passphrase.",
    ),
    key(
        "tls_client_ca_file",
        Form::File,
        "Authorities that sign the certificates programs must show beside a key, in PEM form; none is asked for if left out.",
    ),
    key(
        "broker_key_file",
        Form::SecretFile,
        "File that holds the broker key: who may ask where a user belongs.",
    ),
    key(
        "admin_key_file",
        Form::SecretFile,
        "File that holds an admin key that may write, for a start without the command line.",
    ),
];

pub(super) const HEALTH_LISTENER: &[Key] = &[key(
    "listen",
    Form::ListenerOrOff,
    "IP address and port that answer without a key whether we are well and what was counted, or \"off\".",
)
.or("\"127.0.0.1:9823\"")];

pub(super) const LIMITS: &[Key] = &[
    key(
        "max_tunnels",
        Form::Number(1, 1_000_000),
        "Most tunnels open at a time, joins included; what the descriptors allow, at most 20000, if left out.",
    ),
    key(
        "max_guacd_dials",
        Form::Number(1, 100_000),
        "Most connections to guacd that are being opened at a time; more wait their turn.",
    )
    .or("256"),
    key(
        "stall_timeout",
        Form::Time(s(1), s(3600)),
        "A tunnel ends where one side has taken nothing of what waits for it for this long.",
    )
    .or("\"60s\""),
];

pub(super) const LOG: &[Key] = &[
    key(
        "level",
        Form::Word(|| spelt(LEVELS)),
        "The least serious line that is written.",
    )
    .or("\"info\""),
    key(
        "format",
        Form::Word(|| spelt(FORMATS)),
        "Lines for people or for programs.",
    )
    .or("\"text\""),
    key(
        "file",
        Form::Place(LOG_FILE),
        "Where lines go: \"stderr\" or a file's path.",
    )
    .or("\"stderr\""),
    key(
        "audit",
        Form::Place(AUDIT),
        "Where every decision leaves a line of JSON: \"off\", \"stdout\" or a file's path.",
    )
    .or("\"off\""),
    key(
        "traces",
        Form::HostPortOrOff,
        "The OpenTelemetry collector that gets a trace of each connection, by OTLP over plain HTTP; builds with the feature otel only.",
    )
    .or("\"off\""),
    key(
        "traces_users",
        Form::Switch,
        "Whether users' names are in traces.",
    )
    .or("false"),
];
