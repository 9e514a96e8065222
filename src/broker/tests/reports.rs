//! What hosts report changes tunnels and leases.

use super::*;
use crate::placement::{Report, ReportNumber, Session, SessionState, UserKey};

fn user(name: &str) -> UserKey {
    UserKey::new(name, "").unwrap()
}

pub(super) fn session(
    name: &str,
    at: crate::placement::Timestamp,
    client: Option<&str>,
) -> Session {
    Session {
        user: user(name),
        state: SessionState::Active,
        latest: at,
        client_name: client.map(str::to_owned),
    }
}

impl House {
    /// The `seq`th report of this host.
    pub(super) fn reports(&self, host: &str, seq: u64, sessions: Vec<Session>) {
        let now = self.broker.clock.now();
        let report = Report {
            received: now,
            taken: now,
            order: Some(ReportNumber { boot: 1, seq }),
            sessions,
            health: 100,
            rdp_listener_ok: true,
            cpu_percent: None,
            memory_used_percent: None,
            missing_remote_apps: Vec::new(),
            overclaims: false,
        };
        assert!(self.broker.hear(&host.into(), report));
    }

    async fn eventually(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let wait = async {
            while !so(self) {
                tokio::task::yield_now().await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(10), wait).await;
        assert!(done.is_ok(), "{what}");
    }

    pub(super) fn at(&self) -> crate::placement::Timestamp {
        self.broker.clock.now()
    }
}

#[tokio::test]
async fn a_login_in_doubt_is_believed_once_its_host_reports_it() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place_as(&signed_in("ann", "mallory"), "t1").await;
    hold.stood();
    house.reports("a", 1, vec![session("ann", house.at(), None)]);
    let known = |house: &House| house.fleet.snapshot().people.knows(&user("x\\y"));
    assert!(!known(&house));
    drop(hold);
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
}

#[tokio::test]
async fn a_tunnel_of_nobodys_gets_its_user_and_a_lease() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place("", "0123456789abcdef").await;
    hold.stood();
    let tag = TunnelId::from("0123456789abcdef").tag();
    house.reports("a", 1, vec![session("ann", house.at(), Some(&tag))]);
    house
        .lease_becomes("ann", Some(("a", LeaseState::Live)))
        .await;
    let snapshot = house.fleet.snapshot();
    let view = &snapshot.hosts[&HostId::from("a")];
    assert_eq!(view.tunnels[0].user, Some(user("ann")));
    assert_eq!(view.load(house.at()).active, 1);
    drop(hold);
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
}

#[tokio::test]
async fn a_tunnel_that_ended_before_its_user_was_known_leaves_no_lease() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place("", "0123456789abcdef").await;
    hold.stood();
    let tag = TunnelId::from("0123456789abcdef").tag();
    drop(hold);
    house.reports("a", 1, vec![session("ann", house.at(), Some(&tag))]);
    assert!(house.record("ann").await.is_empty());
}

#[tokio::test]
async fn a_user_found_beside_a_tunnel_of_theirs_is_noted_and_not_moved() {
    let house = House::new(&["a", "b"]).await;
    let (own, hold) = house.place("ann", "t1").await;
    hold.stood();
    let live = Some((own.as_str(), LeaseState::Live));
    house.lease_becomes("ann", live).await;
    let (other, _guest) = house.place("", "0123456789abcdef").await;
    assert_ne!(own, other);
    let tag = TunnelId::from("0123456789abcdef").tag();
    house.reports(
        other.as_str(),
        1,
        vec![session("ann", house.at(), Some(&tag))],
    );
    house
        .eventually("noted", |house| house.broker.lease_figures().conflicts == 1)
        .await;
    house.lease_becomes("ann", live).await;
}

#[tokio::test]
async fn who_signed_out_leaves_no_lease_and_who_disconnected_does() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place("ann", "t1").await;
    hold.stood();
    let at = house.at();
    house.reports("a", 1, vec![session("ann", at, None)]);
    drop(hold);
    let lingering = Some(("a", LeaseState::Lingering));
    house.lease_becomes("ann", lingering).await;
    house
        .eventually("left", |house| {
            !house.fleet.snapshot().hosts[&HostId::from("a")]
                .lingering
                .is_empty()
        })
        .await;
    let left = Session {
        state: SessionState::Disconnected,
        ..session("ann", at, None)
    };
    house.reports("a", 2, vec![left]);
    house.reports("a", 3, vec![]);
    house.lease_becomes("ann", None).await;
    house
        .eventually("counted", |house| {
            house.broker.lease_figures().released == 1
        })
        .await;
    assert!(house.record("ann").await.user().is_some());
}

#[tokio::test]
async fn a_lease_follows_its_user_to_where_the_session_is() {
    let house = House::new(&["a", "b"]).await;
    let (from, hold) = house.place("ann", "t1").await;
    let to = if from.as_str() == "a" { "b" } else { "a" };
    hold.stood();
    drop(hold);
    house
        .lease_becomes("ann", Some((from.as_str(), LeaseState::Lingering)))
        .await;
    let host = from.clone();
    house
        .eventually("left", |house| {
            !house.fleet.snapshot().hosts[&host].lingering.is_empty()
        })
        .await;
    house.reports(to, 1, vec![session("ann", house.at(), None)]);
    house.reports(from.as_str(), 1, vec![]);
    house
        .lease_becomes("ann", Some((to, LeaseState::Lingering)))
        .await;
    house
        .eventually("counted", |house| {
            house.broker.lease_figures().followed == 1
        })
        .await;
}

#[tokio::test]
async fn an_older_report_and_one_of_nobody_are_refused() {
    let house = House::new(&["a"]).await;
    house.reports("a", 2, vec![]);
    let known = house.fleet.snapshot().hosts[&HostId::from("a")]
        .report
        .clone();
    let older = Report {
        order: Some(ReportNumber { boot: 1, seq: 1 }),
        ..(*known.unwrap()).clone()
    };
    assert!(!house.broker.hear(&"a".into(), older.clone()));
    assert!(!house.broker.hear(&"nobody".into(), older));
}
