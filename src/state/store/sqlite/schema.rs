//! Creates and opens the database file, and converts column values and row errors.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::database::{self, BUSY, DatabaseError, VERSION, create_tables, has_tables};
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

/// Settings that prevent a power loss from corrupting the file. macOS needs the second one.
///
/// The writer flushes commits itself.
const SOUND: &str = "PRAGMA synchronous = NORMAL; PRAGMA fullfsync = ON;";

/// Tables of the store.
///
/// Large strings are the last columns of a row, so that listings do not read their overflow pages.
const SCHEMA: &str = "
    CREATE TABLE handoffs (
        id BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, wire TEXT NOT NULL,
        created_ms INTEGER NOT NULL, archived INTEGER NOT NULL, parent BLOB, model TEXT,
        history_bytes INTEGER NOT NULL, origin TEXT NOT NULL, spelled_out INTEGER, recall INTEGER NOT NULL, routed TEXT,
        carried TEXT NOT NULL,
        reason TEXT, prompt TEXT NOT NULL, head TEXT NOT NULL
    ) STRICT;
    CREATE INDEX handoffs_newest ON handoffs (created_ms, id);
    CREATE TABLE pairs (
        id BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, sibling TEXT,
        touched_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX pairs_sibling ON pairs (sibling, principal) WHERE sibling IS NOT NULL;
    CREATE TABLE cut_points (
        handoff BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, digest TEXT NOT NULL,
        touched_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX cut_points_digest ON cut_points (digest, principal);
    CREATE TABLE insertions (
        id BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, place TEXT,
        touched_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX insertions_place ON insertions (place, principal) WHERE place IS NOT NULL;
    CREATE TABLE conversations (
        key TEXT PRIMARY KEY, principal TEXT NOT NULL, updated_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
    CREATE TABLE response_ids (
        principal TEXT NOT NULL, shown TEXT NOT NULL, upstream TEXT NOT NULL, touched_ms INTEGER NOT NULL,
        PRIMARY KEY (principal, shown)
    ) STRICT;
    CREATE TABLE documents (
        handoff BLOB PRIMARY KEY, principal TEXT NOT NULL, repository TEXT NOT NULL, branch TEXT NOT NULL,
        topic TEXT NOT NULL, status TEXT NOT NULL, created_ms INTEGER NOT NULL, folder TEXT NOT NULL, document TEXT NOT NULL
    ) STRICT;
    CREATE INDEX documents_newest ON documents (created_ms, handoff);
    CREATE UNIQUE INDEX documents_active ON documents (principal, repository, branch, topic) WHERE status = 'active';
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
    create_tables(&mut conn, SCHEMA).map_err(|error| unopened(file, error))?;
    let settled = || {
        write_ahead(&conn)?;
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
    create_tables(&mut conn, SCHEMA).map_err(|error| unopened(Path::new(IN_MEMORY), error))?;
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
    create_tables(&mut conn, SCHEMA).map_err(|error| unopened(temp, error))?;
    write_ahead(&conn).map_err(|err| explain(temp, &err))?;
    conn.close().map_err(|(_, err)| explain(temp, &err))
}

/// Moves the log that a killed process left to the file, and truncates it.
///
/// After a failed flush the kernel may hold pages of the log that the disk does not. The checkpoint writes
/// their content again, and to the file. It does nothing while another process uses the store.
fn empty_log(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
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
    match fs::metadata(file) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(open_error(file, &err)),
        Ok(_) => {}
    }
    let conn = connect(file)?;
    // Commands may write as well, for example to archive.
    conn.execute_batch(SOUND).map_err(|err| explain(file, &err))?;
    let has_tables = has_tables(&conn).map_err(|error| unopened(file, error))?;
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
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::new(format!(
            "{} is damaged ({err}): move it and its -wal and -shm files away, or restore a backup, and start \
                 again. Handoffs whose prompt is in a transcript stay valid by their seal",
            file.display()
        )),
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
            "{} has schema version {found}, and this program knows version {VERSION}: use the version of baton that wrote it, \
                 or another directory with --state-dir",
            file.display()
        )),
    }
}

fn open_error(file: &Path, err: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(format!(
        "cannot open {}: {err}; the state directory must exist and be writable (--state-dir gives another)",
        file.display()
    ))
}

/// Returns an error if no row was changed: the id exists and belongs to another principal.
pub(super) fn owned(changed: usize, what: &str) -> rusqlite::Result<()> {
    if changed == 0 {
        return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(foreign_record(
            what,
        ))));
    }
    Ok(())
}

pub(super) fn to_json<T: Serialize>(record: &T) -> rusqlite::Result<String> {
    serde_json::to_string(record).map_err(|err| rusqlite::Error::ToSqlConversionFailure(Box::new(err)))
}

pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|err| unreadable(column, err))
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
