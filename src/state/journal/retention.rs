//! Retention: deletes the oldest exchanges if the file is too large or they are too old, in small steps.
//!
//! Chunks are deleted with the last exchange that refers to them.

use rusqlite::Connection;

use super::archive::Archive;
use crate::database::{all, first, run};

/// Exchanges deleted in one step.
const EXCHANGES_PER_STEP: usize = 8;

/// Nodes and chunks deleted in one step: a few milliseconds of work, so that notes never wait long.
const ROWS_PER_STEP: usize = 512;

/// Pages returned to the file system in one step.
const PAGES_PER_STEP: usize = 256;

#[derive(Debug, Clone, Copy)]
pub(super) struct JournalBounds {
    /// Maximum bytes of the file and its write-ahead log together.
    pub(super) max_bytes: u64,
    pub(super) max_age_ms: u64,
}

/// Fraction of the size bound that one transaction may take, unless a single note is larger.
const TRANSACTION_SHARE: u64 = 32;

/// Maximum bytes of one transaction. Its commit takes about a millisecond.
const TRANSACTION: u64 = 1 << 20;

impl JournalBounds {
    /// Returns the maximum bytes of bodies in one transaction.
    pub(super) fn transaction(self) -> usize {
        (self.max_bytes / TRANSACTION_SHARE).min(TRANSACTION) as usize
    }

    /// Returns the bytes in use above which the oldest exchanges are deleted.
    fn full(self) -> u64 {
        self.max_bytes - self.max_bytes / 4
    }
}

/// Returns the bytes of notes that one transaction may add without exceeding the bound.
pub(super) fn room(conn: &Connection, bounds: JournalBounds) -> rusqlite::Result<u64> {
    let there = footprint(conn)?;
    // Deletions pass through the log as well, so some room stays reserved for them.
    let kept_for_deletes = bounds.max_bytes / TRANSACTION_SHARE;
    let left = bounds
        .max_bytes
        .saturating_sub(there.file + there.log + kept_for_deletes);
    // Counts each page twice, in the log and in the file. Rows and indexes take more than the text, while
    // large chunks are compressed. Free pages of the file are used before it grows.
    Ok(match left / 2 <= there.free {
        true => left / 2,
        false => (left + there.free) / 3,
    })
}

/// Space used on disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Footprint {
    /// Bytes of the file after merging the log into it.
    pub(super) file: u64,
    /// Free bytes within the file.
    pub(super) free: u64,
    /// Bytes of the write-ahead log.
    pub(super) log: u64,
}

pub(super) fn footprint(conn: &Connection) -> rusqlite::Result<Footprint> {
    let page = pragma(conn, "page_size")?;
    let log_of = |path| std::fs::metadata(format!("{path}-wal")).ok();
    let log = conn.path().and_then(log_of);
    Ok(Footprint {
        file: pragma(conn, "page_count")? * page,
        free: pragma(conn, "freelist_count")? * page,
        log: log.map_or(0, |log| log.len()),
    })
}

fn pragma(conn: &Connection, name: &str) -> rusqlite::Result<u64> {
    conn.pragma_query_value(None, name, |row| row.get(0))
}

/// Runs one step of retention. Returns whether there is more to do.
///
/// `room` deletes the oldest exchanges even below the bound.
pub(super) fn step(
    archive: &mut Archive,
    bounds: JournalBounds,
    now_ms: u64,
    room: bool,
) -> rusqlite::Result<bool> {
    let tx = archive.conn.unchecked_transaction()?;
    let (nodes, chunks) = collect(&tx)?;
    let collected = nodes.len() + chunks.len();
    // Unreferenced rows first: deleting more exchanges frees no space before those are gone.
    let dropped = if collected == 0 {
        drop_oldest(archive, bounds, now_ms, room)?
    } else {
        0
    };
    tx.commit()?;
    if collected + dropped > 0 {
        archive.collected(&nodes, &chunks);
        return Ok(true);
    }
    let free = pragma(&archive.conn, "freelist_count")?;
    if free == 0 {
        return Ok(false);
    }
    archive
        .conn
        .execute_batch(&format!("PRAGMA incremental_vacuum({PAGES_PER_STEP});"))?;
    let left = pragma(&archive.conn, "freelist_count")?;
    // Without progress a reader holds the pages, and a later run continues.
    Ok(left > 0 && left < free)
}

/// Returns the bytes of the file that are in use.
pub(super) fn used(conn: &Connection) -> rusqlite::Result<u64> {
    let pages = pragma(conn, "page_count")?.saturating_sub(pragma(conn, "freelist_count")?);
    Ok(pages * pragma(conn, "page_size")?)
}

/// Deletes the oldest exchanges. Open ones stay, however many there are, unless their end was lost.
fn drop_oldest(archive: &Archive, bounds: JournalBounds, now_ms: u64, room: bool) -> rusqlite::Result<usize> {
    let conn = &archive.conn;
    let over = room || used(conn)? > bounds.full();
    let oldest = now_ms.saturating_sub(bounds.max_age_ms);
    let mut ask =
        conn.prepare_cached("SELECT seq, id, at_ms, ended IS NOT NULL FROM exchanges ORDER BY seq")?;
    let mut rows = ask.query([])?;
    let mut dropped = Vec::new();
    while dropped.len() < EXCHANGES_PER_STEP
        && let Some(row) = rows.next()?
    {
        // Sorted by age, so all further rows are younger.
        if !over && row.get::<_, u64>(2)? >= oldest {
            break;
        }
        if row.get(3)? || archive.unended.contains(row.get_ref(1)?.as_str()?) {
            dropped.push(row.get(0)?);
        }
    }
    drop(rows);
    dropped.iter().try_for_each(|seq| drop_exchange(conn, *seq))?;
    Ok(dropped.len())
}

pub(super) fn drop_exchange(conn: &Connection, seq: i64) -> rusqlite::Result<()> {
    let mut nodes = Vec::new();
    let mut chunks = Vec::new();
    let sql = "SELECT head, list, tail, headers, shown, shown_headers FROM exchanges WHERE seq = ?1";
    let own = first(conn, sql, [seq], six)?;
    let sql = "SELECT head, list, tail, headers, response, sent_headers FROM legs WHERE exchange = ?1";
    let legs = all(conn, sql, [seq], six)?;
    for [head, list, tail, a, b, c] in own.into_iter().chain(legs) {
        nodes.extend([head, list, tail]);
        chunks.extend([a, b, c]);
    }
    leave(conn, "nodes", &nodes)?;
    leave(conn, "pieces", &chunks)?;
    run(conn, "DELETE FROM legs WHERE exchange = ?1", [seq])?;
    let sql = "DELETE FROM exchanges WHERE seq = ?1 RETURNING conversation";
    let conversation: Option<String> = first(conn, sql, [seq], |row| row.get(0))?.flatten();
    let sql = "DELETE FROM titles WHERE conversation = ?1
         AND NOT EXISTS (SELECT 1 FROM exchanges WHERE conversation = ?1)";
    run(conn, sql, [conversation])?;
    Ok(())
}

fn six(row: &rusqlite::Row<'_>) -> rusqlite::Result<[i64; 6]> {
    let mut all = [0; 6];
    for (i, one) in all.iter_mut().enumerate() {
        *one = row.get(i)?;
    }
    Ok(all)
}

/// Removes one reference from each of these rows.
fn leave(conn: &Connection, table: &str, ids: &[i64]) -> rusqlite::Result<()> {
    let mut update = conn.prepare_cached(&format!(
        "UPDATE {table} SET refs = refs - 1 WHERE id = ?1 AND refs > 0"
    ))?;
    for id in ids.iter().filter(|id| **id != 0) {
        update.execute([id])?;
    }
    Ok(())
}

/// Deletes nodes and chunks without references and returns their ids.
///
/// A chain is deleted from its end, one node at a time.
pub(super) fn collect(conn: &Connection) -> rusqlite::Result<(Vec<i64>, Vec<i64>)> {
    let sql = "SELECT id, parent, piece FROM nodes WHERE refs = 0 LIMIT ?1";
    let nodes = all(conn, sql, [ROWS_PER_STEP], |row| <(i64, i64, i64)>::try_from(row))?;
    for (id, parent, chunk) in &nodes {
        run(conn, "DELETE FROM nodes WHERE id = ?1", [id])?;
        leave(conn, "nodes", &[*parent])?;
        leave(conn, "pieces", &[*chunk])?;
    }
    let sql = "SELECT id FROM pieces WHERE refs = 0 LIMIT ?1";
    let chunks = all(conn, sql, [ROWS_PER_STEP], |row| row.get(0))?;
    for id in &chunks {
        run(conn, "DELETE FROM pieces WHERE id = ?1", [id])?;
    }
    Ok((nodes.into_iter().map(|(id, ..)| id).collect(), chunks))
}
