//! What Prometheus is told of a day, and how it changes with the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Broker, DEADLINE, ScriptedHost, Stage, Visit};

/// Every name the administrator was promised, and its kind.
const NAMES: &[(&str, &str)] = &[
    ("connections_total", "counter"),
    ("connections_open", "gauge"),
    ("handshake_duration_seconds", "histogram"),
    ("placements_total", "counter"),
    ("placement_rejections_total", "counter"),
    ("placement_duration_seconds", "histogram"),
    ("sessions", "gauge"),
    ("host_state", "gauge"),
    ("host_breaker", "gauge"),
    ("breaker_openings_total", "counter"),
    ("host_heartbeat_age_seconds", "gauge"),
    ("host_score", "gauge"),
    ("farm_hosts", "gauge"),
    ("farm_seats", "gauge"),
    ("pending_placements", "gauge"),
    ("leases", "gauge"),
    ("alarms", "gauge"),
    ("lease_conflicts_total", "counter"),
    ("store_operations_total", "counter"),
    ("store_operation_duration_seconds", "histogram"),
    ("store_up", "gauge"),
    ("store_down_seconds", "gauge"),
    ("store_last_success_age_seconds", "gauge"),
    ("store_losses_total", "counter"),
    ("store_regained_total", "counter"),
    ("placements_held", "gauge"),
    ("placements_degraded_total", "counter"),
    ("leases_owed", "gauge"),
    ("leases_held_elsewhere_total", "counter"),
    ("guacd_connect_failures_total", "counter"),
    ("attempts_total", "counter"),
    ("connections_saved_total", "counter"),
    ("panics_total", "counter"),
    ("log_lines_lost_total", "counter"),
    ("start_time_seconds", "gauge"),
    ("descriptors_open", "gauge"),
    ("descriptors_max", "gauge"),
    ("descriptors_reserve", "gauge"),
    ("config_hash", "gauge"),
    ("guacd_up", "gauge"),
    ("relay_bytes_total", "counter"),
    ("probe_duration_seconds", "histogram"),
    ("config_generation", "gauge"),
    ("config_last_reload_success", "gauge"),
    ("tls_certificate_not_after_seconds", "gauge"),
    ("tunnels", "gauge"),
    ("tunnels_max", "gauge"),
    ("tunnels_refused_total", "counter"),
    ("guacd_tunnels", "gauge"),
    ("guacd_addresses", "gauge"),
    ("guacd_dials", "gauge"),
    ("guacd_dials_max", "gauge"),
    ("guacd_dials_waiting", "gauge"),
    ("guacd_dials_refused_total", "counter"),
    ("guacamole_connections", "gauge"),
    ("guacamole_connections_max", "gauge"),
    ("guacamole_connections_closed_total", "counter"),
    ("decisions_lost_total", "counter"),
    ("audit_lines_lost_total", "counter"),
    ("build_info", "gauge"),
];

/// Labels, and what may stand in them: nothing but words of ours and names from the
/// configuration.
const LABELS: &[&str] = &[
    "farm",
    "resource",
    "host",
    "alarm",
    "state",
    "cause",
    "result",
    "reason",
    "phase",
    "direction",
    "guacd",
    "operation",
    "version",
    "key",
    "file",
    "le",
];

/// A page, figure by figure.
pub(crate) struct Scraped {
    text: String,
    figures: BTreeMap<String, f64>,
}

impl Scraped {
    pub(crate) fn of(broker: &Broker) -> Self {
        let (status, text) = broker.health("/metrics");
        assert_eq!(status, 200, "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let figures = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let name = name.strip_prefix("sessionguard_");
            let name = name.unwrap_or_else(|| panic!("{line}")).to_owned();
            (name, value.parse().unwrap_or_else(|_| panic!("{line}")))
        });
        let figures: BTreeMap<_, _> = figures.collect();
        Self { text, figures }
    }

    /// A figure by its name and labels as they are written; `None`: there is none.
    pub(super) fn get(&self, series: &str) -> Option<f64> {
        self.figures.get(series).copied()
    }

    /// The sum of everything that begins so.
    pub(crate) fn sum(&self, prefix: &str) -> f64 {
        let figures = self.figures.iter();
        figures
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(_, value)| value)
            .sum()
    }
}

/// Waits until all these figures are so.
pub(super) fn until(broker: &Broker, wanted: &[(&str, f64)]) -> Scraped {
    let by = Instant::now() + DEADLINE;
    loop {
        let scraped = Scraped::of(broker);
        let differing = wanted.iter().filter_map(|(series, value)| {
            let found = scraped.get(series);
            (found != Some(*value)).then_some((series, found))
        });
        let differing: Vec<_> = differing.collect();
        if differing.is_empty() {
            return scraped;
        }
        assert!(Instant::now() < by, "{differing:?} in {}", scraped.text);
        thread::sleep(Duration::from_millis(20));
    }
}

const KEY: &[u8] = b"3.key,5.65307,1.1;";
const BLOB: &[u8] = b"4.blob,1.1,4.AAAA;";

#[test]
fn after_a_day_every_figure_is_there_and_right() {
    let stage = Stage::of(2);
    let broker = &stage.broker;
    let fresh = until(
        broker,
        &[("connections_total", 0.0), ("connections_open", 0.0)],
    );
    for (name, kind) in NAMES {
        let line = format!("# TYPE sessionguard_{name} {kind}\n");
        assert!(fresh.text.contains(&line), "{line} in {}", fresh.text);
        assert!(fresh.text.contains(&format!("# HELP sessionguard_{name} ")));
    }

    // Placed and stood; placed and pending; joined; passed through; refused; said nothing.
    let mut ann = Visit::office("ann").at(broker);
    let id = ann.ready();
    let mut of_ann = stage.guacd.ready();
    of_ann.stand();
    ann.hear_past_nops("sync");
    let _bob = stage.tunnel(&Visit::office("bob"));
    let mut joiner = Visit::join(&id).at(broker);
    joiner.ready();
    let _of_joiner = stage.guacd.ready();
    let _vnc = stage.tunnel(&Visit::protocol("vnc").answer("hostname", "192.0.2.7"));
    let lost = Visit::rdp("carl").answer("hostname", "sessionguard:resource=nothing");
    assert_eq!(lost.refused_at(broker).code, 0x204);
    drop(std::net::TcpStream::connect(broker.address()).unwrap());
    ann.wire.send(KEY).unwrap();
    assert_eq!(of_ann.wire.exact(KEY.len()).unwrap(), KEY);
    of_ann.wire.send(BLOB).unwrap();
    assert_eq!(ann.wire.exact(BLOB.len()).unwrap(), BLOB);

    // What guacd said when the desktop appeared was relayed as well.
    let down = ("4.sync,5.12345,1.1;".len() + BLOB.len()) as f64;
    let up = KEY.len() as f64;
    let version = format!("build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    let scraped = until(
        broker,
        &[
            ("connections_total", 5.0),
            ("connections_open", 4.0),
            ("relay_bytes_total{direction=\"to-guacd\"}", up),
            ("relay_bytes_total{direction=\"to-guacamole\"}", down),
            (
                "placements_total{farm=\"office\",resource=\"office\",result=\"placed\"}",
                2.0,
            ),
            (
                "placements_total{farm=\"\",resource=\"\",result=\"refused\"}",
                1.0,
            ),
            (
                "placement_rejections_total{farm=\"\",reason=\"unknown-resource\"}",
                1.0,
            ),
            ("placement_duration_seconds_count", 3.0),
            ("handshake_duration_seconds_count{phase=\"select\"}", 5.0),
            ("handshake_duration_seconds_count{phase=\"args\"}", 5.0),
            ("handshake_duration_seconds_count{phase=\"connect\"}", 5.0),
            ("handshake_duration_seconds_count{phase=\"placement\"}", 4.0),
            ("handshake_duration_seconds_count{phase=\"ready\"}", 4.0),
            ("host_state{host=\"rds1\",state=\"online\"}", 1.0),
            ("host_state{host=\"rds1\",state=\"dead\"}", 0.0),
            ("host_state{host=\"rds2\",state=\"online\"}", 1.0),
            ("pending_placements", 1.0),
            ("leases{state=\"live\"}", 1.0),
            ("leases{state=\"claimed\"}", 1.0),
            ("leases{state=\"lingering\"}", 0.0),
            ("lease_conflicts_total", 0.0),
            ("guacd_connect_failures_total", 0.0),
            ("store_up", 1.0),
            ("config_generation", 1.0),
            ("config_last_reload_success", 1.0),
            (&version, 1.0),
        ],
    );
    assert_eq!(scraped.sum("sessions{farm=\"office\","), 2.0);
    let written = scraped.get("store_operations_total{operation=\"replace\",result=\"done\"}");
    assert!(written >= Some(2.0), "{written:?}");
    let probed = scraped.get("probe_duration_seconds_count{result=\"answered\"}");
    assert!(probed >= Some(2.0), "{probed:?}");
    // No host has max_sessions.
    assert_eq!(scraped.sum("farm_seats"), 0.0);
    for (state, count) in [("open", 2.0), ("full", 0.0), ("out", 0.0)] {
        let series = format!("farm_hosts{{farm=\"office\",state=\"{state}\"}}");
        assert_eq!(scraped.get(&series), Some(count), "{series}");
    }
    let open = scraped.get("descriptors_open").unwrap();
    let most = scraped.get("descriptors_max").unwrap();
    assert!(open > 10.0 && open < most, "{open} of {most}");
    for host in ["rds1", "rds2"] {
        let series = format!("host_score{{farm=\"office\",host=\"{host}\"}}");
        assert!(
            scraped.get(&series).is_some_and(|score| score > 0.0),
            "{series}"
        );
    }

    // What has ended is counted still.
    drop((ann, of_ann, joiner));
    broker.ended(&broker.placed("ann"));
    until(
        broker,
        &[
            ("connections_total", 5.0),
            ("connections_open", 2.0),
            ("relay_bytes_total{direction=\"to-guacd\"}", up),
            ("relay_bytes_total{direction=\"to-guacamole\"}", down),
            ("leases{state=\"live\"}", 0.0),
            ("leases{state=\"lingering\"}", 1.0),
        ],
    );
}

#[test]
fn no_user_address_or_id_stands_on_the_page() {
    let stage = Stage::of(2);
    let visit = Visit::office("zaphod").login(Some("beeblebrox"));
    let mut visitor = visit.at(&stage.broker);
    let connection = visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    let odd = Visit::rdp("trillian").answer("hostname", "sessionguard:resource=hitchhiker");
    let refused = odd.refused_at(&stage.broker).id;
    let placed = stage.broker.placed("zaphod");
    let text = until(&stage.broker, &[("leases{state=\"live\"}", 1.0)]).text;

    let id = |field: &str| placed[field].as_str().unwrap().to_owned();
    let peer_port = stage.hosts[0].address().port().to_string();
    for foreign in [
        "zaphod",
        "beeblebrox",
        "trillian",
        "hitchhiker",
        "secret of the test",
        "127.0.0.1",
        &peer_port,
        &connection,
        &peer.id,
        &refused,
        &id("tunnel"),
        &id("decision_id"),
    ] {
        assert!(!text.contains(foreign), "{foreign} in {text}");
    }
    // The same day is in the log, with all of this; and names of the configuration are here.
    assert!(placed.to_string().contains("zaphod"));
    assert!(text.contains("host=\"rds1\"") && text.contains("farm=\"office\""));
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((_, labels)) = line.split_once('{') else {
            continue;
        };
        let (labels, _) = labels.rsplit_once('}').unwrap();
        for label in labels.split(',') {
            seen.insert(label.split_once('=').unwrap().0);
        }
    }
    let known: BTreeSet<_> = LABELS.iter().copied().collect();
    assert!(seen.is_subset(&known), "{:?}", seen.difference(&known));
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn what_a_reload_takes_out_leaves_the_page_and_a_bad_file_shows() {
    let stage = Stage::of(2);
    let _ann = stage.desktop(&Visit::office("ann"));
    let placed = "placements_total{farm=\"office\",resource=\"office\",result=\"placed\"}";
    until(&stage.broker, &[(placed, 1.0), ("config_generation", 1.0)]);
    let addresses: Vec<_> = stage.hosts.iter().map(ScriptedHost::address).collect();
    let file = stage.site.folder().join("conf.d/00.toml");

    let first = Scraped::of(&stage.broker).get("config_hash").unwrap();
    fs::write(&file, Stage::farm(&addresses[..1], &[("rds1", "drain")])).unwrap();
    let scraped = until(
        &stage.broker,
        &[
            ("config_generation", 2.0),
            ("host_state{host=\"rds1\",state=\"drain\"}", 1.0),
            ("host_state{host=\"rds1\",state=\"online\"}", 0.0),
            (placed, 1.0),
        ],
    );
    assert!(!scraped.text.contains("rds2"), "{}", scraped.text);
    assert_ne!(scraped.get("config_hash").unwrap(), first);

    fs::write(&file, "[[hosts]]\nid = \"rds9\"\n").unwrap();
    let bad = [
        ("config_last_reload_success", 0.0),
        ("config_generation", 2.0),
    ];
    until(&stage.broker, &bad);
    let (status, text) = stage.broker.health("/readyz?verbose");
    assert_eq!(status, 200, "{text}");
    assert!(
        text.contains("configuration: degraded: the files have faults; generation 2"),
        "{text}"
    );

    // Another farm, and nothing of the first one.
    let farm = Stage::farm(&addresses, &[]).replace("office", "bureau");
    fs::write(&file, farm).unwrap();
    let good = [
        ("config_last_reload_success", 1.0),
        ("config_generation", 3.0),
    ];
    let scraped = until(&stage.broker, &good);
    assert!(!scraped.text.contains("\"office\""), "{}", scraped.text);
    assert!(
        scraped
            .text
            .contains("host_score{farm=\"bureau\",host=\"rds2\"}")
    );
}
