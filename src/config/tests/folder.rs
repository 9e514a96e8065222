//! Files on disk: what is read, in which order, and what cannot be.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{print, run};
use crate::config::{Loaded, Place, load};
use crate::placement::{FarmId, HostId};

/// A directory with a main file that sets nothing, and an empty `conf.d`.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        fs::create_dir(folder.path("conf.d")).unwrap();
        folder.write("sessionguard.toml", "# nothing\n");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    fn load(&self) -> Loaded {
        load(&self.path("sessionguard.toml"), []).unwrap_or_else(|faults| panic!("{faults}"))
    }

    fn refused(&self) -> String {
        let (loaded, printed) = run(&self.path("sessionguard.toml"), self.0.path());
        assert!(loaded.is_none(), "it loads");
        printed
    }
}

#[test]
fn a_later_file_replaces_settings_and_adds_objects() {
    let folder = Folder::new();
    folder.write(
        "sessionguard.toml",
        "[broker]\nlease_seconds = 100\nmin_health_score = 10\n",
    );
    folder.write(
        "conf.d/20-b.toml",
        "[broker]\nlease_seconds = 200\n[[farms]]\nid = \"b\"\n",
    );
    folder.write(
        "conf.d/10-a.json",
        r#"{ "lease_seconds": 300, "default_farm": "b" }"#,
    );
    folder.write(
        "conf.d/30-c.json",
        r#"[{ "id": "h", "address": "h", "farm_ids": ["b"] }]"#,
    );
    let loaded = folder.load();
    let rules = loaded.config.directory.rules();
    assert_eq!((rules.lease.as_secs(), rules.min_health_score), (200, 10));
    assert_eq!(rules.default_farm, Some(FarmId::from("b")));
    assert!(
        loaded
            .config
            .directory
            .is_member(&FarmId::from("b"), &HostId::from("h"))
    );

    let names: Vec<_> = loaded
        .files
        .iter()
        .filter_map(|f| f.file_name()?.to_str())
        .collect();
    assert_eq!(
        names,
        ["sessionguard.toml", "10-a.json", "20-b.toml", "30-c.json"]
    );
    let origin = |key: &str| {
        let place = &loaded.origins[key];
        let Place::File { path, .. } = place else {
            panic!("{place}");
        };
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, place.position().unwrap().line)
    };
    assert_eq!(origin("broker.lease_seconds"), ("20-b.toml".to_owned(), 2));
    assert_eq!(
        origin("broker.min_health_score"),
        ("sessionguard.toml".to_owned(), 3)
    );
    assert!(!loaded.origins.contains_key("log.level"));
}

#[test]
fn a_mounted_config_map_is_read_once_through_its_links() {
    let folder = Folder::new();
    fs::create_dir(folder.path("conf.d/..2026_01_01")).unwrap();
    folder.write("conf.d/..2026_01_01/farm.json", r#"{ "id": "office" }"#);
    symlink("..2026_01_01", folder.path("conf.d/..data")).unwrap();
    symlink("..data/farm.json", folder.path("conf.d/farm.json")).unwrap();
    let loaded = folder.load();
    assert_eq!(loaded.config.directory.farms().count(), 1);
    assert_eq!(loaded.files.len(), 2);
}

#[test]
fn other_files_in_conf_d_are_passed_over() {
    let folder = Folder::new();
    for name in [
        ".hidden.toml",
        "README",
        "farm.toml~",
        "farm.toml.bak",
        "farm.json.swp",
    ] {
        folder.write(&format!("conf.d/{name}"), "not a configuration");
    }
    folder.write("conf.d/farm.yaml", "id: office");
    folder.write(
        "conf.d/FARM.JSON",
        r#"{ "id": "office", "enabled": false }"#,
    );
    let loaded = folder.load();
    assert_eq!(loaded.config.directory.farms().count(), 1);
    assert_eq!(loaded.files.len(), 2);
    let printed = print(&loaded.warnings);
    assert!(
        printed.contains("farm.yaml: warning: this file is not read"),
        "{printed}"
    );
    assert_eq!(loaded.warnings.len(), 1, "{printed}");
}

#[test]
fn no_conf_d_is_no_fault() {
    let folder = Folder::new();
    fs::remove_dir(folder.path("conf.d")).unwrap();
    assert_eq!(folder.load().files.len(), 1);
    folder.write("conf.d", "a file");
    assert_eq!(folder.refused(), "conf.d: fault: this is not a directory");
}

#[test]
fn an_empty_main_file_is_warned_of_and_conf_d_is_read() {
    let folder = Folder::new();
    folder.write("sessionguard.toml", "");
    folder.write(
        "conf.d/farm.json",
        r#"{ "id": "office", "enabled": false }"#,
    );
    let loaded = folder.load();
    assert!(
        loaded
            .config
            .directory
            .farm(&FarmId::from("office"))
            .is_some()
    );
    let warnings: Vec<_> = loaded.warnings.iter().map(|w| w.message()).collect();
    assert_eq!(warnings, ["the file is empty"]);
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = Folder::new();
    folder.write("conf.d/a-empty.toml", " \n\n");
    folder.write("conf.d/b-none.json", "");
    folder.write("conf.d/c-bom.toml", "\u{feff}[broker]\n");
    folder.write("conf.d/d-latin.toml", b"# B\xfcro\n");
    folder.write("conf.d/e-utf16.json", b"\xff\xfe{\0}\0");
    fs::create_dir(folder.path("conf.d/f-directory.toml")).unwrap();
    symlink("nowhere", folder.path("conf.d/g-link.toml")).unwrap();
    symlink("h-loop.toml", folder.path("conf.d/h-loop.toml")).unwrap();
    let _socket = UnixListener::bind(folder.path("conf.d/i-socket.toml")).unwrap();
    folder.write("conf.d/j-large.toml", "# large\n".repeat(1024 * 1024 + 1));
    let printed = folder.refused();
    let lines: Vec<&str> = printed
        .lines()
        .filter(|line| line.starts_with("conf.d"))
        .collect();
    let looped = lines[7];
    assert!(
        looped.starts_with("conf.d/h-loop.toml: fault: cannot be read: "),
        "{looped}"
    );
    assert_eq!(
        lines,
        [
            "conf.d/a-empty.toml: fault: the file is empty",
            "conf.d/b-none.json: fault: the file is empty",
            "conf.d/c-bom.toml: fault: begins with a byte order mark",
            "conf.d/d-latin.toml: fault: not UTF-8 text: byte 3 starts no character",
            "conf.d/e-utf16.json: fault: not UTF-8 text: byte 0 starts no character",
            "conf.d/f-directory.toml: fault: this is a directory, not a file",
            "conf.d/g-link.toml: fault: there is no such file",
            looped,
            "conf.d/i-socket.toml: fault: this is not a regular file",
            "conf.d/j-large.toml: fault: larger than the limit of 8 MiB",
        ]
    );
}

#[test]
fn a_missing_main_file_is_one_fault() {
    let folder = Folder::new();
    folder.write("conf.d/bad.toml", "a = ");
    fs::remove_file(folder.path("sessionguard.toml")).unwrap();
    assert_eq!(
        folder.refused(),
        "sessionguard.toml: fault: there is no such file\n  \
         help: create it, or name another file with --config"
    );
}

#[test]
fn thousands_of_hosts_load() {
    let folder = Folder::new();
    let hosts: String = (0..5000)
        .map(|n| {
            format!(
                "[[hosts]]\nid = \"h{n}\"\naddress = \"h{n}.example.com\"\nfarm_ids = [\"a\"]\n"
            )
        })
        .collect();
    folder.write("conf.d/hosts.toml", hosts);
    folder.write("conf.d/farms.json", r#"{ "farms": [{ "id": "a" }] }"#);
    let loaded = folder.load();
    assert_eq!(
        loaded.config.directory.members(&FarmId::from("a")).count(),
        5000
    );
}

#[test]
fn a_file_that_does_not_parse_hides_no_fault_of_another() {
    let folder = Folder::new();
    folder.write("conf.d/a.toml", "[[farms]\n");
    folder.write(
        "conf.d/b.json",
        r#"{ "id": "x", "address": "x:1", "farm_ids": ["in-a"] }"#,
    );
    let printed = folder.refused();
    assert!(printed.contains("conf.d/a.toml:1:"), "{printed}");
    assert!(
        printed.contains("conf.d/b.json:1:25: fault: `address` in a host"),
        "{printed}"
    );
    // The farm may well stand in the file that could not be read.
    assert!(!printed.contains("in-a`"), "{printed}");
}
