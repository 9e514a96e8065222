//! What guides name: files, headings, keys and figures that are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::faults::table::root;
use super::{GUIDES, guide, marked};
use crate::support::Stage;

/// How a heading is named in a link, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// Where the links of a text lead.
fn links(text: &str) -> Vec<&str> {
    let behind = text.split("](").skip(1);
    behind.filter_map(|rest| rest.split(')').next()).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut followed = 0;
    let guides = GUIDES.map(|name| format!("deploy/guides/{name}"));
    let also = ["deploy/README.md", "README.md"].map(str::to_owned);
    for from in guides.iter().chain(&also) {
        let text = fs::read_to_string(root().join(from)).unwrap();
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(from).parent().unwrap();
            let to = match file {
                "" => root().join(from),
                file => root().join(folder).join(file),
            };
            assert!(to.exists(), "{from}: {link}");
            if !heading.is_empty() {
                let there = anchors(&fs::read_to_string(&to).unwrap());
                assert!(there.contains(heading), "{from}: {link}, of {there:?}");
            }
            followed += 1;
        }
    }
    assert!(followed > 50, "{followed}");
}

#[test]
fn every_guide_is_linked_and_short() {
    let read = |file| fs::read_to_string(root().join(file)).unwrap();
    assert!(read("README.md").contains("(deploy/README.md#guides)"));
    let index = read("deploy/README.md");
    for name in GUIDES {
        assert!(index.contains(&format!("(guides/{name})")), "{name}");
        let text = guide(name);
        let (text, _) = text.split_once(ALERTS).unwrap_or((&text, ""));
        let lines = text.lines().count();
        assert!((40..=180).contains(&lines), "{name}: {lines} lines");
    }
}

/// Behind this each alert has a section of its own, which the rules lead to.
const ALERTS: &str = "\n## Alerts\n";

#[test]
fn every_alert_has_its_section_and_every_section_its_alert() {
    let text = guide("troubleshooting.md");
    let (_, behind) = text.split_once(ALERTS).unwrap();
    let sections = behind.lines().filter_map(|line| line.strip_prefix("### "));
    let sections: BTreeSet<_> = sections.collect();
    assert!(sections.len() > 20, "{sections:?}");
    let rules = fs::read_to_string(root().join("deploy/monitoring/alerts.yaml")).unwrap();
    let lines = rules.lines().map(str::trim_start);
    let alerts: BTreeSet<_> = lines.filter_map(|l| l.strip_prefix("- alert: ")).collect();
    assert_eq!(sections, alerts);
}

/// Whether a word looks like a key of the configuration or a figure.
fn is_name(word: &str) -> bool {
    let letters = |c: char| c.is_ascii_lowercase() || c == '_';
    word.contains('_') && word.chars().all(letters) && !word.starts_with('_')
}

#[test]
fn every_key_and_every_figure_is_there() {
    let sample = fs::read_to_string(root().join("config/sessionguard.toml")).unwrap();
    let stage = Stage::one();
    let (_, figures) = stage.broker.health("/metrics");
    let mut known = 0;
    for name in GUIDES {
        for mark in marked(&guide(name)) {
            let word = mark.split([' ', '=', '{']).next().unwrap();
            if !is_name(word) {
                continue;
            }
            let is_key = sample.contains(&format!("{word} ="));
            let is_figure = figures.contains(&format!("# TYPE sessionguard_{word} "))
                || figures.contains(&format!("# TYPE {word} "));
            // What a command's option is called in the API.
            let is_option = word == "restart_when_drained";
            assert!(is_key || is_figure || is_option, "{name}: {mark}");
            known += 1;
        }
    }
    assert!(known > 25, "{known}");
}
