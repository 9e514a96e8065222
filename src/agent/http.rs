//! Asks the broker's API. The one file of the agent that speaks HTTP.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::key::Key;

/// For the whole exchange: a broker that takes longer is as good as gone.
const PATIENCE: Duration = Duration::from_secs(8);
/// The largest answer read.
const ANSWER: usize = 1024 * 1024;
/// How much of a refusal's text is shown.
const REASON: usize = 200;

/// A broker's API: `http://HOST:PORT` and a path before ours, perhaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    host: String,
    port: u16,
    /// Without a slash at its end.
    base: String,
}

/// Why a broker cannot be asked at an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// It is no address.
    #[error("{url:?} is no address of an API: write it as \"http://127.0.0.1:9822\"")]
    NotAUrl {
        /// What was written.
        url: String,
    },
    /// It would be asked in the clear over a network.
    #[error(
        "{url:?} would send the host's key in the clear: use an address on this machine (a tunnel's \
         end, say), or write insecure = true where the network is trusted"
    )]
    InTheClear {
        /// What was written.
        url: String,
    },
    /// It wants TLS.
    #[error(
        "{url:?}: https is not there yet in this release: let a TLS proxy on this machine carry it"
    )]
    NoTls {
        /// What was written.
        url: String,
    },
}

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nobody answers.
    #[error("cannot reach {server}: {error}")]
    Unreachable {
        /// The broker.
        server: String,
        /// What the system said.
        error: io::Error,
    },
    /// It answers too slowly.
    #[error("{server} does not answer")]
    Slow {
        /// The broker.
        server: String,
    },
    /// It does not speak HTTP as expected.
    #[error("the exchange with {server} broke off: {error}")]
    Broken {
        /// The broker.
        server: String,
        /// In which way.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It refuses.
    #[error("{server} answers {status}: {reason}")]
    Refused {
        /// The broker.
        server: String,
        /// The status of the answer.
        status: u16,
        /// What it says about it.
        reason: String,
    },
}

impl HttpError {
    /// The broker does not know this key.
    pub(super) fn is_unauthorised(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 401 | 403,
                ..
            }
        )
    }

    /// Another broker would say the same.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 400..=499,
                ..
            }
        )
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.base)
    }
}

impl Server {
    /// Reads an address. In the clear only to this machine, unless `insecure`.
    ///
    /// # Errors
    /// It is no address, or one that must not be used.
    pub fn parse(url: &str, insecure: bool) -> Result<Self, ServerError> {
        let named = || url.to_owned();
        let bad = || ServerError::NotAUrl { url: named() };
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(bad)?;
        if uri.query().is_some() || uri.authority().is_none_or(|a| a.as_str().contains('@')) {
            return Err(bad());
        }
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(ServerError::NoTls { url: named() }),
            _ => return Err(bad()),
        }
        if !insecure && !is_this_machine(host) {
            return Err(ServerError::InTheClear { url: named() });
        }
        Ok(Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(80),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Posts a question; the answer is JSON.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub(super) async fn post(
        &self,
        path: &str,
        key: Option<&Key>,
        question: Vec<u8>,
    ) -> Result<Value, HttpError> {
        let asked = timeout(PATIENCE, self.exchange(path, key, question)).await;
        asked.unwrap_or_else(|_| {
            Err(HttpError::Slow {
                server: self.to_string(),
            })
        })
    }

    async fn exchange(
        &self,
        path: &str,
        key: Option<&Key>,
        question: Vec<u8>,
    ) -> Result<Value, HttpError> {
        let stream = self
            .connect()
            .await
            .map_err(|error| HttpError::Unreachable {
                server: self.to_string(),
                error,
            })?;
        let broken = |error| HttpError::Broken {
            server: self.to_string(),
            error,
        };
        let (status, body) = self
            .converse(stream, path, key, question)
            .await
            .map_err(broken)?;
        if (200..300).contains(&status) {
            // An empty answer is one without commands.
            if body.is_empty() {
                return Ok(Value::Object(serde_json::Map::new()));
            }
            return serde_json::from_slice(&body).map_err(|error| broken(error.into()));
        }
        Err(HttpError::Refused {
            server: self.to_string(),
            status,
            reason: reason(&body),
        })
    }

    /// The one place that knows how a broker is reached.
    async fn connect(&self) -> io::Result<TcpStream> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn converse(
        &self,
        stream: TcpStream,
        path: &str,
        key: Option<&Key>,
        question: Vec<u8>,
    ) -> Result<(u16, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", self.base))
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(
                USER_AGENT,
                concat!("sessionguard-agent/", env!("CARGO_PKG_VERSION")),
            )
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            let mut bearer = HeaderValue::try_from(format!("Bearer {}", key.token()))?;
            bearer.set_sensitive(true);
            request = request
                .header("X-Agent-ID", key.agent_id())
                .header(AUTHORIZATION, bearer);
        }
        let request = request.body(Full::new(Bytes::from(question)))?;
        let exchanged = async {
            let response = sender.send_request(request).await?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), ANSWER).collect().await?;
            Ok((status, body.to_bytes()))
        };
        tokio::pin!(exchanged, connection);
        tokio::select! {
            biased;
            answered = &mut exchanged => answered,
            ended = &mut connection => match ended {
                // It may have hung up behind an answer that is still to be read.
                Ok(()) => exchanged.await,
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// What a refusal says, shortened to what a log line can hold.
fn reason(body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).ok();
    let said = said.as_ref().and_then(|said| said.get("error")?.as_str());
    let said = said.unwrap_or("no reason given");
    let plain = said.chars().filter(|c| !c.is_control());
    plain.take(REASON).collect()
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = address.parse::<IpAddr>().map(|ip| ip.is_loopback());
    loopback.unwrap_or_else(|_| host.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_clear_only_to_this_machine_unless_it_is_written_out() {
        for here in [
            "http://127.0.0.1:9822",
            "http://[::1]:9822/",
            "http://localhost",
        ] {
            assert!(Server::parse(here, false).is_ok(), "{here}");
        }
        let there = "http://broker.example:9822";
        assert!(matches!(
            Server::parse(there, false),
            Err(ServerError::InTheClear { .. })
        ));
        let allowed = Server::parse("http://broker.example:9822/sg/", true).unwrap();
        assert_eq!(allowed.to_string(), "http://broker.example:9822/sg");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "",
            "broker:9822",
            "ftp://127.0.0.1",
            "http://",
            "http://u@127.0.0.1",
            "http://127.0.0.1/?a=b",
        ] {
            let error = Server::parse(bad, true).unwrap_err();
            assert!(
                matches!(error, ServerError::NotAUrl { .. }),
                "{bad}: {error}"
            );
        }
        assert!(matches!(
            Server::parse("https://127.0.0.1", true),
            Err(ServerError::NoTls { .. })
        ));
    }

    #[test]
    fn a_refusal_is_told_in_one_short_line() {
        assert_eq!(reason(br#"{"error":"no\nsuch key"}"#), "nosuch key");
        assert_eq!(reason(b"<html>"), "no reason given");
        let long = format!("{{\"error\":\"{}\"}}", "x".repeat(5000));
        assert_eq!(reason(long.as_bytes()).len(), REASON);
    }
}
