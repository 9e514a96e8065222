//! The way between two processes: messages as JSON behind their length, and open
//! sockets beside them, which the system gives to whoever reads.
//!
//! Its first byte is zero, which no request of HTTP begins with: both are spoken
//! on the admin socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// What a connection begins with that is none of HTTP.
pub(super) const FIRST: u8 = 0;

/// Sockets in one message at most.
const SOCKETS: usize = 64;

/// The largest message, in bytes: every lease and document of a large site.
const LARGEST: usize = 1 << 30;

/// Bytes read at a time.
const READ: usize = 64 * 1024;

/// One end of it, which one task reads.
#[derive(Debug)]
pub(super) struct Channel {
    speaker: Speaker,
    /// What was read and is no whole message yet.
    read: Vec<u8>,
    sockets: VecDeque<OwnedFd>,
}

/// The way to write to it, for many; clones are one.
#[derive(Debug, Clone)]
pub(super) struct Speaker {
    stream: Arc<UnixStream>,
    turn: Arc<Mutex<()>>,
}

impl Channel {
    /// Reaches whoever serves the admin socket.
    pub(super) async fn dial(path: &Path) -> io::Result<Self> {
        let channel = Self::on(UnixStream::connect(path).await?);
        channel.speaker.write(&[FIRST], &[]).await?;
        Ok(channel)
    }

    /// Of somebody who dialled.
    pub(super) async fn answer(stream: UnixStream) -> io::Result<Self> {
        let mut channel = Self::on(stream);
        while channel.read.is_empty() {
            channel.fill().await?;
        }
        channel.read.remove(0);
        Ok(channel)
    }

    fn on(stream: UnixStream) -> Self {
        Self {
            speaker: Speaker {
                stream: Arc::new(stream),
                turn: Arc::default(),
            },
            read: Vec::new(),
            sockets: VecDeque::new(),
        }
    }

    pub(super) fn speaker(&self) -> Speaker {
        self.speaker.clone()
    }

    /// The process at the other end, where the system knows.
    pub(super) fn peer(&self) -> Option<i32> {
        let credentials = self.speaker.stream.peer_cred().ok()?;
        credentials.pid()
    }

    pub(super) async fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.speaker.send(message, &[]).await
    }

    /// The next message. May be cancelled; nothing is lost then.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(message);
            }
            self.fill().await?;
        }
    }

    /// The sockets that came with what was read so far.
    pub(super) fn take_sockets(&mut self) -> Vec<OwnedFd> {
        self.sockets.drain(..).collect()
    }

    fn whole<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((length, rest)) = self.read.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > LARGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(message)?;
        self.read.drain(..4 + length);
        Ok(Some(message))
    }

    async fn fill(&mut self) -> io::Result<()> {
        let (stream, read) = (&self.speaker.stream, &mut self.read);
        let sockets = &mut self.sockets;
        let count = stream
            .async_io(Interest::READABLE, || {
                let mut bytes = [0; READ];
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
                let mut beside = RecvAncillaryBuffer::new(&mut space);
                let mut parts = [IoSliceMut::new(&mut bytes)];
                let flags = RecvFlags::CMSG_CLOEXEC;
                let got = recvmsg(stream.as_fd(), &mut parts, &mut beside, flags)?;
                for message in beside.drain() {
                    if let RecvAncillaryMessage::ScmRights(given) = message {
                        sockets.extend(given);
                    }
                }
                read.extend_from_slice(bytes.get(..got.bytes).unwrap_or_default());
                Ok(got.bytes)
            })
            .await?;
        match count {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl Speaker {
    /// A message, whole; not to be cancelled in the middle.
    pub(super) async fn send(
        &self,
        message: &impl Serialize,
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        let length = u32::try_from(json.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(&json);
        self.write(&bytes, sockets).await
    }

    async fn write(&self, bytes: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        let (mut left, mut sockets) = (bytes, sockets);
        while !left.is_empty() {
            let sent = self
                .stream
                .async_io(Interest::WRITABLE, || {
                    let mut space =
                        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
                    let mut beside = SendAncillaryBuffer::new(&mut space);
                    if !sockets.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(sockets))
                    {
                        return Err(io::ErrorKind::InvalidInput.into());
                    }
                    let parts = [IoSlice::new(left)];
                    let flags = SendFlags::NOSIGNAL;
                    Ok(sendmsg(self.stream.as_fd(), &parts, &mut beside, flags)?)
                })
                .await?;
            sockets = &[];
            left = left.get(sent..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream as Blocking;

    use super::*;

    #[tokio::test]
    async fn messages_arrive_whole_and_in_order_with_the_sockets_beside_them() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reading, writing) = (Channel::on(ours), Channel::on(theirs));
        let (given, mut kept) = Blocking::pair().unwrap();
        let long = "x".repeat(3 * READ);
        let wrote = tokio::spawn(async move {
            let speaker = writing.speaker();
            let sockets = [given.as_fd()];
            speaker.send(&"first", &sockets).await.unwrap();
            speaker.send(&long, &[]).await.unwrap();
        });
        assert_eq!(reading.next::<String>().await.unwrap(), "first");
        let mut sockets = reading.take_sockets();
        assert_eq!(sockets.len(), 1);
        assert_eq!(reading.next::<String>().await.unwrap().len(), 3 * READ);
        wrote.await.unwrap();
        let ended = reading.next::<String>().await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        // It is the same socket.
        kept.write_all(b"hello").unwrap();
        let taken = Blocking::from(sockets.remove(0));
        taken.set_nonblocking(false).unwrap();
        let mut heard = [0; 5];
        io::Read::read_exact(&mut &taken, &mut heard).unwrap();
        assert_eq!(&heard, b"hello");
    }
}
