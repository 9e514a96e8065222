//! Everything that can be wrong with the configuration, and what to do about it.
//!
//! Raised by the whole room, printed through [`super::finding`]. A problem
//! carries its facts in fields; names taken from a file pass through [`Shown`]
//! so that a log or terminal can neither be flooded nor obey them.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::environment::near;
use super::secret::SecretError;
use super::shape::Shape;
use super::source::harmless;
use super::value_error::ValueError;
use super::values::show_time;

/// What is wrong, without the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("there is no such file")]
    Missing,
    #[error("cannot be read: {reason}")]
    Unreadable { reason: String },
    #[error("this is a directory, not a file")]
    Directory,
    #[error("this is not a directory")]
    NotADirectory,
    #[error("this is not a regular file")]
    NotRegular,
    #[error("larger than the limit of {} MiB", limit / (1024 * 1024))]
    TooLarge { limit: u64 },
    #[error("not UTF-8 text: byte {offset} starts no character")]
    NotUtf8 { offset: usize },
    #[error("begins with a byte order mark")]
    ByteOrderMark,
    #[error("the file is empty")]
    Empty,
    #[error("this file is not read")]
    OtherFormat,
    #[error("{message}")]
    Syntax {
        message: String,
        help: Option<&'static str>,
    },
    #[error("nested deeper than {limit} levels")]
    TooDeep { limit: usize },
    #[error("the key `{}` stands twice in one object", Shown(key))]
    RepeatedKey { key: String },

    #[error("unknown key `{}` in {shape}", Shown(key))]
    UnknownKey { key: String, shape: Shape },
    #[error("`{key}` holds for all farms and cannot be set in one")]
    GlobalOnly { key: &'static str },
    #[error("{shape} must be a table, got {got}")]
    NotATable { shape: Shape, got: &'static str },
    #[error("`{key}` must be a list of tables, got {got}")]
    NotAList {
        key: &'static str,
        got: &'static str,
    },
    #[error("`{}` in {shape}: {error}", Shown(key))]
    Value {
        key: String,
        shape: Shape,
        error: ValueError,
    },
    #[error("{shape} without `{key}`")]
    MissingKey { shape: Shape, key: &'static str },
    #[error("{shape} without `id` and `name`")]
    Nameless { shape: Shape },
    #[error("no id can be derived from the name \"{}\"", Shown(name))]
    NoDerivedId { name: String },
    #[error("cannot tell what this object is")]
    Unclassified,
    #[error("expected an object, got {got}")]
    NotAnObject { got: &'static str },
    #[error("`{key}` is for a resource of kind `remoteapp` only")]
    RemoteAppOnly { key: &'static str },
    #[error(
        "the API would listen on {address} in plain text, where others reach it and may read its keys"
    )]
    ExposedApi { address: SocketAddr },
    #[error("the probe's `timeout` is longer than its `interval`")]
    ProbeOverlap,

    #[error("a listener with `{key}` and without `{lacking}`")]
    HalfTls {
        key: &'static str,
        lacking: &'static str,
    },
    #[error("`{key}` in {of} is looked at with TLS only, and `tls` is not set")]
    TlsNotOn { key: &'static str, of: Shape },
    #[error("`tls` in {of} without `pin_sha256` or `ca_file`: any certificate would do")]
    NoTrust { of: Shape },
    #[error("`replicated` with the embedded store, which each replica would have to itself")]
    ReplicatedAlone,
    #[error(
        "`tls` is not set, and the database at {} is on another machine",
        Shown(address)
    )]
    PlainDatabase { address: String },

    #[error("no setting belongs to this variable")]
    UnknownVariable { name: String },
    #[error("`{key}` in {shape} cannot be set by a variable")]
    NotByVariable { key: &'static str, shape: Shape },
    #[error("there are several listeners, and this variable does not say which is meant")]
    WhichListener,

    #[error("two {kind} have the id `{}`", Shown(id))]
    EqualIds { kind: &'static str, id: String },
    #[error("two hosts have the address {}", Shown(address))]
    EqualAddresses { address: String },
    #[error("two listeners have the address {address}")]
    EqualListeners { address: String },
    #[error("two enabled resources have the connection id `{}`", Shown(id))]
    EqualConnectionIds { id: String },
    #[error("two enabled resources have the connection name \"{}\"", Shown(name))]
    EqualConnectionNames { name: String },
    #[error("two enabled resources have the load-balance-info \"{}\"", Shown(info))]
    EqualLoadBalanceInfos { info: String },
    #[error("two enabled resources have the host name `{}` and {}", Shown(hostname), app(alias.as_deref()))]
    EqualHostnames {
        hostname: String,
        alias: Option<String>,
    },

    #[error("there is no farm `{}`", Shown(farm))]
    NoDefaultFarm { farm: String },
    #[error(
        "the resource `{}` names the farm `{}`, which does not exist",
        Shown(resource),
        Shown(farm)
    )]
    NoFarmOfResource { resource: String, farm: String },
    #[error(
        "the host `{}` names the farm `{}`, which does not exist",
        Shown(host),
        Shown(farm)
    )]
    NoFarmOfHost { host: String, farm: String },
    #[error(
        "the farm `{}` names the host `{}`, which does not exist",
        Shown(farm),
        Shown(host)
    )]
    NoHostOfFarm { farm: String, host: String },
    #[error(
        "the resource `{}` has no farm and there is no default farm",
        Shown(resource)
    )]
    Farmless { resource: String },
    #[error(
        "the farm `{}` requires an empty set of tags, which matches no host",
        Shown(farm)
    )]
    EmptyTags { farm: String },
    #[error("the host `{}` is in no farm", Shown(host))]
    HostInNoFarm { host: String },
    #[error("the farm `{}` has no hosts", Shown(farm))]
    FarmWithoutHosts { farm: String },
    #[error("the default farm `{}` is disabled", Shown(farm))]
    DefaultFarmDisabled { farm: String },
    #[error(
        "the resource `{}` names the source `{}`, which no listener has",
        Shown(resource),
        Shown(name)
    )]
    NoListenerOfSource { resource: String, name: String },
    #[error(
        "a dial and a placement may take {} together, and Guacamole waits 15s",
        show_time(*together)
    )]
    LongBudgets { together: Duration },
    #[error("{count} addresses of guacd, and at most {most} are taken")]
    TooManyGuacd { most: usize, count: usize },
    #[error("`advertise` of one listener only, and here is a second")]
    TwoAdvertised,
    #[error("`advertise` with `tls_client_ca_file`: other replicas show no certificate")]
    AdvertisedWithClientCertificates,
    #[error("guacd's address {address} is one we listen on ourselves")]
    GuacdIsUs { address: String },
    #[error(
        "a handshake may take {}, and Guacamole waits 15s for each step of it",
        show_time(*handshake)
    )]
    LongHandshake { handshake: Duration },
    #[error(
        "no host name leads to the resource `{}`, only what a connection says",
        Shown(resource)
    )]
    NeedsSelector { resource: String, selector: String },
    #[error("to keep the parameter `{}` changes nothing", Shown(parameter))]
    KeptAnyway { parameter: String },
    #[error("{what}{}: {error}", holder(path.as_deref()))]
    Secret {
        what: &'static str,
        /// The file that holds it, where it is one.
        path: Option<PathBuf>,
        error: SecretError,
    },
    #[error("{what} cannot be read from {}: {problem}", path.display())]
    SecretFile {
        what: &'static str,
        path: PathBuf,
        problem: Box<Problem>,
    },
    #[error("{what} is the same secret as {other}")]
    SecretForTwo {
        what: &'static str,
        other: &'static str,
    },
    #[error("{what} is given twice, with the same secret")]
    SecretTwice { what: &'static str },
    #[error("{what} is not taken from here: {used} has it, and goes first")]
    SecretOverruled { what: &'static str, used: String },
    #[error("everybody on this machine may read {what} in {}", path.display())]
    SecretExposed { what: &'static str, path: PathBuf },
    #[error("{count} more are not listed")]
    More { count: usize },
}

impl Problem {
    /// Whether a secret cannot be used.
    pub(super) fn is_of_a_secret(&self) -> bool {
        matches!(
            self,
            Self::Secret { .. }
                | Self::SecretFile { .. }
                | Self::SecretForTwo { .. }
                | Self::SecretTwice { .. }
        )
    }

    /// What to do about it, where that is not plain from the problem.
    pub(super) fn help(&self) -> Option<String> {
        let fixed = match self {
            Self::UnknownKey { key, shape } => return Some(unknown_key_help(key, *shape)),
            Self::UnknownVariable { name } => return Some(unknown_variable_help(name)),
            Self::NeedsSelector { selector, .. } => {
                return Some(format!(
                    "in Guacamole, type this as the hostname of the connection: {}",
                    Exact(selector)
                ));
            }
            Self::Value { error, .. } => return error.help(),
            Self::Secret { error, .. } => return Some(error.help().to_owned()),
            Self::SecretExposed { path, .. } => {
                return Some(format!(
                    "chmod 0600 {}; in Kubernetes, defaultMode: 0400 of the Secret's volume",
                    path.display()
                ));
            }
            Self::MissingKey { shape, key } => {
                return shape.example(key).map(|line| format!("add {line}"));
            }
            Self::Syntax { help, .. } => (*help)?,
            Self::NotAList { key, .. } => {
                return Some(format!(
                    "write [[{key}]] in TOML, a list of objects in JSON"
                ));
            }
            Self::ExposedApi { .. } => {
                "set tls_cert_file and tls_key_file, or write 127.0.0.1, or insecure = true"
            }
            Self::Missing => "create it, or name another file with --config",
            Self::NotRegular => "only regular files and links to them are read",
            Self::NotUtf8 { .. } => "save the file as UTF-8",
            Self::ByteOrderMark => "save the file as UTF-8 without a byte order mark",
            Self::Empty => "fill it; a TOML file with only a comment in it counts as filled",
            Self::OtherFormat => "only *.toml and *.json are read; convert or rename it",
            Self::RepeatedKey { .. } => "remove one of them",
            Self::GlobalOnly { .. } => "set it in [broker]",
            Self::Nameless { .. } => "add `id` or `name`",
            Self::NoDerivedId { .. } => {
                "add an `id`; only letters and digits of a name enter a derived one"
            }
            Self::Unclassified => {
                "wrap it, { \"farms\": [...] }, { \"resources\": [...] } or { \"hosts\": [...] }; \
                 a lone object is a resource with `kind` or `farm_id`, a host with `address`, \
                 a farm with `agent_ids` or `required_tags`"
            }
            Self::RemoteAppOnly { .. } => "remove it, or set kind = \"remoteapp\"",
            Self::ProbeOverlap => "make the timeout at most as long as the interval",
            Self::HalfTls { .. } => {
                "TLS needs `tls_cert_file` and `tls_key_file`, both in PEM form"
            }
            Self::TlsNotOn { .. } => "set tls = true, or tls = false to keep it for later",
            Self::NoTrust { .. } => {
                "for the usual self-signed certificate set pin_sha256 = [\"...\"], as openssl x509 -noout \
                 -fingerprint -sha256 -in FILE prints it; for one of an authority set `ca_file`"
            }
            Self::ReplicatedAlone => {
                "set kind = \"postgres\" and the database's address in [store], the same for all \
                 replicas; or replicated = false where this is the only one"
            }
            Self::PlainDatabase { .. } => {
                "set tls = true with ca_file or pin_sha256; or tls = false where nobody can listen in"
            }
            Self::EqualIds { .. } => "give one of them another id",
            Self::EqualAddresses { .. } | Self::EqualListeners { .. } => "remove one of them",
            Self::EqualConnectionIds { .. } | Self::EqualConnectionNames { .. } => {
                "a connection must lead to one resource: change or disable one of them, or \
                 tell with `source` which Guacamole each belongs to"
            }
            Self::EqualLoadBalanceInfos { .. } | Self::EqualHostnames { .. } => {
                "a connection must lead to one resource: change or disable one of them"
            }
            Self::NotByVariable { .. } => "set it in a file",
            Self::WhichListener => "set it in the file that has them",
            Self::HostInNoFarm { .. } => {
                "list a farm in its `farm_ids`, or the host in the `agent_ids` of one, or give \
                 it the tags that one requires; until then nobody is placed on it"
            }
            Self::FarmWithoutHosts { .. } => {
                "list it in the `farm_ids` of a host, or hosts in its `agent_ids`, or require \
                 tags that hosts carry; until then it places nobody"
            }
            Self::DefaultFarmDisabled { .. } => {
                "enable it or name another; until then whatever falls to it is refused"
            }
            Self::NoListenerOfSource { .. } => {
                "give a listener this `source`; until then no connection id or name leads here"
            }
            Self::GuacdIsUs { .. } => {
                "name the address guacd itself listens on, such as 127.0.0.1:4823 (guacd -l 4823)"
            }
            Self::TooManyGuacd { .. } => {
                "give them one name, which may have any number of addresses"
            }
            Self::TwoAdvertised => "remove one of them: others need one way to this replica",
            Self::AdvertisedWithClientCertificates => {
                "advertise another [[listen]], without `tls_client_ca_file`, that only replicas reach"
            }
            Self::LongBudgets { .. } => {
                "shorten `connect_timeout` in [guacd] or `placement_timeout` in [broker]"
            }
            Self::LongHandshake { .. } => "nobody is left to answer after that; shorten it",
            Self::SecretFile { problem, .. } => match **problem {
                Self::Missing => {
                    "create it: openssl rand -hex 32; a relative path starts at the main file"
                }
                _ => return problem.help(),
            },
            Self::SecretForTwo { .. } => "make another for one of them: openssl rand -hex 32",
            Self::SecretTwice { .. } => "remove one of them",
            Self::SecretOverruled { .. } => "remove the one that is not meant",
            Self::NoDefaultFarm { .. } => "define the farm or name another",
            Self::NoFarmOfResource { .. } => "define the farm; until then the resource is refused",
            Self::NoFarmOfHost { .. } => "define the farm or correct the name",
            Self::NoHostOfFarm { .. } => "define the host or correct the name",
            Self::Farmless { .. } => {
                "set its `farm_id`, or `default_farm` in [broker]; until then it is refused"
            }
            Self::EmptyTags { .. } => "name the tags, or remove `required_tags`",
            Self::KeptAnyway { .. } => {
                "remove it; only gateway-*, load-balance-info, preconnection-*, console, wol-*, \
                 cert-fingerprints and initial-program are cleared"
            }
            Self::Unreadable { .. }
            | Self::Directory
            | Self::NotADirectory
            | Self::TooLarge { .. }
            | Self::TooDeep { .. }
            | Self::NotATable { .. }
            | Self::NotAnObject { .. }
            | Self::More { .. } => return None,
        };
        Some(fixed.to_owned())
    }
}

/// Worked out only for a problem that is printed: comparing with every known
/// key is dear, and a broken file can hold many thousands of unknown ones.
fn unknown_key_help(key: &str, shape: Shape) -> String {
    if let Some(home) = shape.home(key) {
        format!("it belongs in {home}")
    } else if let Some(near) = shape.near(key) {
        format!("did you mean `{near}`?")
    } else {
        format!(
            "known here: {}",
            shape.names().collect::<Vec<_>>().join(", ")
        )
    }
}

fn unknown_variable_help(name: &str) -> String {
    near(name).map_or_else(
        || {
            "a setting of a table is SESSIONGUARD_, the table, two underscores and the key, as \
             in SESSIONGUARD_BROKER__LEASE_SECONDS; everything else is set in files"
                .to_owned()
        },
        |near| format!("did you mean {near}?"),
    )
}

fn holder(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" in {}", path.display()))
}

fn app(alias: Option<&str>) -> String {
    alias.map_or_else(
        || "no RemoteApp".to_owned(),
        |alias| format!("the RemoteApp `{}`", Shown(alias)),
    )
}

/// Text from a file, made fit to print: one line, no control characters, short.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 80;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(LONGEST) {
            // Quotes stay as they are; they end nothing here.
            match c {
                '"' | '\'' => f.write_char(c)?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        if chars.next().is_some() {
            f.write_str("...")?;
        }
        Ok(())
    }
}

/// Text that is to be copied: whole, and as it is but for what a terminal obeys.
struct Exact<'a>(&'a str);

impl fmt::Display for Exact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| f.write_char(harmless(c)))
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;

    #[test]
    fn names_are_shown_on_one_short_line() {
        assert_eq!(Shown("Büro \"1\"").to_string(), "Büro \"1\"");
        assert_eq!(
            Shown("a\n\u{1b}[2J\u{202e}").to_string(),
            "a\\n\\u{1b}[2J\\u{202e}"
        );
        assert_eq!(Shown(&"x".repeat(99)).to_string(), "x".repeat(80) + "...");
    }
}
