//! Users: they click, work for a while, leave, and come back; some click twice at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use guac_protocol::Instruction;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::World;
use super::files::FARM_IDS;
use super::guacd::TAG;
use super::wire::Wire;
use crate::chaos::history::{Farm, Replica, User, Visit, What};
use crate::chaos::plan::{FARMS, REPLICAS};
use crate::support::Dice;

/// A page gives up when it has heard nothing for so long.
const PATIENCE: Duration = Duration::from_secs(15);

/// What came of a click.
pub(super) enum Came {
    Open(Wire),
    Refused,
    /// Its replica is gone or silent.
    Nothing,
}

pub(super) struct Person {
    pub(super) user: User,
    world: Arc<World>,
    dice: Dice,
}

impl Person {
    pub(super) fn of(world: &Arc<World>, user: User, seed: u64) -> Self {
        let seed = seed.wrapping_mul(10_007).wrapping_add(user.into());
        let mut dice = Dice::of(seed);
        // Neighbouring seeds begin alike.
        for _ in 0..8 {
            dice.roll();
        }
        Self {
            user,
            world: Arc::clone(world),
            dice,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.dice.roll() >> 16) % bound
    }

    fn span(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least))
    }

    /// Two in three work in the office, and now and then in the other farm.
    fn farm(&mut self) -> Farm {
        let home = u8::from(self.user % 3 == 2);
        match self.below(8) {
            0 => (home + 1) % FARMS,
            _ => home,
        }
    }

    /// Comes and goes until the day is over; of a hundred clicks so many are made at every replica
    /// in the same moment.
    pub(super) async fn work(mut self, together: u64) {
        sleep(self.span(0, 4000)).await;
        while !self.world.is_over() {
            let farm = self.farm();
            let is_hasty = self.below(100) < together;
            let pages = if is_hasty { u64::from(REPLICAS) } else { 1 };
            let from = self.below(REPLICAS.into());
            let mut open = Vec::new();
            for page in 0..pages {
                let first = u8::try_from((from + page) % u64::from(REPLICAS)).unwrap();
                let stays = self.span(1000, 14_000);
                let (world, user) = (Arc::clone(&self.world), self.user);
                open.push(tokio::spawn(async move {
                    world.visit((user, farm), first, stays).await;
                }));
            }
            for page in open {
                page.await.unwrap();
            }
            sleep(self.span(300, 5000)).await;
        }
    }

    /// Asks until there is a desktop, for so long at most; says whether there was one.
    pub(super) async fn insist(self, patience: Duration) -> bool {
        let farm = u8::from(self.user % 3 == 2);
        let first = u8::try_from(self.user % u16::from(REPLICAS)).unwrap();
        let placed = timeout(patience, async {
            while !matches!(
                self.world.click((self.user, farm), first).await.1,
                Came::Open(_)
            ) {
                sleep(Duration::from_millis(500)).await;
            }
        });
        placed.await.is_ok()
    }
}

impl World {
    /// A click, and the time at the desktop where there is one.
    async fn visit(&self, whose: (User, Farm), first: Replica, stays: Duration) {
        let (visit, came) = self.click(whose, first).await;
        if let Came::Open(mut wire) = came {
            self.counts.open.fetch_add(1, Ordering::Relaxed);
            let ended = timeout(stays, wire.until_the_end()).await.is_ok();
            self.counts.open.fetch_sub(1, Ordering::Relaxed);
            if ended && !self.is_over() {
                self.history.note(What::Broken { visit });
            }
        }
    }

    /// Clicks at that replica, or at the next one that takes connections, as behind a balancer.
    async fn click(&self, (user, farm): (User, Farm), first: Replica) -> (Visit, Came) {
        let visit = self.counts.clicks.fetch_add(1, Ordering::Relaxed);
        for nth in 0..REPLICAS {
            let replica = (first + nth) % REPLICAS;
            let Some(address) = self.replicas[usize::from(replica)].address() else {
                continue;
            };
            let Ok(stream) = TcpStream::connect(address).await else {
                continue;
            };
            self.history.note(What::Clicked {
                visit,
                user,
                farm,
                replica,
            });
            let came = self.handshake(stream, visit, (user, farm)).await;
            let came = came.unwrap_or(Came::Nothing);
            let counted = match &came {
                Came::Open(_) => &self.counts.placed,
                Came::Refused => &self.counts.refused,
                Came::Nothing => {
                    self.history.note(What::LetDown { visit });
                    &self.counts.let_down
                }
            };
            counted.fetch_add(1, Ordering::Relaxed);
            return (visit, came);
        }
        (visit, Came::Nothing)
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        visit: Visit,
        (user, farm): (User, Farm),
    ) -> io::Result<Came> {
        let mut wire = Wire::new(stream);
        wire.say(&Instruction::new("select", ["rdp"])).await?;
        let args = timeout(PATIENCE, wire.hear()).await??;
        for setting in settings(user) {
            wire.say(&setting).await?;
        }
        let values = args.args().iter().map(|name| match name.as_str() {
            "hostname" => format!("sessionguard:resource={}", FARM_IDS[usize::from(farm)]),
            "username" => format!("u{user}"),
            "password" => "secret of the test".to_owned(),
            TAG => visit.to_string(),
            version if version.starts_with("VERSION_") => version.to_owned(),
            _ => String::new(),
        });
        let connect = Instruction::new("connect", values.collect::<Vec<_>>());
        wire.say(&connect).await?;
        // A refusal comes behind a `ready` as well.
        timeout(PATIENCE, wire.hear()).await??;
        loop {
            let heard = timeout(PATIENCE, wire.hear()).await??;
            match heard.opcode() {
                "nop" => {}
                "error" => {
                    let code = heard.args()[1].parse().unwrap();
                    self.history.note(What::Refused { visit, code });
                    return Ok(Came::Refused);
                }
                _ => return Ok(Came::Open(wire)),
            }
        }
    }
}

fn settings(user: User) -> [Instruction; 6] {
    let name = format!("u{user}");
    [
        Instruction::new("size", ["1024", "768", "96"]),
        Instruction::new("audio", ["audio/L16"]),
        Instruction::new("video", <[&str; 0]>::default()),
        Instruction::new("image", ["image/png"]),
        Instruction::new("timezone", ["Europe/Berlin"]),
        Instruction::new("name", [name]),
    ]
}

/// For a witness of the world: who listens there.
pub(super) fn is_reachable(address: Option<SocketAddr>) -> bool {
    address.is_some_and(|address| std::net::TcpStream::connect(address).is_ok())
}
