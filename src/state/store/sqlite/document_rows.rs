//! Documents as rows. A unique index guarantees that at most one document with the same key is active.

use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::schema::{int, owned, uint};
use crate::store::DocumentFilter;
use baton_core::record::{DocumentRecord, HandoffId, HandoffStatus, Principal};

/// Columns of a document, in the order that `read` expects.
pub(super) const DOCUMENT: &str =
    "handoff, principal, repository, branch, topic, status, created_ms, folder, document";

/// Writes a document. Changes nothing if it belongs to another principal.
const PUT: &str = "INSERT INTO documents
          (handoff, principal, repository, branch, topic, status, created_ms, folder, document)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (handoff) DO UPDATE SET repository = ?3, branch = ?4, topic = ?5, status = ?6, created_ms = ?7,
          folder = ?8, document = ?9
        WHERE principal = ?2";

/// Supersedes the active document with the same key.
const SUPERSEDE: &str = "UPDATE documents SET status = 'superseded'
        WHERE status = 'active' AND principal = ?1 AND repository = ?2 AND branch = ?3 AND topic = ?4 AND handoff != ?5
        RETURNING handoff";

/// Archives older documents that were superseded or undone.
const ARCHIVE: &str =
    "UPDATE documents SET status = 'archived' WHERE status IN ('superseded', 'undone') AND created_ms < ?1
        RETURNING principal, handoff";

pub(super) fn put(conn: &Connection, document: &DocumentRecord) -> rusqlite::Result<Vec<HandoffId>> {
    let superseded = match document.status {
        // Superseded first: the unique index allows only one active document with this key.
        HandoffStatus::Active => supersede(conn, document)?,
        _ => Vec::new(),
    };
    let changed = conn.prepare_cached(PUT)?.execute(params![
        document.handoff.as_bytes(),
        document.principal,
        document.repository,
        document.branch,
        document.topic,
        document.status.name(),
        int(document.created_ms),
        document.directory,
        document.document,
    ])?;
    owned(changed, "write a document")?;
    Ok(superseded)
}

/// Writes a document of another store. Returns whether anything changed.
///
/// A newer document that is active here supersedes it.
pub(super) fn import(conn: &Connection, document: &DocumentRecord) -> rusqlite::Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM documents WHERE status = 'active' AND principal = ?1 AND repository = ?2
        AND branch = ?3 AND topic = ?4 AND (created_ms, handoff) > (?5, ?6))";
    let newer: bool = conn.prepare_cached(sql)?.query_row(
        params![
            document.principal,
            document.repository,
            document.branch,
            document.topic,
            int(document.created_ms),
            document.handoff.as_bytes()
        ],
        |row| row.get(0),
    )?;
    let mut document = document.clone();
    if document.status == HandoffStatus::Active && newer {
        document.status = HandoffStatus::Superseded;
    }
    if one(conn, document.handoff)?.as_ref() == Some(&document) {
        return Ok(false);
    }
    put(conn, &document).map(|_| true)
}

/// Returns the document of a handoff, regardless of its owner.
pub(super) fn one(conn: &Connection, id: HandoffId) -> rusqlite::Result<Option<DocumentRecord>> {
    let sql = format!("SELECT {DOCUMENT} FROM documents WHERE handoff = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    statement.query_row([id.as_bytes()], read).optional()
}

fn supersede(conn: &Connection, document: &DocumentRecord) -> rusqlite::Result<Vec<HandoffId>> {
    let mut statement = conn.prepare_cached(SUPERSEDE)?;
    let key = params![
        document.principal,
        document.repository,
        document.branch,
        document.topic,
        document.handoff.as_bytes()
    ];
    statement
        .query_map(key, |row| Ok(Uuid::from_bytes(row.get(0)?)))?
        .collect()
}

pub(super) fn list(conn: &Connection, filter: &DocumentFilter) -> rusqlite::Result<Vec<DocumentRecord>> {
    let columns = match filter.without_documents {
        // The number of columns stays the same for `read`.
        true => DOCUMENT.replace("document", "''"),
        false => DOCUMENT.to_owned(),
    };
    // A separate statement for a given handoff, so that SQLite uses the primary key.
    let handoff = filter.handoff.map_or("1", |_| "handoff = ?2");
    let sql = format!(
        "SELECT {columns} FROM documents WHERE (?1 IS NULL OR principal = ?1) AND {handoff}
         AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR topic = ?4)
         ORDER BY created_ms DESC, handoff DESC LIMIT iif(?5 > 0, ?5, -1)"
    );
    let values = params![
        filter.principal,
        filter.handoff.as_ref().map(Uuid::as_bytes),
        filter.status.map(HandoffStatus::name),
        filter.topic,
        int(filter.limit as u64),
    ];
    conn.prepare_cached(&sql)?.query_map(values, read)?.collect()
}

pub(super) fn set_status(
    conn: &Connection,
    principal: &str,
    id: HandoffId,
    status: HandoffStatus,
) -> rusqlite::Result<Option<Vec<HandoffId>>> {
    let found = one(conn, id)?.filter(|document| document.principal == principal);
    found
        .map(|document| put(conn, &DocumentRecord { status, ..document }))
        .transpose()
}

pub(super) fn archive(conn: &Connection, before_ms: u64) -> rusqlite::Result<Vec<(Principal, HandoffId)>> {
    let mut statement = conn.prepare_cached(ARCHIVE)?;
    let archived = statement.query_map([int(before_ms)], |row| {
        Ok((row.get(0)?, Uuid::from_bytes(row.get(1)?)))
    })?;
    archived.collect()
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<DocumentRecord> {
    let status: String = row.get(5)?;
    Ok(DocumentRecord {
        handoff: Uuid::from_bytes(row.get(0)?),
        principal: row.get(1)?,
        repository: row.get(2)?,
        branch: row.get(3)?,
        topic: row.get(4)?,
        // An unknown status, from a later version, must not count as active.
        status: HandoffStatus::named(&status).unwrap_or(HandoffStatus::Superseded),
        created_ms: uint(row.get(6)?),
        directory: row.get(7)?,
        document: row.get(8)?,
    })
}
