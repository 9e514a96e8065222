//! Reports, keys and commands.

use super::*;
use crate::commands::{self, CommandKind};
use crate::fleet::{CommandResult, Heartbeat};
use crate::keys::CreateRequest;
use crate::placement::Timestamp;

const ADMIN: Actor = Actor::User {
    uid: Some(0),
    name: None,
};

impl Replica {
    /// A heartbeat of h0 with these users; whether it was news.
    fn hears(&self, boot: &str, seq: u64, users: &[&str]) -> bool {
        let sessions: Vec<_> = users
            .iter()
            .map(|user| {
                serde_json::json!({"id": user, "user": user, "domain": "", "state": "Active"})
            })
            .collect();
        let body = serde_json::json!({
            "protocol_version": 4,
            "agent_id": "h0",
            "boot_id": boot,
            "seq": seq,
            "server": {"hostname": "h0"},
            "health": {"score": 100, "rdp_listener_ok": true},
            "sessions": sessions,
        });
        let heartbeat = Heartbeat::read(body.to_string().as_bytes()).unwrap();
        let now = self.clock.now();
        let host = HostId::from("h0");
        let heard = self
            .intake
            .hear(&self.broker, &host, heartbeat, (now, 100, None));
        heard.taken
    }

    /// Who is on h0 by its last report.
    fn shown(&self) -> Vec<String> {
        let snapshot = self.fleet.snapshot();
        let report = snapshot.hosts[&HostId::from("h0")].report.clone();
        let sessions = report
            .into_iter()
            .flat_map(|report| report.sessions.clone());
        sessions.map(|s| s.user.user().to_owned()).collect()
    }

    fn received(&self) -> Option<Timestamp> {
        let snapshot = self.fleet.snapshot();
        let report = snapshot.hosts[&HostId::from("h0")].report.as_ref();
        report.map(|report| report.received)
    }
}

#[tokio::test]
async fn a_heartbeat_is_heard_everywhere_and_an_older_one_nowhere() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    assert!(one.hears("b", 5, &["ann"]));
    other
        .until("it is heard there", |it| it.shown() == ["ann"])
        .await;
    assert!(!other.hears("b", 5, &["carl"]), "replayed to the other one");
    assert!(!other.hears("b", 4, &["carl"]), "older");
    // The agent goes on at the other one, and comes back.
    assert!(other.hears("b", 6, &["bob"]));
    one.until("it is heard here", |it| it.shown() == ["bob"])
        .await;
    assert!(!one.hears("b", 6, &["carl"]));
    assert!(one.hears("b", 7, &[]));
    other
        .until("nobody is there", |it| it.shown().is_empty())
        .await;
    let third = Replica::start(one.store.another(2), &directory).await;
    assert!(!third.hears("b", 7, &["carl"]), "known from the store");
    assert!(third.hears("c", 1, &["dora"]), "it started anew");
    for replica in [&one, &other] {
        replica
            .until("its start is known", |it| it.shown() == ["dora"])
            .await;
        assert!(!replica.hears("b", 8, &["carl"]), "of a start that is over");
    }
}

#[tokio::test]
async fn of_heartbeats_at_two_replicas_at_once_the_newer_one_is_left_at_both() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    assert!(one.hears("b", 1, &[]));
    other
        .until("it is heard", |it| it.received().is_some())
        .await;
    for round in 1..20 {
        let (newer, older) = match round % 2 {
            0 => (&one, &other),
            _ => (&other, &one),
        };
        let name = format!("user{round}");
        assert!(newer.hears("b", round * 10 + 1, &[&name]));
        let _ = older.hears("b", round * 10, &["nobody"]);
        for replica in [&one, &other] {
            replica
                .until("the newer one is left", |it| it.shown() == [name.as_str()])
                .await;
        }
    }
    // Also in the store.
    let third = Replica::start(one.store.another(2), &directory).await;
    third
        .until("it is stored", |it| it.shown() == ["user19"])
        .await;
}

#[tokio::test]
async fn a_clock_that_is_off_makes_no_report_of_another_replica_old() {
    let directory = directory(1, "");
    let store = Shared::default();
    let day = 86_400_000;
    let one = Replica::at(store.another(1), &directory, Clock::start().ahead_by(-day)).await;
    let other = Replica::start(store, &directory).await;
    assert!(one.hears("b", 1, &["ann"]));
    other.until("it is heard", |it| it.shown() == ["ann"]).await;
    let age = other.clock.now().since(other.received().unwrap());
    assert!(age < Duration::from_secs(60), "{age:?}");
    assert!(other.hears("b", 2, &["bob"]));
    one.until("it is heard back", |it| it.shown() == ["bob"])
        .await;
    assert!(one.received().unwrap() <= one.clock.now());
}

#[tokio::test]
async fn each_report_is_written_once() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    assert!(one.hears("b", 1, &["ann"]));
    other.until("it is heard", |it| it.shown() == ["ann"]).await;
    let written = one.store.version(Kind::Report, "h0");
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(one.store.version(Kind::Report, "h0"), written);
}

#[tokio::test]
async fn a_key_is_good_or_revoked_everywhere() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    let request = CreateRequest {
        role: "admin-read".to_owned(),
        ..CreateRequest::default()
    };
    let made = one
        .keys
        .create(request, ADMIN, &one.directory)
        .await
        .unwrap();
    let is_good = |it: &Replica| it.keys.verify(made.key.expose()).is_ok();
    other.until("it is good there", is_good).await;
    other.keys.revoke(made.id.as_str(), ADMIN).await.unwrap();
    assert!(!is_good(&other));
    one.until("it is revoked here", |it| !is_good(it)).await;
    // Nothing brings it back.
    one.store.whole.store(true, Ordering::SeqCst);
    one.catch_up.now().await.unwrap();
    assert!(!is_good(&one));
    let state = one.keys.list().into_iter().find(|key| key.id == made.id);
    assert!(state.is_some_and(|key| key.revoked_at.is_some()));
}

#[tokio::test]
async fn an_agents_new_key_ends_the_older_one_everywhere_in_the_same_time() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    let wanted = || CreateRequest {
        role: "agent".to_owned(),
        host: Some("h0".to_owned()),
        ..CreateRequest::default()
    };
    let create = |it: &Replica| {
        let (keys, directory) = (it.keys.clone(), Arc::clone(&it.directory));
        async move { keys.create(wanted(), ADMIN, &directory).await.unwrap() }
    };
    let older = create(&one).await;
    other
        .until("the older one is known", |it| {
            it.keys.verify(older.key.expose()).is_ok()
        })
        .await;
    let newer = create(&other).await;
    one.until("the newer one is known", |it| {
        it.keys.list().iter().any(|key| key.id == newer.id)
    })
    .await;
    assert!(one.keys.verify(older.key.expose()).is_ok(), "both are good");
    let wanted = create_refused(&one, wanted()).await;
    assert!(wanted.contains("two keys already"), "{wanted}");
}

async fn create_refused(replica: &Replica, wanted: CreateRequest) -> String {
    let refused = replica.keys.create(wanted, ADMIN, &replica.directory).await;
    refused.unwrap_err().to_string()
}

#[tokio::test]
async fn a_command_is_handed_out_at_one_replica_and_answered_at_another() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    let host = HostId::from("h0");
    let wish = commands::Wish {
        kind: CommandKind::Logoff,
        target: commands::Target {
            user: Some("ann".to_owned()),
            ..commands::Target::default()
        },
        message: None,
        expires: None,
    };
    let asked = one.commands.ask(&host, wish.clone(), "uid 0".to_owned());
    let id = asked.await.unwrap().command.id;
    let mut told = Vec::new();
    other
        .until("it is handed out", |it| {
            told = it.commands.deliver(&host);
            !told.is_empty()
        })
        .await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].id, id);
    let state = |it: &Replica| it.commands.of_host(&host)[0].state(it.clock.now());
    one.until("it was delivered", |it| {
        state(it) == commands::State::Delivered
    })
    .await;
    // The same again, asked for at the other one, is the same command.
    let again = other.commands.ask(&host, wish, "uid 0".to_owned()).await;
    assert!(!again.unwrap().is_new);
    let result = CommandResult {
        id: id.as_str().to_owned(),
        ok: true,
        message: "gone".to_owned(),
    };
    let third = Replica::start(one.store.another(2), &directory).await;
    let results = [result];
    assert_eq!(third.commands.answered(&host, &results).await.len(), 1);
    for replica in [&one, &other] {
        replica
            .until("it was answered", |it| state(it) == commands::State::Done)
            .await;
        assert!(replica.commands.deliver(&host).is_empty());
        assert!(replica.commands.answered(&host, &results).await.is_empty());
    }
}
