//! Restart upon restart under a stream of users: nobody is refused, no tunnel ends before its
//! user does, and nobody has two hosts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{HANDED_OVER, on, settled};
use crate::suite::asking::asked;
use crate::support::{Broker, Names, ScriptedGuacd, Site, Stage, Visit, Visitor, postgres};

/// From one user to the next.
const FIFTY_A_SECOND: Duration = Duration::from_millis(20);

/// From one restart to the next, besides what it takes.
const SETTLED: Duration = Duration::from_millis(250);

/// How many people they are, so that many return, some beside themselves.
const PEOPLE: usize = 90;

/// Which users stay to the very end: one in so many.
const STAYS: usize = 250;

/// Where each user's tunnels are, by port, and who was ever found on two hosts.
#[derive(Default)]
struct Places {
    open: BTreeMap<String, (String, usize)>,
    doubled: Vec<String>,
}

/// A guacd whose desktops answer each key, and which knows who is where.
fn guacd(places: &Arc<Mutex<Places>>) -> ScriptedGuacd {
    let (names, places) = (Names::rdp("1.6.0"), Arc::clone(places));
    ScriptedGuacd::playing(move |peer| {
        peer.shake_hands(&names)?;
        let (user, port) = (
            peer.value("username").to_owned(),
            peer.value("port").to_owned(),
        );
        {
            let mut places = places.lock().unwrap();
            let (at, count) = places.open.entry(user.clone()).or_insert((port.clone(), 0));
            *count += 1;
            if *at != port {
                let found = format!("{user} on {at} and {port}");
                places.doubled.push(found);
            }
        }
        let mut answered = peer.wire.send(b"4.sync,5.12345,1.1;");
        while answered.is_ok() && peer.wire.exact(KEY.len()).is_ok_and(|key| key == KEY) {
            answered = peer.wire.send(BLOB);
        }
        let mut places = places.lock().unwrap();
        if let Some((_, count)) = places.open.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                places.open.remove(&user);
            }
        }
        Ok(())
    })
}

const KEY: &[u8] = b"3.key,5.65307,1.1;";
const BLOB: &[u8] = b"4.blob,1.1,4.AAAA;";

/// A user from the click to the end, which they choose.
fn uses(address: std::net::SocketAddr, nth: usize, over: &AtomicBool) {
    let stays = nth.is_multiple_of(STAYS);
    let user = match stays {
        true => format!("stays{nth}"),
        false => format!("user{}", nth % PEOPLE),
    };
    let mut visitor = Visitor::dial(address);
    visitor.click(&Visit::office(&user));
    visitor.ready();
    visitor.hear_past_nops("sync");
    let leaves = Instant::now() + Duration::from_millis(u64::try_from(nth % 7).unwrap() * 150);
    loop {
        visitor.wire.send(KEY).unwrap();
        visitor.hear_past_nops("blob");
        let ends = match stays {
            true => over.load(Ordering::SeqCst),
            false => Instant::now() >= leaves,
        };
        if ends {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// What is known of a few refusals.
fn explained(stage: &Stage, old: &[Broker]) -> String {
    let refused = old.iter().flat_map(|broker| broker.lines("Refused"));
    let ids = refused.filter_map(|line| line["decision_id"].as_str().map(str::to_owned));
    let explained = ids
        .take(3)
        .map(|id| asked(&stage.site, &["explain", "--decision", &id]).1);
    explained.collect::<Vec<_>>().join("\n")
}

/// Sets them when it is dropped.
struct Ends<'a>([&'a AtomicBool; 2]);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0
            .iter()
            .for_each(|it| it.store(true, Ordering::SeqCst));
    }
}

fn restart_under_load(restarts: usize, pause: Duration, store: impl FnOnce(Site) -> Site) {
    let places = Arc::new(Mutex::new(Places::default()));
    // A slow machine has many users between click and desktop: none shall wait for others here.
    let roomy = |site: Site| store(site.with("[broker]\nmax_pending_logons = 200\n"));
    let mut stage = settled(Stage::adjusted(guacd(&places), 4, roomy));
    // Some are there from the first process on, and still after the last.
    let (address, over) = (stage.broker.address(), Arc::new(AtomicBool::new(false)));
    let (came, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (coming, leaving) = (&came, &enough);
    let old = thread::scope(|scope| {
        let stream = scope.spawn(|| {
            let mut users = Vec::new();
            let began = Instant::now();
            while !leaving.load(Ordering::SeqCst) {
                let (nth, over) = (users.len(), Arc::clone(&over));
                users.push(thread::spawn(move || uses(address, nth, &over)));
                coming.store(users.len(), Ordering::SeqCst);
                let due = pause * u32::try_from(users.len()).unwrap();
                thread::sleep(due.saturating_sub(began.elapsed()));
            }
            users
        });
        // Also where a restart fails: nobody would end the stream then.
        let _ends = Ends([&enough, &over]);
        let mut old: Vec<Broker> = Vec::new();
        for _ in 0..restarts {
            let next = stage.site.take_over();
            let before = std::mem::replace(&mut stage.broker, next);
            before.wait(HANDED_OVER, |_| true);
            // Whoever replaces one after the other looks at each before the next.
            stage.broker.wait("Placed", |_| true);
            thread::sleep(SETTLED);
            old.push(before);
        }
        enough.store(true, Ordering::SeqCst);
        let users = stream.join().unwrap();
        over.store(true, Ordering::SeqCst);
        let all = users.len();
        let ended = users.into_iter().map(thread::JoinHandle::join);
        let failed = ended.filter(Result::is_err).count();
        let why = explained(&stage, &old);
        assert_eq!(failed, 0, "of {all} users over {restarts} restarts: {why}");
        old
    });
    assert!(
        came.load(Ordering::SeqCst) > restarts,
        "hardly anybody came"
    );
    assert_eq!(places.lock().unwrap().doubled, Vec::<String>::new());
    for old in old {
        assert!(old.exit().success());
    }
    stage.broker.signal("TERM");
    assert!(stage.broker.exit().success());
}

#[test]
fn a_few_restarts_under_load_refuse_nobody_and_end_no_tunnel() {
    // Others share the machine.
    restart_under_load(4, Duration::from_millis(100), |site| site);
}

#[test]
#[ignore = "takes the machine for a while: tests/run runs it alone"]
fn a_hundred_rolling_restarts_refuse_nobody_and_end_no_tunnel() {
    restart_under_load(100, FIFTY_A_SECOND, |site| site);
}

#[test]
#[ignore = "takes the machine for a while: tests/run runs it alone"]
fn a_hundred_rolling_restarts_on_a_database_refuse_nobody_and_end_no_tunnel() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let database = server.database();
    restart_under_load(100, FIFTY_A_SECOND, |site| on(site, server.port, &database));
}
