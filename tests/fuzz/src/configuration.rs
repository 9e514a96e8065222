//! A configuration of any bytes, or of the keys there are with any values: it
//! loads or it is refused with findings whose places exist, the same each time;
//! what loads is shown, and what is shown loads as the same; and a secret under
//! a name that says so is in nothing that is printed.

mod case;
mod document;
mod expect;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sessionguard::config::{Loaded, change, load, load_text, show, socket_despite_faults};
use tempfile::TempDir;

use case::{BESIDE, Case, MAIN, PIECE, SECRET};
use expect::Told;

/// Where the files of a case lie; secrets of each kind are there for all.
struct Stage {
    folder: TempDir,
}

thread_local! {
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
}

/// A [`Case`]. Counts what loaded, and every finding whose place was looked at.
pub fn run(input: &[u8]) -> usize {
    let case = Case::read(input);
    STAGE.with_borrow_mut(|stage| {
        let stage = stage.get_or_insert_with(Stage::new);
        stage.play(&case)
    })
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let stage = Self {
            folder: folder.unwrap(),
        };
        for folder in ["conf.d", "credentials"] {
            fs::create_dir(stage.path(folder)).unwrap();
        }
        let secrets = [
            ("good.key", format!("{SECRET}\n"), 0o600),
            ("other.key", format!("0{SECRET}"), 0o644),
            ("short.key", SECRET[..20].to_owned(), 0o600),
            ("blank.key", format!("{SECRET} {SECRET}"), 0o600),
            ("credentials/broker-api-key", format!("1{SECRET}"), 0o400),
        ];
        for (name, text, mode) in secrets {
            fs::write(stage.path(name), text).unwrap();
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(stage.path(name), mode).unwrap();
        }
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn play(&self, case: &Case) -> usize {
        for name in MAIN.iter().chain(BESIDE) {
            match case.files.iter().find(|(of_case, _)| of_case == name) {
                Some((_, text)) => fs::write(self.path(name), text).unwrap(),
                None => drop(fs::remove_file(self.path(name))),
            }
        }
        let main = self.path(case.files[0].0);
        let environment = case.environment(self.folder.path());
        let told = Told {
            folder: self.folder.path(),
            case,
        };
        let reached = match load(&main, environment.clone()) {
            Ok(loaded) => {
                told.loaded(&loaded);
                assert_eq!(load(&main, environment.clone()).as_ref(), Ok(&loaded));
                self.shown(&main, &loaded, &told);
                let shown = show(&main, environment.clone(), true);
                told.conceals(&shown.expect("what loads is shown"));
                1
            }
            Err(faults) => {
                told.refused(&faults);
                assert_eq!(load(&main, environment.clone()).as_ref(), Err(&faults));
                assert!(show(&main, environment.clone(), false).is_err());
                faults.findings().len()
            }
        };
        let _ = socket_despite_faults(&main, environment);
        reached + as_text(case)
    }

    /// What is shown without an environment loads again as it was.
    fn shown(&self, main: &Path, loaded: &Loaded, told: &Told<'_>) {
        const NONE: [(OsString, OsString); 0] = [];
        let Ok(plain) = load(main, NONE) else {
            // Something is said by a variable alone.
            return;
        };
        for origins in [false, true] {
            let shown = show(main, NONE, origins).expect("what loads is shown");
            told.conceals(&shown);
            let again = load_text("shown.toml", &shown);
            let again = again.unwrap_or_else(|faults| panic!("{faults}\nin\n{shown}"));
            let masked = expect::masked(&plain.config);
            assert_eq!(again.config, masked, "{shown}");
            assert!(change(&again.config, &masked).is_empty());
        }
        assert!(change(&loaded.config, &loaded.config).is_empty());
    }
}

/// The same texts without a file, which their names say how to read.
fn as_text(case: &Case) -> usize {
    let texts = case.files.iter().filter_map(|(name, text)| {
        let text = std::str::from_utf8(text).ok()?;
        Some((*name, text))
    });
    let told = Told {
        folder: Path::new(""),
        case,
    };
    let reached = texts.map(|(name, text)| match load_text(name, text) {
        Ok(loaded) => {
            told.loaded(&loaded);
            1
        }
        Err(faults) => {
            told.refused(&faults);
            faults.findings().len()
        }
    });
    reached.sum()
}

/// The configurations that are tested one by one, as they are and with a secret
/// among their lines; and some of the keys there are.
pub fn seeds(traces: &Path) -> Vec<Vec<u8>> {
    let project = traces.join("../../../..");
    let mut seeds = vec![Vec::new()];
    for folder in [
        "config",
        "tests/data/config/valid",
        "tests/data/config/invalid",
        "tests/data/config/examples",
    ] {
        let entries = fs::read_dir(project.join(folder)).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let ending = path.extension().and_then(|ending| ending.to_str());
            let is_json = match ending {
                Some("toml") => false,
                Some("json") if !path.ends_with("sessionguard.schema.json") => true,
                _ => continue,
            };
            let text = fs::read(&path).unwrap();
            // Longer ones would be cut, and say nothing that shorter ones do not.
            if text.len() < 6_000 {
                let nth = u8::try_from(seeds.len() % 200).unwrap();
                seeds.push(case::raw(is_json, nth, &text));
            }
        }
    }
    seeds.extend(case::seeds());
    seeds
}

/// How often a text holds part of a secret.
fn pieces(text: &[u8]) -> usize {
    let piece = PIECE.as_bytes();
    text.windows(piece.len()).filter(|w| *w == piece).count()
}
