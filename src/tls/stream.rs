//! A connection, plain or TLS: from here on nobody asks which.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;
use zeroize::Zeroize;

/// One connection. What is written to it must be flushed: TLS keeps what the
/// socket does not take at once.
#[derive(Debug)]
pub struct Stream(Kind);

#[derive(Debug)]
enum Kind {
    Plain(TcpStream),
    // Boxed: a plain one is thirty times smaller.
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self(Kind::Plain(socket))
    }
}

impl Stream {
    pub(super) fn secured(stream: TlsStream<TcpStream>) -> Self {
        Self(Kind::Tls(Box::new(stream)))
    }

    /// Most bytes that [`Self::take`] takes at a time.
    pub const TAKEN_AT_MOST: usize = 8192;

    /// The socket under it.
    pub fn socket(&self) -> &TcpStream {
        match &self.0 {
            Kind::Plain(socket) => socket,
            Kind::Tls(stream) => stream.get_ref().0,
        }
    }

    /// From here on it is the runtime's that this is called on which wakes whoever
    /// waits for it. For a moment it has two descriptors.
    ///
    /// # Errors
    /// What the system says; it is then woken as before.
    pub fn settle(&mut self) -> io::Result<()> {
        let socket = match &mut self.0 {
            Kind::Plain(socket) => socket,
            Kind::Tls(stream) => stream.get_mut().0,
        };
        let same = socket.as_fd().try_clone_to_owned()?;
        *socket = TcpStream::from_std(same.into())?;
        Ok(())
    }

    /// Waits for bytes and takes what has arrived, at most 8 KiB; 0 is the
    /// end of the stream. The buffer lives on the stack of each poll alone, so
    /// that a connection that waits holds none. May be cancelled; nothing is
    /// lost then.
    pub async fn take(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        poll_fn(|context| {
            let mut bytes = [0; Self::TAKEN_AT_MOST];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut *self).poll_read(context, &mut buffer))?;
            into.extend_from_slice(buffer.filled());
            let count = buffer.filled().len();
            // A password may be among them, and a stack is not wiped by whoever leaves it.
            buffer.filled_mut().zeroize();
            Poll::Ready(Ok(count))
        })
        .await
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Kind::Tls(stream) => {
                match ready!(Pin::new(stream.as_mut()).poll_read(context, buffer)) {
                    // It left without a farewell of TLS, as guacd does. The
                    // protocol within has farewells of its own.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
                    read => Poll::Ready(read),
                }
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Kind::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Kind::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Kind::Plain(socket) => socket.is_write_vectored(),
            Kind::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(socket) => Pin::new(socket).poll_flush(context),
            Kind::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    /// With TLS says its farewell first.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Kind::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
