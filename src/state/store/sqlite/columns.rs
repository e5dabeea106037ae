//! Values of columns, and errors of rows.

use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::state::store::foreign_record;

/// The error where no row was changed: the id exists and belongs to another principal.
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

// SQLite's integers are signed; times and sizes are far below the limit.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
