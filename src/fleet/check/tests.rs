//! One question a host, shared by all who want to know.

use std::collections::BTreeMap;
use std::io::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::config::{Config, InForce, Probe as Settings};
use crate::placement::{Directory, Mode, ParameterValues, Probe, Rules};

const CONFIRM: [u8; 11] = [3, 0, 0, 11, 6, 0xd0, 0, 0, 0x12, 0x34, 0];

/// Longer than any of these tests waits for an answer.
const SECOND: Duration = Duration::from_secs(1);

/// What a host does with a connection.
#[derive(Clone, Copy)]
enum Manner {
    Answers,
    SaysNothing,
}

/// A host and how often it was connected to.
struct Scripted {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    async fn host(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut asking, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _ = asking.read(&mut [0; 64]).await;
                    if matches!(manner, Manner::Answers) {
                        let _ = asking.write_all(&CONFIRM).await;
                    }
                    // Until the other side leaves.
                    let _ = asking.read(&mut [0; 64]).await;
                });
            }
        });
        Self { port, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn checks(port: u16) -> Arc<Checks> {
    let host = Host {
        id: "a".into(),
        address: "127.0.0.1".to_owned(),
        port,
        farm_ids: Vec::new(),
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    };
    let directory = Arc::new(Directory::new(Rules::default(), [host], [], []));
    let config = Config {
        directory: Arc::clone(&directory),
        probe: Settings {
            interval: SECOND * 10,
            timeout: SECOND * 5,
        },
        ..Config::default()
    };
    let config = InForce::new(Arc::new(config)).current();
    let metrics = Arc::default();
    Checks::new(Fleet::new(directory), config, Clock::start(), metrics)
}

fn a() -> HostId {
    "a".into()
}

impl Checks {
    fn configured(&self) -> Host {
        self.fleet.snapshot().directory.host(&a()).unwrap().clone()
    }

    fn known(&self) -> Probe {
        self.fleet.snapshot().hosts[&a()].probe
    }
}

fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn sixty_who_ask_at_once_make_one_connection() {
    let host = Scripted::host(Manner::Answers).await;
    let checks = checks(host.port);
    let mut asking = JoinSet::new();
    for _ in 0..60 {
        let checks = Arc::clone(&checks);
        asking.spawn(async move { checks.check(&a(), SECOND * 5).await });
    }
    let found = asking.join_all().await;
    assert_eq!(found, vec![Check::Answers; 60]);
    assert_eq!(host.connections(), 1);
    assert!(matches!(checks.known(), Probe::Answering { .. }));
}

#[tokio::test]
async fn a_question_whose_task_is_gone_is_put_anew() {
    let host = Scripted::host(Manner::SaysNothing).await;
    let checks = checks(host.port);
    let (tell, answer) = watch::channel(None);
    let question = Question {
        host: checks.configured(),
        began: Instant::now(),
        answer,
    };
    checks.lock().insert(a(), question.clone());
    let put = tokio::spawn(Arc::clone(&checks).put(question, tell));
    let shared = tokio::spawn({
        let checks = Arc::clone(&checks);
        async move { checks.check(&a(), SECOND * 5).await }
    });
    while host.connections() == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    // It unwinds as it would by a panic.
    put.abort();
    assert_eq!(shared.await.unwrap(), Check::Unknown);
    assert!(matches!(checks.check(&a(), SECOND).await, Check::Fails(_)));
    assert_eq!(host.connections(), 2);
}

#[tokio::test]
async fn what_is_a_second_old_is_asked_anew_and_a_probe_asks_always() {
    let host = Scripted::host(Manner::Answers).await;
    let checks = checks(host.port);
    assert_eq!(checks.probe(&checks.configured()).await, Check::Answers);
    assert_eq!(checks.check(&a(), SECOND * 5).await, Check::Answers);
    assert_eq!(host.connections(), 1, "the probe's finding counts");
    assert_eq!(checks.probe(&checks.configured()).await, Check::Answers);
    assert_eq!(host.connections(), 2, "the watcher asks at its own pace");
    let forgotten = async {
        while !checks.lock().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SECOND * 10, forgotten).await.unwrap();
    assert_eq!(checks.check(&a(), SECOND * 5).await, Check::Answers);
    assert_eq!(host.connections(), 3);
}

#[tokio::test]
async fn a_host_that_is_down_fails_with_a_reason_and_is_noted() {
    let checks = checks(closed_port());
    let found = checks.check(&a(), SECOND * 5).await;
    let Check::Fails(why) = &found else {
        panic!("{found:?}");
    };
    assert!(why.contains("refused"), "{why}");
    assert!(matches!(checks.known(), Probe::Failing { .. }));
    // Who asks right after it hears the same.
    assert_eq!(checks.check(&a(), SECOND * 5).await, found);
}

#[tokio::test]
async fn who_waits_less_than_a_probe_may_take_is_told_without_blaming_the_host_for_all() {
    let host = Scripted::host(Manner::SaysNothing).await;
    let checks = checks(host.port);
    let brief = Duration::from_millis(50);
    let late = Check::Fails("no answer within 50ms".into());
    assert_eq!(checks.check(&a(), brief).await, late);
    assert_eq!(checks.known(), Probe::Unknown, "its time is not over");
    // So long it has not answered: nobody waits for that again.
    assert_eq!(checks.check(&a(), brief).await, late);
    assert_eq!(host.connections(), 1);
}

#[tokio::test]
async fn who_gives_up_takes_the_answer_from_nobody() {
    let host = Scripted::host(Manner::Answers).await;
    let checks = checks(host.port);
    let first = tokio::spawn({
        let checks = Arc::clone(&checks);
        async move { checks.check(&a(), SECOND * 5).await }
    });
    first.abort();
    let _ = first.await;
    assert_eq!(checks.check(&a(), SECOND * 5).await, Check::Answers);
    assert!(host.connections() <= 1);
}

#[tokio::test]
async fn a_host_nobody_configured_is_not_asked() {
    let host = Scripted::host(Manner::Answers).await;
    let checks = checks(host.port);
    assert_eq!(checks.check(&"b".into(), SECOND).await, Check::Unknown);
    assert_eq!(host.connections(), 0);
}

#[tokio::test]
async fn where_tunnels_stand_the_way_of_our_questions_is_blocked_not_the_host() {
    let checks = checks(closed_port());
    let fleet = Arc::clone(&checks.fleet);
    assert!(matches!(
        checks.check(&a(), SECOND * 5).await,
        Check::Fails(_)
    ));
    let (_, seat) = fleet.seat(&"t1".into(), checks.clock.now(), |_| {
        crate::fleet::tests::placed_on("a")
    });
    let seat = seat.unwrap();
    seat.stood(checks.clock.now());
    assert_eq!(checks.check(&a(), SECOND * 5).await, Check::Unknown);
    drop(seat);
    assert!(matches!(
        checks.check(&a(), SECOND * 5).await,
        Check::Fails(_)
    ));
}

#[tokio::test]
async fn findings_are_counted_as_probes_are_each_once() {
    let host = Scripted::host(Manner::Answers).await;
    let checks = checks(host.port);
    for _ in 0..3 {
        checks.check(&a(), SECOND * 5).await;
    }
    let directory = Arc::clone(&checks.fleet.snapshot().directory);
    let page = checks
        .metrics
        .write(Default::default(), &directory)
        .unwrap();
    let counted = "probe_duration_seconds_count{result=\"answered\"} 1";
    assert!(page.contains(counted), "{page}");
}

#[test]
fn what_this_machine_lacks_says_nothing_of_a_host() {
    for code in [23, 24, 105, 99, 12] {
        assert!(is_ours(&Error::from_raw_os_error(code)), "{code}");
    }
    for code in [111, 113, 104, 110] {
        assert!(!is_ours(&Error::from_raw_os_error(code)), "{code}");
    }
}
