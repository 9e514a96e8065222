//! Where secrets are found, what is no good as one, and that none is shown.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::config::{AdminSocket, AuditTarget, Faults, Loaded, Purpose, load, show};

/// A good secret of this name.
fn secret(name: &str) -> String {
    let first = name.bytes().map(u32::from).sum::<u32>();
    (1..=8)
        .map(|nth| {
            format!(
                "{:08x}",
                first.wrapping_mul(0x9e37_79b9).rotate_left(nth * 3)
            )
        })
        .collect()
}

/// A file with a good secret, which nobody else may read.
pub(super) fn good(folder: &Path, name: &str) -> PathBuf {
    file(folder, name, &format!("{}\n", secret(name)), 0o600)
}

fn file(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

struct Case {
    folder: TempDir,
    main: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

impl Case {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let main = folder.path().join("main.toml");
        fs::write(&main, "# nothing\n").unwrap();
        Self {
            folder,
            main,
            variables: Vec::new(),
        }
    }

    fn api(self, lines: &str) -> Self {
        fs::write(&self.main, format!("[api]\n{lines}\n")).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        file(self.folder.path(), name, text, 0o600);
        self
    }

    fn load(&self) -> Result<Loaded, Faults> {
        load(&self.main, self.variables.clone())
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// What is found wrong, with paths as seen from the folder.
    fn told(&self) -> String {
        let told = match self.load() {
            Ok(loaded) => super::print(&loaded.warnings),
            Err(faults) => faults.to_string(),
        };
        told.replace(&format!("{}/", self.path()), "")
    }

    fn found(&self) -> Vec<(Purpose, String, String)> {
        let loaded = self.load().unwrap_or_else(|faults| panic!("{faults}"));
        let found = loaded.config.api.secrets.iter().map(|found| {
            let place = found
                .place
                .to_string()
                .replace(&format!("{}/", self.path()), "");
            (found.purpose, found.secret.expose().to_owned(), place)
        });
        found.collect()
    }
}

const BROKER: &str = "SESSIONGUARD_BROKER_API_KEY";
const ADMIN: &str = "SESSIONGUARD_ADMIN_API_KEY";

#[test]
fn each_source_is_found_and_the_variable_goes_first() {
    let case = Case::new();
    assert_eq!(case.found(), []);
    let files = format!(
        "broker_key_file = \"{0}/b\"\nadmin_key_file = \"{0}/a\"",
        case.path()
    );
    let case = case
        .api(&files)
        .file("b", &format!("{}\r\n", secret("file")))
        .file("a", &secret("a"));
    let from_file = (Purpose::BrokerKey, secret("file"), "b".to_owned());
    let admin = (Purpose::AdminKey, secret("a"), "a".to_owned());
    assert_eq!(case.found(), [from_file, admin.clone()]);
    assert_eq!(case.told(), "");

    let folder = case.path().to_owned();
    let case = case
        .file("broker-api-key", &secret("credential"))
        .variable("CREDENTIALS_DIRECTORY", folder);
    let credential = (
        Purpose::BrokerKey,
        secret("credential"),
        "broker-api-key".to_owned(),
    );
    assert_eq!(case.found(), [credential, admin.clone()]);
    let told = case.told();
    let overruled =
        "main.toml:2:19: warning: the broker key is not taken from here: broker-api-key has it";
    assert!(told.contains(overruled), "{told}");

    let case = case.variable(BROKER, secret("variable"));
    let variable = (Purpose::BrokerKey, secret("variable"), BROKER.to_owned());
    assert_eq!(case.found(), [variable, admin]);
    let told = case.told();
    assert_eq!(
        told.matches("SESSIONGUARD_BROKER_API_KEY has it").count(),
        2,
        "{told}"
    );
}

#[test]
fn a_bad_secret_is_named_by_its_place_and_never_shown() {
    let help = "\n  help: make one with: sessionguard keys create (a running broker) or openssl rand -hex 32";
    let case = Case::new();
    let lines = format!("broker_key_file = \"{}/b\"", case.path());
    let case = case
        .api(&lines)
        .file("b", "hunter2-hunter2\n")
        .variable(ADMIN, "hunter2");
    assert_eq!(
        case.told(),
        format!(
            "main.toml:2:19: fault: the broker key in b: shorter than 32 characters
  2 | broker_key_file = ***
    |                   ^^^{help}
SESSIONGUARD_ADMIN_API_KEY: fault: the admin key: shorter than 32 characters{help}"
        )
    );
    let case = Case::new().file("admin-api-key", "ChangeMe");
    let folder = case.path().to_owned();
    let case = case.variable("CREDENTIALS_DIRECTORY", folder);
    assert_eq!(
        case.told(),
        format!(
            "admin-api-key: fault: the admin key in admin-api-key: this is a placeholder{help}"
        )
    );
}

#[test]
fn a_secret_in_the_place_of_a_file_is_not_shown() {
    for text in ["hunter2", "hunter2/hunter3", "/"] {
        let case = Case::new().api(&format!("admin_key_file = \"{text}\""));
        let told = case.told();
        assert!(
            told.contains("main.toml:2:18: fault: `admin_key_file` in [api]: expected the path"),
            "{told}"
        );
        assert!(!told.contains("hunter"), "{told}");
        let by_variable = Case::new().variable("SESSIONGUARD_API__ADMIN_KEY_FILE", text);
        assert!(
            by_variable
                .told()
                .starts_with("SESSIONGUARD_API__ADMIN_KEY_FILE: fault: `admin_key_file`")
        );
    }
}

#[test]
fn files_that_cannot_be_read_are_faults() {
    for (name, reason) in [
        ("nowhere", "there is no such file"),
        (".", "a directory"),
        ("null", "not a regular file"),
    ] {
        let case = Case::new();
        let path = if name == "null" {
            "/dev/null".to_owned()
        } else {
            format!("{}/{name}", case.path())
        };
        let told = case.api(&format!("broker_key_file = \"{path}\"")).told();
        assert!(
            told.contains("the broker key cannot be read from") && told.contains(reason),
            "{told}"
        );
    }
}

#[test]
fn a_relative_path_starts_at_the_main_file() {
    let case = Case::new().file("b", &secret("b")).file("a", &secret("a"));
    let lines = "broker_key_file = \"./b\"\nadmin_key_file = \"./a\"";
    assert_eq!(case.api(lines).found().len(), 2);
    let case = Case::new().api("socket = \"run/the.sock\"\n[log]\naudit = \"./audit.json\"");
    let config = case.load().unwrap().config;
    let folder = Path::new(case.path());
    assert_eq!(
        config.api.socket,
        AdminSocket::At(folder.join("run/the.sock"))
    );
    assert_eq!(
        config.log.audit,
        AuditTarget::File(folder.join("./audit.json"))
    );
    let told = Case::new().api("broker_key_file = \"./nowhere\"").told();
    assert!(
        told.contains("help: create it: openssl rand -hex 32"),
        "{told}"
    );
}

#[test]
fn one_secret_for_two_purposes_or_twice_is_refused() {
    let same = secret("same");
    let case = Case::new().variable(BROKER, &same).variable(ADMIN, &same);
    assert_eq!(
        case.told(),
        "SESSIONGUARD_ADMIN_API_KEY: fault: the admin key is the same secret as the broker key
  the other: SESSIONGUARD_BROKER_API_KEY
  help: make another for one of them: openssl rand -hex 32"
    );
    let case = Case::new();
    let lines = format!("broker_key_file = \"{}/b\"", case.path());
    let case = case.api(&lines).file("b", &same).variable(BROKER, &same);
    let told = case.told();
    assert!(
        told.contains("main.toml:2:19: fault: the broker key is given twice, with the same secret"),
        "{told}"
    );
    // Two purposes collide even where one of the places is overruled.
    let case = case.variable(ADMIN, secret("b"));
    fs::write(case.folder.path().join("b"), secret("b")).unwrap();
    let told = case.told();
    assert!(
        told.contains("fault: the admin key is the same secret as the broker key"),
        "{told}"
    );
}

#[test]
fn a_file_that_everybody_may_read_is_warned_of() {
    let case = Case::new();
    let lines = format!("broker_key_file = \"{}/b\"", case.path());
    let case = case.api(&lines);
    for (mode, warned) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
        file(case.folder.path(), "b", &secret("b"), mode);
        let told = case.told();
        assert_eq!(
            told.contains("warning: everybody on this machine may read the broker key in b"),
            warned,
            "{told}"
        );
        assert_eq!(told.contains("help: chmod 0600"), warned, "{told}");
    }
}

#[test]
fn the_database_password_is_found_where_other_secrets_are_and_is_no_key() {
    const PASSWORD: &str = "SESSIONGUARD_DATABASE_PASSWORD";
    let case = Case::new();
    let lines = format!("[store]\npassword_file = \"{}/p\"\n", case.path());
    fs::write(&case.main, lines).unwrap();
    let case = case.file("p", "kept in a file\n");
    let password = |case: &Case| {
        let store = case.load().unwrap().config.store;
        store.postgres.password.unwrap().expose().to_owned()
    };
    assert_eq!(password(&case), "kept in a file");
    let folder = case.path().to_owned();
    let case = case
        .file("database-password", "kept by systemd")
        .variable("CREDENTIALS_DIRECTORY", folder);
    assert_eq!(password(&case), "kept by systemd");
    let case = case.variable(PASSWORD, "kept in a variable");
    assert_eq!(password(&case), "kept in a variable");
    assert_eq!(case.found(), []);
    let shown = show(&case.main, case.variables.clone(), true).unwrap();
    assert!(
        shown.contains("# the database password # SESSIONGUARD_DATABASE_PASSWORD"),
        "{shown}"
    );
    let loaded = format!("{:?}", case.load().unwrap());
    assert!(
        !shown.contains("kept") && !loaded.contains("kept"),
        "{shown}{loaded}"
    );

    let bad = Case::new().variable(PASSWORD, "hunter2");
    assert_eq!(
        bad.told(),
        "SESSIONGUARD_DATABASE_PASSWORD: fault: the database password: shorter than 12 characters
  help: give the role a longer one in the database: openssl rand -hex 32"
    );
    let same = secret("same");
    let twice = Case::new().variable(ADMIN, &same).variable(PASSWORD, &same);
    let told = twice.told();
    assert!(
        told.contains("the database password is the same secret as the admin key"),
        "{told}"
    );
}

#[test]
fn where_a_secret_came_from_is_shown_and_the_secret_is_not() {
    let case = Case::new();
    let lines = format!("broker_key_file = \"{}/b\"", case.path());
    let case = case
        .api(&lines)
        .file("b", &secret("b"))
        .variable(ADMIN, secret("a"));
    let shown = show(&case.main, case.variables.clone(), true).unwrap();
    let shown = shown.replace(&format!("{}/", case.path()), "");
    for line in [
        "broker_key_file = \"b\" # main.toml:2:19",
        "# the broker key # b",
        "# the admin key # SESSIONGUARD_ADMIN_API_KEY",
    ] {
        assert!(
            shown.lines().any(|l| l == line),
            "{line} is missing:\n{shown}"
        );
    }
    let loaded = format!("{:?}", case.load().unwrap());
    assert!(loaded.contains(ADMIN), "{loaded}");
    for name in ["a", "b"] {
        assert!(!shown.contains(&secret(name)) && !loaded.contains(&secret(name)));
    }
}
