//! Whether the broker says that it is well: to whoever restarts it, to whoever sends users to it,
//! to a container's check.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use super::metrics::until;
use crate::support::{ClosedPort, DEADLINE, Names, ScriptedGuacd, Site, Stage, Visit, eventually};

#[test]
fn a_broker_that_runs_is_alive_and_ready() {
    let stage = Stage::one();
    let broker = &stage.broker;
    assert_eq!(broker.health("/livez"), (200, "alive\n".to_owned()));
    eventually("ready", || {
        (broker.health("/readyz").0 == 200).then_some(())
    });
    let well = "listeners: ok\nconfiguration: ok\nstore: ok\nguacd: ok\nlimits: ok\nhosts: ok\ncertificates: ok\nready\n";
    eventually("all well", || {
        (broker.health("/readyz?verbose").1 == well).then_some(())
    });
    assert_eq!(broker.health("/readyz"), (200, "ready\n".to_owned()));
    for (path, status) in [("/", 404), ("/api/v1/status", 404), ("/livez/x", 404)] {
        assert_eq!(broker.health(path).0, status, "{path}");
    }
}

#[test]
fn dead_hosts_and_a_dead_guacd_are_named_and_leave_it_ready() {
    let (guacd, host) = (ClosedPort::new(), ClosedPort::new());
    let broker = Stage::site(guacd.address(), &[host.address()]).start();
    assert_eq!(Visit::office("ann").refused_at(&broker).code, 0x208);
    let scraped = until(
        &broker,
        &[
            ("guacd_connect_failures_total", 1.0),
            ("host_state{host=\"rds1\",state=\"dead\"}", 1.0),
            ("host_state{host=\"rds1\",state=\"online\"}", 0.0),
        ],
    );
    let failed = scraped.get("probe_duration_seconds_count{result=\"failed\"}");
    assert!(failed >= Some(1.0), "{failed:?}");
    let (status, text) = broker.health("/readyz?verbose");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("guacd: degraded: "), "{text}");
    assert!(
        text.contains("hosts: degraded: none of 1 can be reached"),
        "{text}"
    );
    assert!(text.ends_with("ready, degraded: guacd, hosts\n"), "{text}");
    assert_eq!(broker.health("/livez").0, 200);
    // They come back.
    let _host = host.listen();
    eventually("hosts well", || {
        broker
            .health("/readyz?verbose")
            .1
            .contains("hosts: ok")
            .then_some(())
    });
}

#[test]
fn a_store_that_cannot_write_is_named_and_leaves_it_ready() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |mut site| {
        site.descriptors = Some(1024);
        site
    });
    let broker = &stage.broker;
    let _ann = stage.desktop(&Visit::office("ann"));
    until(
        broker,
        &[("store_up", 1.0), ("leases{state=\"live\"}", 1.0)],
    );

    broker.limit_files("1");
    let refusal = Visit::office("bob").refused_at(broker);
    assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    let failed = [(
        "placement_rejections_total{farm=\"\",reason=\"store\"}",
        1.0,
    )];
    let scraped = until(broker, &failed);
    let failed = "store_operations_total{operation=\"replace\",result=\"failed\"}";
    assert!(
        scraped.get(failed) >= Some(1.0),
        "{:?}",
        scraped.get(failed)
    );
    assert_eq!(scraped.get("store_up"), Some(0.0));
    let (status, text) = broker.health("/readyz?verbose");
    assert_eq!(status, 200, "{text}");
    assert!(
        text.contains("store: degraded: ") && text.contains("degraded: store"),
        "{text}"
    );
    assert_eq!(broker.health("/livez").0, 200);

    broker.limit_files("unlimited");
    until(broker, &[("store_up", 1.0)]);
    eventually("store well", || {
        broker
            .health("/readyz?verbose")
            .1
            .contains("store: ok")
            .then_some(())
    });
}

#[test]
fn a_broker_that_stops_is_alive_and_not_ready_until_its_last_tunnel_ends() {
    let stage = Stage::one();
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let address = stage.broker.health_address();
    stage.broker.signal("TERM");
    let stopping = (503, "not ready: shutting down\n".to_owned());
    eventually("not ready", || {
        (stage.broker.health("/readyz") == stopping).then_some(())
    });
    assert_eq!(stage.broker.health("/livez").0, 200);
    until(&stage.broker, &[("connections_open", 1.0)]);
    drop((visitor, peer));
    assert!(stage.broker.exit().success());
    assert!(TcpStream::connect(address).is_err(), "nobody listens there");
}

#[test]
fn callers_that_say_nothing_do_not_keep_a_probe_out() {
    let stage = Stage::one();
    let address = stage.broker.health_address();
    let _idle: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let start = Instant::now();
    assert_eq!(stage.broker.health("/livez").0, 200);
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
}

#[test]
fn a_port_in_use_is_said_with_the_setting_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let site = site(Some(taken.local_addr().unwrap()));
    let output = Site::run(&["serve"], &site.write());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("for health and metrics") && said.contains("listen in [health]"),
        "{said}"
    );
}

#[test]
fn a_container_is_told_by_an_exit_code() {
    // Free a moment ago, and nobody else's for as long as the system has others to give.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let stage = Stage::adjusted(ScriptedGuacd::polite(Names::rdp("1.6.0")), 1, |site| {
        site.with(format!("[health]\nlisten = \"0.0.0.0:{}\"\n", free.port()))
    });
    let check = || {
        Site::run(
            &["healthcheck"],
            &stage.site.folder().join("sessionguard.toml"),
        )
    };
    let output = eventually("a good answer", || {
        Some(check()).filter(|o| o.status.success())
    });
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("listeners: ok")
    );

    let tunnel = stage.desktop(&Visit::office("ann"));
    stage.broker.signal("TERM");
    let output = eventually("a bad answer", || {
        Some(check()).filter(|o| !o.status.success())
    });
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("not ready: shutting down"), "{said}");

    drop(tunnel);
    stage.broker.wait("Stopped", |_| true);
    let output = eventually("no answer", || {
        Some(check()).filter(|o| String::from_utf8_lossy(&o.stderr).contains("cannot ask"))
    });
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_broker_without_the_port_serves_and_says_why_it_cannot_be_asked() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| site.with("[health]\nlisten = \"off\"\n"));
    let _ann = stage.desktop(&Visit::office("ann"));
    assert_eq!(
        stage.broker.lines("Health and metrics ready"),
        Vec::<serde_json::Value>::new()
    );
    let main = stage.site.folder().join("sessionguard.toml");
    let output = Site::run(&["healthcheck"], &main);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("listen in [health] is \"off\""), "{said}");
}

fn site(health: Option<SocketAddr>) -> Site {
    let health = health.map_or("off".to_owned(), |address| address.to_string());
    let site = Site::new(([127, 0, 0, 1], 4823).into());
    site.with(format!("[health]\nlisten = \"{health}\"\n"))
}
