//! The sockets of a start: those of Guacamole, and the API's. The same once more
//! are handed to a process that takes over.

use std::net::TcpListener as Socket;
use std::os::fd::AsFd;

use tokio::net::TcpListener;

use super::StartError;
use crate::api::{ApiListener, HealthListener};
use crate::config::Config;
use crate::entrance;
use crate::tls::Certificates;
use crate::tunnel::Door;

/// One a `[[listen]]`, in their order.
pub(super) fn doors(config: &Config, certificates: &Certificates) -> Result<Vec<Door>, StartError> {
    let doors = config.listen.iter().map(|listen| {
        let address = listen.address;
        let bound = entrance::listen(address).and_then(TcpListener::from_std);
        let listener = bound.map_err(|error| StartError::Listen { address, error })?;
        let tls = listen.tls.as_ref().map(|tls| certificates.acceptor(tls));
        Ok(Door {
            listener,
            settings: listen.clone(),
            tls: tls.transpose()?,
            joins_only: false,
        })
    });
    doors.collect()
}

/// The API over TCP, where it is configured.
pub(super) fn api(
    config: &Config,
    certificates: &Certificates,
) -> Result<Option<ApiListener>, StartError> {
    let Some(address) = config.api.listen else {
        return Ok(None);
    };
    let tls = config.api.tls.as_ref();
    let tls = tls.map(|tls| certificates.acceptor(tls)).transpose()?;
    let bound = ApiListener::bind(address, tls);
    bound
        .map(Some)
        .map_err(|error| StartError::Api { address, error })
}

/// The same sockets.
pub(super) fn again(
    doors: &[Door],
    api: Option<&ApiListener>,
    health: Option<&HealthListener>,
) -> Result<Vec<Socket>, StartError> {
    let doors = doors
        .iter()
        .map(|door| door.listener.as_fd().try_clone_to_owned().map(Socket::from));
    let asked = api.map(ApiListener::listener);
    let asked = asked
        .into_iter()
        .chain(health.map(HealthListener::listener));
    let all: Result<_, _> = doors.chain(asked).collect();
    all.map_err(StartError::Socket)
}
