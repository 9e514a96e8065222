//! Asks the running broker over its admin socket, or over TCP with a key. The
//! one place with a client of HTTP.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::server::{SERVER, Server, TOKEN_FILE, Trust};
use super::table::{Paint, harmless, visible};
use super::{BAD_CONFIGURATION, DEFAULT_CONFIG, FAILED, UNREACHABLE, USAGE, complain, say};
use crate::config::{self, Faults};

/// A placement may take 14 s, and so may a dry run of one.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which broker is asked, and how its answer is written.
#[derive(Debug, clap::Args)]
pub(super) struct Asking {
    /// How the answer is written
    #[arg(short, long, value_enum, default_value = "table")]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) broker: Where,
}

impl Asking {
    /// Shows what the broker says at a path: to programs as it says it, to
    /// people as `show` has it.
    pub(super) fn show<T: DeserializeOwned>(
        &self,
        path: &str,
        show: impl FnOnce(T, Paint) -> String,
    ) -> ExitCode {
        match self.broker.get(path) {
            Ok(answer) => self.tell(answer, show),
            Err(code) => code,
        }
    }

    /// Shows an answer.
    pub(super) fn tell<T: DeserializeOwned>(
        &self,
        answer: Value,
        show: impl FnOnce(T, Paint) -> String,
    ) -> ExitCode {
        let text = match self.output {
            Output::Json => format!("{answer:#}"),
            Output::Table => match serde_json::from_value(harmless(answer)) {
                Ok(told) => show(told, Paint::stdout()),
                Err(error) => {
                    complain(format_args!(
                        "the broker is of another release and says it differently ({error}): try -o json"
                    ));
                    return ExitCode::from(FAILED);
                }
            },
        };
        say(format_args!("{}", text.trim_end()))
    }
}

/// A path with what is asked for behind its `?`; what is not given is left out.
pub(super) fn query(path: &str, filters: &[(&str, Option<&str>)]) -> String {
    let mut asked = path.to_owned();
    for (name, value) in filters {
        if let Some(value) = value {
            asked.push(if asked.contains('?') { '&' } else { '?' });
            asked.push_str(&format!("{name}={}", escaped(value)));
        }
    }
    asked
}

/// A text as one part of an address, whatever it holds.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

/// Which broker is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Where {
    /// The running broker's admin socket
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket: Option<PathBuf>,
    /// The configuration file the broker was started with, which says where
    /// its socket is [default: /etc/sessionguard/sessionguard.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The running broker's API, such as http://127.0.0.1:9822; the variable
    /// SESSIONGUARD_SERVER where nothing else says which broker
    #[arg(long, value_name = "URL", conflicts_with_all = ["socket", "config"])]
    server: Option<String>,
    /// The file with the key for --server; the variable SESSIONGUARD_TOKEN_FILE
    /// if left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "config"])]
    token_file: Option<PathBuf>,
    /// Authorities that may vouch for a --server with https, in PEM form
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "config"])]
    ca_file: Option<PathBuf>,
    /// The SHA-256 of the certificate of a --server with https; more than one
    /// while it changes
    #[arg(long = "pin", value_name = "SHA256", conflicts_with_all = ["socket", "config"])]
    pins: Vec<String>,
    /// Send the key in plain text to another machine
    #[arg(long, conflicts_with_all = ["socket", "config"])]
    insecure: bool,
}

/// Where the running broker is.
enum Way {
    Socket(PathBuf),
    Server(Server),
}

/// For people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// For people
    Table,
    /// As the broker answers
    Json,
}

impl Where {
    /// What the broker says at a path.
    ///
    /// # Errors
    /// The exit code; why has been said.
    pub(super) fn get(&self, path: &str) -> Result<Value, ExitCode> {
        self.ask(&Method::GET, path, None)
    }

    /// What the broker says at a path, or why it does not answer, which is not
    /// said yet.
    ///
    /// # Errors
    /// The exit code; why has been said.
    pub(super) fn listen(&self, path: &str) -> Result<Result<Value, String>, ExitCode> {
        match self.exchange(&Method::GET, path, None)? {
            Ok((status, answer)) => judge(status, answer).map(Ok),
            Err(silence) => Ok(Err(silence)),
        }
    }

    /// What the broker answers to a question.
    ///
    /// # Errors
    /// The exit code; why has been said.
    pub(super) fn post(&self, path: &str, question: Option<&Value>) -> Result<Value, ExitCode> {
        self.ask(&Method::POST, path, question)
    }

    /// What the broker answers to a change.
    ///
    /// # Errors
    /// The exit code; why has been said.
    pub(super) fn patch(&self, path: &str, change: &Value) -> Result<Value, ExitCode> {
        self.ask(&Method::PATCH, path, Some(change))
    }

    /// What the broker says to an end of what is at a path.
    ///
    /// # Errors
    /// The exit code; why has been said.
    pub(super) fn delete(&self, path: &str) -> Result<Value, ExitCode> {
        self.ask(&Method::DELETE, path, None)
    }

    fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, ExitCode> {
        match self.exchange(method, path, body)? {
            Ok((status, answer)) => judge(status, answer),
            Err(silence) => Err(fail(UNREACHABLE, format_args!("{silence}"))),
        }
    }

    /// What the broker answers, or why it does not.
    fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Result<(StatusCode, Value), String>, ExitCode> {
        let way = self.way()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| fail(FAILED, format_args!("cannot start: {error}")))?;
        let asked =
            runtime.block_on(async { timeout(PATIENCE, way.exchange(method, path, body)).await });
        Ok(match asked {
            Err(_) => Err(format!("the broker at {way} does not answer")),
            Ok(Err(error)) => Err(format!(
                "cannot ask the broker at {way}: {error}; does it run, with this \
                 configuration, and may you ask it?"
            )),
            Ok(Ok(answered)) => Ok(answered),
        })
    }

    /// What is written out goes before the variables, and those before the
    /// configuration nobody named.
    fn way(&self) -> Result<Way, ExitCode> {
        if let Some(socket) = &self.socket {
            return Ok(Way::Socket(socket.clone()));
        }
        if let Some(config) = &self.config {
            return configured(config).map(Way::Socket);
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let server = self.server.clone();
        let server = server.or_else(|| variable(SERVER)?.into_string().ok());
        let Some(server) = server else {
            return configured(Path::new(DEFAULT_CONFIG)).map(Way::Socket);
        };
        let token_file = self.token_file.clone();
        let token_file = token_file.or_else(|| variable(TOKEN_FILE).map(PathBuf::from));
        let trust = Trust {
            ca_file: self.ca_file.as_deref(),
            pins: &self.pins,
        };
        let server = Server::read(&server, token_file.as_deref(), trust, self.insecure);
        let server = server.map_err(|error| fail(USAGE, format_args!("{error}")))?;
        Ok(Way::Server(server))
    }
}

fn configured(config: &Path) -> Result<PathBuf, ExitCode> {
    // Its warnings are the business of `check` and of the broker's log.
    match config::load(config, std::env::vars_os()) {
        Ok(loaded) => loaded.config.admin_socket().ok_or_else(|| {
            fail(
                UNREACHABLE,
                format_args!("socket in [api] is \"off\": this broker cannot be asked"),
            )
        }),
        Err(faults) => despite(config, &faults),
    }
}

/// Files that were broken after the start are no reason not to ask the broker,
/// which goes on with what it read before.
fn despite(config: &Path, faults: &Faults) -> Result<PathBuf, ExitCode> {
    let socket = config::socket_despite_faults(config, std::env::vars_os());
    match socket.filter(|socket| socket.exists()) {
        Some(socket) => {
            let config = config.display();
            complain(format_args!(
                "the configuration has faults, which \"sessionguard check --config {config}\" \
                 lists; the broker goes on with what it read before"
            ));
            Ok(socket)
        }
        None => Err(fail(
            BAD_CONFIGURATION,
            format_args!("{faults}\nthe broker's socket may be named with --socket"),
        )),
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Server(server) => server.fmt(f),
        }
    }
}

fn judge(status: StatusCode, answer: Value) -> Result<Value, ExitCode> {
    if status.is_success() {
        return Ok(answer);
    }
    let text = answer.get("error").and_then(Value::as_str);
    let text = text.unwrap_or("the broker gives no reason");
    let code = match status {
        StatusCode::BAD_REQUEST => USAGE,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => UNREACHABLE,
        _ => FAILED,
    };
    let hint = match answer.get("code").and_then(Value::as_str) {
        Some("force_required") => ": say --force",
        _ => "",
    };
    Err(fail(code, format_args!("{}{hint}", visible(text, false))))
}

fn fail(code: u8, text: std::fmt::Arguments<'_>) -> ExitCode {
    complain(text);
    ExitCode::from(code)
}

type Broken = Box<dyn std::error::Error + Send + Sync>;

impl Way {
    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), Broken> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        match self {
            Self::Socket(path) => exchange(UnixStream::connect(path).await?, request).await,
            Self::Server(server) => {
                let mut key = HeaderValue::try_from(format!("Bearer {}", server.key.expose()))?;
                key.set_sensitive(true);
                request.headers_mut().insert(AUTHORIZATION, key);
                exchange(server.connect().await?, request).await
            }
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Value), Broken> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchanged = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok::<_, Broken>((status, serde_json::from_slice(&bytes)?))
    };
    tokio::select! {
        answered = exchanged => answered,
        ended = connection => match ended {
            Ok(()) => Err("it hung up".into()),
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_stays_one_part_of_the_address() {
        assert_eq!(
            escaped("corp\\jörg|a/b%7c?"),
            "corp%5Cj%C3%B6rg%7Ca%2Fb%257c%3F"
        );
        let filters = [("user", Some("a b&c")), ("host", None), ("farm", Some("x"))];
        assert_eq!(query("/leases", &filters), "/leases?user=a%20b%26c&farm=x");
        assert_eq!(query("/leases", &[]), "/leases");
    }
}
