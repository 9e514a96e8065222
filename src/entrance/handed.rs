//! Sockets that listened before we were started: systemd's socket activation,
//! and those of a process that we take over from. Whoever wants to listen on the address of one gets that one.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};

use listenfd::ListenFd;

/// Those that nobody has asked for. Descriptors belong to the whole process, and
/// so does this list.
static HANDED: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());

/// The same, from a process that we take over from: what nobody asks for was
/// taken out of the configuration.
static OFFERED: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());

/// Why what was handed over cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error(
    "socket {} of those handed over cannot be listened on: {error}; name only ListenStream= with \
     an IP address and a port in the socket unit",
    number + 1
)]
pub struct HandedError {
    /// Which one, from 0 on.
    number: usize,
    /// What is wrong with it.
    error: io::Error,
}

/// Takes over what the environment says was handed to us (`LISTEN_FDS`). Once,
/// at the start.
///
/// # Errors
/// Something else than a TCP socket is among it.
pub fn take_over() -> Result<(), HandedError> {
    let mut handed = ListenFd::from_env();
    for number in 0..handed.len() {
        let taken = handed.take_tcp_listener(number);
        let listener = taken.map_err(|error| HandedError { number, error })?;
        held().extend(listener);
    }
    Ok(())
}

/// Sockets of a process that we take over from, for whoever wants to listen on
/// the address of one.
pub fn offer(listeners: Vec<TcpListener>) {
    lock(&OFFERED).extend(listeners);
}

/// Lets go of those that nobody has asked for.
pub fn decline() {
    lock(&OFFERED).clear();
}

/// Where sockets listen that nobody has asked for.
pub fn unclaimed() -> Vec<SocketAddr> {
    let held = held();
    let addresses = held.iter().filter_map(|it| it.local_addr().ok());
    addresses.collect()
}

/// The one that listens there.
pub(super) fn claim(address: SocketAddr) -> Option<TcpListener> {
    [&HANDED, &OFFERED].into_iter().find_map(|sockets| {
        let mut sockets = lock(sockets);
        let listens = |it: &TcpListener| it.local_addr().is_ok_and(|at| at == address);
        let index = sockets.iter().position(listens)?;
        Some(sockets.swap_remove(index))
    })
}

fn held() -> MutexGuard<'static, Vec<TcpListener>> {
    lock(&HANDED)
}

fn lock(sockets: &'static Mutex<Vec<TcpListener>>) -> MutexGuard<'static, Vec<TcpListener>> {
    // Each change is whole behind a panic.
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}
