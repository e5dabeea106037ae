//! Creates and opens the database file, and converts column values and row errors.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode};

use crate::database::{self, BUSY, DatabaseError, create_tables, empty_log, has_tables};
use crate::store::{StoreError, StoreResult, foreign_record, make_whole};

/// Interval between attempts for the statement that ignores SQLite's busy timeout.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Size in bytes to which the write-ahead log is truncated after a burst.
const WAL_KEEP: u32 = 16 << 20;

/// Pages of the write-ahead log at which the writer checkpoints.
///
/// Fewer pages stay in the log: reads search through them, but a checkpoint costs two flushes.
pub(super) const LOG_PAGES: u32 = 1000;

/// Pages of the log at which a commit itself checkpoints and waits for it.
///
/// The writer's maintenance normally does it long before, between commits.
const WAL_PAGES: u32 = 8 * LOG_PAGES;

/// Settings that prevent a power loss from corrupting the file. `fullfsync` has an effect only on macOS.
///
/// The writer flushes commits itself.
const SOUND: &str = "PRAGMA synchronous = NORMAL; PRAGMA fullfsync = ON;";

/// Version of the table. Version 1 had a table for each kind.
const VERSION: i64 = 2;

/// The table of all records.
///
/// `place` is the key of an anchor, or the subject of a document. `state` is the status of a document, or
/// `archived` for an archived handoff. Long text is in the last column, so that listings do not read its overflow pages.
const SCHEMA: &str = "
    CREATE TABLE records (
        kind TEXT NOT NULL, id TEXT NOT NULL, principal TEXT NOT NULL, conversation TEXT NOT NULL, place TEXT,
        used_ms INTEGER NOT NULL, state TEXT NOT NULL, record TEXT NOT NULL, body TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX records_id ON records (kind, id);
    CREATE INDEX records_newest ON records (kind, used_ms, id);
    CREATE INDEX records_place ON records (kind, place, principal) WHERE place IS NOT NULL;
    CREATE UNIQUE INDEX documents_active ON records (principal, place) WHERE kind = 'document' AND state = 'active';
";

/// Opens the file for writing, and creates it with mode 0600 if needed.
///
/// # Errors
/// Returns an error if the file cannot be created or opened, is damaged, or has another schema version.
pub(super) fn open_or_create(file: &Path) -> StoreResult<Connection> {
    if matches!(fs::exists(file), Ok(false)) {
        // Created here, not by SQLite, which would use the umask. Its side files get the mode of the main
        // file.
        make_whole(file, fill, |err| open_error(file, &err))?;
    }
    let mut conn = connect(file)?;
    create_tables(&mut conn, SCHEMA, VERSION).map_err(|error| unopened(file, error))?;
    let settled = || {
        write_ahead(&conn)?;
        // After a failed flush the kernel may hold pages of a killed process's log that the disk does not. This
        // writes their content again, and to the file.
        empty_log(&conn)?;
        begin_log(&conn, file)?;
        settle(&conn)
    };
    settled().map_err(|err| explain(file, &err))?;
    Ok(conn)
}

/// Name of a database without a file in error messages.
pub(super) const IN_MEMORY: &str = ":memory:";

/// Opens an empty database without a file.
///
/// # Errors
/// Returns an error if SQLite cannot be set up.
pub(super) fn open_in_memory() -> StoreResult<Connection> {
    let mut conn = connect(Path::new(IN_MEMORY))?;
    create_tables(&mut conn, SCHEMA, VERSION).map_err(|error| unopened(Path::new(IN_MEMORY), error))?;
    Ok(conn)
}

fn settle(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(&format!(
        "{SOUND} PRAGMA journal_size_limit = {WAL_KEEP}; PRAGMA wal_autocheckpoint = {WAL_PAGES};"
    ))
}

/// Fills a new file without flushing. The caller flushes it once, while SQLite would flush ten times.
fn fill(temp: &Path) -> StoreResult<()> {
    let mut conn = connect(temp)?;
    conn.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        .map_err(|err| explain(temp, &err))?;
    create_tables(&mut conn, SCHEMA, VERSION).map_err(|error| unopened(temp, error))?;
    write_ahead(&conn).map_err(|err| explain(temp, &err))?;
    conn.close().map_err(|(_, err)| explain(temp, &err))
}

/// Writes the first frame of an empty log without a flush.
///
/// SQLite flushes the header and the directory entry of every new log, so that frames of an older log cannot
/// be taken for the new one's. Without an older log the first commit's flush is enough, and the first request
/// after a start does not wait for two more.
fn begin_log(conn: &Connection, file: &Path) -> rusqlite::Result<()> {
    conn.execute_batch("PRAGMA synchronous = OFF; BEGIN IMMEDIATE;")?;
    // Checked while holding the write lock, so nobody else can start a log meanwhile.
    let length = fs::metadata(log_of(file)).map_or(0, |log| log.len());
    match length {
        // Any write creates the first frame. This one changes nothing.
        0 => conn.execute_batch(&format!("PRAGMA user_version = {VERSION}; COMMIT;")),
        _ => conn.execute_batch("ROLLBACK;"),
    }
}

/// Returns the path of a database file's write-ahead log.
pub(super) fn log_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Opens an existing file. Returns `None` if it is missing or empty.
///
/// # Errors
/// Returns an error if the database cannot be opened, is damaged, or has another schema version.
pub(super) fn open_existing(file: &Path) -> StoreResult<Option<Connection>> {
    if !fs::exists(file).map_err(|err| open_error(file, &err))? {
        return Ok(None);
    }
    let conn = connect(file)?;
    // Commands may write as well, for example to archive.
    conn.execute_batch(SOUND).map_err(|err| explain(file, &err))?;
    let has_tables = has_tables(&conn, VERSION).map_err(|error| unopened(file, error))?;
    Ok(has_tables.then_some(conn))
}

/// Opens a connection that cannot write.
///
/// It does not use the read-only flag, with which SQLite could not replay the log of a killed process.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub(super) fn open_reader(file: &Path) -> StoreResult<Connection> {
    let conn = connect(file)?;
    conn.execute_batch("PRAGMA query_only = ON;")
        .map_err(|err| explain(file, &err))?;
    Ok(conn)
}

/// Converts the error of a failed open, and adds advice.
pub(super) fn explain(file: &Path, err: &rusqlite::Error) -> StoreError {
    match err.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::new(format!("{} is damaged ({err})", file.display())).with_help(
                "move it and its -wal and -shm files away, or restore a backup, and start again. Handoffs whose prompt is in \
                 a transcript stay valid by their seal",
            )
        }
        _ => open_error(file, err),
    }
}

fn connect(file: &Path) -> StoreResult<Connection> {
    database::connect(file).map_err(|err| explain(file, &err))
}

/// Sets the journal mode, which the file keeps.
///
/// This is the only statement for which SQLite ignores the busy timeout, if two processes create a file at
/// the same time. Therefore it is retried here.
fn write_ahead(conn: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        match conn.execute_batch("PRAGMA journal_mode = WAL;") {
            Err(err)
                if err.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < BUSY =>
            {
                thread::sleep(BUSY_PAUSE);
            }
            result => return result,
        }
    }
}

/// Converts a failed open, or the error of a file with another version.
fn unopened(file: &Path, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::Sqlite(err) => explain(file, &err),
        DatabaseError::OtherVersion(found) => StoreError::new(format!(
            "{} has schema version {found}, and this program knows version {VERSION}",
            file.display()
        ))
        .with_help("use the version of baton that wrote it, or another directory with --state-dir"),
    }
}

fn open_error(file: &Path, err: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(format!("cannot open {}: {err}", file.display()))
        .with_help("the state directory must exist and be writable (--state-dir gives another)")
}

/// Returns the error for writing to another principal's record.
pub(super) fn foreign(what: &str) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(foreign_record(what)))
}

pub(super) fn unwritable(err: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(err))
}

pub(super) fn unreadable(column: usize, err: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(err))
}

// SQLite's integers are signed. Times and sizes are far below the limit.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
