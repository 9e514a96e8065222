//! The host's key: what the broker gave at enrolment, in a file that only its
//! owner may read.

use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const OWNER_ONLY: u32 = 0o600;

/// Who this host is, and the secret that proves it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    agent_id: String,
    token: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("agent_id", &self.agent_id)
            .finish_non_exhaustive()
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("the key file {}: {error}; `sessionguard agent enroll` makes it", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Others may read it.
    #[error(
        "the key file {} can be read by others (mode {mode:03o}): chmod 600 it, and enrol again if \
         somebody may have looked", path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// There is no key in it.
    #[error("the key file {} holds no key: enrol again with `sessionguard agent enroll`", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// Nothing says whose key it is.
    #[error("the key file {} does not say whose key it is: set agent_id in agent.toml", path.display())]
    Nameless {
        /// The file.
        path: PathBuf,
    },
    /// Two places say different things.
    #[error("agent_id in agent.toml is {configured:?}, but the key in {} is that of {held:?}", path.display())]
    AnotherHosts {
        /// The file.
        path: PathBuf,
        /// Whose it should be.
        configured: String,
        /// Whose it is.
        held: String,
    },
}

impl Key {
    /// A key as the broker gives it; none where either part could not stand in
    /// a header.
    pub(super) fn new(agent_id: &str, token: &str) -> Option<Self> {
        let fits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        (fits(agent_id) && fits(token)).then(|| Self {
            agent_id: agent_id.to_owned(),
            token: token.to_owned(),
        })
    }

    /// This host's id.
    pub fn agent_id(&self) -> &str {
        &self.agent_id
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Reads a key file: as enrolment writes it, or the bare token of the host
    /// that `agent_id` names.
    ///
    /// # Errors
    /// There is none, others may read it, or it is another host's.
    pub fn load(path: &Path, agent_id: Option<&str>) -> Result<Self, KeyError> {
        let text = secret_file(path)?;
        let text = text.trim();
        let path = || path.to_owned();
        if !text.starts_with('{') {
            let agent_id = agent_id.ok_or_else(|| KeyError::Nameless { path: path() })?;
            return Self::new(agent_id, text).ok_or_else(|| KeyError::NoKey { path: path() });
        }
        let held = serde_json::from_str::<Self>(text).ok();
        let held = held.and_then(|key| Self::new(&key.agent_id, &key.token));
        let key = held.ok_or_else(|| KeyError::NoKey { path: path() })?;
        match agent_id {
            Some(configured) if configured != key.agent_id => Err(KeyError::AnotherHosts {
                path: path(),
                configured: configured.to_owned(),
                held: key.agent_id,
            }),
            _ => Ok(key),
        }
    }

    /// Writes the key file, in one step, for its owner alone.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self, path: &Path) -> Result<(), KeyError> {
        write_private(path, serde_json::json!(self).to_string().as_bytes()).map_err(|error| {
            KeyError::File {
                path: path.to_owned(),
                error,
            }
        })
    }
}

/// A text that only its owner may read.
///
/// # Errors
/// It cannot be read, or others may.
pub(super) fn secret_file(path: &Path) -> Result<String, KeyError> {
    let failed = |error| KeyError::File {
        path: path.to_owned(),
        error,
    };
    let mode = fs::metadata(path).map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    fs::read_to_string(path).map_err(failed)
}

/// Replaces a file in one step; only its owner may read it, from the first
/// byte on.
pub(super) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let draft = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(OWNER_ONLY);
    let mut file = options.open(&draft)?;
    // A draft left behind by another hand may have been more open.
    file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_for_its_owner_alone_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/agent.key");
        let key = Key::new("rds-a", "s3cret-token").unwrap();
        key.save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, OWNER_ONLY);
        let read = Key::load(&path, Some("rds-a")).unwrap();
        assert_eq!(read, key);
        assert!(format!("{read:?}").contains("rds-a") && !format!("{read:?}").contains("s3cret"));

        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let exposed = Key::load(&path, None).unwrap_err();
        assert!(
            matches!(exposed, KeyError::Exposed { mode: 0o640, .. }),
            "{exposed}"
        );
    }

    #[test]
    fn a_bare_token_needs_a_name_and_a_key_fits_one_host_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        write_private(&path, b"bare-token\n").unwrap();
        assert_eq!(Key::load(&path, Some("rds-b")).unwrap().agent_id(), "rds-b");
        assert!(matches!(
            Key::load(&path, None),
            Err(KeyError::Nameless { .. })
        ));
        Key::new("rds-a", "t").unwrap().save(&path).unwrap();
        assert!(matches!(
            Key::load(&path, Some("rds-b")),
            Err(KeyError::AnotherHosts { .. })
        ));
        for nothing in ["", "{}", "{\"agent_id\":\"\",\"token\":\"x\"}", "two words"] {
            write_private(&path, nothing.as_bytes()).unwrap();
            let error = Key::load(&path, Some("a")).unwrap_err();
            assert!(
                matches!(error, KeyError::NoKey { .. }),
                "{nothing}: {error}"
            );
        }
    }
}
