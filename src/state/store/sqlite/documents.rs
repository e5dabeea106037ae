//! Documents. A unique index guarantees that at most one document with the same subject is active.

use rusqlite::{Connection, params};

use super::rows;
use super::schema::int;
use crate::store::DocumentFilter;
use crate::store::records::{RecordKind, StoredRecord};
use baton_core::record::{DocumentRecord, HandoffId, HandoffStatus, Principal};

/// Supersedes the active document with the same subject.
const SUPERSEDE: &str = "UPDATE records SET state = 'superseded'
        WHERE kind = 'document' AND state = 'active' AND principal = ?1 AND place = ?2 AND id != ?3
        RETURNING id";

/// Archives older documents that were superseded or undone.
const ARCHIVE: &str = "UPDATE records SET state = 'archived'
        WHERE kind = 'document' AND state IN ('superseded', 'undone') AND used_ms < ?1
        RETURNING principal, id";

/// Writes a document. Returns the handoffs whose documents it supersedes.
pub(super) fn put(conn: &Connection, document: &DocumentRecord) -> rusqlite::Result<Vec<HandoffId>> {
    let record = StoredRecord::Document(Box::new(document.clone()));
    let superseded = match document.status {
        // Superseded first: the unique index allows only one active document with this subject.
        HandoffStatus::Active => {
            let mut statement = conn.prepare_cached(SUPERSEDE)?;
            let values = params![document.principal, record.place(), record.id()];
            let ids = statement.query_map(values, |row| row.get::<_, String>(0))?;
            ids.filter_map(|id| id.map(|id| id.parse().ok()).transpose())
                .collect::<Result<_, _>>()?
        }
        _ => Vec::new(),
    };
    rows::write(conn, &record)?;
    Ok(superseded)
}

/// Writes a document of another store. Returns whether anything changed.
///
/// A newer document that is active here supersedes it.
pub(super) fn import(conn: &Connection, document: &DocumentRecord) -> rusqlite::Result<bool> {
    let record = StoredRecord::Document(Box::new(document.clone()));
    let sql =
        "SELECT EXISTS (SELECT 1 FROM records WHERE kind = 'document' AND state = 'active' AND principal = ?1
        AND place = ?2 AND (used_ms, id) > (?3, ?4))";
    let created = int(document.created_ms);
    let values = params![document.principal, record.place(), created, record.id()];
    // Newer as in a list: by time, and within a millisecond by id.
    let newer: bool = conn.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    let mut document = document.clone();
    if document.status == HandoffStatus::Active && newer {
        document.status = HandoffStatus::Superseded;
    }
    if one(conn, &record.id())?.as_ref() == Some(&document) {
        return Ok(false);
    }
    put(conn, &document).map(|_| true)
}

fn one(conn: &Connection, id: &str) -> rusqlite::Result<Option<DocumentRecord>> {
    Ok(rows::one(conn, RecordKind::Document, id)?.and_then(StoredRecord::into_document))
}

pub(super) fn list(conn: &Connection, filter: &DocumentFilter) -> rusqlite::Result<Vec<DocumentRecord>> {
    let body = if filter.without_documents { "''" } else { "body" };
    // A separate statement for a given handoff, so that SQLite uses the index.
    let handoff = filter.handoff.map_or("1", |_| "id = ?2");
    let sql = format!(
        "SELECT principal, used_ms, state, record, {body} FROM records
         WHERE kind = 'document' AND (?1 IS NULL OR principal = ?1) AND {handoff}
         AND (?3 IS NULL OR state = ?3) AND (?4 IS NULL OR record ->> '$.topic' = ?4)
         ORDER BY used_ms DESC, id DESC LIMIT iif(?5 > 0, ?5, -1)"
    );
    let values = params![
        filter.principal,
        filter.handoff.map(|id| id.to_string()),
        filter.status.map(HandoffStatus::name),
        filter.topic,
        int(filter.limit as u64),
    ];
    let mut statement = conn.prepare_cached(&sql)?;
    let found = rows::listed(
        statement.query(values)?,
        RecordKind::Document,
        filter.handoff.is_some(),
    )?;
    Ok(found
        .into_iter()
        .filter_map(StoredRecord::into_document)
        .collect())
}

pub(super) fn set_status(
    conn: &Connection,
    principal: &str,
    id: HandoffId,
    status: HandoffStatus,
) -> rusqlite::Result<Option<Vec<HandoffId>>> {
    let found = one(conn, &id.to_string())?.filter(|document| document.principal == principal);
    let put = |document| put(conn, &DocumentRecord { status, ..document });
    found.map(put).transpose()
}

pub(super) fn archive(conn: &Connection, before_ms: u64) -> rusqlite::Result<Vec<(Principal, HandoffId)>> {
    let mut statement = conn.prepare_cached(ARCHIVE)?;
    let archived = statement.query_map([int(before_ms)], |row| {
        Ok((row.get(0)?, row.get::<_, String>(1)?))
    })?;
    let parsed = |(principal, id): (Principal, String)| Some((principal, id.parse().ok()?));
    archived.filter_map(|row| row.map(parsed).transpose()).collect()
}
