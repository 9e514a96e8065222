//! Our reason for having no connection, carried through a pool that passes on
//! errors of the database's client only: as what failed beneath such a one.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{NoTls, NoTlsStream};
use tokio_postgres::{Client, Config, Connection, Error};

use crate::store::StoreError;

/// A connection whose first byte fails for our reason.
pub(super) struct Failing(StoreError);

/// An error of the client's that holds `reason`.
pub(super) async fn carry(
    reason: StoreError,
) -> Result<(Client, Connection<Failing, NoTlsStream>), Error> {
    let mut login = Config::new();
    login.user("nobody").ssl_mode(SslMode::Disable);
    login.connect_raw(Failing(reason), NoTls).await
}

/// Our reason out of it; `None` where it holds none.
pub(super) fn carried(error: &Error) -> Option<StoreError> {
    let beneath: &io::Error = error.source()?.downcast_ref()?;
    beneath.get_ref()?.downcast_ref().cloned()
}

impl Failing {
    fn fail<T>(&self) -> Poll<io::Result<T>> {
        Poll::Ready(Err(io::Error::other(self.0.clone())))
    }
}

impl AsyncRead for Failing {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.fail()
    }
}

impl AsyncWrite for Failing {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.fail()
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fail()
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fail()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reason_comes_out_as_it_went_in() {
        let error = carry(StoreError::Closed).await.map(|_| ()).unwrap_err();
        assert_eq!(carried(&error), Some(StoreError::Closed));
    }
}
