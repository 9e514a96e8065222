//! What a page says, of figures counted and figures read.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::config::load_text;
use crate::placement::{
    HostId, LeaseKey, Outcome, Refusal, Report, Snapshot, Timestamp, Trust, TunnelView, UserKey,
};

fn directory(text: &str) -> Arc<Directory> {
    load_text("a.toml", text).unwrap().config.directory
}

fn farms(farms: &[&str]) -> Arc<Directory> {
    let farms = farms.iter();
    let text = farms.map(|id| format!("[[farms]]\nid = {id:?}\n[[hosts]]\nid = \"host of {id}\"\naddress = \"{id}.example.test\"\nfarm_ids = [{id:?}]\n"));
    directory(&text.collect::<String>())
}

fn refused(farm: &str) -> Decision {
    Decision {
        generation: 1,
        configuration: 1,
        resource: None,
        farm: Some(farm.into()),
        user: UserKey::new("ann", ""),
        trust: Trust::default(),
        key: None,
        outcome: Outcome::Refused(Refusal::Busy(farm.into())),
        candidates: Vec::new(),
    }
}

fn written(metrics: &Metrics, directory: &Directory) -> String {
    metrics.write(Page::default(), directory).unwrap()
}

fn assert_says(text: &str, line: &str) {
    assert!(text.lines().any(|said| said == line), "{line} in\n{text}");
}

#[test]
fn what_can_happen_is_told_before_it_has_happened() {
    let text = written(&Metrics::default(), &Directory::default());
    for line in [
        "# TYPE sessionguard_placements_total counter",
        "sessionguard_lease_conflicts_total 0",
        "sessionguard_guacd_connect_failures_total 0",
        "sessionguard_handshake_duration_seconds_count{phase=\"ready\"} 0",
        "sessionguard_probe_duration_seconds_count{result=\"failed\"} 0",
        "sessionguard_store_operations_total{operation=\"replace\",result=\"conflict\"} 0",
        "sessionguard_store_up 1.0",
    ] {
        assert_says(&text, line);
    }
    assert!(!text.contains("{operation=\"read\",result=\"conflict\"}"));
}

#[test]
fn counts_by_what_has_left_the_configuration_are_forgotten() {
    let metrics = Metrics::default();
    let (both, one) = (farms(&["a", "b"]), farms(&["b"]));
    metrics.decided(Some(&refused("a")), true, None);
    metrics.decided(Some(&refused("b")), true, None);
    metrics.decided(Some(&refused("b")), false, None);
    let of = |farm: &str, result: &str, count: u32| {
        format!(
            "sessionguard_placements_total{{farm=\"{farm}\",resource=\"\",result=\"{result}\"}} {count}"
        )
    };
    let text = written(&metrics, &both);
    assert_says(&text, &of("a", "refused", 1));
    assert_says(&text, &of("b", "refused", 1));
    assert_says(&text, &of("b", "would-refuse", 1));
    assert_says(
        &text,
        "sessionguard_placement_rejections_total{farm=\"b\",reason=\"busy\"} 1",
    );
    let text = written(&metrics, &one);
    assert!(!text.contains("farm=\"a\""), "{text}");
    assert_says(&text, &of("b", "refused", 1));
    assert!(!written(&metrics, &both).contains("farm=\"a\""));
}

#[test]
fn why_nobody_was_placed_is_one_word() {
    let (metrics, known) = (Metrics::default(), farms(&["a"]));
    metrics.decided(None, true, Some(Cause::Store));
    metrics.decided(None, true, Some(Cause::TimedOut));
    // It waited for room, and says for what.
    metrics.decided(Some(&refused("a")), true, Some(Cause::TimedOut));
    metrics.decided(Some(&refused("a")), false, Some(Cause::Store));
    let text = written(&metrics, &known);
    for (farm, reason) in [("", "store"), ("", "timed-out"), ("a", "busy")] {
        let labels = format!("{{farm=\"{farm}\",reason=\"{reason}\"}} 1");
        assert_says(
            &text,
            &format!("sessionguard_placement_rejections_total{labels}"),
        );
    }
    let rejections = text
        .matches("\nsessionguard_placement_rejections_total{")
        .count();
    assert_eq!(rejections, 3, "{text}");
    for (farm, result, count) in [
        ("", "failed", 2),
        ("a", "refused", 1),
        ("a", "would-fail", 1),
    ] {
        let labels = format!("{{farm=\"{farm}\",resource=\"\",result=\"{result}\"}} {count}");
        assert_says(&text, &format!("sessionguard_placements_total{labels}"));
    }
}

#[test]
fn the_store_is_up_where_both_reads_and_writes_come_through() {
    let metrics = Metrics::default();
    let spent = Duration::from_millis(3);
    metrics.stored(Operation::Replace, spent, Stored::Failed);
    metrics.stored(Operation::Read, spent, Stored::Done);
    assert!(metrics.store_health().down.is_some());
    metrics.stored(Operation::Replace, spent, Stored::Conflict);
    assert_eq!(metrics.store_health().down, None);
    metrics.store_is_silent();
    assert!(metrics.store_health().down.is_some());
    metrics.stored(Operation::List, spent, Stored::Done);
    assert_eq!(metrics.store_health().down, None);
    // A lost write of a document is none of a lease.
    metrics.stored(Operation::EditDocuments, spent, Stored::Conflict);
    let text = written(&metrics, &Directory::default());
    assert_says(&text, "sessionguard_lease_conflicts_total 1");
    assert_says(
        &text,
        "sessionguard_store_operation_duration_seconds_bucket{operation=\"replace\",le=\"0.005\"} 2",
    );
}

#[test]
fn guacd_is_up_until_a_dial_fails_and_again_once_one_succeeds() {
    let metrics = Metrics::default();
    assert!(metrics.is_guacd_up());
    assert_eq!(metrics.dialled(Err::<(), _>("refused")), Err("refused"));
    assert!(!metrics.is_guacd_up());
    assert_eq!(metrics.dialled(Ok::<_, ()>(5)), Ok(5));
    assert!(metrics.is_guacd_up());
    let text = written(&metrics, &Directory::default());
    assert_says(&text, "sessionguard_guacd_connect_failures_total 1");
}

#[test]
fn no_label_breaks_a_line() {
    let mut page = Page::default();
    let mut gauge = page.gauge("certificate_not_after_seconds", "When it ends.");
    gauge.put(&[("file", "a\"b\\c\nd")], 17.5);
    let text = Metrics::default()
        .write(page, &Directory::default())
        .unwrap();
    assert_says(
        &text,
        "# HELP sessionguard_certificate_not_after_seconds When it ends.",
    );
    assert_says(
        &text,
        "sessionguard_certificate_not_after_seconds{file=\"a\\\"b\\\\c\\nd\"} 17.5",
    );
}

#[test]
fn a_picture_tells_of_reports_leases_and_of_configured_hosts_alone() {
    let directory = farms(&["a"]);
    let fleet = crate::fleet::Fleet::new(Arc::clone(&directory));
    let mut snapshot = Snapshot::clone(&fleet.snapshot());
    let host = HostId::from("host of a");
    let ann = UserKey::new("ann", "").unwrap();
    let now = Timestamp::from_millis(100_000);
    let ends = now + Duration::from_secs(1);
    let mut view = snapshot.hosts[&host].as_ref().clone();
    view.report = Some(Arc::new(Report {
        received: Timestamp::from_millis(92_500),
        health: 80,
        rdp_listener_ok: true,
        cpu_percent: None,
        memory_used_percent: None,
        sessions: Vec::new(),
        missing_remote_apps: Vec::new(),
        order: None,
        taken: Timestamp::from_millis(92_500),
        overclaims: true,
    }));
    let tunnel = |stood| TunnelView {
        tunnel: "1".into(),
        key: Some(LeaseKey::of_user(&ann)),
        user: Some(ann.clone()),
        trust: Trust::default(),
        farm: "a".into(),
        resource: None,
        since: now,
        stood,
        elsewhere: false,
    };
    // Two tunnels of one user are one lease, however far each is.
    view.tunnels = vec![Arc::new(tunnel(None)), Arc::new(tunnel(Some(now)))];
    let lingers = |user: &str| LeaseKey::of_user(&UserKey::new(user, "").unwrap());
    let lingering = std::sync::Arc::make_mut(&mut view.lingering);
    lingering.insert(LeaseKey::of_user(&ann), ends);
    lingering.insert(lingers("bob"), ends);
    lingering.insert(lingers("carl"), now);
    snapshot
        .hosts
        .insert("taken out".into(), Arc::new(view.clone()));
    snapshot.hosts.insert(host, Arc::new(view));

    let mut page = Page::default();
    picture(&mut page, &snapshot, now);
    let text = Metrics::default().write(page, &directory).unwrap();
    for line in [
        "sessionguard_host_heartbeat_age_seconds{host=\"host of a\"} 7.5",
        "sessionguard_host_state{host=\"host of a\",state=\"online\"} 1.0",
        "sessionguard_host_state{host=\"host of a\",state=\"silent\"} 0.0",
        "sessionguard_host_state{host=\"host of a\",state=\"drain\"} 0.0",
        "sessionguard_sessions{farm=\"a\",host=\"host of a\",state=\"active\"} 1.0",
        "sessionguard_leases{state=\"live\"} 1.0",
        "sessionguard_leases{state=\"claimed\"} 0.0",
        "sessionguard_pending_placements 2.0",
        "sessionguard_alarms{alarm=\"agent-claims-strangers\"} 0.0",
        // As the status says: one that was taken out is in use still.
        "sessionguard_alarms{alarm=\"agent-overclaims\"} 2.0",
    ] {
        assert_says(&text, line);
    }
    assert!(text.contains("sessionguard_host_score{farm=\"a\",host=\"host of a\"} "));
    // Bob's on either host; the other's figures are nowhere.
    assert_says(&text, "sessionguard_leases{state=\"lingering\"} 2.0");
    assert!(
        !text.contains("taken out") && !text.contains("ann"),
        "{text}"
    );
}

#[test]
fn hosts_of_a_farm_are_open_full_or_out_and_seats_are_counted_where_each_has_a_bound() {
    let text = |caps: &str, enabled: bool| {
        let farm =
            format!("[broker]\nslow_start = \"0s\"\n[[farms]]\nid = \"a\"\nenabled = {enabled}\n");
        let hosts = ["one", "two", "three"].map(|id| {
            format!("[[hosts]]\nid = {id:?}\naddress = \"{id}.example.test\"\nfarm_ids = [\"a\"]\n{caps}\n")
        });
        farm + &hosts.concat()
    };
    let told = |text: &str| {
        let directory = directory(text);
        let fleet = crate::fleet::Fleet::new(Arc::clone(&directory));
        let mut snapshot = Snapshot::clone(&fleet.snapshot());
        let now = Timestamp::from_millis(100_000);
        for (id, users, listens) in [("one", 1, true), ("two", 2, true), ("three", 0, false)] {
            let id = HostId::from(id);
            let mut view = snapshot.hosts[&id].as_ref().clone();
            view.report = Some(Arc::new(Report {
                received: now,
                health: 80,
                rdp_listener_ok: listens,
                cpu_percent: None,
                memory_used_percent: None,
                sessions: Vec::new(),
                missing_remote_apps: Vec::new(),
                order: None,
                taken: now,
                overclaims: false,
            }));
            view.tunnels = (0..users)
                .map(|number| TunnelView {
                    tunnel: format!("{id} {number}").as_str().into(),
                    key: None,
                    user: UserKey::new(&format!("{id} {number}"), ""),
                    trust: Trust::default(),
                    farm: "a".into(),
                    resource: None,
                    since: now,
                    stood: Some(now),
                    elsewhere: false,
                })
                .map(Arc::new)
                .collect();
            snapshot.hosts.insert(id, Arc::new(view));
        }
        let mut page = Page::default();
        picture(&mut page, &snapshot, now);
        Metrics::default().write(page, &directory).unwrap()
    };
    let bounded = told(&text("max_sessions = 2", true));
    for (state, count) in [("open", 1), ("full", 1), ("out", 1)] {
        let labels = format!("{{farm=\"a\",state=\"{state}\"}} {count}.0");
        assert_says(&bounded, &format!("sessionguard_farm_hosts{labels}"));
    }
    assert_says(
        &bounded,
        "sessionguard_farm_seats{farm=\"a\",state=\"taken\"} 3.0",
    );
    assert_says(
        &bounded,
        "sessionguard_farm_seats{farm=\"a\",state=\"free\"} 1.0",
    );
    let unbounded = told(&text("", true));
    assert_says(
        &unbounded,
        "sessionguard_farm_hosts{farm=\"a\",state=\"open\"} 2.0",
    );
    assert!(
        !unbounded.contains("sessionguard_farm_seats{"),
        "{unbounded}"
    );
    // A farm that places nobody on purpose lacks nothing.
    assert!(!told(&text("", false)).contains("sessionguard_farm_hosts{"));
}
