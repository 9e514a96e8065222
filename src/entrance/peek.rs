//! A look at what a caller begins with, without taking it.

use std::io;
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// The first byte that somebody sends, which stays there to be read; `None`
/// where nothing will come.
///
/// # Errors
/// What the system says.
pub async fn first_byte(stream: &UnixStream) -> io::Result<Option<u8>> {
    stream
        .async_io(Interest::READABLE, || {
            let mut first = [0];
            let (count, _) = recv(stream.as_fd(), &mut first, RecvFlags::PEEK)?;
            Ok((count > 0).then_some(first[0]))
        })
        .await
}
