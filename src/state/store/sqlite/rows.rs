//! Conversion between records and rows; all SQL statements of the store.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::state::store::records::Retention;
use crate::state::store::{HandoffFilter, foreign_record};
use baton_core::record::WireId;
use baton_core::record::{
    Conversation, CutPoint, Handoff, HandoffId, HandoffOrigin, HiddenPair, Insertion, Update, UpdateOutcome,
};

/// Columns of a handoff except its head and what stands after that, in the order `read_handoff` expects.
const HANDOFF: &str = "id, principal, conversation, wire, created_ms, archived, parent, model, \
                       history_bytes, reason, prompt, origin, spelled_out, routed";

/// Writes a handoff. A second write leaves `archived` unchanged: a person sets it, not the proxy.
const PUT_HANDOFF: &str = "INSERT INTO handoffs
          (id, principal, conversation, wire, created_ms, archived, parent, model, history_bytes, origin, reason,
            prompt, head, spelled_out, recall, routed)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
        ON CONFLICT (id) DO UPDATE SET conversation = ?3, wire = ?4, created_ms = ?5, parent = ?7, model = ?8,
          history_bytes = ?9, origin = ?10, reason = ?11, prompt = ?12, head = ?13, spelled_out = ?14, recall = ?15,
          routed = ?16
        WHERE principal = ?2";

/// Writes a hidden pair. One that exists keeps its last use.
const PUT_PAIR: &str = "INSERT INTO pairs (id, principal, conversation, sibling, touched_ms, record)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (id) DO UPDATE SET conversation = ?3, sibling = ?4, touched_ms = max(touched_ms, ?5), record = ?6
        WHERE principal = ?2";

/// Writes a cut point. One that exists keeps its last use.
const PUT_CUT_POINT: &str =
    "INSERT INTO cut_points (handoff, principal, conversation, digest, touched_ms, record)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (handoff) DO UPDATE SET conversation = ?3, digest = ?4, record = ?6,
          touched_ms = max(touched_ms, ?5)
        WHERE principal = ?2";

/// Writes an insertion. One that exists keeps its last use.
const PUT_INSERTION: &str =
    "INSERT INTO insertions (id, principal, conversation, place, touched_ms, record)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (id) DO UPDATE SET conversation = ?3, place = ?4, touched_ms = max(touched_ms, ?5), record = ?6
        WHERE principal = ?2";

/// Writes a conversation.
const PUT_CONVERSATION: &str =
    "INSERT INTO conversations (key, principal, updated_ms, record) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (key) DO UPDATE SET updated_ms = ?3, record = ?4 WHERE principal = ?2";

/// Writes the upstream id of a response id.
const PUT_RESPONSE_ID: &str = "INSERT OR REPLACE INTO response_ids (principal, shown, upstream, touched_ms)
        VALUES (?1, ?2, ?3, ?4)";

/// A hidden pair with its last use, in milliseconds since the Unix epoch.
pub(super) type TouchedPair = (HiddenPair, u64);

/// A cut point with its last use, in milliseconds since the Unix epoch.
pub(super) type TouchedPoint = (CutPoint, u64);

/// An insertion with its last use, in milliseconds since the Unix epoch.
pub(super) type TouchedInsertion = (Insertion, u64);

pub(super) fn put_handoff(conn: &Connection, h: &Handoff) -> rusqlite::Result<()> {
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
    ])?;
    owned(changed, "write a handoff")
}

pub(super) fn handoff(
    conn: &Connection,
    principal: &str,
    id: HandoffId,
) -> rusqlite::Result<Option<Handoff>> {
    let sql = format!("SELECT {HANDOFF}, head, recall FROM handoffs WHERE id = ?1 AND principal = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| {
        let handoff = read_handoff(row)?;
        Ok(Handoff {
            head: row.get(14)?,
            recall: row.get(15)?,
            ..handoff
        })
    };
    statement
        .query_row(params![id.as_bytes(), principal], read)
        .optional()
}

pub(super) fn handoffs(conn: &Connection, filter: &HandoffFilter) -> rusqlite::Result<Vec<Handoff>> {
    let mut sql = format!("SELECT {HANDOFF} FROM handoffs WHERE 1");
    let mut values: Vec<&dyn ToSql> = Vec::new();
    if let Some(principal) = &filter.principal {
        sql.push_str(" AND principal = ?");
        values.push(principal);
    }
    if let Some(conversation) = &filter.conversation {
        sql.push_str(" AND conversation = ?");
        values.push(conversation);
    }
    if let Some((first, last)) = &filter.ids {
        sql.push_str(" AND id BETWEEN ? AND ?");
        values.push(first.as_bytes());
        values.push(last.as_bytes());
    }
    if !filter.archived {
        sql.push_str(" AND NOT archived");
    }
    sql.push_str(" ORDER BY created_ms DESC, id DESC");
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    if limit > 0 {
        sql.push_str(" LIMIT ?");
        values.push(&limit);
    }
    let mut statement = conn.prepare_cached(&sql)?;
    statement.query_map(&values[..], read_handoff)?.collect()
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

pub(super) fn put_pair(conn: &Connection, pair: &HiddenPair) -> rusqlite::Result<()> {
    let changed = conn.prepare_cached(PUT_PAIR)?.execute(params![
        pair.id.as_bytes(),
        pair.principal,
        pair.conversation,
        pair.place.key(),
        int(pair.created_ms),
        to_json(pair)?,
    ])?;
    owned(changed, "write a hidden pair")
}

/// In the order of `ids`.
pub(super) fn pairs(conn: &Connection, principal: &str, ids: &[Uuid]) -> rusqlite::Result<Vec<TouchedPair>> {
    let sql = "SELECT record, touched_ms FROM pairs WHERE id = ?1 AND principal = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::new();
    for id in ids {
        let pair = statement.query_row(params![id.as_bytes(), principal], read_touched);
        found.extend(pair.optional()?);
    }
    Ok(found)
}

/// Oldest first, each once.
pub(super) fn pairs_beside(
    conn: &Connection,
    principal: &str,
    siblings: &[String],
) -> rusqlite::Result<Vec<TouchedPair>> {
    let sql = "SELECT record, touched_ms FROM pairs WHERE sibling = ?1 AND principal = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found: Vec<TouchedPair> = Vec::new();
    for sibling in siblings {
        for pair in statement.query_map(params![sibling, principal], read_touched)? {
            found.push(pair?);
        }
    }
    found.sort_by_key(|(pair, _)| (pair.created_ms, pair.id));
    found.dedup_by_key(|(pair, _)| pair.id);
    Ok(found)
}

pub(super) fn touch_pairs(conn: &Connection, ids: &[Uuid], now_ms: u64) -> rusqlite::Result<()> {
    let mut statement =
        conn.prepare_cached("UPDATE pairs SET touched_ms = max(touched_ms, ?2) WHERE id = ?1")?;
    for id in ids {
        statement.execute(params![id.as_bytes(), int(now_ms)])?;
    }
    Ok(())
}

/// Calls `each` with the principal and the sibling of every pair.
pub(super) fn siblings(conn: &Connection, mut each: impl FnMut(String, String)) -> rusqlite::Result<()> {
    let sql = "SELECT principal, sibling FROM pairs WHERE sibling IS NOT NULL";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

pub(super) fn put_cut_point(conn: &Connection, point: &CutPoint) -> rusqlite::Result<()> {
    let changed = conn.prepare_cached(PUT_CUT_POINT)?.execute(params![
        point.handoff.as_bytes(),
        point.principal,
        point.conversation,
        point.position.digest,
        int(point.created_ms),
        to_json(point)?,
    ])?;
    owned(changed, "write a cut point")
}

/// In the order of `handoffs`.
pub(super) fn cut_points(
    conn: &Connection,
    principal: &str,
    handoffs: &[HandoffId],
) -> rusqlite::Result<Vec<TouchedPoint>> {
    let sql = "SELECT record, touched_ms FROM cut_points WHERE handoff = ?1 AND principal = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::new();
    for id in handoffs {
        let point = statement.query_row(params![id.as_bytes(), principal], read_touched);
        found.extend(point.optional()?);
    }
    Ok(found)
}

/// Oldest first.
pub(super) fn cut_points_at(
    conn: &Connection,
    principal: &str,
    digests: &[String],
) -> rusqlite::Result<Vec<TouchedPoint>> {
    let sql = "SELECT record, touched_ms FROM cut_points WHERE digest = ?1 AND principal = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found: Vec<TouchedPoint> = Vec::new();
    for digest in digests {
        for point in statement.query_map(params![digest, principal], read_touched)? {
            found.push(point?);
        }
    }
    found.sort_by_key(|(point, _)| point.handoff);
    Ok(found)
}

pub(super) fn touch_cut_points(conn: &Connection, ids: &[HandoffId], now_ms: u64) -> rusqlite::Result<()> {
    let mut statement =
        conn.prepare_cached("UPDATE cut_points SET touched_ms = max(touched_ms, ?2) WHERE handoff = ?1")?;
    for id in ids {
        statement.execute(params![id.as_bytes(), int(now_ms)])?;
    }
    Ok(())
}

pub(super) fn put_insertion(conn: &Connection, insertion: &Insertion) -> rusqlite::Result<()> {
    let changed = conn.prepare_cached(PUT_INSERTION)?.execute(params![
        insertion.id.as_bytes(),
        insertion.principal,
        insertion.conversation,
        insertion.place.key(),
        int(insertion.created_ms),
        to_json(insertion)?,
    ])?;
    owned(changed, "write an insertion")
}

/// In the order of `ids`.
pub(super) fn insertions(
    conn: &Connection,
    principal: &str,
    ids: &[Uuid],
) -> rusqlite::Result<Vec<TouchedInsertion>> {
    let sql = "SELECT record, touched_ms FROM insertions WHERE id = ?1 AND principal = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::new();
    for id in ids {
        let insertion = statement.query_row(params![id.as_bytes(), principal], read_touched);
        found.extend(insertion.optional()?);
    }
    Ok(found)
}

/// Oldest first, each once.
pub(super) fn insertions_at(
    conn: &Connection,
    principal: &str,
    places: &[String],
) -> rusqlite::Result<Vec<TouchedInsertion>> {
    let sql = "SELECT record, touched_ms FROM insertions WHERE place = ?1 AND principal = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found: Vec<TouchedInsertion> = Vec::new();
    for place in places {
        for insertion in statement.query_map(params![place, principal], read_touched)? {
            found.push(insertion?);
        }
    }
    found.sort_by_key(|(insertion, _)| insertion.id);
    found.dedup_by_key(|(insertion, _)| insertion.id);
    Ok(found)
}

pub(super) fn touch_insertions(conn: &Connection, ids: &[Uuid], now_ms: u64) -> rusqlite::Result<()> {
    let mut statement =
        conn.prepare_cached("UPDATE insertions SET touched_ms = max(touched_ms, ?2) WHERE id = ?1")?;
    for id in ids {
        statement.execute(params![id.as_bytes(), int(now_ms)])?;
    }
    Ok(())
}

/// Calls `each` with the principal and the place of every insertion.
pub(super) fn places(conn: &Connection, mut each: impl FnMut(String, String)) -> rusqlite::Result<()> {
    let sql = "SELECT principal, place FROM insertions WHERE place IS NOT NULL";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

/// Changes the record of a conversation, in the transaction that the writer is in.
pub(super) fn change(conn: &Connection, update: &Update) -> rusqlite::Result<UpdateOutcome> {
    let written = update.on(conversation(conn, &update.known.key)?, 1);
    let written = written.ok_or_else(|| {
        let error = foreign_record("write a conversation");
        rusqlite::Error::ToSqlConversionFailure(Box::new(error))
    })?;
    put_conversation(conn, &written.record)?;
    Ok(written)
}

pub(super) fn put_conversation(conn: &Connection, c: &Conversation) -> rusqlite::Result<()> {
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

pub(super) fn put_response_id(
    conn: &Connection,
    principal: &str,
    shown: &str,
    upstream: &str,
    now_ms: u64,
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(PUT_RESPONSE_ID)?;
    statement.execute(params![principal, shown, upstream, int(now_ms)])?;
    Ok(())
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

/// Checks what every write needs: the tables with all their columns, and a page that can be written (the schema version,
/// rewritten unchanged).
pub(super) fn probe(conn: &Connection) -> rusqlite::Result<()> {
    // Makes SQLite reread the schema: preparing a statement trusts its cached copy.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    for sql in [
        PUT_HANDOFF,
        PUT_PAIR,
        PUT_CUT_POINT,
        PUT_INSERTION,
        PUT_CONVERSATION,
        PUT_RESPONSE_ID,
    ] {
        // Prepared, not run.
        conn.prepare(sql)?;
    }
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    conn.pragma_update(None, "user_version", version)
}

/// Deletes old records. A conversation in use keeps its pairs; reading a pair touches it, so a fork keeps those of the
/// conversation it came from.
pub(super) fn sweep(conn: &Connection, retention: &Retention) -> rusqlite::Result<u64> {
    let statements = [
        (
            "DELETE FROM conversations WHERE updated_ms < ?1",
            retention.conversations,
        ),
        (
            "DELETE FROM pairs WHERE touched_ms < ?1 AND conversation NOT IN (SELECT key FROM conversations)",
            retention.pairs,
        ),
        (
            "DELETE FROM cut_points WHERE touched_ms < ?1 AND conversation NOT IN (SELECT key FROM conversations)",
            retention.places,
        ),
        (
            "DELETE FROM insertions WHERE touched_ms < ?1 AND conversation NOT IN (SELECT key FROM conversations)",
            retention.places,
        ),
        (
            "DELETE FROM response_ids WHERE touched_ms < ?1",
            retention.response_ids,
        ),
    ];
    let mut gone = 0;
    for (sql, before_ms) in statements {
        gone += conn.execute(sql, [int(before_ms)])?;
    }
    if let Some(before_ms) = retention.handoffs {
        // What a conversation stands at, or may be cut at, its record names.
        let sql = "DELETE FROM handoffs WHERE created_ms < ?1 AND conversation NOT IN (SELECT key FROM conversations)
            AND lower(hex(id)) NOT IN (SELECT replace(record ->> '$.active', '-', '') FROM conversations
                WHERE record ->> '$.active' IS NOT NULL)
            AND lower(hex(id)) NOT IN (SELECT replace(listed.value, '-', '')
                FROM conversations, json_each(conversations.record, '$.cut_off') AS listed)";
        gone += conn.execute(sql, [int(before_ms)])?;
    }
    Ok(u64::try_from(gone).unwrap_or(u64::MAX))
}

fn read_handoff(row: &Row<'_>) -> rusqlite::Result<Handoff> {
    let wire: String = row.get(3)?;
    let unknown = || rusqlite::Error::FromSqlConversionFailure(3, Type::Text, "unknown wire".into());
    let origin: String = row.get(11)?;
    let parent: Option<[u8; 16]> = row.get(6)?;
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
        origin: HandoffOrigin::named(&origin).unwrap_or(HandoffOrigin::Other),
        spelled_out: row.get(12)?,
        routed: row.get(13)?,
        head: String::new(),
        recall: false,
    })
}

fn read_touched<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<(T, u64)> {
    Ok((from_json(row, 0)?, uint(row.get(1)?)))
}

/// The error where no row was changed: the id exists and belongs to another principal.
pub(super) fn owned(changed: usize, what: &str) -> rusqlite::Result<()> {
    if changed == 0 {
        return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(foreign_record(
            what,
        ))));
    }
    Ok(())
}

fn to_json<T: Serialize>(record: &T) -> rusqlite::Result<String> {
    serde_json::to_string(record).map_err(|err| rusqlite::Error::ToSqlConversionFailure(Box::new(err)))
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|err| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(err)))
}

// SQLite's integers are signed; times and sizes are far below the limit.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
