//! Bulk access to the whole file: pages of records, and writing records unchanged.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use uuid::Uuid;

use super::document_rows;
use super::rows::{self, PlacedTable, TouchedRecord};
use super::schema::{from_json, uint};
use crate::store::records::{PAGE, RecordKind, RecordPage, ResponseId, StoredRecord};

/// Returns a page of records, in the order of their first write.
pub(super) fn page(conn: &Connection, kind: RecordKind, after: &str) -> rusqlite::Result<RecordPage> {
    let mut page = RecordPage::default();
    let (table, id) = table(kind);
    let after: i64 = after.parse().unwrap_or(0);
    let sql = format!("SELECT rowid, {id} FROM {table} WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let listed = statement.query_map(params![after, PAGE], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let listed: Vec<(i64, Value)> = listed.collect::<Result<_, _>>()?;
    // A short page is the last one.
    let last = listed.last().filter(|_| listed.len() == PAGE);
    page.next = last.map(|(rowid, _)| rowid.to_string());
    for (rowid, id) in listed {
        match record(conn, kind, "rowid", &rowid) {
            Ok(found) => page.records.extend(found),
            Err(error) => {
                let id = match id {
                    Value::Blob(bytes) => Uuid::from_slice(&bytes).unwrap_or_default().to_string(),
                    Value::Text(key) => key,
                    _ => String::new(),
                };
                page.unreadable.push((id, error.to_string()));
            }
        }
    }
    Ok(page)
}

/// Writes records unchanged. Returns how many were missing or different.
pub(super) fn import(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    let mut changed = 0;
    for record in records {
        // An unreadable record is overwritten.
        let known = stored(conn, record).ok().flatten();
        if known.is_some_and(|known| known.covers(record)) {
            continue;
        }
        changed += 1;
        match record {
            StoredRecord::Document(document) => changed -= u64::from(!document_rows::import(conn, document)?),
            StoredRecord::Handoff(handoff) => {
                rows::put(conn, record)?;
                // `put` keeps the archive flag of an existing handoff, so it is set separately.
                rows::archive(conn, &handoff.principal, handoff.id, handoff.archived)?;
            }
            _ => rows::put(conn, record)?,
        }
    }
    Ok(changed)
}

/// Counts which of these records exist.
pub(super) fn has(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    let mut found = 0;
    for record in records {
        found += u64::from(stored(conn, record)?.is_some());
    }
    Ok(found)
}

/// Returns the table of a kind, and its id column.
fn table(kind: RecordKind) -> (&'static str, &'static str) {
    match kind {
        RecordKind::Handoff => ("handoffs", "id"),
        RecordKind::Placed(kind) => {
            let table = PlacedTable::for_kind(kind);
            (table.name, table.id)
        }
        RecordKind::ResponseId => ("response_ids", "shown"),
        RecordKind::Conversation => ("conversations", "key"),
        RecordKind::Document => ("documents", "handoff"),
    }
}

/// Returns the stored record with the same id.
fn stored(conn: &Connection, like: &StoredRecord) -> rusqlite::Result<Option<StoredRecord>> {
    let kind = like.kind();
    let by = |key: &dyn ToSql| record(conn, kind, table(kind).1, key);
    match like {
        StoredRecord::Handoff(handoff) => by(handoff.id.as_bytes()),
        StoredRecord::Placed { record, .. } => by(record.columns().id.as_bytes()),
        StoredRecord::Conversation(conversation) => by(&conversation.key),
        StoredRecord::Document(document) => by(document.handoff.as_bytes()),
        StoredRecord::ResponseId { record: of, .. } => {
            let sql = "SELECT rowid FROM response_ids WHERE principal = ?1 AND shown = ?2";
            let mut statement = conn.prepare_cached(sql)?;
            let found = statement.query_row([&of.principal, &of.shown], |row| row.get::<_, i64>(0));
            match found.optional()? {
                Some(rowid) => record(conn, kind, "rowid", &rowid),
                None => Ok(None),
            }
        }
    }
}

/// Returns the record of a kind with this value in a column, regardless of its owner.
fn record(
    conn: &Connection,
    kind: RecordKind,
    column: &str,
    key: &dyn ToSql,
) -> rusqlite::Result<Option<StoredRecord>> {
    let (table, _) = table(kind);
    let columns = match kind {
        RecordKind::Handoff => rows::WHOLE_HANDOFF,
        RecordKind::Placed(_) => "record, touched_ms",
        RecordKind::ResponseId => "principal, shown, upstream, touched_ms",
        RecordKind::Conversation => "record",
        RecordKind::Document => document_rows::DOCUMENT,
    };
    let sql = format!("SELECT {columns} FROM {table} WHERE {column} = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| read(kind, row);
    statement.query_row([key], read).optional()
}

fn read(kind: RecordKind, row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    Ok(match kind {
        RecordKind::Handoff => StoredRecord::Handoff(Box::new(rows::read_whole_handoff(row)?)),
        RecordKind::Placed(kind) => {
            let TouchedRecord { record, used_ms } = rows::read_placed(kind, row)?;
            StoredRecord::Placed { record, used_ms }
        }
        RecordKind::ResponseId => StoredRecord::ResponseId {
            record: ResponseId {
                principal: row.get(0)?,
                shown: row.get(1)?,
                upstream: row.get(2)?,
            },
            used_ms: uint(row.get(3)?),
        },
        RecordKind::Conversation => StoredRecord::Conversation(from_json(row, 0)?),
        RecordKind::Document => StoredRecord::Document(Box::new(document_rows::read(row)?)),
    })
}
