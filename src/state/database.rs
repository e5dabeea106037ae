//! SQLite files with tables of one version. Knows nothing of what is in them.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

/// How long a statement waits for a lock of another process (a command that archives).
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Statements that a connection keeps prepared.
const PREPARED: usize = 64;

/// The version of the tables, which a file has as its `user_version`. An empty file has 0.
pub(crate) const VERSION: i64 = 1;

/// Why a file cannot be used.
pub(crate) enum DatabaseError {
    Sqlite(rusqlite::Error),
    /// It has tables of this version.
    OtherVersion(i64),
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Opens a file that is there.
pub(crate) fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(PREPARED);
    conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;")?;
    Ok(conn)
}

/// Creates the tables of an empty file.
pub(crate) fn create_tables(conn: &mut Connection, tables: &str) -> Result<(), DatabaseError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read inside the transaction: another process may have been faster.
    if !has_tables(&tx)? {
        tx.execute_batch(tables)?;
        tx.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(tx.commit()?)
}

/// Whether a file has its tables; an empty one has none.
pub(crate) fn has_tables(conn: &Connection) -> Result<bool, DatabaseError> {
    match conn.pragma_query_value(None, "user_version", |row| row.get(0))? {
        0 => Ok(false),
        VERSION => Ok(true),
        found => Err(DatabaseError::OtherVersion(found)),
    }
}
