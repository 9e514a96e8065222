//! Getting in, and what is said where that fails.

use std::path::Path;

use super::*;
use crate::config::GuacdTls;
use crate::tls::Certificates;

/// What opening says; the password is in none of it.
async fn refused(settings: &PostgresSettings) -> String {
    let opened = tokio::time::timeout(Duration::from_secs(30), open(settings)).await;
    let error = opened.unwrap().unwrap_err();
    let said = format!("{error}");
    for text in [&said, &format!("{error:?}"), &format!("{settings:?}")] {
        assert!(
            !text.contains(PASSWORD) && !text.contains("not-the-password"),
            "{text}"
        );
    }
    assert!(said.contains(&settings.database), "{said}");
    assert!(said.contains(&settings.address.to_string()), "{said}");
    said
}

fn hasty(settings: PostgresSettings) -> PostgresSettings {
    PostgresSettings {
        query_timeout: Duration::from_secs(3),
        ..settings
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_says_what_to_do() {
    let Some((server, settings)) = database() else {
        return;
    };
    let settings = hasty(settings);
    let wrong = PostgresSettings {
        password: Some(Secret::new("not-the-password".to_owned())),
        ..settings.clone()
    };
    let said = refused(&wrong).await;
    assert!(
        said.contains("authentication failed") && said.contains("password_file"),
        "{said}"
    );

    let missing = PostgresSettings {
        database: "nowhere".to_owned(),
        ..settings.clone()
    };
    let said = refused(&missing).await;
    assert!(said.contains("create the database"), "{said}");

    let role = "CREATE ROLE guest LOGIN PASSWORD 'x9-guest-guest'; \
                REVOKE CREATE ON DATABASE ";
    server.psql(
        &settings.database,
        &format!("{role}{} FROM PUBLIC", settings.database),
    );
    let guest = PostgresSettings {
        user: "guest".to_owned(),
        password: Some(Secret::new("x9-guest-guest".to_owned())),
        ..settings.clone()
    };
    let said = refused(&guest).await;
    assert!(
        said.contains("permission denied") && said.contains("own the database"),
        "{said}"
    );

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let nobody = PostgresSettings {
        address: HostPort {
            host: "127.0.0.1".to_owned(),
            port,
        },
        ..settings
    };
    let said = refused(&nobody).await;
    assert!(said.contains("see that it runs"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_takes_no_writes_is_told_from_the_primary() {
    let Some((server, settings)) = database() else {
        return;
    };
    let settings = hasty(settings);
    let standby = format!(
        "ALTER DATABASE {} SET default_transaction_read_only = on",
        settings.database
    );
    server.psql("postgres", &standby);
    let said = refused(&settings).await;
    assert!(
        said.contains("takes no writes") && said.contains("primary"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tls_the_certificate_is_looked_at() {
    let Some((server, settings)) = database() else {
        return;
    };
    let settings = hasty(settings);
    let tls = |ca_file: &Path, name: &str| GuacdTls {
        ca_file: Some(ca_file.to_owned()),
        pins: Vec::new(),
        server_name: name.to_owned(),
    };
    let opened = async |tls: &GuacdTls| {
        let connector = Certificates::default().database(tls).unwrap();
        Postgres::open(&settings, Some(connector), Clock::start()).await
    };
    let own = server.certificate();
    let store = opened(&tls(&own, "db.example.com")).await.unwrap();
    store.after(None, 10_000).await.unwrap();
    let secured = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE application_name = 'sessionguard' AND datname = current_database()";
    assert_eq!(server.psql(&settings.database, secured), "t");

    let another = rcgen::generate_simple_self_signed(["db.example.com".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("another.crt");
    std::fs::write(&file, another.cert.pem()).unwrap();
    for (ca_file, name) in [(&file, "db.example.com"), (&own, "other.example.com")] {
        let said = opened(&tls(ca_file, name)).await.unwrap_err().to_string();
        assert!(
            said.contains("does not vouch") && said.contains("pin_sha256 in [store]"),
            "{said}"
        );
    }
}
