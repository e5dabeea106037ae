//! Writes records of any kind. One document may supersede another.

use rusqlite::Connection;

use super::documents;
use super::rows::{archive, one, write};
use crate::store::records::StoredRecord;

/// Writes a record of any kind.
pub(super) fn put(conn: &Connection, record: &StoredRecord) -> rusqlite::Result<()> {
    match record {
        StoredRecord::Document(document) => documents::put(conn, document).map(drop),
        _ => write(conn, record),
    }
}

/// Writes records unchanged. Returns how many were missing or different.
pub(super) fn import(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    let mut changed = 0;
    for record in records {
        // An unreadable record is overwritten.
        let known = one(conn, record.kind(), &record.id()).ok().flatten();
        if known.is_some_and(|known| known.covers(record)) {
            continue;
        }
        changed += 1;
        match record {
            StoredRecord::Document(document) => changed -= u64::from(!documents::import(conn, document)?),
            StoredRecord::Handoff(handoff) => {
                write(conn, record)?;
                // `write` keeps the archive flag of an existing handoff, so it is set separately.
                archive(conn, &handoff.principal, &record.id(), handoff.archived)?;
            }
            _ => write(conn, record)?,
        }
    }
    Ok(changed)
}
