//! A file that lines are appended to, and that a rotation of logs may move
//! away: before each write it is looked whether the file is still where it was,
//! and if not one is made there anew. So nobody has to tell us, no line is lost,
//! and none is in two files.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file, and where it belongs.
#[derive(Debug)]
pub struct Appended {
    path: PathBuf,
    file: File,
}

impl Appended {
    /// Opens the file at this path, or makes it; its folder must be there.
    ///
    /// # Errors
    /// It cannot be opened for writing.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: append(path)?,
        })
    }

    /// As it is where nobody moves it.
    fn follow(&mut self) -> io::Result<()> {
        if was_moved(&self.path, &self.file) {
            self.file = append(&self.path)?;
        }
        Ok(())
    }
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.follow()?;
        self.file.write(bytes)
    }

    /// All of it goes to one file.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.follow()?;
        self.file.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Users' names are in it: it is nobody else's to read but the group's.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o640).open(path)
}

fn was_moved(path: &Path, file: &File) -> bool {
    match (path.metadata(), file.metadata()) {
        (Ok(there), Ok(ours)) => (there.dev(), there.ino()) != (ours.dev(), ours.ino()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_away_is_left_alone_and_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
        std::fs::write(&path, "old\n").unwrap();
        let mut appended = Appended::open(&path).unwrap();
        appended.write_all(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        appended.write_all(b"two\n").unwrap();
        // So is one that was removed, or that another program has made there.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "made\n").unwrap();
        appended.write_all(b"three\n").unwrap();
        let text = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(text(&moved), "old\none\n");
        assert_eq!(text(&path), "made\nthree\n");
        let mode = path.metadata().unwrap().mode();
        std::fs::remove_file(&path).unwrap();
        appended.write_all(b"four\n").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        assert_ne!(mode & 0o777, 0o640, "the other program's");
    }

    #[test]
    fn a_folder_that_is_gone_is_an_error_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("within");
        let path = within.join("log");
        assert!(Appended::open(&path).is_err());
        std::fs::create_dir(&within).unwrap();
        let mut appended = Appended::open(&path).unwrap();
        std::fs::remove_dir_all(&within).unwrap();
        assert!(appended.write_all(b"lost\n").is_err());
        std::fs::create_dir(&within).unwrap();
        appended.write_all(b"back\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "back\n");
    }
}
