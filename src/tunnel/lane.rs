//! One direction of a tunnel: what is read on one side is written to the other
//! at once, out of memory that the thread lends for as long as that takes. A lane
//! has bytes of its own only while the other side takes less than there is, and
//! reads no more until those are gone; an idle one has none.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes moved at a time, and so most that a lane ever keeps of what it
/// read: fewer, larger moves are most of what a picture costs.
const CHUNK: usize = 64 * 1024;

thread_local! {
    /// Lent to one move at a time, never beyond a poll.
    static LENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// From one side to the other. The sides are lent to it for each move, since each
/// is a side of the way back, too.
#[derive(Debug)]
pub(super) struct Lane {
    /// Read and shown already, and not taken yet, from `taken` on.
    left: Vec<u8>,
    taken: usize,
    /// Bytes on their way: from their read until the other side has all of them.
    moving: usize,
}

/// What failed, and how: the side that is read, or the one that is written to.
#[derive(Debug)]
pub(super) enum Broken {
    Read(io::Error),
    Written(io::Error),
}

impl Lane {
    /// `first` was read and shown before, and goes first.
    pub(super) fn new(first: Vec<u8>) -> Self {
        Self {
            moving: first.len(),
            left: first,
            taken: 0,
        }
    }

    /// Whether the other side has all that was read.
    pub(super) fn is_clear(&self) -> bool {
        self.moving == 0
    }

    /// Moves what is there, and shows it to `see` before it goes; how much it was
    /// once the other side has it, 0 at the end of the stream.
    pub(super) fn poll_pass(
        &mut self,
        context: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        into: &mut (impl AsyncWrite + Unpin),
        see: impl FnMut(&[u8]),
    ) -> Poll<Result<usize, Broken>> {
        if self.is_clear() && !ready!(self.poll_move(context, from, into, see))? {
            return Poll::Ready(Ok(0));
        }
        self.poll_rest(context, into).map_err(Broken::Written)
    }

    /// From here on these are on their way, too, behind what is.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.left.extend_from_slice(bytes);
        self.moving += bytes.len();
    }

    /// Reads once, and writes as much of it as is taken at once; false at the end
    /// of the stream.
    fn poll_move(
        &mut self,
        context: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        into: &mut (impl AsyncWrite + Unpin),
        mut see: impl FnMut(&[u8]),
    ) -> Poll<Result<bool, Broken>> {
        LENT.with_borrow_mut(|lent| {
            lent.resize(CHUNK, 0);
            let mut buffer = ReadBuf::new(lent);
            let read = Pin::new(from).poll_read(context, &mut buffer);
            if read.is_pending() {
                // Room is kept while much moves, and by nobody who waits.
                self.left = Vec::new();
            }
            ready!(read).map_err(Broken::Read)?;
            let bytes = buffer.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(false));
            }
            see(bytes);
            self.moving = bytes.len();
            let taken = poll_write(into, context, bytes).map_err(Broken::Written)?;
            self.left
                .extend_from_slice(bytes.get(taken..).unwrap_or_default());
            Poll::Ready(Ok(true))
        })
    }

    /// Writes what is left, and flushes: TLS keeps what the socket does not take
    /// at once, and nothing counts as taken before that is gone, too.
    pub(super) fn poll_rest(
        &mut self,
        context: &mut Context<'_>,
        into: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<usize>> {
        let rest = self.left.get(self.taken..).unwrap_or_default();
        self.taken += poll_write(into, context, rest)?;
        if self.taken < self.left.len() {
            return Poll::Pending;
        }
        self.left.clear();
        self.taken = 0;
        ready!(Pin::new(into).poll_flush(context))?;
        Poll::Ready(Ok(std::mem::take(&mut self.moving)))
    }
}

/// Writes until all is taken, or until no more is and the task will be woken.
fn poll_write(
    into: &mut (impl AsyncWrite + Unpin),
    context: &mut Context<'_>,
    bytes: &[u8],
) -> io::Result<usize> {
    let mut taken = 0;
    while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
        match Pin::new(&mut *into).poll_write(context, rest)? {
            Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(count) => taken += count,
            Poll::Pending => break,
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;

    /// A lane and its sides.
    struct Laid {
        from: DuplexStream,
        into: DuplexStream,
        lane: Lane,
    }

    impl Laid {
        async fn pass(&mut self, mut see: impl FnMut(&[u8])) -> Result<usize, Broken> {
            let Self { from, into, lane } = self;
            poll_fn(|context| lane.poll_pass(context, from, into, &mut see)).await
        }
    }

    /// A lane between two pipes that hold so much, and the ends of those.
    fn lane(room: usize) -> (DuplexStream, Laid, DuplexStream) {
        let (writer, from) = duplex(CHUNK);
        let (into, reader) = duplex(room);
        let lane = Lane::new(Vec::new());
        (writer, Laid { from, into, lane }, reader)
    }

    fn numbers(count: usize) -> Vec<u8> {
        (0..=250).cycle().take(count).collect()
    }

    async fn is_stuck<T>(work: impl Future<Output = T>) -> bool {
        timeout(Duration::from_millis(10), work).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_taken_is_kept_and_nothing_more_is_read() {
        let (mut writer, mut lane, mut reader) = lane(7);
        let said = numbers(1000);
        writer.write_all(&said).await.unwrap();
        let mut seen = Vec::new();
        assert!(is_stuck(lane.pass(|bytes| seen.extend_from_slice(bytes))).await);
        assert_eq!(seen, said, "shown once, and before it went");
        assert!(!lane.lane.is_clear());
        writer.write_all(b"more").await.unwrap();
        // Cancelled again and again, byte after byte.
        let mut heard = Vec::new();
        while heard.len() < said.len() - 8 {
            heard.push(reader.read_u8().await.unwrap());
            assert!(is_stuck(lane.pass(|_| panic!("nothing more is read"))).await);
        }
        let (moved, ()) = tokio::join!(lane.pass(|_| panic!("nothing more")), async {
            for _ in 0..8 {
                heard.push(reader.read_u8().await.unwrap());
            }
        });
        assert_eq!(moved.unwrap(), said.len());
        assert_eq!(heard, said);
        assert!(lane.lane.is_clear());
        assert_eq!(
            lane.pass(|bytes| assert_eq!(bytes, b"more")).await.unwrap(),
            4
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_keeps_no_room() {
        let (mut writer, mut lane, mut reader) = lane(100);
        writer.write_all(&numbers(1000)).await.unwrap();
        let mut heard = [0; 1000];
        let (moved, _) = tokio::join!(lane.pass(|_| {}), reader.read_exact(&mut heard));
        assert_eq!(moved.unwrap(), 1000);
        assert!(lane.lane.left.capacity() > 0);
        assert!(is_stuck(lane.pass(|_| {})).await);
        assert_eq!(lane.lane.left.capacity(), 0);
    }

    #[tokio::test]
    async fn the_end_comes_behind_all_that_was_said() {
        let (mut writer, mut lane, mut reader) = lane(CHUNK);
        lane.lane = Lane::new(b"first ".to_vec());
        writer.write_all(b"last words").await.unwrap();
        drop(writer);
        assert_eq!(lane.pass(|_| panic!("shown already")).await.unwrap(), 6);
        assert_eq!(lane.pass(|_| {}).await.unwrap(), 10);
        assert_eq!(lane.pass(|_| panic!("nothing is shown")).await.unwrap(), 0);
        drop(lane);
        let mut heard = String::new();
        reader.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "first last words");
    }

    #[tokio::test]
    async fn it_is_told_which_side_failed() {
        let (mut writer, mut lane, reader) = lane(1);
        writer.write_all(b"for nobody").await.unwrap();
        drop(reader);
        let failed = lane.pass(|_| {}).await.unwrap_err();
        assert!(matches!(failed, Broken::Written(_)), "{failed:?}");
    }
}
