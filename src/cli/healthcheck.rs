//! `sessionguard healthcheck`: whether the running broker is ready, for a
//! container that has no other program to ask with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{BAD_CONFIGURATION, ConfigFile, FAILED, complain, say};

/// The store is given a second of it.
const PATIENCE: Duration = Duration::from_secs(5);

type Broken = Box<dyn std::error::Error + Send + Sync>;

pub(super) fn run(file: &ConfigFile) -> ExitCode {
    // Its warnings are the business of `check` and of the broker's log.
    let loaded = match crate::config::load(&file.config, std::env::vars_os()) {
        Ok(loaded) => loaded,
        Err(faults) => {
            complain(format_args!("{faults}"));
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    let address = match loaded.config.health.listen.map(from_here) {
        Some(address) if address.port() != 0 => address,
        Some(_) => {
            return fail("listen in [health] has port 0, which says nothing of where to ask");
        }
        None => return fail("listen in [health] is \"off\": this broker cannot be asked"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    match runtime.block_on(async { timeout(PATIENCE, ask(address)).await }) {
        Err(_) => fail(&format!("the broker at {address} does not answer")),
        Ok(Err(error)) => fail(&format!("cannot ask the broker at {address}: {error}")),
        Ok(Ok((StatusCode::OK, text))) => say(format_args!("{}", text.trim_end())),
        Ok(Ok((_, text))) => fail(text.trim_end()),
    }
}

/// Where a listener on every address is found on this machine.
fn from_here(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn fail(why: &str) -> ExitCode {
    complain(format_args!("{why}"));
    ExitCode::from(FAILED)
}

async fn ask(address: SocketAddr) -> Result<(StatusCode, String), Broken> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) = http1::handshake(stream).await?;
    let request = Request::get("/readyz?verbose")
        .header(HOST, address.to_string())
        .body(Empty::<Bytes>::new())?;
    let asked = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok::<_, Broken>((status, String::from_utf8_lossy(&bytes).into_owned()))
    };
    tokio::select! {
        answered = asked => answered,
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
    fn a_listener_on_every_address_is_asked_on_loopback() {
        for (configured, asked) in [
            ("0.0.0.0:9823", "127.0.0.1:9823"),
            ("[::]:9823", "[::1]:9823"),
            ("10.0.0.4:1", "10.0.0.4:1"),
        ] {
            let address = from_here(configured.parse().unwrap());
            assert_eq!(address.to_string(), asked);
        }
    }
}
