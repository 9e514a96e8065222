//! The walls of the house: which room may import which, and what the pure
//! rooms may not touch. A new edge is a decision, made here and explained.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The crate that knows the language; a room like the others, outside `src`.
const PROTOCOL: &str = "guac_protocol";

/// A room, and the rooms it may import besides itself.
const ROOMS: &[(&str, &[&str])] = &[
    ("placement", &[]),
    ("clock", &["placement"]),
    ("config", &["placement"]),
    // A store that replicas share is reached over TLS and has a clock of its own.
    ("store", &["placement", "config", "tls", "clock"]),
    ("tls", &["placement", "config", "clock"]),
    // Its lines may go to a file, and say of which trace they are.
    ("logging", &["config", "appended", "traces"]),
    ("traces", &["config"]),
    ("shutdown", &[]),
    ("audit", &["config", "appended", "clock", "placement"]),
    // A file that others may move away; what is written there it does not know.
    ("appended", &[]),
    ("x224", &[]),
    // One loop accepts for every listener, whatever is spoken behind it.
    ("entrance", &[]),
    // Speaks to whoever started the process, of nothing but that.
    ("supervisor", &[]),
    // Counts what went wrong in any room, and asks none of them.
    ("panics", &[]),
    // Asks the system how much it may open; who uses it decides what for.
    ("descriptors", &[]),
    // Asks the system to keep the process's memory to itself.
    ("privacy", &[]),
    // Counts what others do; whatever can be read off a list it is handed.
    ("metrics", &["placement", "store"]),
    (
        "fleet",
        &["placement", "store", "config", "clock", "x224", "metrics"],
    ),
    // A program of its own on another machine: of the broker it takes the clock,
    // a moment, how a file and a signal are read, and how a certificate is judged.
    (
        "agent",
        &["placement", "config", "clock", "shutdown", "tls", "x224"],
    ),
    (
        "broker",
        &[
            "placement",
            "store",
            "fleet",
            "config",
            "clock",
            "audit",
            "metrics",
        ],
    ),
    (
        "tunnel",
        &[
            PROTOCOL,
            "placement",
            "broker",
            "fleet",
            "config",
            "clock",
            "shutdown",
            "tls",
            "metrics",
            "entrance",
            "replicas",
        ],
    ),
    // From one process to the next: sockets and store, and what is asked between
    // both afterwards.
    ("succession", &["replicas", "store", "entrance"]),
    // Says where we are and reads where others are; it dials nobody.
    ("replicas", &["store", "config"]),
    // It says who somebody is, and asks nobody who decides.
    ("keys", &["placement", "store", "config", "clock", "audit"]),
    // It hands what it heard to the broker, who says what it means for leases.
    (
        "reports",
        &["placement", "store", "fleet", "broker", "clock"],
    ),
    (
        "commands",
        &["placement", "store", "fleet", "broker", "clock"],
    ),
    // What other replicas wrote it hands to whoever has to know.
    (
        "follow",
        &[
            "placement",
            "store",
            "fleet",
            "broker",
            "reports",
            "keys",
            "commands",
            "clock",
        ],
    ),
    // An ear at the door: it asks whoever decides, and nobody asks it. Who is
    // where, and an end to it, it asks of the tunnels themselves; who changed
    // what it writes down.
    (
        "api",
        &[
            "placement",
            "broker",
            "fleet",
            "reports",
            "commands",
            "tunnel",
            "keys",
            "audit",
            "config",
            "clock",
            "store",
            "tls",
            "metrics",
            "entrance",
            "panics",
            // What the process has open and what its log lost, for its figures.
            "descriptors",
            "logging",
            "replicas",
        ],
    ),
    (
        "demo",
        &[PROTOCOL, "app", "config", "placement", "shutdown"],
    ),
    (
        "app",
        &[
            "placement",
            "store",
            "fleet",
            "broker",
            "tunnel",
            "keys",
            "reports",
            "commands",
            "follow",
            "api",
            "audit",
            "config",
            "clock",
            "shutdown",
            "tls",
            "metrics",
            "entrance",
            "descriptors",
            "replicas",
            "succession",
            "supervisor",
        ],
    ),
    (
        "cli",
        &[
            "agent",
            "app",
            "config",
            "placement",
            "logging",
            "shutdown",
            "demo",
            "tls",
            // Who runs the process settles with its surroundings.
            "entrance",
            "supervisor",
            "panics",
            "privacy",
        ],
    ),
    // The floor plan and the front door.
    ("lib", &[]),
    ("main", &[]),
];

/// What only one room touches, or the few that are named.
const OWNED: &[(&str, &str)] = &[
    ("redb::", "store"),
    ("tokio_postgres", "store"),
    ("deadpool", "store"),
    ("tracing_subscriber", "logging"),
    ("clap::", "cli"),
    ("clap_complete::", "cli"),
    ("clap_mangen::", "cli"),
    ("toml::", "config"),
    ("jsonc_parser", "config"),
    // Of two crates the end of the name is the same.
    ("notify::", "config supervisor"),
    ("rustls", "tls"),
    ("aws_lc_rs", "tls"),
    ("x509_cert", "tls"),
    ("sha2::", "keys"),
    ("getrandom::", "keys"),
    ("hyper::server", "api"),
    ("axum::", "api"),
    ("governor::", "api"),
    ("utoipa::", "api"),
    ("hyper::client", "cli agent traces"),
    ("opentelemetry", "traces logging"),
    ("nix::sys::signal", "agent"),
    ("nix::sys::resource", "descriptors privacy"),
    ("nix::sys::prctl", "privacy"),
    ("zeroizing_alloc", "main"),
    ("nix::unistd", "agent"),
    ("prometheus_client", "metrics"),
    ("listenfd::", "entrance"),
    ("rustix::", "succession entrance"),
    ("sd_notify::", "supervisor"),
    ("moka", "broker replicas"),
    ("futures_util", "broker"),
];

/// The only files that speak HTTP besides those of the room `api`.
const ASKS_BY_HTTP: &[&str] = &[
    "cli/ask.rs",
    "cli/healthcheck.rs",
    "agent/http.rs",
    "traces/post.rs",
];

/// What a pure room never mentions.
const IMPURE: &[&str] = &[
    "tokio",
    ".await",
    "async fn",
    "Instant::now",
    "SystemTime::now",
    "rand::",
    "new_v4",
    "new_v7",
    "std::net",
    "std::fs",
];

struct Source {
    room: String,
    path: PathBuf,
    /// Without comments and without the tests at its end.
    code: String,
}

#[test]
fn every_import_is_in_the_room_table() {
    let mut seen = BTreeSet::new();
    for source in sources("src") {
        let allowed = ROOMS.iter().find(|(room, _)| *room == source.room);
        let (_, allowed) = allowed
            .unwrap_or_else(|| panic!("{} is in no room of the table", source.path.display()));
        for room in imports(&source.code) {
            assert!(
                room == source.room || allowed.contains(&room.as_str()),
                "{} imports {room}, which the room table does not allow to {}",
                source.path.display(),
                source.room,
            );
            seen.insert((source.room.clone(), room));
        }
    }
    // The check sees imports at all: these are the spine of the house.
    for edge in [("tunnel", "broker"), ("broker", "store"), ("app", "tunnel")] {
        assert!(
            seen.contains(&(edge.0.into(), edge.1.into())),
            "{edge:?} not seen"
        );
    }
}

#[test]
fn what_one_room_owns_no_other_touches() {
    for source in sources("src") {
        for (thing, owner) in OWNED {
            let touches = source.code.contains(thing) && source.room != "main";
            assert!(
                !touches || owner.split(' ').any(|room| room == source.room),
                "{} touches {thing}, which is {owner}'s",
                source.path.display(),
            );
        }
    }
}

#[test]
fn http_is_served_by_one_room_and_asked_by_two_files() {
    let mut count = 0;
    let speaks = |source: &Source| {
        ["hyper", "axum"]
            .iter()
            .any(|word| source.code.contains(word))
    };
    for source in sources("src").filter(speaks) {
        let asks = ASKS_BY_HTTP.iter().any(|file| source.path.ends_with(file));
        let path = source.path.display();
        assert!(asks || source.room == "api", "{path} speaks HTTP");
        count += 1;
    }
    assert!(count > 2, "only {count} files speak HTTP");
}

#[test]
fn the_pure_rooms_stay_pure() {
    let placement = sources("src").filter(|source| source.room == "placement");
    let mut count = 0;
    for source in placement.chain(sources("guac-protocol/src")) {
        for word in IMPURE {
            assert!(
                !source.code.contains(word),
                "{} mentions {word}",
                source.path.display(),
            );
        }
        count += 1;
    }
    assert!(count > 20, "only {count} files were looked at");
}

#[test]
fn both_crates_forbid_unsafe_code_by_the_workspace_lints() {
    let root = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(root.contains("unsafe_code = \"forbid\""));
    for manifest in ["Cargo.toml", "guac-protocol/Cargo.toml"] {
        let text = std::fs::read_to_string(root_path(manifest)).unwrap();
        assert!(text.contains("[lints]\nworkspace = true"), "{manifest}");
    }
}

/// The rooms that code names, the protocol crate among them.
fn imports(code: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        assert!(
            !rest.starts_with('{'),
            "one `use crate::` a room, no groups"
        );
        rooms.insert(first_word(rest));
    }
    if code.contains(PROTOCOL) {
        rooms.insert(PROTOCOL.to_owned());
    }
    rooms
}

fn first_word(text: &str) -> String {
    let word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.chars().take_while(word).collect()
}

fn sources(folder: &str) -> impl Iterator<Item = Source> {
    let top = root_path(folder);
    let mut files = Vec::new();
    collect(&top, &mut files);
    files.sort();
    files.into_iter().map(move |path| {
        let inner = path.strip_prefix(&top).unwrap();
        let first = inner.components().next().unwrap().as_os_str();
        let room = first.to_str().unwrap().trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let code: Vec<_> = lines
            .take_while(|line| !line.starts_with("mod tests {"))
            .collect();
        Source {
            room,
            code: code.join("\n"),
            path,
        }
    })
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") && !is_test {
            files.push(path);
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn root_path(inner: &str) -> PathBuf {
    root().join(inner)
}
