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
use super::trust::{Trust, why};
use crate::config::shown_url;
use crate::tls::{Connector, Fault, Stream};

/// For the whole exchange: a broker that takes longer is as good as gone.
const PATIENCE: Duration = Duration::from_secs(8);
/// The largest answer read.
const ANSWER: usize = 1024 * 1024;
/// How much of a refusal's text is shown.
const REASON: usize = 200;

/// A broker's API: `https://HOST:PORT` and a path before ours, perhaps.
#[derive(Debug, Clone)]
pub struct Server {
    host: String,
    port: u16,
    /// Without a slash at its end.
    base: String,
    /// How it proves who it is; `None` for plain text.
    tls: Option<Connector>,
}

/// Why a broker cannot be asked at an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// It is no address.
    #[error("{url:?} is no address of an API: write it as \"https://broker.example:9822\"")]
    NotAUrl {
        /// What was written.
        url: String,
    },
    /// It would be asked in the clear over a network.
    #[error(
        "{url:?} would send the host's key in the clear: use https, an address on this machine (a \
         tunnel's end, say), or insecure = true (enroll: --insecure) where the network is trusted"
    )]
    InTheClear {
        /// What was written.
        url: String,
    },
    /// Nobody may vouch for it.
    #[error(
        "{url:?}: name who may vouch for the broker with ca_file (enroll: --ca-file), or its \
         certificate's SHA-256 with pin_sha256 (enroll: --pin)"
    )]
    NoTrust {
        /// What was written.
        url: String,
    },
    /// What is to vouch for it cannot.
    #[error("{url:?}: {fault}")]
    Fault {
        /// What was written.
        url: String,
        /// What is wrong.
        fault: Fault,
    },
    /// Somebody may vouch for a broker that shows no certificate.
    #[error(
        "ca_file and pin_sha256 (enroll: --ca-file and --pin) are for https, and no broker is \
         asked by it"
    )]
    NotHttps,
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
    /// It may be somebody else.
    #[error("{server} is not asked: {reason}")]
    Untrusted {
        /// The broker.
        server: String,
        /// Why, and what to do.
        reason: String,
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

    /// The broker heard nothing of what was to be asked.
    pub(super) fn is_before_the_question(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Untrusted { .. })
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
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.base)
    }
}

impl Server {
    /// Reads addresses, all known in the same way. In the clear only to this
    /// machine, unless `insecure`. Blocks while it reads the file of
    /// authorities.
    ///
    /// # Errors
    /// One is no address, or one that must not be used.
    pub fn all(urls: &[String], trust: &Trust, insecure: bool) -> Result<Vec<Self>, ServerError> {
        let servers = urls.iter().map(|url| Self::parse(url, trust, insecure));
        let servers: Vec<_> = servers.collect::<Result<_, _>>()?;
        let secure = servers.iter().any(|server| server.tls.is_some());
        if !trust.is_empty() && !secure {
            return Err(ServerError::NotHttps);
        }
        Ok(servers)
    }

    fn parse(url: &str, trust: &Trust, insecure: bool) -> Result<Self, ServerError> {
        let named = || shown_url(url);
        let bad = || ServerError::NotAUrl { url: named() };
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(bad)?;
        if uri.query().is_some() || uri.authority().is_none_or(|a| a.as_str().contains('@')) {
            return Err(bad());
        }
        let (tls, usual) = match uri.scheme_str() {
            Some("http") if !insecure && !is_this_machine(host) => {
                return Err(ServerError::InTheClear { url: named() });
            }
            Some("http") => (None, 80),
            Some("https") if trust.is_empty() => {
                return Err(ServerError::NoTrust { url: named() });
            }
            Some("https") => {
                let connector = trust.connector(bare(host));
                let connector = connector.map_err(|fault| ServerError::Fault {
                    url: named(),
                    fault,
                })?;
                (Some(connector), 443)
            }
            _ => return Err(bad()),
        };
        Ok(Self {
            tls,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(usual),
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
        let stream = self.connect().await?;
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
    async fn connect(&self) -> Result<Stream, HttpError> {
        let dialed = async {
            let socket = TcpStream::connect((bare(&self.host), self.port)).await?;
            socket.set_nodelay(true)?;
            Ok(socket)
        };
        let socket = dialed.await.map_err(|error| HttpError::Unreachable {
            server: self.to_string(),
            error,
        })?;
        let Some(tls) = &self.tls else {
            return Ok(socket.into());
        };
        // Authorities change while an agent runs for months.
        tls.look();
        let secured = tls.connect(socket).await;
        secured.map_err(|error| HttpError::Untrusted {
            server: self.to_string(),
            reason: why(&error),
        })
    }

    async fn converse(
        &self,
        stream: Stream,
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

/// An IPv6 address without its brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_this_machine(host: &str) -> bool {
    let loopback = bare(host).parse::<IpAddr>().map(|ip| ip.is_loopback());
    loopback.unwrap_or_else(|_| host.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, insecure: bool) -> Result<Server, ServerError> {
        Server::parse(url, &Trust::default(), insecure)
    }

    #[test]
    fn in_the_clear_only_to_this_machine_unless_it_is_written_out() {
        for here in [
            "http://127.0.0.1:9822",
            "http://[::1]:9822/",
            "http://localhost",
        ] {
            assert!(parse(here, false).is_ok(), "{here}");
        }
        let there = "http://broker.example:9822";
        assert!(matches!(
            parse(there, false),
            Err(ServerError::InTheClear { .. })
        ));
        let allowed = parse("http://broker.example:9822/sg/", true).unwrap();
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
            let error = parse(bad, true).unwrap_err();
            assert!(
                matches!(error, ServerError::NotAUrl { .. }),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn over_https_a_broker_is_known_or_not_asked() {
        let all = |urls: &[&str], trust: &Trust| {
            let urls: Vec<_> = urls.iter().map(|url| (*url).to_owned()).collect();
            Server::all(&urls, trust, false)
        };
        let nobody = Trust::default();
        let pinned = Trust::read(None, &["ab".repeat(32)]).unwrap();
        let there = "https://broker.example";
        let error = all(&[there], &nobody).unwrap_err();
        assert!(matches!(error, ServerError::NoTrust { .. }), "{error}");
        let error = all(&["http://127.0.0.1"], &pinned).unwrap_err();
        assert!(matches!(error, ServerError::NotHttps), "{error}");
        let both = all(&[there, "https://[::1]:9822", "http://[::1]"], &pinned).unwrap();
        let shown: Vec<_> = both.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "https://broker.example:443",
                "https://[::1]:9822",
                "http://[::1]:80"
            ]
        );
        let missing = Trust::read(Some("/nowhere/ca.pem".into()), &[]).unwrap();
        let error = all(&[there], &missing).unwrap_err().to_string();
        assert!(
            error.contains("ca_file /nowhere/ca.pem: cannot be read"),
            "{error}"
        );
        let error = Trust::read(None, &["ab".repeat(31)]).unwrap_err();
        assert!(error.to_string().contains("is no SHA-256"), "{error}");
    }

    #[test]
    fn a_refusal_is_told_in_one_short_line() {
        assert_eq!(reason(br#"{"error":"no\nsuch key"}"#), "nosuch key");
        assert_eq!(reason(b"<html>"), "no reason given");
        let long = format!("{{\"error\":\"{}\"}}", "x".repeat(5000));
        assert_eq!(reason(long.as_bytes()).len(), REASON);
    }
}
