//! Converts between records and rows. Contains the SQL statements for records of any kind.

use rusqlite::{Connection, Row, Rows, params};

use super::schema::{foreign, int, uint, unreadable, unwritable};
use crate::database::{all, first};
use crate::store::HandoffFilter;
use crate::store::record_text::RecordText;
use crate::store::records::{
    PAGE, PlacedKind, PlacedRecord, RecordKind, RecordPage, Retention, StoredRecord,
};
use baton_core::record::{Conversation, Handoff, Update, UpdateOutcome};

/// Columns in the order that `read` expects.
const COLUMNS: &str = "principal, used_ms, state, record, body";

/// Writes a record, unless it belongs to another principal.
///
/// Writing a handoff again leaves its archive flag unchanged, because users set it, not the proxy. The last use of
/// a record never becomes earlier.
const PUT: &str =
    "INSERT INTO records (kind, id, principal, conversation, place, used_ms, state, record, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (kind, id) DO UPDATE SET conversation = ?4, place = ?5, used_ms = max(used_ms, ?6),
          state = iif(kind = 'handoff', state, ?7), record = ?8, body = ?9
        WHERE principal = ?3";

/// Condition for records whose conversation was deleted.
const UNOWNED: &str = "conversation NOT IN (SELECT id FROM records WHERE kind = 'conversation')";

/// Name of a kind in the table.
pub(super) fn kind_name(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Handoff => "handoff",
        RecordKind::Placed(PlacedKind::Pair) => "pair",
        RecordKind::Placed(PlacedKind::CutPoint) => "cut_point",
        RecordKind::Placed(PlacedKind::Insertion) => "insertion",
        RecordKind::ResponseId => "response_id",
        RecordKind::Conversation => "conversation",
        RecordKind::Document => "document",
    }
}

/// Selects placed records.
pub(super) enum RowKeys {
    Ids(Vec<String>),
    Places(Vec<String>),
}

/// Writes a record.
///
/// Fails for an active document if another one with its subject is active: [`put`](super::put) supersedes that
/// one first.
pub(super) fn write(conn: &Connection, record: &StoredRecord) -> rusqlite::Result<()> {
    let text = RecordText::new(record).map_err(unwritable)?;
    let changed = conn.prepare_cached(PUT)?.execute(params![
        kind_name(record.kind()),
        record.id(),
        record.principal(),
        record.conversation(),
        record.place(),
        int(record.used_ms()),
        text.state,
        text.json,
        text.body,
    ])?;
    match changed {
        // No row changes if the id belongs to another principal.
        0 => Err(foreign("write a record")),
        _ => Ok(()),
    }
}

/// Returns the record with an id, regardless of its owner.
pub(super) fn one(conn: &Connection, kind: RecordKind, id: &str) -> rusqlite::Result<Option<StoredRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM records WHERE kind = ?1 AND id = ?2");
    first(conn, &sql, [kind_name(kind), id], |row| read(kind, row))
}

pub(super) fn read(kind: RecordKind, row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    let text = RecordText {
        state: row.get(2)?,
        json: row.get(3)?,
        body: row.get(4)?,
    };
    text.record(kind, row.get(0)?, uint(row.get(1)?))
        .map_err(|err| unreadable(3, err))
}

/// Lists handoffs without their heads, which only a cut needs.
pub(super) fn handoffs(conn: &Connection, filter: &HandoffFilter) -> rusqlite::Result<Vec<Handoff>> {
    // A separate statement for a range of ids, so that SQLite uses the index.
    let ids = filter.ids.map_or("1", |_| "id BETWEEN ?3 AND ?4");
    let columns = COLUMNS.replace("body", "''");
    let sql = format!(
        "SELECT {columns} FROM records WHERE kind = 'handoff' AND (?1 IS NULL OR principal = ?1)
         AND (?2 IS NULL OR conversation = ?2) AND {ids} AND (?5 OR state = '')
         ORDER BY used_ms DESC, id DESC LIMIT iif(?6 > 0, ?6, -1)"
    );
    let (first, last) = filter.ids.map(|(a, b)| (a.to_string(), b.to_string())).unzip();
    let values = params![
        filter.principal,
        filter.conversation,
        first,
        last,
        filter.archived,
        int(filter.limit as u64),
    ];
    let mut statement = conn.prepare_cached(&sql)?;
    let found = listed(
        statement.query(values)?,
        RecordKind::Handoff,
        filter.ids.is_some(),
    )?;
    Ok(found.into_iter().filter_map(StoredRecord::into_handoff).collect())
}

/// Reads the records of a list.
///
/// A damaged record does not hide the others, and [`page`] names it. It is an error if the list is of `certain` ids, which
/// would count as unknown.
pub(super) fn listed(
    mut rows: Rows<'_>,
    kind: RecordKind,
    certain: bool,
) -> rusqlite::Result<Vec<StoredRecord>> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match read(kind, row) {
            Ok(record) => found.push(record),
            Err(error) if certain => return Err(error),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Sets the archive flag of a handoff. Returns whether this principal has it.
pub(super) fn archive(
    conn: &Connection,
    principal: &str,
    id: &str,
    archived: bool,
) -> rusqlite::Result<bool> {
    let sql = "UPDATE records SET state = ?3 WHERE kind = 'handoff' AND id = ?1 AND principal = ?2";
    let state = if archived { "archived" } else { "" };
    let changed = conn.prepare_cached(sql)?.execute([id, principal, state])?;
    Ok(changed > 0)
}

/// Returns records by id, in the order of the ids, or by anchor, distinct and oldest first, each with its last use.
pub(super) fn placed(
    conn: &Connection,
    kind: PlacedKind,
    principal: &str,
    keys: &RowKeys,
) -> rusqlite::Result<Vec<(PlacedRecord, u64)>> {
    let (column, keys, is_by_place) = match keys {
        RowKeys::Ids(ids) => ("id", ids, false),
        RowKeys::Places(places) => ("place", places, true),
    };
    let sql = format!("SELECT {COLUMNS} FROM records WHERE kind = ?1 AND {column} = ?2 AND principal = ?3");
    let (mut statement, kind) = (conn.prepare_cached(&sql)?, RecordKind::Placed(kind));
    let mut found = Vec::new();
    for key in keys {
        for row in statement.query_map([kind_name(kind), key, principal], |row| read(kind, row))? {
            if let StoredRecord::Placed { record, used_ms } = row? {
                found.push((record, used_ms));
            }
        }
    }
    if is_by_place {
        // Several anchors return their records in any order.
        PlacedRecord::sort_oldest_first(&mut found, |(record, _)| record);
    }
    Ok(found)
}

pub(super) fn touch(conn: &Connection, kind: PlacedKind, id: &str, now_ms: u64) -> rusqlite::Result<()> {
    let sql = "UPDATE records SET used_ms = max(used_ms, ?3) WHERE kind = ?1 AND id = ?2";
    let values = params![kind_name(RecordKind::Placed(kind)), id, int(now_ms)];
    conn.prepare_cached(sql)?.execute(values).map(drop)
}

/// Calls `each` with the principal and the anchor of every record of a kind that has one.
pub(super) fn places(
    conn: &Connection,
    kind: PlacedKind,
    mut each: impl FnMut(&str, &str),
) -> rusqlite::Result<()> {
    let sql = "SELECT principal, place FROM records WHERE kind = ?1 AND place IS NOT NULL";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([kind_name(RecordKind::Placed(kind))])?;
    while let Some(row) = rows.next()? {
        each(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
    }
    Ok(())
}

/// Changes the record of a conversation, within the writer's transaction.
pub(super) fn change(conn: &Connection, update: &Update) -> rusqlite::Result<UpdateOutcome> {
    // Applied to the stored record instead of the caller's: another write may have come first.
    let written = update.on(conversation(conn, &update.known.key)?, 1);
    let written = written.ok_or_else(|| foreign("write a conversation"))?;
    let record = StoredRecord::Conversation(Box::new(written.record.clone()));
    write(conn, &record)?;
    Ok(written)
}

pub(super) fn conversation(conn: &Connection, key: &str) -> rusqlite::Result<Option<Conversation>> {
    Ok(one(conn, RecordKind::Conversation, key)?.and_then(StoredRecord::into_conversation))
}

/// Checks the requirements of every write: the table with all its columns, and a writable page.
///
/// The page is the one with the schema version, rewritten unchanged.
pub(super) fn probe(conn: &Connection) -> rusqlite::Result<()> {
    // Makes SQLite reread the schema, since preparing a statement trusts its cached copy.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    // Preparing the statement checks the table and its columns without running it.
    conn.prepare(PUT)?;
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    conn.pragma_update(None, "user_version", version)
}

/// Deletes old records.
///
/// A conversation in use keeps its pairs. Reading a pair touches it, so a fork keeps the pairs of the
/// conversation that it came from.
pub(super) fn sweep(conn: &Connection, retention: &Retention) -> rusqlite::Result<u64> {
    // Keeps handoffs that a conversation is at, or may be cut at. Its record names them.
    let unnamed = format!(
        "{UNOWNED} AND id NOT IN (SELECT record ->> '$.active' FROM records
            WHERE kind = 'conversation' AND record ->> '$.active' IS NOT NULL)
          AND id NOT IN (SELECT listed.value FROM records AS c, json_each(c.record, '$.left_out') AS listed
            WHERE c.kind = 'conversation')"
    );
    let mut gone = 0;
    for (kind, before_ms) in retention.kinds() {
        let condition = match kind {
            RecordKind::Conversation | RecordKind::ResponseId => "1",
            RecordKind::Placed(_) => UNOWNED,
            RecordKind::Handoff => &unnamed,
            RecordKind::Document => "id NOT IN (SELECT id FROM records WHERE kind = 'handoff')",
        };
        let sql = format!("DELETE FROM records WHERE kind = ?1 AND used_ms < ?2 AND {condition}");
        gone += conn.execute(&sql, params![kind_name(kind), int(before_ms)])?;
    }
    Ok(gone as u64)
}

/// Returns a page of records, in the order of their ids.
pub(super) fn page(conn: &Connection, kind: RecordKind, after: &str) -> rusqlite::Result<RecordPage> {
    let sql = "SELECT id FROM records WHERE kind = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    let ids: Vec<String> = all(conn, sql, params![kind_name(kind), after, PAGE], |row| row.get(0))?;
    let mut page = RecordPage {
        // A short page is the last one.
        next: ids.last().filter(|_| ids.len() == PAGE).cloned(),
        ..RecordPage::default()
    };
    // Records are read one by one, so that a damaged record does not hide the others.
    for id in ids {
        match one(conn, kind, &id) {
            Ok(found) => page.records.extend(found),
            Err(error) => page.unreadable.push((id, error.to_string())),
        }
    }
    Ok(page)
}

/// Counts which of these records exist.
pub(super) fn has(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    let mut found = 0;
    for record in records {
        found += u64::from(one(conn, record.kind(), &record.id())?.is_some());
    }
    Ok(found)
}

/// Deletes records. Returns how many existed.
pub(super) fn delete(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    // Overwrites whole pages as well, which would otherwise keep their bytes while they are free.
    conn.pragma_update(None, "secure_delete", true)?;
    let mut statement = conn.prepare_cached("DELETE FROM records WHERE kind = ?1 AND id = ?2")?;
    let mut gone = 0;
    for record in records {
        gone += statement.execute([kind_name(record.kind()), &record.id()])?;
    }
    Ok(gone as u64)
}
