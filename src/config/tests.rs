//! Every file of `tests/data/config` is a case: adding a case is adding a file.
//!
//! `valid` holds files that load, `invalid` files that are refused; a directory
//! is a case with its `sessionguard.toml`. Beside each stands `NAME.expected`
//! with the findings exactly as printed; a valid case without one has none.
//! With `BLESS=1` in the environment the expected files are written instead;
//! read what changed before you keep it.

mod environment;
mod folder;
mod hostile;
mod keys;
mod samples;
mod schema;
mod secrets;
mod show;

use std::fs;
use std::path::{Path, PathBuf};

use super::{Finding, Loaded, load};

fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn data(name: &str) -> PathBuf {
    project().join("tests/data/config").join(name)
}

/// Loads a case and prints its findings with paths as seen from `root`.
fn run(path: &Path, root: &Path) -> (Option<Loaded>, String) {
    let (loaded, text) = match load(path, []) {
        Ok(loaded) => {
            let text = print(&loaded.warnings);
            (Some(loaded), text)
        }
        Err(faults) => (None, faults.to_string()),
    };
    let root = format!("{}/", root.display());
    (loaded, text.replace(&root, ""))
}

fn print(findings: &[Finding]) -> String {
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    findings.join("\n")
}

fn cases(root: &Path) -> Vec<(String, PathBuf)> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            cases.push((name, path.join("sessionguard.toml")));
        } else if path.extension().is_some_and(|end| end != "expected") {
            cases.push((name, path));
        }
    }
    cases.sort();
    cases
}

/// Expected findings whose case is gone.
fn orphans(root: &Path, cases: &[(String, PathBuf)]) -> Vec<String> {
    let entries = fs::read_dir(root).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "expected"))
        .filter(|path| {
            !cases
                .iter()
                .any(|(name, _)| path.file_stem() == Some(name.as_ref()))
        })
        .map(|path| format!("{} belongs to no case\n", path.display()))
        .collect()
}

/// Differences over all cases of a kind, each printed whole.
fn differences(kind: &str, valid: bool) -> Vec<String> {
    let root = data(kind);
    let cases = cases(&root);
    assert!(cases.len() >= 5, "{} holds too few cases", root.display());
    let bless = std::env::var_os("BLESS").is_some();
    let mut differences = orphans(&root, &cases);
    for (name, path) in cases {
        let (loaded, printed) = run(&path, &root);
        if loaded.is_some() != valid {
            differences.push(format!("{kind}/{name} must be {kind}, got:\n{printed}\n"));
            continue;
        }
        let expected_path = root.join(format!("{name}.expected"));
        if bless && !printed.is_empty() {
            fs::write(&expected_path, format!("{printed}\n")).unwrap();
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if expected.trim_end() != printed {
            differences.push(format!(
                "{kind}/{name} expected:\n{expected}got:\n{printed}\n"
            ));
        }
    }
    differences
}

#[test]
fn valid_cases_load_with_the_expected_warnings() {
    let differences = differences("valid", true);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn invalid_cases_are_refused_with_the_expected_findings() {
    let differences = differences("invalid", false);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
