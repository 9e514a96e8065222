//! A connection that is lost, and a database that says nothing.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What the wire between us and the database does.
#[derive(Clone, Copy, PartialEq)]
enum Wire {
    Whole = 0,
    /// The next change reaches the database, and its answer is lost with the
    /// connection.
    LosesAnswer = 1,
    /// The next change is lost with the connection.
    LosesChange = 2,
}

/// A wire that can be cut at the moment that matters.
struct Cable {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Cable {
    async fn lay(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(Wire::Whole as u8));
        let shared = Arc::clone(&mode);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                tokio::spawn(carry(near, far, Arc::clone(&shared)));
            }
        });
        Self { port, mode }
    }

    fn next(&self, wire: Wire) {
        self.mode.store(wire as u8, Ordering::SeqCst);
    }

    /// Whether it was cut as it was told to.
    fn was_cut(&self) -> bool {
        self.mode.load(Ordering::SeqCst) == Wire::Whole as u8
    }
}

async fn carry(mut near: TcpStream, mut far: TcpStream, mode: Arc<AtomicU8>) {
    let (mut asked, mut said) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            count = near.read(&mut asked) => {
                let Ok(count @ 1..) = count else { return };
                let bytes = &asked[..count];
                let words: &[&[u8]] = &[b"sessionguard.claim(", b"sessionguard.edit("];
                let is_change = words.iter().any(|word| bytes.windows(word.len()).any(|part| part == *word));
                if is_change {
                    match mode.swap(Wire::Whole as u8, Ordering::SeqCst) {
                        1 => {
                            far.write_all(bytes).await.unwrap();
                            // It has answered: so it is done.
                            far.read_exact(&mut said[..1]).await.unwrap();
                            return;
                        }
                        2 => return,
                        _ => {}
                    }
                }
                far.write_all(bytes).await.unwrap();
            }
            count = far.read(&mut said) => {
                let Ok(count @ 1..) = count else { return };
                near.write_all(&said[..count]).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_was_lost_is_known_to_be_ones_own() {
    let Some((_, mut settings)) = database() else {
        return;
    };
    let cable = Cable::lay(settings.address.port).await;
    settings.address.port = cable.port;
    let store = open(&settings).await.unwrap();
    let on = |host: &str| {
        let (host, standing) = (HostId::from(host), Standing::default());
        let room = 0;
        Some(Footing {
            host,
            standing,
            room,
        })
    };
    for (user, wire) in [("ann", Wire::LosesAnswer), ("bob", Wire::LosesChange)] {
        let key = key(user);
        cable.next(wire);
        let claimed = store
            .replace(&key, Version::ABSENT, record("a", "t1"), on("a"))
            .await;
        assert!(claimed.unwrap().is_done(), "{user}");
        assert!(cable.was_cut());
        let first = store.read(&key).await.unwrap();
        assert!(first.record.tunnels(Timestamp::default()).count() == 1);

        cable.next(wire);
        let moved = store
            .replace(&key, first.version, record("b", "t2"), on("b"))
            .await;
        assert!(moved.unwrap().is_done(), "{user}");
        assert!(cable.was_cut());
        let second = store.read(&key).await.unwrap();
        assert!(second.version > first.version);

        // A conflict is one as well: the loser does not take the winner's write for its own.
        cable.next(wire);
        let late = store
            .replace(&key, first.version, record("c", "t3"), None)
            .await;
        assert!(!late.as_ref().is_ok_and(|late| late.is_done()), "{late:?}");
        assert!(cable.was_cut());
        assert_eq!(store.read(&key).await.unwrap().version, second.version);

        cable.next(wire);
        let gone = store
            .replace(&key, second.version, LeaseRecord::default(), None)
            .await;
        assert!(gone.unwrap().is_done(), "{user}");
        assert!(cable.was_cut());
        assert_eq!(store.read(&key).await, Ok(Versioned::default()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_whose_answer_was_lost_is_made_once() {
    let Some((_, mut settings)) = database() else {
        return;
    };
    let cable = Cable::lay(settings.address.port).await;
    settings.address.port = cable.port;
    let store = open(&settings).await.unwrap();
    let edit = |id: &str, expected, text: Option<&str>| {
        contract::documents::edit(Kind::Mode, id, expected, text)
    };
    for wire in [Wire::LosesAnswer, Wire::LosesChange] {
        cable.next(wire);
        let both = ["a", "b"].map(|id| edit(id, Some(Version::ABSENT), Some("drain")));
        assert_eq!(store.edit(both.to_vec(), true).await, Ok(Edited::Done));
        assert!(cable.was_cut());
        let found = store.documents(Kind::Mode).await.unwrap();
        assert_eq!(found.len(), 2);

        cable.next(wire);
        let gone = found
            .iter()
            .map(|one| edit(&one.id, Some(one.version), None));
        assert_eq!(store.edit(gone.collect(), true).await, Ok(Edited::Done));
        assert!(cable.was_cut());
        assert_eq!(store.documents(Kind::Mode).await, Ok(Vec::new()));
    }
    // What may have become newer meanwhile is not written a second time.
    cable.next(Wire::LosesAnswer);
    let report = contract::documents::edit(Kind::Report, "a", None, Some("fine"));
    let lost = store.edit(vec![report], false).await.unwrap_err();
    assert!(cable.was_cut());
    assert!(matches!(lost, StoreError::Database { .. }), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_database_is_given_up_in_time_and_used_again_when_it_is_back() {
    let Some(server) = server::server() else {
        return;
    };
    let settings = PostgresSettings {
        query_timeout: Duration::from_millis(1500),
        connect_timeout: Duration::from_millis(1500),
        pool_size: 2,
        ..settings(server.port, "postgres")
    };
    let store = Arc::new(open(&settings).await.unwrap());
    server.freeze();
    let began = tokio::time::Instant::now();
    let mut asking = tokio::task::JoinSet::new();
    // More than there are connections.
    for n in 0..10 {
        let store = Arc::clone(&store);
        asking.spawn(async move { store.read(&key(&format!("user{n}"))).await });
    }
    for answer in asking.join_all().await {
        assert!(
            matches!(answer, Err(StoreError::Database { .. })),
            "{answer:?}"
        );
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    server.thaw();
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while let Err(error) = store
        .replace(&key("ann"), Version::ABSENT, record("a", "t1"), None)
        .await
    {
        assert!(tokio::time::Instant::now() < until, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_server_ended_are_replaced_without_an_error() {
    let Some((server, settings)) = database() else {
        return;
    };
    let store = open(&settings).await.unwrap();
    for _ in 0..5 {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE application_name = 'sessionguard' AND datname = current_database()";
        assert_ne!(server.psql(&settings.database, end), "0");
        store.read(&key("ann")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_holds_nobody_up() {
    let Some((server, mut settings)) = database() else {
        return;
    };
    settings.pool_size = 1;
    let store = Arc::new(open(&settings).await.unwrap());
    let ann = key("ann");
    let written = store.replace(&ann, Version::ABSENT, record("a", "t1"), None);
    written.await.unwrap();
    let known = store.read(&ann).await.unwrap();
    // Somebody holds the row, so that the claim waits in the database.
    let holder = open(&settings).await.unwrap();
    let held = holder.hold_lease(&key("ann")).await;
    let waiting = {
        let store = Arc::clone(&store);
        let version = known.version;
        tokio::spawn(async move {
            store
                .replace(&key("ann"), version, record("b", "t2"), None)
                .await
        })
    };
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND datname = current_database()";
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while server.psql(&settings.database, waits) != "1" {
        assert!(std::time::Instant::now() < until);
    }
    waiting.abort();
    assert_eq!(store.read(&key("bob")).await, Ok(Versioned::default()));
    drop(held);
}
