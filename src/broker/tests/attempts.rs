//! What is found out about a host on the way there, and what tunnels met.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::fleet::Check;

const CONFIRM: [u8; 11] = [3, 0, 0, 11, 6, 0xd0, 0, 0, 0x12, 0x34, 0];

const LOGONS: usize = 60;

/// One host `a` that listens there and takes sixty logons at once.
fn at_port(port: u16) -> Arc<Directory> {
    let rules = Rules {
        max_pending_logons: 100,
        ..Rules::default()
    };
    let known = ruled(&["a"], rules);
    let hosts = known.hosts().cloned().map(|host| Host {
        address: "127.0.0.1".to_owned(),
        port,
        ..host
    });
    let (farms, resources) = (known.farms().cloned(), known.resources().cloned());
    let rules = known.rules().clone();
    Arc::new(Directory::new(rules, hosts, farms, resources))
}

#[tokio::test]
async fn sixty_logons_at_once_on_a_host_make_one_connection_to_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut asking, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = asking.read(&mut [0; 64]).await;
            let _ = asking.write_all(&CONFIRM).await;
        }
    });
    let house = House::open(at_port(port), |embedded| Arc::new(embedded)).await;
    let mut held = Vec::new();
    for n in 0..LOGONS {
        held.push(house.place(&format!("user{n}"), &format!("t{n}")).await);
    }
    let mut asking = JoinSet::new();
    for (host, hold) in held {
        let broker = house.broker.clone();
        asking.spawn(async move {
            let found = broker.check(&host).await;
            drop(hold);
            found
        });
    }
    let found = asking.join_all().await;
    assert_eq!(found, vec![Check::Answers; LOGONS]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn attempts_of_two_users_at_two_resources_keep_newcomers_away_and_nobody_else() {
    let house = House::ruled(&["a"], |rules| rules.default_farm = Some("office".into())).await;
    let (_, at_home) = house.place("dan", "t0").await;
    at_home.stood();
    let (_, ann) = house.place("ann", "t1").await;
    ann.failed();
    drop(ann);
    assert!(matches!(
        house.outcome("cid", "t2").await,
        Outcome::Placed(_)
    ));
    // Any host of the farm, and no resource.
    let anywhere = Request {
        carriers: Carriers {
            any_host: true,
            ..Carriers::default()
        },
        ..request("bob")
    };
    let (_, bob) = house.place_as(&anywhere, "t3").await;
    bob.failed();
    drop(bob);
    let unreachable = Outcome::Refused(Refusal::Unreachable("office".into()));
    assert_eq!(house.outcome("eve", "t4").await, unreachable);
    // Who is there already stays, and that the tunnel stood is good for all.
    let (host, again) = house.place("dan", "t5").await;
    assert_eq!(host.as_str(), "a");
    again.stood();
    assert!(matches!(
        house.outcome("eve", "t6").await,
        Outcome::Placed(_)
    ));
}
