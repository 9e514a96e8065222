//! The way of a line to standard error. Those who log never wait: a thread of
//! its own does the writing, so that a reader that stalls or has left holds up
//! no tunnel. Lines it has no room for are lost, counted and told of later.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Level, Metadata, warn};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait for the writer. What is remote in a line was read within
/// the limits of its protocol, 64 KiB at most.
const QUEUE: usize = 4096;
/// How long a line of a crowd waits for others, so that many logons cost a wake and a
/// write each so often and not for every line.
const GATHER: Duration = Duration::from_millis(5);
/// So many lines in so long are a crowd; all others are written at once.
const CROWD: (usize, Duration) = (16, Duration::from_millis(10));
/// Bytes from which on lines wait for no more.
const TOGETHER: usize = 64 * 1024;
/// Between two looks whether there is room for a last word.
const LOOK: Duration = Duration::from_millis(10);

/// The way in; clones lead to the same writer.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    queue: SyncSender<Message>,
    counts: Arc<Counts>,
    /// What stands in front of a line, by its level.
    prefix: Option<fn(&Level) -> &'static str>,
}

/// The way in of one line.
#[derive(Debug)]
pub(super) struct Line {
    lines: Lines,
    prefix: &'static str,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Everything before this is written once it is answered.
    Written(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    /// Not told of yet.
    lost: AtomicU64,
    all_lost: AtomicU64,
}

impl Counts {
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.all_lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Lines {
    /// Starts the writer.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn to(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, lines) = sync_channel(QUEUE);
        let counts = Arc::<Counts>::default();
        let of_writer = Arc::clone(&counts);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(sink, &lines, &of_writer))?;
        Ok(Self {
            queue,
            counts,
            prefix: None,
        })
    }

    /// The same with something in front of each line, by its level.
    #[must_use]
    pub(super) fn prefixed(self, prefix: fn(&Level) -> &'static str) -> Self {
        Self {
            prefix: Some(prefix),
            ..self
        }
    }

    /// Lines that were lost so far, told of or not.
    pub(super) fn lost(&self) -> u64 {
        self.counts.all_lost.load(Ordering::Relaxed)
    }

    /// Waits until all that was logged so far is written; no longer than this.
    pub(super) fn finish(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let (written, answer) = sync_channel(1);
        let mut last = Message::Written(written);
        while let Err(TrySendError::Full(back)) = self.queue.try_send(last) {
            if Instant::now() >= until {
                return;
            }
            last = back;
            thread::sleep(LOOK);
        }
        // What could not be written by now is lost.
        let _ = answer.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl Write for Line {
    /// Takes a whole line, or loses it; never fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let counts = &self.lines.counts;
        counts.waiting.fetch_add(1, Ordering::Relaxed);
        let whole = [self.prefix.as_bytes(), line].concat();
        if self.lines.queue.try_send(Message::Line(whole)).is_err() {
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
            counts.lose();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            lines: self.clone(),
            prefix: "",
        }
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> Line {
        Line {
            prefix: self.prefix.map_or("", |prefix| prefix(of.level())),
            ..self.make_writer()
        }
    }
}

fn write(mut sink: impl Write, lines: &Receiver<Message>, counts: &Counts) {
    let mut together = Together::default();
    let (most, lately) = CROWD;
    let (mut since, mut count, mut is_crowd) = (Instant::now(), 0, false);
    while let Ok(first) = lines.recv() {
        if since.elapsed() >= lately {
            is_crowd = count >= most && since.elapsed() < 2 * lately;
            (since, count) = (Instant::now(), 0);
        }
        if is_crowd && matches!(first, Message::Line(_)) {
            thread::sleep(GATHER);
        }
        for message in std::iter::once(first).chain(lines.try_iter()) {
            match message {
                Message::Line(line) => {
                    together.add(&line);
                    count += 1;
                }
                Message::Written(answer) => {
                    together.write(&mut sink, counts);
                    // Who asked may not wait any more.
                    let _ = answer.try_send(());
                }
            }
            if together.bytes.len() >= TOGETHER {
                together.write(&mut sink, counts);
            }
        }
        together.write(&mut sink, counts);
    }
}

/// Lines that are written at once.
#[derive(Default)]
struct Together {
    bytes: Vec<u8>,
    lines: usize,
}

impl Together {
    fn add(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.lines += 1;
    }

    fn write(&mut self, sink: &mut impl Write, counts: &Counts) {
        let Self { bytes, lines } = std::mem::take(self);
        if lines == 0 {
            return;
        }
        let written = sink.write_all(&bytes).and_then(|()| sink.flush());
        let waiting = counts.waiting.fetch_sub(lines, Ordering::Relaxed);
        match written {
            // Once there is room again, not at every other line.
            Ok(()) if waiting.saturating_sub(lines) <= QUEUE / 2 => {
                say(counts.lost.swap(0, Ordering::Relaxed))
            }
            Ok(()) => {}
            // A reader that has left is nobody to tell now, nor is a full disk.
            Err(_) => (0..lines).for_each(|_| counts.lose()),
        }
    }
}

fn say(lost: u64) {
    if lost > 0 {
        warn!(
            lost,
            "The log lost lines, which its reader or its disk did not take"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Stalls for as long as somebody else holds it.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_arrive_in_their_order_before_the_end() {
        let page = Page::default();
        let lines = Lines::to(page.clone()).unwrap();
        for number in 0..1000 {
            writeln!(lines.make_writer(), "{number}").unwrap();
        }
        lines.make_writer().write_all(b"last\n").unwrap();
        lines.finish(Duration::from_secs(20));
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        assert!(
            text.starts_with("0") && text.ends_with("999\nlast\n"),
            "{text}"
        );
    }

    #[test]
    fn a_sink_that_stalls_holds_up_nobody_and_what_is_lost_is_counted() {
        let page = Page::default();
        let lines = Lines::to(page.clone()).unwrap();
        let stalled = page.0.lock().unwrap();
        // As many may be under way in the writer.
        let mut most = 0..3 * QUEUE;
        while lines.counts.lost.load(Ordering::Relaxed) < 10 {
            most.next().expect("the queue has an end");
            lines.make_writer().write_all(b"x\n").unwrap();
        }
        let start = Instant::now();
        lines.finish(Duration::from_millis(50));
        assert!(start.elapsed() >= Duration::from_millis(50));
        drop(stalled);
        lines.finish(Duration::from_secs(20));
        assert!(page.0.lock().unwrap().len() >= 2 * QUEUE);
        assert_eq!(lines.counts.lost.load(Ordering::Relaxed), 0, "it was said");
        assert_eq!(lines.lost(), 10, "and is counted still");
    }

    #[test]
    fn a_sink_that_fails_is_no_failure_of_who_logs() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = Lines::to(Gone).unwrap();
        for _ in 0..10 {
            lines.make_writer().write_all(b"x\n").unwrap();
        }
        let start = Instant::now();
        lines.finish(Duration::from_secs(20));
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "the writer lives"
        );
        assert_eq!(lines.lost(), 10);
    }
}
