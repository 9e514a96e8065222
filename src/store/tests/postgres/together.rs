//! Several stores on one database.

use super::*;

const HOUR: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_replicas_wins_a_claim_and_all_read_it() {
    let Some((_, settings)) = database() else {
        return;
    };
    let mut replicas = Vec::new();
    for _ in 0..4 {
        replicas.push(Arc::new(open(&settings).await.unwrap()));
    }
    let ann = key("ann");
    let mut claims = tokio::task::JoinSet::new();
    for n in 0..40 {
        let (replica, ann) = (Arc::clone(&replicas[n % 4]), ann.clone());
        let record = record("a", &format!("t{n}"));
        claims.spawn(async move { replica.replace(&ann, Version::ABSENT, record, None).await });
    }
    let outcomes = claims.join_all().await;
    let won = outcomes
        .iter()
        .filter(|one| one.as_ref().is_ok_and(|one| one.is_done()));
    assert_eq!(won.count(), 1, "{outcomes:?}");
    let lost = outcomes
        .iter()
        .filter(|one| **one == Ok(Replaced::Conflict));
    assert_eq!(lost.count(), 39, "{outcomes:?}");
    let version = replicas[0].read(&ann).await.unwrap().version;
    for replica in &replicas {
        assert_eq!(replica.read(&ann).await.unwrap().version, version);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_at_once_make_the_schema_once() {
    let Some((server, settings)) = database() else {
        return;
    };
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let settings = settings.clone();
        starts.spawn(async move { open(&settings).await.map(drop) });
    }
    for started in starts.join_all().await {
        assert_eq!(started, Ok(()));
    }
    let steps = "SELECT string_agg(number::text, ',' ORDER BY number) FROM sessionguard.schema";
    assert_eq!(server.psql(&settings.database, steps), "1,2,3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_a_newer_release_is_refused_and_left_alone() {
    let Some((server, settings)) = database() else {
        return;
    };
    drop(open(&settings).await.unwrap());
    let newer = "INSERT INTO sessionguard.schema (number) VALUES (99)";
    server.psql(&settings.database, newer);
    let error = open(&settings).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerDatabase {
                found: 99,
                known: 3,
                ..
            }
        ),
        "{error}"
    );
    let said = error.to_string();
    assert!(
        said.contains(&settings.database) && said.contains("newer release"),
        "{said}"
    );
    let steps = "SELECT count(*) FROM sessionguard.schema";
    assert_eq!(server.psql(&settings.database, steps), "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_end_by_the_clock_of_the_database_whatever_that_of_the_replica_says() {
    let Some((server, settings)) = database() else {
        return;
    };
    let ours = Clock::start();
    let theirs = Clock::start().ahead_by(HOUR);
    let one = Postgres::open(&settings, None, ours).await.unwrap();
    let other = Postgres::open(&settings, None, theirs).await.unwrap();
    let (farm, host, tunnel) = (
        FarmId::from("office"),
        HostId::from("a"),
        TunnelId::from("t"),
    );
    let mut record = LeaseRecord::default();
    assert!(record.claim(&farm, &host, &tunnel, Trust::Plain, theirs.now()));
    let ann = key("ann");
    let written = other.replace(&ann, Version::ABSENT, record.clone(), None);
    assert!(written.await.unwrap().is_done());

    // The one whose clock is an hour ahead reads its own record back.
    let back = other.read(&key("ann")).await.unwrap().record;
    let until = |record: &LeaseRecord, now| record.view(&farm, now).map(|view| view.until);
    let drift = until(&back, theirs.now()).unwrap().as_millis();
    let drift = drift.abs_diff(until(&record, theirs.now()).unwrap().as_millis());
    assert!(drift < 1_000, "{drift} ms");
    // For the other it ends in as many seconds, by its own clock.
    let here = one.read(&key("ann")).await.unwrap().record;
    let left = until(&here, ours.now()).unwrap().since(ours.now());
    assert!(
        left > Duration::from_secs(15) && left <= Duration::from_secs(46),
        "{left:?}"
    );
    // And the database holds its own moment.
    let stored = "SELECT (record::json->'leases'->'office'->'holders'->0->>'until')::bigint \
                  - extract(epoch FROM clock_timestamp()) * 1000 FROM sessionguard.leases";
    let left: f64 = server.psql(&settings.database, stored).parse().unwrap();
    assert!(left > 10_000.0 && left < 46_000.0, "{left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_has_a_name_and_no_setting_or_lock_outlives_it() {
    let Some((server, settings)) = database() else {
        return;
    };
    let store = open(&settings).await.unwrap();
    let ann = key("ann");
    let written = store.replace(&ann, Version::ABSENT, record("a", "t1"), None);
    written.await.unwrap();
    store.after(None, 10_000).await.unwrap();
    Documents::documents(&store, Kind::Mode).await.unwrap();
    let log = server.log();
    assert!(
        log.contains("execute <unnamed>: SELECT outcome, written FROM sessionguard.claim("),
        "statements are logged"
    );
    // A pooler before another database has statements of its own.
    let ours = format!("{} ", settings.database);
    for line in log.lines().filter(|line| line.starts_with(&ours)) {
        let named = line.contains("execute ") && !line.contains("execute <unnamed>");
        assert!(!named, "{line}");
        for word in ["LISTEN ", "statement: SET ", "pg_advisory_lock", "PREPARE "] {
            assert!(!line.contains(word), "{line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_removed_leaves_the_database_after_a_day() {
    let Some((server, settings)) = database() else {
        return;
    };
    let store = open(&settings).await.unwrap();
    let bounds = Bounds {
        since: Timestamp::default(),
        rows: u64::MAX,
        bytes: u64::MAX,
    };
    for user in ["ann", "bob"] {
        let (key, record) = (key(user), record("a", user));
        store
            .replace(&key, Version::ABSENT, record, None)
            .await
            .unwrap();
        let version = store.read(&key).await.unwrap().version;
        let removed = store
            .replace(&key, version, LeaseRecord::default(), None)
            .await;
        assert!(removed.unwrap().is_done());
    }
    let age = "UPDATE sessionguard.leases SET changed_at = now() - interval '25 hours' \
               WHERE key LIKE '%ann'";
    server.psql(&settings.database, age);
    assert_eq!(store.prune(bounds).await, Ok(0));
    let left = server.psql(&settings.database, "SELECT key FROM sessionguard.leases");
    assert!(left.ends_with("bob") && !left.contains("ann"), "{left}");
}
