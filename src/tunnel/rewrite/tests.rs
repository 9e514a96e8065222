//! By name and not by position; cleared names are told, values are not.

use std::collections::{BTreeMap, BTreeSet};

use guac_protocol::{Instruction, ParameterNames, Parameters};

use super::*;
use crate::placement::{Host, Mode, ParameterValues, Reason, RemoteApp, Rules};

mod laws;
mod set;
mod tag;
mod tokens;

fn parameters<N: AsRef<str>, V: AsRef<str>>(pairs: &[(N, V)]) -> Parameters {
    let names = pairs.iter().map(|(name, _)| name.as_ref());
    let args = ["VERSION_1_5_0"].into_iter().chain(names);
    let values = pairs.iter().map(|(_, value)| value.as_ref());
    let connect = ["VERSION_1_5_0"].into_iter().chain(values);
    let names = ParameterNames::from_args(Instruction::new("args", args)).unwrap();
    Parameters::from_connect(&names, Instruction::new("connect", connect)).unwrap()
}

fn placement(kind: ResourceKind) -> Placement {
    Placement {
        host: "a".into(),
        address: "10.1.1.1".to_owned(),
        port: 3390,
        kind,
        reason: Reason::Score,
    }
}

fn sage() -> ResourceKind {
    ResourceKind::RemoteApp(RemoteApp {
        alias: "||Sage".to_owned(),
        dir: "C:\\Sage".to_owned(),
        args: "/company:1".to_owned(),
    })
}

fn values(pairs: &[(&str, &str)]) -> ParameterValues {
    let pairs = pairs.iter();
    ParameterValues(pairs.map(|(n, v)| (n.to_string(), v.to_string())).collect())
}

/// A host and a resource, and what they have to say about parameters.
#[derive(Default)]
struct Book {
    of_host: ParameterValues,
    of_resource: ParameterValues,
    kept: BTreeSet<String>,
}

impl Book {
    fn directory(&self, kind: &ResourceKind) -> Directory {
        let host = Host {
            id: "a".into(),
            address: "10.1.1.1".to_owned(),
            port: 3390,
            farm_ids: Vec::new(),
            tags: BTreeMap::new(),
            mode: Mode::Online,
            max_sessions: None,
            max_pending_logons: None,
            parameters: self.of_host.clone(),
        };
        let resource = Resource {
            id: "r".into(),
            name: "R".to_owned(),
            kind: kind.clone(),
            farm_id: None,
            enabled: true,
            guacamole_connection_id: None,
            guacamole_connection_name: None,
            source: None,
            hostnames: Vec::new(),
            load_balance_info: None,
            attempt_deadline: None,
            keep_parameters: self.kept.clone(),
            parameters: self.of_resource.clone(),
        };
        Directory::new(Rules::default(), [host], [], [resource])
    }

    /// Rewrites for a placement of this kind, as the resource.
    fn rewrite(&self, parameters: &mut Parameters, kind: ResourceKind) -> Rewritten {
        let directory = self.directory(&kind);
        let resource = ResourceId::from("r");
        rewrite(
            parameters,
            &placement(kind),
            &directory,
            Some(&resource),
            None,
        )
        .unwrap()
    }
}

/// Rewrites where neither host nor resource sets or keeps anything.
fn plain(parameters: &mut Parameters, kind: ResourceKind) -> Result<Rewritten, Missing> {
    let directory = Book::default().directory(&kind);
    let resource = ResourceId::from("r");
    rewrite(
        parameters,
        &placement(kind),
        &directory,
        Some(&resource),
        None,
    )
}

#[track_caller]
fn reads(parameters: &Parameters, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(parameters.get(name), Some(*value), "{name}");
    }
}

#[test]
fn a_desktop_points_at_its_host_and_starts_no_app() {
    let mut parameters = parameters(&[
        ("remote-app-args", "/x"),
        ("port", ""),
        ("initial-program", "shell.exe"),
        ("remote-app", "||Other"),
        ("hostname", "sessionguard:resource=office"),
        ("remote-app-dir", ""),
    ]);
    let told = plain(&mut parameters, ResourceKind::Desktop).unwrap();
    assert_eq!(told.cleared, ["remote-app-args", "remote-app"]);
    assert_eq!((told.set.len(), told.unknown.len()), (0, 0));
    reads(
        &parameters,
        &[
            ("hostname", "10.1.1.1"),
            ("port", "3390"),
            ("remote-app", ""),
            ("remote-app-args", ""),
            ("initial-program", "shell.exe"),
        ],
    );
}

#[test]
fn a_remote_app_sets_all_three_and_clears_the_initial_program() {
    let mut parameters = parameters(&[
        ("hostname", "x"),
        ("port", "1"),
        ("initial-program", "shell.exe"),
        ("remote-app", "||Other"),
        ("remote-app-dir", "D:\\"),
        ("remote-app-args", "/stale"),
    ]);
    let told = plain(&mut parameters, sage()).unwrap();
    assert_eq!(told.cleared, ["initial-program"]);
    reads(
        &parameters,
        &[
            ("remote-app", "||Sage"),
            ("remote-app-dir", "C:\\Sage"),
            ("remote-app-args", "/company:1"),
            ("initial-program", ""),
        ],
    );
}

#[test]
fn as_connected_leaves_app_and_program_to_the_connection() {
    let own = [
        ("remote-app", "||Other"),
        ("remote-app-dir", "D:\\"),
        ("remote-app-args", "/own"),
        ("initial-program", "shell.exe"),
    ];
    let all = [&[("hostname", "x"), ("port", "1")][..], &own].concat();
    let mut parameters = parameters(&all);
    let told = plain(&mut parameters, ResourceKind::AsConnected).unwrap();
    assert_eq!(told, Rewritten::default());
    reads(&parameters, &own);
    reads(&parameters, &[("hostname", "10.1.1.1"), ("port", "3390")]);
}

#[test]
fn everything_that_leads_past_the_placement_is_cleared_and_the_rest_is_kept() {
    let past = [
        "gateway-hostname",
        "gateway-port",
        "gateway-domain",
        "gateway-username",
        "gateway-password",
        "load-balance-info",
        "preconnection-id",
        "preconnection-blob",
        "console",
        "wol-send-packet",
        "wol-mac-addr",
        "wol-broadcast-addr",
        "wol-wait-time",
        "cert-fingerprints",
    ];
    let kept = [
        "username",
        "password",
        "domain",
        "console-audio",
        "ignore-cert",
        "sftp-hostname",
    ];
    let all = ["hostname", "port"].iter().chain(&past).chain(&kept);
    let pairs: Vec<_> = all.map(|name| (*name, "v")).collect();
    for kind in [ResourceKind::Desktop, ResourceKind::AsConnected] {
        let mut parameters = parameters(&pairs);
        let told = plain(&mut parameters, kind).unwrap();
        assert_eq!(told.cleared, past);
        reads(&parameters, &past.map(|name| (name, "")));
        reads(&parameters, &kept.map(|name| (name, "v")));
    }
}

#[test]
fn a_guacd_without_what_is_needed_is_named() {
    let names = [
        "hostname",
        "port",
        "remote-app",
        "remote-app-dir",
        "remote-app-args",
    ];
    for missing in names {
        let others: Vec<_> = names
            .iter()
            .filter(|n| **n != missing)
            .map(|n| (n, "x"))
            .collect();
        assert_eq!(
            plain(&mut parameters(&others), sage()),
            Err(Missing(missing))
        );
    }
    // What a desktop does not need may be missing.
    let mut bare = parameters(&[("hostname", "x"), ("port", "1")]);
    assert_eq!(
        plain(&mut bare, ResourceKind::Desktop),
        Ok(Rewritten::default())
    );
}

#[test]
fn a_farms_any_host_without_a_resource_is_rewritten_too() {
    let kind = ResourceKind::AsConnected;
    let directory = Book::default().directory(&kind);
    let mut parameters = parameters(&[
        ("hostname", "${SESSIONGUARD_HOST}"),
        ("port", ""),
        ("console", "true"),
    ]);
    let told = rewrite(&mut parameters, &placement(kind), &directory, None, None).unwrap();
    assert_eq!(told.cleared, ["console"]);
    reads(
        &parameters,
        &[("hostname", "10.1.1.1"), ("port", "3390"), ("console", "")],
    );
}
