//! Converts between records and rows. Contains all SQL statements of the store.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Statement, ToSql, params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::document_rows;
use super::schema::{from_json, int, owned, to_json, uint, unreadable};
use crate::store::records::{PlacedKind, PlacedRecord, Retention, StoredRecord};
use crate::store::{HandoffFilter, foreign_record};
use baton_core::record::WireId;
use baton_core::record::{
    CarriedItem, Conversation, Handoff, HandoffId, HandoffOrigin, KeptTurns, Update, UpdateOutcome,
};

/// Columns of a handoff, in the order that `read_handoff` expects. Listings omit the last two.
pub(super) const WHOLE_HANDOFF: &str = "id, principal, conversation, wire, created_ms, archived, parent, model, \
    history_bytes, reason, prompt, origin, spelled_out, routed, carried, head, recall";

/// Writes a handoff. Writing it again leaves `archived` unchanged, because users set it, not the proxy.
const PUT_HANDOFF: &str = "INSERT INTO handoffs
          (id, principal, conversation, wire, created_ms, archived, parent, model, history_bytes, origin, reason,
            prompt, head, spelled_out, recall, routed, carried)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
        ON CONFLICT (id) DO UPDATE SET conversation = ?3, wire = ?4, created_ms = ?5, parent = ?7, model = ?8,
          history_bytes = ?9, origin = ?10, reason = ?11, prompt = ?12, head = ?13, spelled_out = ?14, recall = ?15,
          routed = ?16, carried = ?17
        WHERE principal = ?2";

/// The column `carried`: the items that follow a handoff's prompt.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CarriedColumn {
    Items(Vec<CarriedItem>),
    /// With the turns that stay, for a reviewed draft.
    WithTurns {
        items: Vec<CarriedItem>,
        kept: KeptTurns,
    },
}

impl CarriedColumn {
    fn new(handoff: &Handoff) -> Self {
        let items = handoff.carried.clone();
        match handoff.kept.clone() {
            Some(kept) => Self::WithTurns { items, kept },
            None => Self::Items(items),
        }
    }

    fn parts(self) -> (Vec<CarriedItem>, Option<KeptTurns>) {
        match self {
            Self::Items(items) => (items, None),
            Self::WithTurns { items, kept } => (items, Some(kept)),
        }
    }
}

/// Writes a conversation. Changes nothing if it belongs to another principal.
const PUT_CONVERSATION: &str =
    "INSERT INTO conversations (key, principal, updated_ms, record) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (key) DO UPDATE SET updated_ms = ?3, record = ?4 WHERE principal = ?2";

/// Writes the upstream id of a response id.
const PUT_RESPONSE_ID: &str = "INSERT OR REPLACE INTO response_ids (principal, shown, upstream, touched_ms)
        VALUES (?1, ?2, ?3, ?4)";

/// The table of a kind of placed records.
pub(super) struct PlacedTable {
    pub(super) name: &'static str,
    pub(super) id: &'static str,
    /// Column with the key of the anchor.
    place: &'static str,
}

impl PlacedTable {
    pub(super) fn for_kind(kind: PlacedKind) -> Self {
        let (name, id, place) = match kind {
            PlacedKind::Pair => ("pairs", "id", "sibling"),
            PlacedKind::CutPoint => ("cut_points", "handoff", "digest"),
            PlacedKind::Insertion => ("insertions", "id", "place"),
        };
        Self { name, id, place }
    }

    /// Returns the SQL that writes a record. The last use of an existing one never becomes earlier.
    fn put(&self) -> String {
        let Self { name, id, place } = self;
        format!(
            "INSERT INTO {name} ({id}, principal, conversation, {place}, touched_ms, record)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                ON CONFLICT ({id}) DO UPDATE SET conversation = ?3, {place} = ?4,
                  touched_ms = max(touched_ms, ?5), record = ?6
                WHERE principal = ?2"
        )
    }
}

/// Selects rows of a table of placed records.
pub(super) enum RowKeys {
    Ids(Vec<[u8; 16]>),
    Places(Vec<String>),
}

impl RowKeys {
    pub(super) fn ids(ids: &[Uuid]) -> Self {
        Self::Ids(ids.iter().map(|id| id.into_bytes()).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Ids(ids) => ids.is_empty(),
            Self::Places(places) => places.is_empty(),
        }
    }
}

/// A placed record with its last use, in milliseconds since the Unix epoch.
pub(super) struct TouchedRecord {
    pub(super) record: PlacedRecord,
    pub(super) used_ms: u64,
}

/// Writes a record of any kind. An existing handoff keeps its archive flag.
pub(super) fn put(conn: &Connection, record: &StoredRecord) -> rusqlite::Result<()> {
    match record {
        StoredRecord::Handoff(handoff) => put_handoff(conn, handoff),
        StoredRecord::Placed { record, used_ms } => put_placed(conn, record, *used_ms),
        StoredRecord::ResponseId { record, used_ms } => {
            let values = params![record.principal, record.shown, record.upstream, int(*used_ms)];
            conn.prepare_cached(PUT_RESPONSE_ID)?.execute(values).map(drop)
        }
        StoredRecord::Conversation(conversation) => put_conversation(conn, conversation),
        StoredRecord::Document(document) => document_rows::put(conn, document).map(drop),
    }
}

fn put_handoff(conn: &Connection, h: &Handoff) -> rusqlite::Result<()> {
    // No row changes if the id belongs to another principal, and `owned` reports that.
    let changed = conn.prepare_cached(PUT_HANDOFF)?.execute(params![
        h.id.as_bytes(),
        h.principal,
        h.conversation,
        h.wire.name(),
        int(h.created_ms),
        h.archived,
        h.parent.as_ref().map(Uuid::as_bytes),
        h.model,
        int(h.history_bytes),
        h.origin.name(),
        h.reason,
        h.prompt,
        h.head,
        h.spelled_out,
        h.recall,
        h.routed,
        to_json(&CarriedColumn::new(h))?,
    ])?;
    owned(changed, "write a handoff")
}

/// Returns a handoff, if it belongs to this principal.
pub(super) fn handoff(
    conn: &Connection,
    principal: &str,
    id: HandoffId,
) -> rusqlite::Result<Option<Handoff>> {
    let sql = format!("SELECT {WHOLE_HANDOFF} FROM handoffs WHERE id = ?1 AND principal = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    statement
        .query_row(params![id.as_bytes(), principal], read_whole_handoff)
        .optional()
}

pub(super) fn handoffs(conn: &Connection, filter: &HandoffFilter) -> rusqlite::Result<Vec<Handoff>> {
    // Only a cut needs the head, which may be as large as the prompt.
    let listed = WHOLE_HANDOFF.trim_end_matches(", head, recall");
    // A separate statement for a range of ids, so that SQLite uses the primary key.
    let ids = filter.ids.map_or("1", |_| "id BETWEEN ?3 AND ?4");
    let sql = format!(
        "SELECT {listed} FROM handoffs WHERE (?1 IS NULL OR principal = ?1) AND (?2 IS NULL OR conversation = ?2)
         AND {ids} AND (?5 OR NOT archived)
         ORDER BY created_ms DESC, id DESC LIMIT iif(?6 > 0, ?6, -1)"
    );
    let (first, last) = filter.ids.unzip();
    let values = params![
        filter.principal,
        filter.conversation,
        first.as_ref().map(Uuid::as_bytes),
        last.as_ref().map(Uuid::as_bytes),
        filter.archived,
        int(filter.limit as u64),
    ];
    let mut statement = conn.prepare_cached(&sql)?;
    statement.query_map(values, read_handoff)?.collect()
}

pub(super) fn archive(
    conn: &Connection,
    principal: &str,
    id: HandoffId,
    archived: bool,
) -> rusqlite::Result<bool> {
    let sql = "UPDATE handoffs SET archived = ?3 WHERE id = ?1 AND principal = ?2";
    let changed = conn
        .prepare_cached(sql)?
        .execute(params![id.as_bytes(), principal, archived])?;
    Ok(changed > 0)
}

fn put_placed(conn: &Connection, record: &PlacedRecord, used_ms: u64) -> rusqlite::Result<()> {
    let columns = record.columns();
    let sql = PlacedTable::for_kind(columns.kind).put();
    let changed = conn.prepare_cached(&sql)?.execute(params![
        columns.id.as_bytes(),
        columns.principal,
        columns.conversation,
        columns.key,
        int(used_ms),
        to_json(record)?,
    ])?;
    owned(changed, "write a record")
}

/// Returns records by id, in the order of the ids, or by anchor, distinct and oldest first.
pub(super) fn placed(
    conn: &Connection,
    kind: PlacedKind,
    principal: &str,
    keys: &RowKeys,
) -> rusqlite::Result<Vec<TouchedRecord>> {
    let PlacedTable { name, id, place } = PlacedTable::for_kind(kind);
    let by = |column: &str| {
        format!("SELECT record, touched_ms FROM {name} WHERE {column} = ?1 AND principal = ?2")
    };
    let mut found = Vec::new();
    let mut collect = |statement: &mut Statement<'_>, key: &dyn ToSql| {
        for record in statement.query_map(params![key, principal], |row| read_placed(kind, row))? {
            found.push(record?);
        }
        Ok::<_, rusqlite::Error>(())
    };
    match keys {
        RowKeys::Ids(ids) => {
            let mut statement = conn.prepare_cached(&by(id))?;
            ids.iter().try_for_each(|id| collect(&mut statement, id))?;
        }
        RowKeys::Places(places) => {
            let mut statement = conn.prepare_cached(&by(place))?;
            places
                .iter()
                .try_for_each(|place| collect(&mut statement, place))?;
            // Several anchors return their records in any order.
            PlacedRecord::sort_oldest_first(&mut found, |found| &found.record);
        }
    }
    Ok(found)
}

pub(super) fn touch(conn: &Connection, kind: PlacedKind, id: Uuid, now_ms: u64) -> rusqlite::Result<()> {
    let PlacedTable { name, id: column, .. } = PlacedTable::for_kind(kind);
    let sql = format!("UPDATE {name} SET touched_ms = max(touched_ms, ?2) WHERE {column} = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    statement.execute(params![id.as_bytes(), int(now_ms)]).map(drop)
}

/// Calls `each` with the principal and the anchor of every record of a kind that has one.
pub(super) fn places(
    conn: &Connection,
    kind: PlacedKind,
    mut each: impl FnMut(&str, &str),
) -> rusqlite::Result<()> {
    let PlacedTable { name, place, .. } = PlacedTable::for_kind(kind);
    let sql = format!("SELECT principal, {place} FROM {name} WHERE {place} IS NOT NULL");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
    }
    Ok(())
}

/// Changes the record of a conversation, within the writer's transaction.
pub(super) fn change(conn: &Connection, update: &Update) -> rusqlite::Result<UpdateOutcome> {
    // Applied to the stored record instead of the caller's: another write may have come first.
    let written = update.on(conversation(conn, &update.known.key)?, 1);
    let written = written.ok_or_else(|| {
        let error = foreign_record("write a conversation");
        rusqlite::Error::ToSqlConversionFailure(Box::new(error))
    })?;
    put_conversation(conn, &written.record)?;
    Ok(written)
}

fn put_conversation(conn: &Connection, c: &Conversation) -> rusqlite::Result<()> {
    let changed = conn.prepare_cached(PUT_CONVERSATION)?.execute(params![
        c.key,
        c.principal,
        int(c.updated_ms),
        to_json(c)?
    ])?;
    owned(changed, "write a conversation")
}

pub(super) fn conversation(conn: &Connection, key: &str) -> rusqlite::Result<Option<Conversation>> {
    let mut statement = conn.prepare_cached("SELECT record FROM conversations WHERE key = ?1")?;
    statement.query_row([key], |row| from_json(row, 0)).optional()
}

pub(super) fn response_id(
    conn: &Connection,
    principal: &str,
    shown: &str,
) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT upstream FROM response_ids WHERE principal = ?1 AND shown = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    statement
        .query_row([principal, shown], |row| row.get(0))
        .optional()
}

/// Checks the requirements of every write: the tables with all their columns, and a writable page.
///
/// The page is the one with the schema version, rewritten unchanged.
pub(super) fn probe(conn: &Connection) -> rusqlite::Result<()> {
    // Makes SQLite reread the schema, since preparing a statement trusts its cached copy.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let placed = [PlacedKind::Pair, PlacedKind::CutPoint, PlacedKind::Insertion];
    let placed = placed.map(|kind| PlacedTable::for_kind(kind).put());
    let placed = placed.iter().map(String::as_str);
    for sql in placed.chain([PUT_HANDOFF, PUT_CONVERSATION, PUT_RESPONSE_ID]) {
        // Preparing a statement checks its tables and columns without running it.
        conn.prepare(sql)?;
    }
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    conn.pragma_update(None, "user_version", version)
}

/// Deletes old records.
///
/// A conversation in use keeps its pairs. Reading a pair touches it, so a fork keeps the pairs of the
/// conversation that it came from.
pub(super) fn sweep(conn: &Connection, retention: &Retention) -> rusqlite::Result<u64> {
    // Conversations first: the records that they own are then no longer protected.
    let conversations = "DELETE FROM conversations WHERE updated_ms < ?1";
    let mut gone = conn.execute(conversations, [int(retention.conversations)])?;
    for (kind, before_ms) in [
        (PlacedKind::Pair, retention.pairs),
        (PlacedKind::CutPoint, retention.places),
        (PlacedKind::Insertion, retention.places),
    ] {
        let table = PlacedTable::for_kind(kind).name;
        let sql = format!(
            "DELETE FROM {table} WHERE touched_ms < ?1 AND conversation NOT IN (SELECT key FROM conversations)"
        );
        gone += conn.execute(&sql, [int(before_ms)])?;
    }
    let response_ids = "DELETE FROM response_ids WHERE touched_ms < ?1";
    gone += conn.execute(response_ids, [int(retention.response_ids)])?;
    if let Some(before_ms) = retention.handoffs {
        // Keeps handoffs that a conversation is at, or may be cut at. Its record names them.
        // Ids are blobs in the column, but strings with dashes in the JSON.
        let sql = "DELETE FROM handoffs WHERE created_ms < ?1 AND conversation NOT IN (SELECT key FROM conversations)
            AND lower(hex(id)) NOT IN (SELECT replace(record ->> '$.active', '-', '') FROM conversations
                WHERE record ->> '$.active' IS NOT NULL)
            AND lower(hex(id)) NOT IN (SELECT replace(listed.value, '-', '')
                FROM conversations, json_each(conversations.record, '$.left_out') AS listed)";
        gone += conn.execute(sql, [int(before_ms)])?;
        let documents =
            "DELETE FROM documents WHERE created_ms < ?1 AND handoff NOT IN (SELECT id FROM handoffs)";
        gone += conn.execute(documents, [int(before_ms)])?;
    }
    Ok(u64::try_from(gone).unwrap_or(u64::MAX))
}

pub(super) fn read_whole_handoff(row: &Row<'_>) -> rusqlite::Result<Handoff> {
    let handoff = read_handoff(row)?;
    Ok(Handoff {
        head: row.get(15)?,
        recall: row.get(16)?,
        ..handoff
    })
}

fn read_handoff(row: &Row<'_>) -> rusqlite::Result<Handoff> {
    let wire: String = row.get(3)?;
    // An error instead of a default: requests built for a wrong wire would be invalid.
    let unknown = || rusqlite::Error::FromSqlConversionFailure(3, Type::Text, "unknown wire".into());
    let origin: String = row.get(11)?;
    let unknown_origin =
        || rusqlite::Error::FromSqlConversionFailure(11, Type::Text, "unknown origin".into());
    let parent: Option<[u8; 16]> = row.get(6)?;
    let (carried, kept) = from_json::<CarriedColumn>(row, 14)?.parts();
    Ok(Handoff {
        id: Uuid::from_bytes(row.get(0)?),
        principal: row.get(1)?,
        conversation: row.get(2)?,
        wire: WireId::named(&wire).ok_or_else(unknown)?,
        created_ms: uint(row.get(4)?),
        archived: row.get(5)?,
        parent: parent.map(Uuid::from_bytes),
        model: row.get(7)?,
        history_bytes: uint(row.get(8)?),
        reason: row.get(9)?,
        prompt: row.get(10)?,
        origin: HandoffOrigin::named(&origin).ok_or_else(unknown_origin)?,
        spelled_out: row.get(12)?,
        routed: row.get(13)?,
        carried,
        kept,
        head: String::new(),
        recall: false,
    })
}

pub(super) fn read_placed(kind: PlacedKind, row: &Row<'_>) -> rusqlite::Result<TouchedRecord> {
    let record = PlacedRecord::from_json(kind, row.get_ref(0)?.as_str()?);
    Ok(TouchedRecord {
        record: record.map_err(|err| unreadable(0, err))?,
        used_ms: uint(row.get(1)?),
    })
}
