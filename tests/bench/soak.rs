//! Tunnels that come and go for a long time, in use, ended by either side in
//! every way: what the broker takes must be what it took before. Ten minutes, or
//! `-- --minutes N`; with `--test` for seconds.
//!
//! The same users come again and again, so that leases do not grow. Before the
//! first figure the same is done for a tenth of the time, for what is filled once
//! and kept. Prints memory, descriptors and threads as they go; fails where they
//! do not come back once everybody has left, or where a tunnel does not carry
//! what it must.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    dead_code,
    unused_imports,
    reason = "a check that cannot be set up has failed; the cast plays more than this"
)]

mod load;
mod processor;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use load::{Cast, Tunnel, payload, swallow};
use socket2::SockRef;
use support::tls::Authority;
use support::{Broker, DEADLINE, Dice, Names, ScriptedGuacd, Stage, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Tunnels at a time, and users that each of them is taken by in turn.
const AT_ONCE: usize = 64;
const USERS: usize = 8;
/// Figures between the first and the last.
const SAMPLES: u32 = 10;
/// For the end of one side to reach the other.
const ENDED_WITHIN: Duration = Duration::from_secs(20);
/// What may be more than before, of memory: pages are given back when it suits
/// the allocator.
const MORE_KIB: f64 = 4096.0;
const MORE_SHARE: f64 = 0.1;

/// What the broker takes.
#[derive(Debug, Clone, Copy)]
struct Figures {
    resident: f64,
    descriptors: usize,
    threads: usize,
}

impl Figures {
    fn of(broker: &Broker) -> Self {
        let status = fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
        let number = |name: &str| -> f64 {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        Self {
            resident: number("VmRSS:"),
            descriptors: broker.descriptors(),
            threads: number("Threads:") as usize,
        }
    }

    fn print(self, when: &str, tunnels: u64) {
        let Self {
            resident,
            descriptors,
            threads,
        } = self;
        println!(
            "{when:>16} {tunnels:>10} {:>10.1} {descriptors:>12} {threads:>8}",
            resident / 1024.0
        );
    }
}

/// What is open by the broker's own account, all in all.
fn open_by_metrics(broker: &Broker) -> f64 {
    const OPEN: [&str; 4] = [
        "sessionguard_connections_open ",
        "sessionguard_tunnels ",
        "sessionguard_pending_placements ",
        "sessionguard_guacd_dials ",
    ];
    let (_, page) = broker.health("/metrics");
    let figures = OPEN.map(|name| {
        let mut lines = page.lines();
        let line = lines.find_map(|line| line.strip_prefix(name));
        line.expect(name).trim().parse::<f64>().unwrap()
    });
    figures.into_iter().sum()
}

/// How a tunnel is used, and then left.
async fn one(cast: &Cast, broker: &Broker, user: &str, dice: &mut Dice, talk: &Talk) {
    let address = broker.address();
    if dice.roll().is_multiple_of(16) {
        // Somebody who leaves in the middle of a handshake.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"6.select,3.rdp;").await.unwrap();
        assert!(stream.read(&mut [0; 64]).await.unwrap() > 0);
        return;
    }
    let mut tunnel = cast.tunnel_of(user, address).await;
    match dice.roll() % 4 {
        0 => sleep(Duration::from_millis(dice.roll() % 2000)).await,
        1 => talk.pour(&mut tunnel, 1 + dice.roll() as usize % 32).await,
        _ => talk.work(&mut tunnel, dice).await,
    }
    leave(tunnel, dice).await;
}

/// What is said.
struct Talk {
    picture: Vec<u8>,
    frames: Vec<Vec<u8>>,
}

impl Talk {
    /// Much at once, both ways.
    async fn pour(&self, tunnel: &mut Tunnel, writes: usize) {
        let Tunnel { guacamole, guacd } = tunnel;
        let (mut from_guacd, mut into_guacd) = guacamole.split();
        let (mut from_guacamole, mut into_guacamole) = guacd.split();
        let bytes = writes * self.picture.len();
        let (mut down, mut up) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
        tokio::try_join!(
            pour(&mut into_guacamole, &self.picture, writes),
            pour(&mut into_guacd, &self.picture, writes),
            swallow(&mut from_guacd, bytes, &mut down),
            swallow(&mut from_guacamole, bytes, &mut up),
        )
        .unwrap();
    }

    /// Frames, and a mouse that answers each.
    async fn work(&self, tunnel: &mut Tunnel, dice: &mut Dice) {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..dice.roll() % 50 {
            let frame = &self.frames[dice.roll() as usize % self.frames.len()];
            tunnel.guacd.write_all(frame).await.unwrap();
            let arrived = swallow(&mut tunnel.guacamole, frame.len(), &mut buffer);
            arrived.await.unwrap();
            tunnel.guacamole.write_all(payload::SMALL).await.unwrap();
            let arrived = swallow(&mut tunnel.guacd, payload::SMALL.len(), &mut buffer);
            arrived.await.unwrap();
            sleep(Duration::from_millis(dice.roll() % 40)).await;
        }
    }
}

async fn pour(
    into: &mut tokio::net::tcp::WriteHalf<'_>,
    picture: &[u8],
    writes: usize,
) -> std::io::Result<()> {
    for _ in 0..writes {
        into.write_all(picture).await?;
    }
    Ok(())
}

/// One side leaves, politely or not, and the other side hears it.
async fn leave(tunnel: Tunnel, dice: &mut Dice) {
    let Tunnel { guacamole, guacd } = tunnel;
    let (mut leaves, mut stays) = match dice.roll() % 2 {
        0 => (guacamole, guacd),
        _ => (guacd, guacamole),
    };
    match dice.roll() % 3 {
        0 => leaves.write_all(b"10.disconnect;").await.unwrap(),
        1 => SockRef::from(&leaves)
            .set_linger(Some(Duration::ZERO))
            .unwrap(),
        _ => {}
    }
    drop(leaves);
    let mut last_words = [0; 64];
    let heard = timeout(ENDED_WITHIN, async {
        // An end or a reset, whichever it was.
        while matches!(stays.read(&mut last_words).await, Ok(1..)) {}
    });
    heard.await.expect("the end of one side reaches the other");
}

/// So long, with as many tunnels as it is all about.
async fn crowd(cast: &Cast, broker: &Arc<Broker>, span: Duration, count: &Arc<AtomicU64>) {
    let talk = Arc::new(Talk {
        picture: payload::bulk(),
        frames: payload::frames(),
    });
    let until = Instant::now() + span;
    let mut crowd = JoinSet::new();
    for nth in 0..AT_ONCE {
        let (cast, broker) = (cast.clone(), Arc::clone(broker));
        let (talk, count) = (Arc::clone(&talk), Arc::clone(count));
        crowd.spawn(async move {
            let mut dice = Dice::of(nth as u64 + 100);
            for turn in 0.. {
                if Instant::now() >= until {
                    break;
                }
                let user = format!("user{nth}-{}", turn % USERS);
                one(&cast, &broker, &user, &mut dice, &talk).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    crowd.join_all().await;
}

/// What is taken once nobody is there any more; at most so much, where that comes
/// to be in time.
fn at_rest(broker: &Broker, most: Option<Figures>) -> Figures {
    eventually("nothing is open", || {
        (open_by_metrics(broker) == 0.0).then_some(())
    });
    // The connection that just asked is gone a moment later; a thread that waits
    // for more work of the disk goes after ten seconds.
    let until = Instant::now() + DEADLINE;
    let (mut last, mut calm) = (Figures::of(broker), 0);
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = Figures::of(broker);
        let is_same = (now.descriptors, now.threads) == (last.descriptors, last.threads);
        calm = if is_same { calm + 1 } else { 0 };
        last = now;
        let is_back = most
            .is_none_or(|most| now.descriptors <= most.descriptors && now.threads <= most.threads);
        if (calm >= 20 && is_back) || Instant::now() > until {
            return now;
        }
    }
}

fn span() -> Duration {
    let mut arguments = std::env::args().skip(1);
    let mut span = Duration::from_secs(600);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--test" => span = Duration::from_secs(8),
            "--minutes" => {
                let minutes = arguments.next().and_then(|said| said.parse().ok());
                let minutes: f64 = minutes.expect("--minutes wants a number");
                span = Duration::from_secs_f64(minutes * 60.0);
            }
            "--bench" => {}
            other => panic!("{other} is no option: --minutes N"),
        }
    }
    span
}

async fn soak(span: Duration) {
    let authority = Authority::new("Nobody");
    let cast = Cast::new(authority.client(None)).await;
    // This one is never dialled: it only has the stage set up.
    let idle = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let guacd = cast.guacd();
    let stage = Stage::adjusted(idle, 4, |mut site| {
        site.guacd = guacd;
        site.with("[broker]\nmax_pending_logons = 1000\nslow_start = \"0s\"\n")
    });
    let Stage {
        broker,
        hosts,
        site,
        ..
    } = stage;
    let broker = Arc::new(broker);
    let count = Arc::new(AtomicU64::new(0));
    println!("           after    tunnels  resident MiB  descriptors  threads");
    crowd(&cast, &broker, span / 10, &count).await;
    let before = at_rest(&broker, None);
    before.print("warm", count.load(Ordering::Relaxed));
    let start = Instant::now();
    let crowding = {
        let (cast, broker, count) = (cast.clone(), Arc::clone(&broker), Arc::clone(&count));
        tokio::spawn(async move { crowd(&cast, &broker, span, &count).await })
    };
    for _ in 1..SAMPLES {
        sleep(span / SAMPLES).await;
        let when = format!("{:.0?}", start.elapsed());
        Figures::of(&broker).print(&when, count.load(Ordering::Relaxed));
    }
    crowding.await.unwrap();
    let after = at_rest(&broker, Some(before));
    after.print("all left", count.load(Ordering::Relaxed));
    assert!(
        after.descriptors <= before.descriptors,
        "descriptors: {before:?}, {after:?}"
    );
    assert!(
        after.threads <= before.threads,
        "threads: {before:?}, {after:?}"
    );
    let most = before.resident + (before.resident * MORE_SHARE).max(MORE_KIB);
    assert!(after.resident <= most, "memory: {before:?}, {after:?}");
    println!("memory, descriptors and threads came back");
    drop((hosts, site));
}

fn main() {
    let span = span();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(soak(span));
}
