//! A run of everything with marked secrets, and then no mark anywhere: not in the log, the audit
//! trail, an answer, a metric, the store, a process's arguments, nor in memory behind a handshake.
//! Each place shows something harmless as well, or the search is worth nothing.

mod administrators;
mod cast;
mod guacamole;
mod marks;
mod memory;
mod programs;
mod running;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use guac_protocol::Instruction;

use super::replicas::on;
use crate::support::postgres::{self, PASSWORD, USER as OWNER};
use crate::support::tls::Authority;
use crate::support::{
    GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor, eventually, preloading,
};
use cast::{Cast, LABEL, USER};
use marks::{Search, password};

/// Whom the listener's certificate is for.
const NAME: &str = "broker.test";

/// What passes a socket that lies about it, so that a task panics.
const LIE: &str = "a socket that lies";

/// Everything that can be done with a broker and to it; a tunnel is open in the end.
fn everything(cast: &mut Cast, key_of_tls: Option<&str>) -> (Visitor, GuacdPeer) {
    let (admin_key, broker_key) = administrators::make_keys(cast);
    let open = guacamole::users(cast);
    guacamole::refused(cast);
    guacamole::malformed(cast);
    programs::ask(cast, &admin_key, &broker_key);
    administrators::ask_remotely(cast, &admin_key);
    administrators::write_wrongly(cast);
    administrators::exchange_wrongly(cast, key_of_tls);
    administrators::look(cast);
    open
}

/// The end of a broker with a tunnel open, which is told twice.
fn end(cast: &mut Cast, (mut open, _guacd): (Visitor, GuacdPeer)) {
    cast.running.tell_to_stop();
    cast.running.wait("Waiting for open tunnels");
    let secret = cast.secret("in a tunnel of a broker that stops");
    open.wire
        .say(&Instruction::new("blob", ["1", secret.as_str()]))
        .unwrap();
    cast.running.tell_to_stop();
    let _ = open.wire.rest();
    cast.running.ended();
    let (log, out) = (cast.running.log(), cast.running.out());
    cast.saw("log", log);
    cast.saw("standard output", out);
    let mut left = Vec::new();
    files_in(cast.temporary.path(), &mut left);
    assert!(left.is_empty(), "temporary files: {left:?}");
    // Everything beside the broker's configuration but the secrets of whoever set it up.
    files_in(cast.site.folder(), &mut left);
    for path in left {
        let is_theirs = cast.theirs.contains(&path) || path.extension() == Some("so".as_ref());
        if !is_theirs {
            let bytes = fs::read(&path).unwrap();
            cast.saw(
                &format!("file {}", path.file_name().unwrap().display()),
                bytes,
            );
        }
    }
}

fn files_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_in(&path, found),
            false if path.metadata().unwrap().is_file() => found.push(path),
            false => {}
        }
    }
}

/// What is no secret and must be in these places.
const PROOFS: [(&str, &str); 10] = [
    ("log", USER),
    ("log", LABEL),
    ("answer to /api/v1/decisions", USER),
    ("answer to /api/v1/keys", LABEL),
    ("answers", "error"),
    ("output of", USER),
    ("errors of", "fault: "),
    ("health /metrics", "farm=\"office\""),
    ("page", "<html"),
    ("cmdline", "serve"),
];

#[test]
fn no_secret_is_seen_anywhere_with_a_store_of_our_own() {
    let authority = Authority::new("Test Authority");
    let own = authority.sign(NAME);
    let client = authority.client(None);
    let mut audit = PathBuf::new();
    let mut cast = Cast::new(Vec::new(), Some(client), |site, search| {
        search.add("the private key of TLS", &own.private_bytes());
        own.write(site.folder(), "own");
        audit = site.folder().join("audit.jsonl");
        preloading(site, "lying_socket.c")
            .with(format!("[log]\naudit = {audit:?}\n"))
            .listening("tls_cert_file = \"own.crt\"\ntls_key_file = \"own.key\"")
            .knowing("LYING_SOCKET_MARK", LIE)
    });
    let key = cast.site.folder().join("own.key");
    cast.theirs.push(key.clone());
    let open = everything(&mut cast, key.to_str());

    // On the way to a desktop, and in the handshake.
    let secret = cast.secret("in a task that panics");
    let lie = format!("{LIE} {secret}");
    let visit = Visit::office("bob")
        .answer("password", &secret)
        .answer("server-layout", &lie);
    let mut visitor = cast.click(&visit);
    let _ = visitor.wire.rest();
    let mut visitor = cast.dial();
    visitor.select("rdp");
    visitor.read_args();
    visitor
        .wire
        .say(&Instruction::new("timezone", [lie.as_str()]))
        .unwrap();
    let _ = visitor.wire.rest();
    let panics = "A task panicked";
    eventually("two panics", || {
        (cast.running.count(panics) == 2).then_some(())
    });

    end(&mut cast, open);
    let stored = ("file store.redb", USER);
    let proofs = [&PROOFS[..], &[stored, ("file audit.jsonl", USER)]].concat();
    cast.assert_clean(&proofs);
}

#[test]
fn no_secret_is_seen_anywhere_with_a_database_that_others_share() {
    let Some(server) = postgres::server() else {
        return;
    };
    let database = server.database();
    let variables = vec![("SESSIONGUARD_DATABASE_PASSWORD", PASSWORD.to_owned())];
    let mut cast = Cast::new(variables, None, |site, _| {
        on(site, server.port, &database).with("[log]\nformat = \"text\"\naudit = \"stdout\"\n")
    });
    let open = everything(&mut cast, None);
    end(&mut cast, open);
    let dump = Command::new(postgres::programs().unwrap().join("pg_dump"))
        .args(["-h", "127.0.0.1", "-U", OWNER, "-p"])
        .args([&server.port.to_string(), &database])
        .env("PGPASSWORD", PASSWORD)
        .output()
        .unwrap();
    assert!(dump.status.success(), "{:?}", dump.stderr);
    cast.saw("database", dump.stdout);
    // It was told to write down every statement, with what was put into it.
    cast.saw("statements", server.log());
    let more = ["database", "statements", "standard output"].map(|place| (place, USER));
    cast.assert_clean(&[&PROOFS[..], &more].concat());
}

/// What of these secrets is in the broker's memory, and whether what is none is.
fn in_memory(broker: u32, search: &Search, open: &Search) -> (Vec<String>, bool) {
    let memory = memory::writable(broker).expect("root reads it");
    let found = memory.iter().flat_map(|bytes| search.found(bytes));
    let found = found.map(|(name, _)| name.to_owned()).collect();
    let works = memory.iter().any(|bytes| !open.found(bytes).is_empty());
    (found, works)
}

#[test]
fn behind_the_handshake_no_password_is_in_memory() {
    let secret = password("in memory");
    let (mut search, mut open) = (Search::new(), Search::new());
    search.add("the password", secret.as_bytes());
    open.add("the user", USER.as_bytes());
    let stage = Stage::before(ScriptedGuacd::polite(Names::rdp("1.6.0")), 2);
    if memory::writable(stage.broker.id()).is_none() {
        crate::support::skipped("root, to look into the memory of a broker that lets nobody else");
        return;
    }
    let gone = |when: &str| {
        eventually(when, || {
            let (found, works) = in_memory(stage.broker.id(), &search, &open);
            assert!(works, "the search works");
            found.is_empty().then_some(())
        });
    };
    // Its desktop is waited for, and may have to be sought on another host.
    let (mut visitor, mut peer) = stage.tunnel(&Visit::office(USER).answer("password", &secret));
    assert_eq!(peer.value("password"), secret);
    let (found, _) = in_memory(stage.broker.id(), &search, &open);
    assert!(!found.is_empty(), "it is found while it is needed");
    peer.stand();
    visitor.hear_past_nops("sync");
    gone("no password once the desktop stands");
    for elsewhere in ["elsewhere.example", "sessionguard:id=0"] {
        let visit = Visit::rdp(USER).answer("hostname", elsewhere);
        let mut visitor = visit.answer("password", &secret).at(&stage.broker);
        visitor.ready();
        gone("no password of one that was passed on or refused");
    }
    visitor.wire.send("3.nop;").unwrap();
    assert_eq!(peer.wire.exact(6).unwrap(), b"3.nop;");
}

#[test]
fn over_tls_no_password_is_in_memory_once_the_next_words_were_heard() {
    let secret = password("in memory, over TLS");
    let (mut search, mut open) = (Search::new(), Search::new());
    search.add("the password", secret.as_bytes());
    open.add("the user", USER.as_bytes());
    let authority = Authority::new("Test Authority");
    let (own, of_guacd) = (authority.sign(NAME), authority.sign("127.0.0.1"));
    let guacd = ScriptedGuacd::secured(of_guacd.server(None), Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 2, |site| {
        own.write(site.folder(), "own");
        let pin = of_guacd.fingerprint();
        site.listening("tls_cert_file = \"own.crt\"\ntls_key_file = \"own.key\"")
            .with(format!("[guacd]\ntls = true\npin_sha256 = [{pin:?}]\n"))
    });
    if memory::writable(stage.broker.id()).is_none() {
        crate::support::skipped("root, to look into the memory of a broker that lets nobody else");
        return;
    }
    let client = authority.client(None);
    let mut visitor = Visitor::secured(stage.broker.address(), &client, NAME);
    visitor.click(&Visit::office(USER).answer("password", &secret));
    visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    // What TLS read last it keeps until it reads again: as much as the parameters were.
    let blob = Instruction::new("blob", ["1".to_owned(), "x".repeat(4000)]);
    visitor.wire.say(&blob).unwrap();
    peer.wire.exact(4000).unwrap();
    eventually("no password once more was said", || {
        let (found, works) = in_memory(stage.broker.id(), &search, &open);
        assert!(works, "the search works");
        found.is_empty().then_some(())
    });
}

#[test]
fn no_core_file_is_left_and_nobody_else_reads_the_memory() {
    let stage = Stage::one();
    let limits = fs::read_to_string(format!("/proc/{}/limits", stage.broker.id())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let words: Vec<_> = core.unwrap().split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{limits}");

    // Two processes of one user: what one may read of the other.
    let nobody = |command: &[&str]| {
        let mut all = Command::new("setpriv");
        all.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
        all.args(command);
        all
    };
    if !nobody(&["true"]).status().is_ok_and(|done| done.success()) {
        crate::support::skipped("root, to be somebody else");
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, marks::key("of whom nobody answers")).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&key, 0o600)] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let owned = Command::new("chown").arg("nobody").arg(&key).status();
    assert!(owned.unwrap().success());
    // A command of ours with a key in its memory, which waits; and a program that is as it comes.
    let asking = [
        crate::support::BINARY,
        "status",
        "--server",
        &server,
        "--token-file",
        key.to_str().unwrap(),
    ];
    let mut ours = nobody(&asking).spawn().unwrap();
    let mut other = nobody(&["sleep", "60"]).spawn().unwrap();
    let (_waiting, _) = listener.accept().unwrap();
    let reads = |process: u32| {
        let path = format!("/proc/{process}/environ");
        let read = nobody(&["cat", &path]).output().unwrap();
        read.status.success()
    };
    eventually("another process that is read", || {
        reads(other.id()).then_some(())
    });
    assert!(!reads(ours.id()), "its memory is its own");
    for process in [&mut ours, &mut other] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
