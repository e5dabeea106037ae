//! Creates and opens the database file.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rusqlite::Connection;

use crate::database::{DatabaseError, connect, create_tables, has_tables};

/// Name of the file in the state directory.
pub const FILE: &str = "journal.db";

/// Size in bytes at which the write-ahead log is checkpointed, and to which it is truncated after a burst.
///
/// For a small size bound, the log gets this fraction of the bound.
const LOG: u64 = 4 << 20;
const LOG_PART: u64 = 16;

/// Bytes of a page: SQLite's default.
const PAGE: u64 = 4096;

/// Bytes of the file that are memory-mapped, since the chunks of a transcript are scattered over it.
const MAPPED: u32 = 256 << 20;

/// Version of the tables.
const VERSION: i64 = 1;

/// Tables of the journal.
///
/// A body is three chains of nodes (head, messages, tail). A body refers to the last node of each, and each
/// node to its parent. Two bodies with an equal beginning share the chain up to the first difference, so a
/// turn costs only its new part. `refs` counts the references to a node or a chunk. Rows without references
/// are collected.
///
/// Headers are a chunk shared by all lists with the same names, and an object with the values that differ
/// (`…_own`), by index.
const SCHEMA: &str = "
    CREATE TABLE pieces (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, refs INTEGER NOT NULL, size INTEGER NOT NULL,
        packed INTEGER NOT NULL, exchange INTEGER NOT NULL, side TEXT NOT NULL, role TEXT, kind TEXT, line TEXT,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX pieces_unused ON pieces (id) WHERE refs = 0;
    CREATE TABLE nodes (
        id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, piece INTEGER NOT NULL, gap TEXT NOT NULL,
        refs INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX nodes_next ON nodes (parent, piece, gap);
    CREATE INDEX nodes_unused ON nodes (id) WHERE refs = 0;
    CREATE TABLE exchanges (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, at_ms INTEGER NOT NULL, ended INTEGER,
        conversation TEXT, principal TEXT, wire TEXT, model TEXT, upstream TEXT, route TEXT, call TEXT,
        received_bytes INTEGER NOT NULL DEFAULT 0, sent_bytes INTEGER NOT NULL DEFAULT 0,
        fired INTEGER NOT NULL DEFAULT 0, saved_tokens INTEGER NOT NULL DEFAULT 0,
        partial INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, messages INTEGER NOT NULL DEFAULT 0,
        head INTEGER NOT NULL DEFAULT 0, list INTEGER NOT NULL DEFAULT 0, tail INTEGER NOT NULL DEFAULT 0,
        headers INTEGER NOT NULL DEFAULT 0, headers_own TEXT,
        shown INTEGER NOT NULL DEFAULT 0, shown_cut INTEGER NOT NULL DEFAULT 0,
        shown_headers INTEGER NOT NULL DEFAULT 0, shown_headers_own TEXT, event TEXT, answer TEXT
    ) STRICT;
    CREATE INDEX exchanges_conversation ON exchanges (conversation);
    CREATE INDEX exchanges_ended ON exchanges (ended);
    CREATE INDEX exchanges_failed ON exchanges (conversation) WHERE failed;
    CREATE TABLE legs (
        exchange INTEGER NOT NULL, n INTEGER NOT NULL, at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL,
        messages INTEGER NOT NULL, head INTEGER NOT NULL, list INTEGER NOT NULL, tail INTEGER NOT NULL,
        changes TEXT NOT NULL, url TEXT NOT NULL, sent_headers INTEGER NOT NULL DEFAULT 0, sent_headers_own TEXT,
        status INTEGER, answered_ms INTEGER, ended_ms INTEGER, headers INTEGER NOT NULL DEFAULT 0, headers_own TEXT,
        response INTEGER NOT NULL DEFAULT 0, response_bytes INTEGER NOT NULL DEFAULT 0,
        response_cut INTEGER NOT NULL DEFAULT 0, stop TEXT, usage TEXT,
        PRIMARY KEY (exchange, n)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE titles (conversation TEXT PRIMARY KEY, title TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

/// The reason why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A statement failed.
    #[error("the journal cannot be read or written: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file cannot be accessed.
    #[error("the journal cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// Any other reason.
    #[error("{0}")]
    Unusable(String),
}

/// A result of reading or writing the journal.
pub type JournalResult<T> = Result<T, JournalError>;

/// Converts the failure to open the file.
fn unopened(file: &Path, error: DatabaseError) -> JournalError {
    match error {
        DatabaseError::Sqlite(error) => error.into(),
        DatabaseError::OtherVersion(found) => JournalError::Unusable(format!(
            "{} has schema version {found}, and this program knows version {VERSION}: use the version of baton that wrote it, \
                or move the file away",
            file.display()
        )),
    }
}

/// Returns the path of a state directory's journal.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Creates the file, readable only by its owner, and opens it.
pub(super) fn make(dir: &Path) -> JournalResult<Connection> {
    crate::store::make_dir(dir).map_err(|error| JournalError::Unusable(error.message))?;
    let file = file(dir);
    crate::store::make_whole(&file, fill, JournalError::from)?;
    open(dir)
}

/// Whether the file exists.
pub(super) fn is_there(dir: &Path) -> JournalResult<bool> {
    Ok(fs::exists(file(dir))?)
}

/// Opens the file for writing.
pub(super) fn open(dir: &Path) -> JournalResult<Connection> {
    let file = file(dir);
    let mut conn = connect(&file)?;
    // `NORMAL` may lose the last exchanges in a power loss but never breaks the file. Only the store must not
    // lose anything.
    conn.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = {LOG};"
    ))?;
    create_tables(&mut conn, SCHEMA, VERSION).map_err(|error| unopened(&file, error))?;
    Ok(conn)
}

/// Keeps the write-ahead log small relative to the bound of the file.
pub(super) fn bound_log(conn: &Connection, max_bytes: u64) -> rusqlite::Result<()> {
    let most = (max_bytes / LOG_PART).clamp(16 * PAGE, LOG);
    conn.execute_batch(&format!(
        "PRAGMA journal_size_limit = {most}; PRAGMA wal_autocheckpoint = {};",
        most / PAGE
    ))
}

/// Creates the tables without flushing. The caller flushes the new file once, while SQLite would flush ten
/// times.
fn fill(temp: &Path) -> JournalResult<()> {
    let mut conn = connect(temp)?;
    // Must precede the first table. `auto_vacuum` allows a shrunken journal to return its pages to the file
    // system.
    conn.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = OFF;",
    )?;
    create_tables(&mut conn, SCHEMA, VERSION).map_err(|error| unopened(temp, error))?;
    conn.execute_batch("PRAGMA journal_mode = WAL;")?;
    conn.close().map_err(|(_, error)| error.into())
}

/// Opens an existing file for reading. Returns `None` if nothing was ever written.
///
/// Not opened with the read-only flag: SQLite could not replay the log that a killed process left.
pub(super) fn open_reader(dir: &Path) -> JournalResult<Option<Connection>> {
    if !is_there(dir)? {
        return Ok(None);
    }
    let file = file(dir);
    let conn = connect(&file)?;
    conn.execute_batch(&format!("PRAGMA query_only = ON; PRAGMA mmap_size = {MAPPED};"))?;
    let has_tables = has_tables(&conn, VERSION).map_err(|error| unopened(&file, error))?;
    Ok(has_tables.then_some(conn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_schema_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let conn = make(dir.path()).unwrap();
        for version in [2, -1] {
            conn.pragma_update(None, "user_version", version).unwrap();
            for refused in [open(dir.path()).map(drop), open_reader(dir.path()).map(drop)] {
                let refused = refused.unwrap_err().to_string();
                let told = format!("has schema version {version}, and this program knows version 1");
                assert!(
                    refused.contains(&told) && refused.contains("move the file away"),
                    "{refused}"
                );
            }
        }
    }
}
