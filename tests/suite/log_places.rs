//! Where the log goes: a file that others move away, and the journal.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    BINARY, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, Visitor, eventually,
};

/// A broker that nobody listens to, ended with the test.
struct Mute(Child);

impl Mute {
    fn start(site: &Site, stderr: impl Into<Stdio>, variables: &[(&str, String)]) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg("--config").arg(site.write());
        command.env_remove("JOURNAL_STREAM");
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        Self(command.stderr(stderr).spawn().unwrap())
    }

    fn end(mut self) {
        let kill = format!("kill -TERM {}", self.0.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
        let ended = eventually("the broker's end", || self.0.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        // Fails where the process has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The port in a line of JSON that says where it listens.
fn listening(path: &Path) -> SocketAddr {
    eventually("it listens", || {
        let said = text(path);
        let mut lines = said
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.find(|line| line["message"] == "Listening")?;
        line["address"].as_str().unwrap().parse().ok()
    })
}

#[test]
fn files_that_are_moved_away_while_they_are_written_lose_no_line_and_none_is_in_two() {
    const USERS: usize = 80;
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let host = ScriptedHost::up();
    let site = Stage::site(guacd.address(), &[host.address()]);
    let (log, audit) = (
        site.folder().join("broker.log"),
        site.folder().join("audit.jsonl"),
    );
    let site = site.with(format!("[log]\nfile = {log:?}\naudit = {audit:?}\n[broker]\nslow_start = \"0s\"\nmax_pending_logons = 1000\n"));
    let errors = site.folder().join("stderr");
    let broker = Mute::start(&site, File::create(&errors).unwrap(), &[]);
    let address = listening(&log);

    // As logrotate does, and as quickly as it can be done.
    let over = Arc::new(AtomicBool::new(false));
    let (is_over, moved) = (Arc::clone(&over), [log.clone(), audit.clone()]);
    let rotating = thread::spawn(move || {
        let mut kept: Vec<PathBuf> = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            for path in &moved {
                let away = path.with_extension(kept.len().to_string());
                if fs::rename(path, &away).is_ok() {
                    kept.push(away);
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        kept
    });
    let mut tunnels = Vec::new();
    for number in 0..USERS {
        let mut visitor = Visitor::dial(address);
        visitor.click(&Visit::office(&format!("user{number}")));
        visitor.ready();
        let mut peer = guacd.ready();
        peer.stand();
        visitor.hear_past_nops("sync");
        tunnels.push((visitor, peer));
    }
    over.store(true, Ordering::SeqCst);
    let kept = rotating.join().unwrap();
    drop(tunnels);
    broker.end();

    let (mut placed, mut audited) = (BTreeMap::new(), BTreeMap::new());
    let mut files = 0;
    for path in kept.iter().chain([&log, &audit]) {
        let said = text(path);
        files += usize::from(said.contains("user"));
        for line in said.lines() {
            // Whole, each of them.
            let line: Value = serde_json::from_str(line).unwrap();
            if line["message"] == "Placed" {
                let user = line["user"].as_str().unwrap().to_owned();
                *placed.entry(user).or_insert(0) += 1;
            }
            if let Some(user) = line["user.name"].as_str() {
                *audited.entry(user.to_owned()).or_insert(0) += 1;
            }
        }
    }
    let each: BTreeMap<_, _> = (0..USERS)
        .map(|number| (format!("user{number}"), 1))
        .collect();
    assert_eq!(placed, each);
    assert_eq!(audited, each);
    assert!(files > 4, "{files} files have lines of users");
    assert_eq!(text(&errors), "", "nothing goes to standard error");
}

#[test]
fn a_file_that_cannot_be_written_keeps_it_from_starting_and_is_named() {
    let site =
        Stage::site(([127, 0, 0, 1], 9).into(), &[]).with("[log]\nfile = \"/nonexistent/a.log\"\n");
    let output = Site::run(&["serve"], &site.write());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot write the log /nonexistent/a.log: "),
        "{said}"
    );
    assert!(said.contains("set file in [log]"), "{said}");
}

/// What stands in standard error, which is this file, in a broker that was told to take it for the
/// journal or for something else.
fn said(format: &str, to_journal: bool) -> String {
    let host = ScriptedHost::up();
    // Nobody listens there.
    let site = Stage::site(([127, 0, 0, 1], 9).into(), &[host.address()])
        .with(format!("[log]\nformat = \"{format}\"\n"));
    let path = site.folder().join("stderr");
    let stderr = File::create(&path).unwrap();
    let found = stderr.metadata().unwrap();
    let inode = if to_journal {
        found.ino()
    } else {
        found.ino() + 1
    };
    let stream = ("JOURNAL_STREAM", format!("{}:{inode}", found.dev()));
    host.refuse();
    let broker = Mute::start(&site, stderr, &[stream]);
    eventually("it has started, and warned of the host", || {
        let said = text(&path);
        (said.contains("Listening") && said.contains("Host does not answer RDP")).then_some(())
    });
    broker.end();
    text(&path)
}

#[test]
fn the_journal_is_told_how_serious_a_line_is_and_not_what_time_it_is() {
    let journal = said("text", true);
    for line in journal.lines() {
        let priority = line.get(..3).unwrap();
        let level = line[3..].split_whitespace().next().unwrap();
        let wanted = match level {
            "ERROR" => "<3>",
            "WARN" => "<4>",
            "INFO" => "<6>",
            other => panic!("{other} in {line}"),
        };
        assert_eq!(priority, wanted, "{line}");
    }
    assert!(
        journal.contains("<4> WARN") && journal.contains("<6> INFO"),
        "{journal}"
    );
    assert!(!journal.contains('\u{1b}'), "no colours");

    for line in said("json", true).lines() {
        let (priority, json) = line.split_at(3);
        let json: Value = serde_json::from_str(json).unwrap();
        let wanted = if json["level"] == "WARN" {
            "<4>"
        } else {
            "<6>"
        };
        assert_eq!(priority, wanted, "{line}");
    }

    // Redirected away from the journal it is a file like any other.
    let file = said("text", false);
    let year = jiff::Timestamp::now().to_string()[..4].to_owned();
    assert!(file.lines().all(|line| line.starts_with(&year)), "{file}");
}
