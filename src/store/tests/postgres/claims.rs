//! The function of the schema that claims, asked as a replica asks it that lost
//! its answer.

use super::*;

const ONE: &str = "00000000-0000-4000-8000-000000000001";
const OTHER: &str = "00000000-0000-4000-8000-000000000002";

/// What a writing of a replica's comes to that has seen nothing of the others', or all.
fn claim(server: &Server, database: &str, expected: i64, write: u8, replica: &str) -> String {
    let seen = if replica == ONE { 0 } else { i64::MAX };
    let asked = format!(
        "SELECT outcome FROM sessionguard.claim('ann', {expected}, '{{}}', \
         '00000000-0000-4000-9000-0000000000{write:02}', 'a', {seen}, '{replica}')"
    );
    server.psql(database, &asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_asked_for_once_more_stays_what_it_was_whatever_came_between() {
    let Some((server, settings)) = database() else {
        return;
    };
    let _store = open(&settings).await.unwrap();
    let database = &settings.database;
    let claim = |expected, write, replica| claim(server, database, expected, write, replica);
    let version = |what: &str| -> i64 {
        let asked = format!("SELECT {what}");
        server.psql(database, &asked).parse().unwrap()
    };
    let lease = "version FROM sessionguard.leases";
    let host = "version FROM sessionguard.hosts";

    assert_eq!(claim(0, 1, ONE), "done");
    let (written, stood) = (version(lease), version(host));
    assert_eq!(claim(0, 1, ONE), "done");
    // Another gives an order in between.
    server.psql(
        database,
        &format!("SELECT sessionguard.advance('a', '{OTHER}')"),
    );
    assert_eq!(claim(0, 1, ONE), "done");
    assert_eq!(version(lease), written, "it was not written again");
    assert!(version(host) > stood, "by the order alone");
    let stood = version(host);

    // One that was never done is refused then, each time, and tells why.
    for _ in 0..2 {
        assert_eq!(claim(written, 2, ONE), "behind");
        assert_eq!(claim(0, 2, ONE), "conflict");
    }
    assert_eq!((version(lease), version(host)), (written, stood));
    // Also to one's own that was overwritten: it cannot be told to have been done.
    assert_eq!(claim(written, 3, OTHER), "done");
    assert_eq!(claim(0, 1, ONE), "conflict");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_replica_of_the_first_schema_orders_has_to_be_seen_by_all() {
    let Some((server, settings)) = database() else {
        return;
    };
    let _store = open(&settings).await.unwrap();
    let database = &settings.database;
    assert_eq!(claim(server, database, 0, 1, ONE), "done");
    let order = "SELECT sessionguard.edit('{mode}', '{a}', '{0}', '{drain}', gen_random_uuid())";
    assert_eq!(server.psql(database, order), "t");
    let written = server.psql(database, "SELECT version FROM sessionguard.leases");
    let written = written.parse().unwrap();
    assert_eq!(claim(server, database, written, 2, ONE), "behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_counted_at_another_server_leaves_no_room_at_this_one() {
    let Some((server, settings)) = database() else {
        return;
    };
    let _store = open(&settings).await.unwrap();
    let database = &settings.database;
    let claim = |user: &str, seen: &str, replica: &str| {
        let asked = format!(
            "SELECT outcome FROM sessionguard.claim('{user}', 0, '{{}}', gen_random_uuid(), \
             'a', {seen}, 1000, '{replica}')"
        );
        server.psql(database, &asked)
    };
    let seen = || {
        let asked = "SELECT version || ', ' || claims FROM sessionguard.hosts";
        server.psql(database, asked)
    };
    assert_eq!(claim("ann", "0, 0", OTHER), "done");
    let before = seen();
    assert_eq!(claim("bob", &before, OTHER), "done");
    assert_eq!(claim("carl", &before, ONE), "done");
    // Another server took over, which had not heard of the last claims.
    let (version, claims) = before.split_once(", ").unwrap();
    let failed_over =
        format!("UPDATE sessionguard.hosts SET server = 1, version = {version}, claims = {claims}");
    let last = seen();
    server.psql(database, &failed_over);
    assert_eq!(claim("dora", "0, 0", ONE), "behind");
    assert_eq!(claim("dora", &seen(), ONE), "done");
    // There is one claim since, and it looks like fewer than had been seen.
    assert_eq!(claim("emil", &last, OTHER), "behind");
    assert_eq!(claim("emil", &seen(), OTHER), "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_waits_for_the_claim_that_is_being_written() {
    let Some((server, settings)) = database() else {
        return;
    };
    let one = open(&settings).await.unwrap();
    let other = Arc::new(open(&settings).await.unwrap());
    let footing = Footing {
        host: HostId::from("a"),
        standing: Standing::default(),
        room: u32::MAX,
    };
    let (ann, first) = (key("ann"), record("a", "t1"));
    let begun = one.begin_claim(&ann, &first, Some(&footing)).await;
    let ordering = {
        let other = Arc::clone(&other);
        let order = contract::documents::edit(Kind::Mode, "a", None, Some("maintenance"));
        tokio::spawn(async move { other.edit(vec![order], true).await })
    };
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND datname = current_database()";
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while server.psql(&settings.database, waits) != "1" {
        assert!(std::time::Instant::now() < until);
    }
    assert!(!ordering.is_finished());
    begun.commit().await;
    assert_eq!(ordering.await.unwrap(), Ok(Edited::Done));
    // Whoever gave it knows of the claim that was first.
    let told = other.changes(Mark::default()).await.unwrap();
    assert_eq!(told.leases.len(), 1);
    let late = record("a", "t2");
    let late = one
        .replace(&key("bob"), Version::ABSENT, late, Some(footing))
        .await;
    assert_eq!(late, Ok(Replaced::Behind));
}
