//! By name and not by position; cleared names are told, values are not.

use guac_protocol::{Instruction, ParameterNames, Parameters};

use super::*;
use crate::placement::{Reason, RemoteApp};

fn parameters(pairs: &[(&str, &str)]) -> Parameters {
    let names = pairs.iter().map(|(name, _)| *name);
    let args = ["VERSION_1_5_0"].into_iter().chain(names);
    let values = pairs.iter().map(|(_, value)| *value);
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
        args: String::new(),
    })
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
    let cleared = rewrite(&mut parameters, &placement(ResourceKind::Desktop)).unwrap();
    assert_eq!(cleared, ["remote-app-args", "remote-app"]);
    for (name, value) in [
        ("hostname", "10.1.1.1"),
        ("port", "3390"),
        ("remote-app", ""),
        ("remote-app-args", ""),
        ("initial-program", "shell.exe"),
    ] {
        assert_eq!(parameters.get(name), Some(value), "{name}");
    }
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
    let cleared = rewrite(&mut parameters, &placement(sage())).unwrap();
    assert_eq!(cleared, ["initial-program"]);
    for (name, value) in [
        ("remote-app", "||Sage"),
        ("remote-app-dir", "C:\\Sage"),
        ("remote-app-args", ""),
        ("initial-program", ""),
    ] {
        assert_eq!(parameters.get(name), Some(value), "{name}");
    }
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
    let mut parameters = parameters(&pairs);
    let cleared = rewrite(&mut parameters, &placement(ResourceKind::Desktop)).unwrap();
    assert_eq!(cleared, past);
    for name in past {
        assert_eq!(parameters.get(name), Some(""), "{name}");
    }
    for name in kept {
        assert_eq!(parameters.get(name), Some("v"), "{name}");
    }
}

#[test]
fn a_guacd_without_what_is_needed_is_named() {
    let mut no_app = parameters(&[("hostname", "x"), ("port", "1")]);
    assert_eq!(
        rewrite(&mut no_app, &placement(sage())),
        Err(Missing("remote-app"))
    );
    let mut no_port = parameters(&[("hostname", "x")]);
    let desktop = placement(ResourceKind::Desktop);
    assert_eq!(rewrite(&mut no_port, &desktop), Err(Missing("port")));
}
