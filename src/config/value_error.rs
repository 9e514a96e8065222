//! Why the value of a known key is refused: what was expected, what was there.
//!
//! Raised by [`super::values`], [`super::network`] and [`super::names`]; a
//! [`super::problem::Problem`] adds the key and the table.

use super::problem::Shown;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ValueError {
    #[error("expected {expected}, got {got}")]
    WrongType {
        expected: &'static str,
        got: &'static str,
    },
    #[error("expected a whole number of seconds, got text")]
    SecondsAsText { seconds: Option<u64> },
    #[error("expected a time with a unit, got the bare number {number}")]
    TimeWithoutUnit { number: String },
    #[error("\"{}\" is not a time", Shown(text))]
    NotATime { text: String },
    #[error("expected {least} to {most}, got {got}")]
    OutOfRange {
        least: String,
        most: String,
        got: String,
    },
    #[error("expected {}, got \"{}\"", either(allowed), Shown(got))]
    NotOneOf {
        allowed: Vec<&'static str>,
        got: String,
    },
    #[error("\"{}\" is neither true nor false", Shown(text))]
    NotASwitch { text: String },
    #[error("\"{}\" is not a whole number", Shown(text))]
    NotANumber { text: String },
    #[error("\"{}\" is neither {} nor a path", Shown(text), either(words))]
    NotAPlace {
        words: &'static [&'static str],
        text: String,
    },
    #[error("expected the path of a file, which begins with `/` or `./`")]
    NotASecretFile,
    #[error("is not UTF-8 text")]
    NotUtf8,
    #[error("must not be blank")]
    Blank,
    #[error("must not be an empty list")]
    EmptyList,
    #[error("\"{}\" is listed twice", Shown(item))]
    ListedTwice { item: String },

    #[error("longer than {limit} characters")]
    TooLong { limit: usize },
    #[error("begins or ends with white space")]
    OuterSpace,
    #[error("holds the control character {}", c.escape_default())]
    ControlCharacter { c: char },
    #[error("an id must not contain `{c}`")]
    IdCharacter { c: char },
    #[error("\"{}\" is not an alias", Shown(alias))]
    Alias { alias: String },
    #[error("a domain must not contain `{c}`")]
    DomainCharacter { c: char },
    #[error(
        "stands for the same domain as `{}` and has another value",
        Shown(earlier)
    )]
    TwoDomains { earlier: String },
    #[error("\"{}\" is not the name of a connection parameter", Shown(text))]
    NotAParameter { text: String },
    #[error("the address comes from the host alone")]
    AddressParameter,
    #[error("this parameter names a resource and is never sent to guacd")]
    CarrierParameter,
    #[error("a RemoteApp is described by keys of its own")]
    RemoteAppParameter,
    #[error("who the user is cannot depend on the host")]
    IdentityParameter,

    #[error("\"{}\" is not the SHA-256 of a certificate", Shown(text))]
    NotAFingerprint { text: String },
    #[error("\"{}\" is a URL", Shown(text))]
    Url { text: String },
    #[error("\"{}\" carries a port", Shown(text))]
    PortInAddress {
        text: String,
        host: String,
        port: u16,
    },
    #[error("\"{}\" carries a port", Shown(text))]
    PortInHostname { text: String, host: String },
    #[error("\"{}\" is not a host name or IP address", Shown(text))]
    NotAHost { text: String },
    #[error("\"{}\" has no port", Shown(text))]
    NoPort { text: String },
    #[error("\"{}\" is not a port", Shown(text))]
    NotAPort { text: String },
    #[error("\"{}\" is an IPv6 address without brackets", Shown(text))]
    Unbracketed { text: String },
    #[error("\"{}\" stands for every address, which nobody can dial", Shown(text))]
    NotDialled { text: String },
    #[error("\"{}\" is not an IP address to listen on", Shown(text))]
    NotAnIp { text: String },
    #[error("this sessionguard was built without traces")]
    NoTraces,
}

impl ValueError {
    /// What to write instead, where that is not plain from the error.
    pub(super) fn help(&self) -> Option<String> {
        let help = match self {
            Self::WrongType { expected, got } => return wrong_type_help(expected, got),
            Self::SecondsAsText { seconds } => match seconds {
                Some(seconds) => format!("write {seconds}, without quotes"),
                None => "write a bare number, 900 for fifteen minutes".to_owned(),
            },
            Self::TimeWithoutUnit { number } => {
                format!("write \"{number}s\" if these are seconds; units are ms, s, m, h and d")
            }
            Self::NotATime { .. } => {
                "write a whole number and one unit of ms, s, m, h and d, such as \"250ms\" or \"8h\""
                    .to_owned()
            }
            Self::IdCharacter { .. } => {
                "`;`, `|` and `=` separate fields where ids are used; use `-` or `_`".to_owned()
            }
            Self::Alias { .. } => "write the alias bare or with two bars: \"Sage\" or \"||Sage\"".to_owned(),
            Self::DomainCharacter { .. } => {
                "write the domain alone, as it stands behind the `@` or before the backslash".to_owned()
            }
            Self::TwoDomains { .. } => "remove one of them; letter case makes no difference".to_owned(),
            Self::NotAParameter { .. } => {
                "parameters are named as guacd names them: a-z, 0-9 and `-`, at most 64".to_owned()
            }
            Self::AddressParameter => "set `address` and `port` of the host".to_owned(),
            Self::RemoteAppParameter => {
                "set `remote_app`, `remote_app_dir` and `remote_app_args` of a resource".to_owned()
            }
            Self::IdentityParameter => "set it in a resource".to_owned(),
            Self::CarrierParameter => "remove it".to_owned(),
            Self::NotAFingerprint { .. } => {
                "write what openssl x509 -noout -fingerprint -sha256 -in guacd.crt prints behind the `=`"
                    .to_owned()
            }
            Self::Url { .. } => "write the host name or IP address alone".to_owned(),
            Self::PortInAddress { host, port, .. } => {
                format!("write address = \"{}\" and port = {port}", Shown(host))
            }
            Self::PortInHostname { host, .. } => {
                format!("write \"{}\"; Guacamole keeps the port elsewhere", Shown(host))
            }
            Self::NotAHost { .. } => {
                "letters, digits, `-`, `_` and dots; other scripts in their `xn--` form".to_owned()
            }
            Self::NoTraces => {
                "write \"off\", or build it with traces: cargo build --release --features otel".to_owned()
            }
            Self::NoPort { text } => format!("add one, such as \"{}:4822\"", Shown(text)),
            Self::NotAPort { .. } => "a port is a number from 1 to 65535".to_owned(),
            Self::Unbracketed { .. } => "put it in brackets, such as \"[::1]:4822\"".to_owned(),
            Self::NotDialled { .. } => {
                "the address that other replicas reach this one at, such as the IP address of its pod"
                    .to_owned()
            }
            Self::NotAnIp { .. } => {
                "127.0.0.1 for this machine alone, 0.0.0.0 or [::] for all its addresses".to_owned()
            }
            Self::ListedTwice { .. } => "remove one of them".to_owned(),
            Self::NotAPlace { text, .. } => {
                format!("a path holds a `/`: write \"./{}\" if that is meant", Shown(text))
            }
            Self::NotASecretFile => {
                "write the secret into a file of its own, and that file's path here".to_owned()
            }
            Self::OuterSpace => "remove the white space".to_owned(),
            Self::OutOfRange { .. }
            | Self::NotOneOf { .. }
            | Self::NotASwitch { .. }
            | Self::NotANumber { .. }
            | Self::NotUtf8
            | Self::Blank
            | Self::EmptyList
            | Self::TooLong { .. }
            | Self::ControlCharacter { .. } => return None,
        };
        Some(help)
    }
}

fn wrong_type_help(expected: &str, got: &str) -> Option<String> {
    let help = match (expected, got) {
        (_, "null") => "leave the key out",
        ("true or false", "text") => "write true or false, without quotes",
        ("a whole number", "text") => "write it without quotes",
        ("text", "a whole number" | "a number with a fraction" | "true or false") => {
            "put it in quotes"
        }
        ("a list of texts", "text") => "put it in brackets, [\"...\"]",
        _ => return None,
    };
    Some(help.to_owned())
}

fn either(allowed: &[&str]) -> String {
    let quoted: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
