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
    for message in lines {
        match message {
            Message::Line(line) => {
                let written = sink.write_all(&line).and_then(|()| sink.flush());
                let waiting = counts.waiting.fetch_sub(1, Ordering::Relaxed);
                match written {
                    // Once there is room again, not at every other line.
                    Ok(()) if waiting <= QUEUE / 2 => {
                        say(counts.lost.swap(0, Ordering::Relaxed));
                    }
                    Ok(()) => {}
                    // A reader that has left is nobody to tell now, nor is a full disk.
                    Err(_) => counts.lose(),
                }
            }
            Message::Written(answer) => {
                // Who asked may not wait any more.
                let _ = answer.try_send(());
            }
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
        for _ in 0..QUEUE + 10 {
            lines.make_writer().write_all(b"x\n").unwrap();
        }
        // One may be under way in the writer.
        assert!([9, 10].contains(&lines.counts.lost.load(Ordering::Relaxed)));
        let start = Instant::now();
        lines.finish(Duration::from_millis(50));
        assert!(start.elapsed() >= Duration::from_millis(50));
        drop(stalled);
        lines.finish(Duration::from_secs(20));
        assert!(page.0.lock().unwrap().len() >= 2 * QUEUE);
        assert_eq!(lines.counts.lost.load(Ordering::Relaxed), 0, "it was said");
        assert!(lines.lost() >= 9, "and is counted still");
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
