//! Bulk access to the whole file: pages of records, and writing records unchanged.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};
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
        match record(conn, kind, "rowid = ?1", [rowid]) {
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

/// Returns a condition that selects the stored record with the same id, and its parameters.
fn same_id(like: &StoredRecord) -> (String, Vec<Value>) {
    let id = |id: &Uuid| Value::Blob(id.as_bytes().to_vec());
    let value = match like {
        StoredRecord::Handoff(handoff) => id(&handoff.id),
        StoredRecord::Placed { record, .. } => id(&record.columns().id),
        StoredRecord::Conversation(conversation) => Value::Text(conversation.key.clone()),
        StoredRecord::Document(document) => id(&document.handoff),
        StoredRecord::ResponseId { record, .. } => {
            let values = [&record.principal, &record.shown].map(|value| Value::Text(value.clone()));
            return ("principal = ?1 AND shown = ?2".to_owned(), values.into());
        }
    };
    (format!("{} = ?1", table(like.kind()).1), vec![value])
}

/// Returns the stored record with the same id.
fn stored(conn: &Connection, like: &StoredRecord) -> rusqlite::Result<Option<StoredRecord>> {
    let (condition, values) = same_id(like);
    record(conn, like.kind(), &condition, params_from_iter(values))
}

/// Deletes records. Returns how many existed.
pub(super) fn delete(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    // Overwrites whole pages as well, which would otherwise keep their bytes while they are free.
    conn.pragma_update(None, "secure_delete", true)?;
    let mut gone = 0;
    for record in records {
        let (condition, values) = same_id(record);
        let sql = format!("DELETE FROM {} WHERE {condition}", table(record.kind()).0);
        gone += conn.prepare_cached(&sql)?.execute(params_from_iter(values))?;
    }
    Ok(gone as u64)
}

/// Returns the record of a kind that a condition selects, regardless of its owner.
fn record(
    conn: &Connection,
    kind: RecordKind,
    condition: &str,
    values: impl Params,
) -> rusqlite::Result<Option<StoredRecord>> {
    let (table, _) = table(kind);
    let columns = match kind {
        RecordKind::Handoff => rows::WHOLE_HANDOFF,
        RecordKind::Placed(_) => "record, touched_ms",
        RecordKind::ResponseId => "principal, shown, upstream, touched_ms",
        RecordKind::Conversation => "record",
        RecordKind::Document => document_rows::DOCUMENT,
    };
    let sql = format!("SELECT {columns} FROM {table} WHERE {condition}");
    let mut statement = conn.prepare_cached(&sql)?;
    statement.query_row(values, |row| read(kind, row)).optional()
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
