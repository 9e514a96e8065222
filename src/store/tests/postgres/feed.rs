//! The feed when connections are lost, and what it costs the database.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_connection_it_tells_all_there_is_and_then_goes_on() {
    let Some((server, settings)) = database() else {
        return;
    };
    let store = open(&settings).await.unwrap();
    let written = store
        .replace(&key("ann"), Version::ABSENT, record("a", "t1"), None)
        .await;
    written.unwrap();
    let mark = store.changes(Mark::default()).await.unwrap().mark;
    assert!(!store.changes(mark).await.unwrap().whole);
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    server.psql(&settings.database, cut);
    // Who was told to end may answer once more before it does.
    let until = std::time::Instant::now() + Duration::from_secs(10);
    let told = loop {
        let told = store.changes(mark).await.unwrap();
        if told.whole {
            break told;
        }
        assert!(std::time::Instant::now() < until);
    };
    assert_eq!(told.leases.len(), 1);
    assert!(!store.changes(told.mark).await.unwrap().whole);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_takes_no_writes_any_more_is_not_listened_to() {
    let Some((_, settings)) = database() else {
        return;
    };
    let store = open(&settings).await.unwrap();
    assert!(store.tells_nothing_read_only().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_lately_is_found_by_an_index_however_much_there_is() {
    let Some((server, settings)) = database() else {
        return;
    };
    let store = open(&settings).await.unwrap();
    let many = "INSERT INTO sessionguard.leases (key, record, write, transaction) \
                SELECT 'user' || n, repeat('x', 300), gen_random_uuid(), 3 + n / 20 \
                FROM generate_series(1, 20000) AS n; \
                INSERT INTO sessionguard.documents (kind, id, content, write, transaction) \
                SELECT 'report', n, repeat('x', 300), gen_random_uuid(), 3 + n / 20 \
                FROM generate_series(1, 20000) AS n; \
                ANALYZE sessionguard.leases; ANALYZE sessionguard.documents";
    server.psql(&settings.database, many);
    let plan = server.psql(&settings.database, &Postgres::explained(1_001));
    for index in ["leases_by_transaction", "documents_by_transaction"] {
        assert!(plan.contains(index), "{plan}");
    }
    for table in ["leases", "documents"] {
        assert!(!plan.contains(&format!("Seq Scan on {table}")), "{plan}");
    }
    drop(store);
}
