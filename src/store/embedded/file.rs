//! The database's file: made for its owner alone, checked before it is used,
//! and named where it cannot be.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Database, ReadableTable};

use super::leases::{self, LEASES};
use super::{Files, META, SCHEMA, SCHEMA_KEY, failed};
use crate::store::StoreError;

/// Most memory for pages of the file, in bytes. What does not fit is with the
/// system's own cache: decisions that nobody asks for shall not stand in memory
/// for as long as we run.
const CACHE: usize = 96 << 10;

/// What to do about a file that cannot be read.
const MEND: &str = "move it away to start without leases, which users only notice as a fresh \
                    choice of host; modes that were ordered, keys and past decisions go with it";

/// Opens the files, making them where they are missing.
pub(super) fn open(path: &Path) -> Result<Files, StoreError> {
    let database = open_database(path)?;
    let beside = beside(path);
    let is_new = !beside.exists();
    let journal = Box::new(open_file(&beside)?);
    if is_new {
        sync_folder(path);
    }
    Ok(Files { database, journal })
}

/// A new file is there after a power cut only once its folder says so.
fn sync_folder(path: &Path) {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")));
    // Some file systems have no such thing, and need none.
    let _ = folder.and_then(|folder| folder.sync_all());
}

/// The journal of the database in that file.
pub(in crate::store) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    PathBuf::from(name)
}

/// Opens a file, readable by its owner alone: it says who works where.
fn open_file(path: &Path) -> Result<FileBackend, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| cannot_open(path, error))?;
    FileBackend::new(file).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, error: redb::DatabaseError) -> StoreError {
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => StoreError::InUse {
            path: path.to_owned(),
        },
        // A file that is no database, or one that was cut off.
        other => cannot_open(path, format_args!("{other}; {MEND}")),
    }
}

fn open_database(path: &Path) -> Result<Database, StoreError> {
    let file = open_file(path)?;
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    let database = builder.create_with_backend(file);
    let database = database.map_err(|error| unusable(path, error))?;
    check_schema(&database, path)?;
    // A page that is damaged is found now, not by the first user.
    let transaction = database.begin_write().map_err(failed)?;
    leases::check(&transaction)?;
    transaction.abort().map_err(failed)?;
    Ok(database)
}

/// The database panics on some kinds of damage; that is a file's fault, not
/// the end of the process.
pub(super) fn guarded<T>(
    path: &Path,
    open: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(open))
        .unwrap_or_else(|_| Err(cannot_open(path, format_args!("it is damaged; {MEND}"))))
}

pub(super) fn cannot_open(path: &Path, reason: impl std::fmt::Display) -> StoreError {
    StoreError::Open {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

pub(super) fn check_schema(database: &Database, path: &Path) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    let found = {
        transaction.open_table(LEASES).map_err(failed)?;
        transaction
            .open_table(super::decisions::DECISIONS)
            .map_err(failed)?;
        transaction
            .open_table(super::decisions::NAMES)
            .map_err(failed)?;
        transaction
            .open_table(super::documents::DOCUMENTS)
            .map_err(failed)?;
        let mut meta = transaction.open_table(META).map_err(failed)?;
        let found = meta.get(SCHEMA_KEY).map_err(failed)?.map(|n| n.value());
        if found.is_none() {
            meta.insert(SCHEMA_KEY, SCHEMA).map_err(failed)?;
        }
        found.unwrap_or(SCHEMA)
    };
    if found > SCHEMA {
        return Err(StoreError::Newer {
            path: PathBuf::from(path),
            found,
            known: SCHEMA,
        });
    }
    transaction.commit().map_err(failed)
}
