//! Asks the running broker over its admin socket. The one place with a client
//! of HTTP.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{BAD_CONFIGURATION, DEFAULT_CONFIG, FAILED, UNREACHABLE, USAGE, complain};

/// A placement may take 14 s, and so may a dry run of one.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which broker is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Where {
    /// The running broker's admin socket
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket: Option<PathBuf>,
    /// The configuration file the broker was started with, which says where
    /// its socket is
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
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

    /// What the broker answers to a question.
    ///
    /// # Errors
    /// The exit code; why has been said.
    pub(super) fn post(&self, path: &str, question: Option<&Value>) -> Result<Value, ExitCode> {
        self.ask(&Method::POST, path, question)
    }

    fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, ExitCode> {
        let socket = self.socket()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| fail(FAILED, format_args!("cannot start: {error}")))?;
        let asked = runtime
            .block_on(async { timeout(PATIENCE, exchange(&socket, method, path, body)).await });
        let shown = socket.display();
        match asked {
            Err(_) => Err(fail(
                UNREACHABLE,
                format_args!("the broker at {shown} does not answer"),
            )),
            Ok(Err(error)) => Err(fail(
                UNREACHABLE,
                format_args!(
                    "cannot ask the broker at {shown}: {error}; does it run, with this \
                     configuration, and may you ask it?"
                ),
            )),
            Ok(Ok((status, answer))) => judge(status, answer),
        }
    }

    fn socket(&self) -> Result<PathBuf, ExitCode> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        // Its warnings are the business of `check` and of the broker's log.
        match crate::config::load(&self.config, std::env::vars_os()) {
            Ok(loaded) => loaded.config.admin_socket().ok_or_else(|| {
                fail(
                    UNREACHABLE,
                    format_args!("socket in [api] is \"off\": this broker cannot be asked"),
                )
            }),
            Err(faults) => Err(fail(
                BAD_CONFIGURATION,
                format_args!("{faults}\nthe broker's socket may be named with --socket"),
            )),
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
        StatusCode::FORBIDDEN => UNREACHABLE,
        _ => FAILED,
    };
    Err(fail(code, format_args!("{text}")))
}

fn fail(code: u8, text: std::fmt::Arguments<'_>) -> ExitCode {
    complain(text);
    ExitCode::from(code)
}

type Broken = Box<dyn std::error::Error + Send + Sync>;

async fn exchange(
    socket: &Path,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> Result<(StatusCode, Value), Broken> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let (mut sender, connection) = http1::handshake(stream).await?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
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
