//! SQL for bulk access to the whole file: pages of records, and records written unchanged.

use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::document_rows;
use super::rows::{self, PlacedTable};
use super::schema::uint;
use crate::state::store::records::{PAGE, RecordKind, RecordPage, ResponseId, StoredRecord};

/// The separator in a response id's key.
const BETWEEN: char = '\u{1f}';

/// A page of records, in the order in which they were written first.
pub(super) fn page(conn: &Connection, kind: RecordKind, after: &str) -> rusqlite::Result<RecordPage> {
    let mut page = RecordPage::default();
    if kind == RecordKind::ResponseId {
        let (principal, shown) = after.split_once(BETWEEN).unwrap_or(("", ""));
        let sql = "SELECT principal, shown, upstream, touched_ms FROM response_ids WHERE (principal, shown) > (?1, ?2)
            ORDER BY principal, shown LIMIT ?3";
        let mut statement = conn.prepare_cached(sql)?;
        for record in statement.query_map(params![principal, shown, PAGE], response_id)? {
            page.records.push(record?);
        }
        if let Some(StoredRecord::ResponseId { record, .. }) =
            page.records.last().filter(|_| page.records.len() == PAGE)
        {
            page.next = Some(format!("{}{BETWEEN}{}", record.principal, record.shown));
        }
        return Ok(page);
    }
    let (table, id) = table(kind);
    let after: i64 = after.parse().unwrap_or(0);
    let sql = format!("SELECT rowid, {id} FROM {table} WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let listed = statement.query_map(params![after, PAGE], |row| {
        Ok((row.get(0)?, row.get::<_, RowId>(1)?))
    })?;
    let listed: Vec<(i64, RowId)> = listed.collect::<Result<_, _>>()?;
    page.next = listed
        .last()
        .filter(|_| listed.len() == PAGE)
        .map(|(rowid, _)| rowid.to_string());
    for (_, id) in listed {
        match record(conn, kind, &id) {
            Ok(found) => page.records.extend(found),
            Err(error) => page.unreadable.push((id.to_string(), error.to_string())),
        }
    }
    Ok(page)
}

/// Writes records as they are; returns how many were not there like this.
pub(super) fn import(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    let mut changed = 0;
    for record in records {
        // One that cannot be read is rewritten.
        let known = stored(conn, record).ok().flatten();
        if known.is_some_and(|known| known.covers(record)) {
            continue;
        }
        changed += 1;
        match record {
            StoredRecord::Document(document) => changed -= u64::from(!document_rows::import(conn, document)?),
            StoredRecord::Handoff(handoff) => {
                rows::put(conn, record)?;
                rows::archive(conn, &handoff.principal, handoff.id, handoff.archived)?;
            }
            _ => rows::put(conn, record)?,
        }
    }
    Ok(changed)
}

/// How many of these records are there.
pub(super) fn has(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    let mut found = 0;
    for record in records {
        found += u64::from(stored(conn, record)?.is_some());
    }
    Ok(found)
}

/// An id as its table has it.
enum RowId {
    Uuid(Uuid),
    Key(String),
}

impl rusqlite::types::FromSql for RowId {
    fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
        match value {
            rusqlite::types::ValueRef::Text(_) => Ok(Self::Key(value.as_str()?.to_owned())),
            _ => {
                let bytes = <[u8; 16]>::column_result(value)?;
                Ok(Self::Uuid(Uuid::from_bytes(bytes)))
            }
        }
    }
}

impl std::fmt::Display for RowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uuid(id) => id.fmt(f),
            Self::Key(key) => f.write_str(key),
        }
    }
}

/// The table of a kind, and its column of ids.
fn table(kind: RecordKind) -> (&'static str, &'static str) {
    match kind {
        RecordKind::Handoff => ("handoffs", "id"),
        RecordKind::Placed(kind) => {
            let table = PlacedTable::of(kind);
            (table.name, table.id)
        }
        RecordKind::ResponseId => ("response_ids", "shown"),
        RecordKind::Conversation => ("conversations", "key"),
        RecordKind::Document => ("documents", "handoff"),
    }
}

/// The stored record of an id.
fn stored(conn: &Connection, like: &StoredRecord) -> rusqlite::Result<Option<StoredRecord>> {
    let id = match like {
        StoredRecord::Handoff(handoff) => RowId::Uuid(handoff.id),
        StoredRecord::Placed { record, .. } => RowId::Uuid(record.columns().id),
        StoredRecord::Conversation(conversation) => RowId::Key(conversation.key.clone()),
        StoredRecord::Document(document) => RowId::Uuid(document.handoff),
        StoredRecord::ResponseId { record, .. } => {
            let sql = "SELECT principal, shown, upstream, touched_ms FROM response_ids WHERE principal = ?1 AND shown = ?2";
            let mut statement = conn.prepare_cached(sql)?;
            return statement
                .query_row([&record.principal, &record.shown], response_id)
                .optional();
        }
    };
    record(conn, like.kind(), &id)
}

fn record(conn: &Connection, kind: RecordKind, id: &RowId) -> rusqlite::Result<Option<StoredRecord>> {
    let id = match id {
        RowId::Uuid(id) => *id,
        RowId::Key(key) => {
            let found = rows::conversation(conn, key)?;
            return Ok(found.map(|record| StoredRecord::Conversation(Box::new(record))));
        }
    };
    Ok(match kind {
        RecordKind::Handoff => {
            let found = rows::handoff(conn, None, id)?;
            found.map(|handoff| StoredRecord::Handoff(Box::new(handoff)))
        }
        RecordKind::Placed(kind) => rows::placed_by_id(conn, kind, id)?.map(|found| StoredRecord::Placed {
            record: found.record,
            used_ms: found.used_ms,
        }),
        RecordKind::Document => {
            document_rows::one(conn, id)?.map(|document| StoredRecord::Document(Box::new(document)))
        }
        RecordKind::ResponseId | RecordKind::Conversation => None,
    })
}

fn response_id(row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    Ok(StoredRecord::ResponseId {
        record: ResponseId {
            principal: row.get(0)?,
            shown: row.get(1)?,
            upstream: row.get(2)?,
        },
        used_ms: uint(row.get(3)?),
    })
}
