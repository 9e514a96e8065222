//! The hosts' agents: each reports every second, to whichever replica takes it. Some reports take
//! their time on the way and arrive behind newer ones, at another replica.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{World, http};
use crate::chaos::history::{Host, Replica, What};
use crate::chaos::plan::REPLICAS;
use crate::support::Dice;

const PAUSE: Duration = Duration::from_millis(1000);
const PATIENCE: Duration = Duration::from_secs(3);

/// How much later than the next one a late report arrives.
const LATE: Duration = Duration::from_secs(3);

pub(super) async fn run(world: Arc<World>, host: Host, seed: u64) {
    let mut dice = Dice::of(seed.wrapping_mul(31).wrapping_add(u64::from(host) + 1));
    let mut below = move |bound: u64| (dice.roll() >> 16) % bound;
    let mut tick = interval(PAUSE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seq = 0;
    loop {
        tick.tick().await;
        if world.is_ended() {
            return;
        }
        let replica = u8::try_from(below(REPLICAS.into())).unwrap();
        seq += 1;
        let body = body(&world, host, seq);
        if below(12) == 0 {
            let (world, elsewhere) = (Arc::clone(&world), (replica + 1) % REPLICAS);
            tokio::spawn(async move {
                sleep(LATE).await;
                report(&world, (host, seq), elsewhere, &body).await;
            });
        } else {
            report(&world, (host, seq), replica, &body).await;
        }
    }
}

async fn report(world: &World, (host, seq): (Host, u64), replica: Replica, body: &Value) {
    let socket = world.replicas[usize::from(replica)].files.socket();
    let head = format!("X-Agent-ID: rds{host}\r\n");
    let to = ("POST", "/api/v1/agents/heartbeat");
    world.history.note(What::Reported { host, seq, replica });
    let answer = http::ask(&socket, to, &head, body, PATIENCE).await;
    if let Ok((200, told)) = answer {
        let taken = told["taken"] == true;
        world.history.note(What::Answered { host, seq, taken });
    }
}

fn body(world: &World, host: Host, seq: u64) -> Value {
    json!({
        "protocol_version": 4, "agent_id": format!("rds{host}"), "boot_id": "first", "seq": seq,
        "server": {
            "hostname": format!("RDS{host}"), "os": "Windows", "uptime_seconds": 100,
            "memory_total": 1000, "memory_available": 900, "cpu_percent": 1.0,
        },
        "health": { "score": 100, "rdp_listener_ok": true, "checks": [] },
        "sessions": world.hosts.report(host),
        "time": jiff::Timestamp::now().to_string(),
    })
}
