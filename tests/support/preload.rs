//! Libraries in C that stand between one broker and the system.

use std::path::Path;
use std::process::Command;

use super::Site;

/// Has the site's brokers load what `tests/support` holds under this name. It is made with the
/// linker's C compiler, which is there wherever Rust links programs.
pub(crate) fn preloading(site: Site, name: &str) -> Site {
    let library = site.folder().join(name).with_extension("so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source.join(name)])
        .output()
        .expect("cc");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    site.knowing("LD_PRELOAD", library.to_str().unwrap())
}
