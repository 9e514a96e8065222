//! What is done through a relay, and what that costs it.

use std::any::Any;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval_at, sleep};

use super::extent::Extent;
use super::load::{Cast, Tunnel, payload, swallow};
use super::support::Dice;
use super::table::{Figures, Row};
use super::ways::{Way, pin, processors};

const GIB: f64 = (1u64 << 30) as f64;
/// Read at a time by whoever reads much.
const READ: usize = 256 * 1024;
/// Small instructions a second that a hand on a mouse says.
const MOVES: u64 = 20;
/// Set-ups and idle tunnels on their way at a time.
pub(crate) const AT_ONCE: usize = 8;

/// Through one way, once.
pub(crate) struct Run<'a> {
    pub(crate) cast: &'a Cast,
    pub(crate) way: &'a Way,
    pub(crate) extent: &'a Extent,
    pub(crate) figures: &'a mut Figures,
}

/// What a span cost.
struct Spent {
    processor: Option<Duration>,
    passed: Duration,
}

impl Run<'_> {
    fn put(&mut self, row: Row, figure: Option<f64>) {
        if let Some(figure) = figure {
            self.figures.put(row, self.way.kind, figure);
        }
    }

    /// Measures what is awaited.
    async fn spent<T>(&self, work: impl Future<Output = T>) -> (T, Spent) {
        let (before, start) = (self.way.processor(), Instant::now());
        let done = work.await;
        let passed = start.elapsed();
        let after = self.way.processor();
        let processor = after.zip(before).map(|(after, before)| after - before);
        (done, Spent { processor, passed })
    }

    /// A picture that never ends, in so many tunnels.
    pub(crate) async fn bulk(&mut self, streams: usize) {
        let (processor, speed) = match streams {
            1 => (Row::OneStream, Row::OneStreamSpeed),
            _ => (Row::EightStreams, Row::EightStreamsSpeed),
        };
        let through = self.way.plain;
        let tunnels = self.cast.tunnels(through, streams, AT_ONCE).await;
        self.pour(tunnels, processor, speed).await;
    }

    /// The same in one tunnel, with TLS from Guacamole to the relay.
    pub(crate) async fn secured_bulk(&mut self) {
        let Some(through) = self.way.secured else {
            return;
        };
        let tunnels = vec![self.cast.secured(through).await];
        self.pour(tunnels, Row::Secured, Row::SecuredSpeed).await;
    }

    async fn pour<S>(&mut self, tunnels: Vec<Tunnel<S>>, processor: Row, speed: Row)
    where
        S: AsyncRead + Unpin + Send + 'static,
    {
        let picture: &'static [u8] = self.extent.picture;
        let writes = self
            .extent
            .bulk_bytes
            .div_ceil(picture.len() * tunnels.len());
        let bytes = writes * picture.len();
        let all = (bytes * tunnels.len()) as f64 / GIB;
        let mut pouring = JoinSet::new();
        let poured = async {
            for Tunnel {
                mut guacamole,
                mut guacd,
            } in tunnels
            {
                pouring.spawn(async move {
                    for _ in 0..writes {
                        guacd.write_all(picture).await?;
                    }
                    kept(guacd)
                });
                pouring.spawn(async move {
                    let mut buffer = vec![0; READ];
                    swallow(&mut guacamole, bytes, &mut buffer).await?;
                    kept(guacamole)
                });
            }
            pouring.join_all().await
        };
        let (ends, spent) = self.spent(poured).await;
        ends.into_iter().for_each(|end| drop(end.unwrap()));
        let each = |span: Duration| span.as_secs_f64() / all;
        self.put(processor, spent.processor.map(each));
        self.put(speed, Some(all / spent.passed.as_secs_f64()));
    }

    /// Many desktops in use: frames down, moves of a mouse up.
    pub(crate) async fn desktops(&mut self) {
        let count = self.extent.desktops;
        let through = self.way.plain;
        let tunnels = self.cast.tunnels(through, count, AT_ONCE).await;
        let mut dice = Dice::of(3);
        let mut working = JoinSet::new();
        let mut messages = 0;
        let span = self.extent.desktop_span;
        let start = tokio::time::Instant::now() + Duration::from_millis(50);
        for tunnel in tunnels {
            let frames = self.extent.frames;
            let a_second = 30 + dice.roll() % 31;
            let draws = count_of(a_second, span);
            let said: Vec<&'static [u8]> = (0..draws)
                .map(|_| &*frames[dice.roll() as usize % frames.len()])
                .collect();
            let moves = count_of(MOVES, span);
            messages += draws + moves;
            let down = said.iter().map(|frame| frame.len()).sum();
            let up = moves as usize * payload::SMALL.len();
            let phases = [0; 2].map(|_| Duration::from_micros(dice.roll() % 30_000));
            let (mut from_guacd, mut into_guacd) = tunnel.guacamole.into_split();
            let (mut from_guacamole, mut into_guacamole) = tunnel.guacd.into_split();
            working.spawn(async move {
                let period = Duration::from_secs(1) / a_second as u32;
                let mut beat = interval_at(start + phases[0], period);
                for frame in said {
                    beat.tick().await;
                    into_guacamole.write_all(frame).await?;
                }
                kept(into_guacamole)
            });
            working.spawn(async move {
                let period = Duration::from_secs(1) / MOVES as u32;
                let mut beat = interval_at(start + phases[1], period);
                for _ in 0..moves {
                    beat.tick().await;
                    into_guacd.write_all(payload::SMALL).await?;
                }
                kept(into_guacd)
            });
            working.spawn(async move {
                swallow(&mut from_guacd, down, &mut vec![0; 16 * 1024]).await?;
                kept(from_guacd)
            });
            working.spawn(async move {
                swallow(&mut from_guacamole, up, &mut vec![0; 4096]).await?;
                kept(from_guacamole)
            });
        }
        let (ends, spent) = self.spent(working.join_all()).await;
        ends.into_iter().for_each(|end| drop(end.unwrap()));
        let each = |span: Duration| span.as_secs_f64() * 1e6 / messages as f64;
        self.put(Row::Desktops, spent.processor.map(each));
    }

    /// One small instruction there and back, on one processor.
    pub(crate) async fn pings(&mut self) {
        let Tunnel { guacamole, guacd } = self.cast.tunnel(self.way.plain).await;
        let [mut guacamole, mut guacd] = [guacamole, guacd].map(blocking);
        let (all, one) = processors();
        pin(std::process::id(), &one);
        self.way.pin(&one);
        let pings = self.extent.pings;
        let mut times = tokio::task::spawn_blocking(move || {
            let echo = std::thread::spawn(move || {
                let mut heard = [0; payload::SMALL.len()];
                while guacd.read_exact(&mut heard).is_ok() {
                    guacd.write_all(&heard).unwrap();
                }
            });
            let mut times = Vec::with_capacity(pings);
            for nth in 0..pings + pings / 10 {
                let mut heard = [0; payload::SMALL.len()];
                let start = Instant::now();
                guacamole.write_all(payload::SMALL).unwrap();
                guacamole.read_exact(&mut heard).unwrap();
                // The first find everything cold.
                if nth >= pings / 10 {
                    times.push(start.elapsed());
                }
                assert_eq!(heard, payload::SMALL);
            }
            drop(guacamole);
            echo.join().unwrap();
            times
        })
        .await
        .unwrap();
        pin(std::process::id(), &all);
        self.way.pin(&all);
        times.sort_unstable();
        for (row, percent) in [(Row::Ping, 50), (Row::SlowPing, 99)] {
            let time = times[(times.len() - 1) * percent / 100];
            self.put(row, Some(time.as_secs_f64() * 1e6));
        }
    }

    /// From dial to desktop, so many at a time; each leaves again.
    pub(crate) async fn set_ups(&mut self, at_once: usize) {
        let (processor, time) = match at_once {
            1 => (Row::SetUp, Row::SetUpTime),
            _ => (Row::BusySetUp, Row::BusySetUpTime),
        };
        let each_of = (self.extent.set_ups / at_once).max(1);
        let (cast, through) = (self.cast, self.way.plain);
        let coming = async {
            let mut coming = JoinSet::new();
            for _ in 0..at_once {
                let cast = cast.clone();
                coming.spawn(async move {
                    let mut times = Vec::new();
                    for _ in 0..each_of {
                        let start = Instant::now();
                        let tunnel = cast.tunnel(through).await;
                        times.push(start.elapsed());
                        drop(tunnel);
                    }
                    times
                });
            }
            coming.join_all().await.concat()
        };
        let (mut times, spent) = self.spent(coming).await;
        let each = |span: Duration| span.as_secs_f64() * 1e6 / times.len() as f64;
        self.put(processor, spent.processor.map(each));
        times.sort_unstable();
        self.put(time, Some(times[times.len() / 2].as_secs_f64() * 1e6));
    }

    /// Tunnels in which nothing happens, then something in all of them, then
    /// nothing again, and their end. Of a way that was just opened.
    pub(crate) async fn idle(&mut self) {
        let count = self.extent.idle;
        // The first find everything cold, and what that takes stays.
        drop(self.cast.tunnels(self.way.plain, count / 20, AT_ONCE).await);
        sleep(self.extent.rest).await;
        let (process, kernel) = (self.way.memory(), kernel_memory());
        let a_tunnel = |now: Option<f64>| {
            now.zip(process)
                .map(|(now, before)| (now - before) / count as f64)
        };
        let mut tunnels = self.cast.tunnels(self.way.plain, count, 32).await;
        sleep(self.extent.rest).await;
        let held = (kernel_memory() - kernel) / count as f64;
        self.put(Row::Idle, a_tunnel(self.way.memory()));
        self.put(Row::IdleKernel, Some(held));
        let burst = self.extent.burst;
        for tunnel in &mut tunnels {
            tunnel.guacd.write_all(burst).await.unwrap();
        }
        self.put(Row::Burst, a_tunnel(self.way.memory()));
        let mut buffer = vec![0; READ];
        for tunnel in &mut tunnels {
            swallow(&mut tunnel.guacamole, burst.len(), &mut buffer)
                .await
                .unwrap();
        }
        sleep(self.extent.rest).await;
        self.put(Row::AfterBurst, a_tunnel(self.way.memory()));
        drop(tunnels);
        sleep(self.extent.rest).await;
        self.put(Row::Closed, a_tunnel(self.way.memory()));
    }
}

/// An end of a tunnel, kept until all is measured.
type Kept = std::io::Result<Box<dyn Any + Send>>;

fn kept(end: impl Any + Send) -> Kept {
    Ok(Box::new(end))
}

/// How many there are in a span.
fn count_of(a_second: u64, span: Duration) -> u64 {
    (a_second * span.as_millis() as u64 / 1000).max(1)
}

fn blocking(stream: TcpStream) -> std::net::TcpStream {
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).unwrap();
    stream
}

/// What the system has for sockets, in KiB: its small objects, and what stands in
/// queues. Of the whole machine.
fn kernel_memory() -> f64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let number = |text: &str| text.trim().trim_end_matches(" kB").parse::<f64>().unwrap();
    let memory = read("/proc/meminfo");
    let slab = memory.lines().find_map(|line| line.strip_prefix("Slab:"));
    let sockets = read("/proc/net/sockstat");
    let tcp = sockets.lines().find(|line| line.starts_with("TCP:"));
    let pages = tcp.and_then(|line| line.rsplit_once(' ')).unwrap().1;
    number(slab.unwrap()) + 4.0 * number(pages)
}
