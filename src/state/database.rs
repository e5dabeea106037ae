//! SQLite files whose schema has exactly one version. Independent of the schema itself.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row, TransactionBehavior};

/// How long a statement waits for another process that holds the lock, such as a command that archives.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Number of prepared statements cached per connection.
const PREPARED: usize = 64;

/// The reason why a file cannot be used.
pub(crate) enum DatabaseError {
    Sqlite(rusqlite::Error),
    /// The tables have this other version.
    OtherVersion(i64),
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Opens an existing file.
pub(crate) fn connect(file: &Path) -> rusqlite::Result<Connection> {
    // `NO_MUTEX`, because only one thread at a time uses a connection. Without `CREATE`, a missing file is an
    // error.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(PREPARED);
    // The files have neither. Those of another program could compute without end.
    for unused in [
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
    ] {
        conn.set_db_config(unused, false)?;
    }
    conn.pragma_update(None, "trusted_schema", false)?;
    // `secure_delete` overwrites deleted and replaced rows within their pages, which are written anyway.
    let pragmas = "PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = FAST;";
    conn.execute_batch(pragmas)?;
    Ok(conn)
}

/// Merges the log into the file and truncates it, unless another process uses it.
pub(crate) fn empty_log(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Creates the tables of an empty file.
///
/// `version` is stored as the file's `user_version`. An empty file has 0.
pub(crate) fn create_tables(conn: &mut Connection, tables: &str, version: i64) -> Result<(), DatabaseError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Checked inside the transaction: another process may have created the tables first.
    if !has_tables(&tx, version)? {
        tx.execute_batch(tables)?;
        tx.pragma_update(None, "user_version", version)?;
    }
    Ok(tx.commit()?)
}

/// Whether a file has its tables. An empty file does not.
///
/// # Errors
/// Returns [`DatabaseError::OtherVersion`] if the tables have another version.
pub(crate) fn has_tables(conn: &Connection, version: i64) -> Result<bool, DatabaseError> {
    match conn.pragma_query_value(None, "user_version", |row| row.get(0))? {
        0 => Ok(false),
        found if found == version => Ok(true),
        found => Err(DatabaseError::OtherVersion(found)),
    }
}

/// Runs a statement that the connection keeps prepared. Returns the number of changed rows.
pub(crate) fn run(conn: &Connection, sql: &str, values: impl Params) -> rusqlite::Result<usize> {
    conn.prepare_cached(sql)?.execute(values)
}

/// Reads the first row of a query that the connection keeps prepared, if there is one.
pub(crate) fn first<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    conn.prepare_cached(sql)?.query_row(values, read).optional()
}

/// Reads all rows of a query that the connection keeps prepared.
pub(crate) fn all<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    conn.prepare_cached(sql)?.query_map(values, read)?.collect()
}
