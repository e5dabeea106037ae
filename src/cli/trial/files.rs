//! Reads the entries of a session file: lines of JSON, one document, or rows of a database. Writes nothing.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};

use crate::cli::handoffs::objects;
use crate::cli::output::plural;
use baton_state::disk;
use rusqlite::{Connection, OpenFlags, params};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// First bytes of an SQLite file.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Maximum size of a file that is one document, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 32 << 20;

/// Size of a read buffer in bytes.
const BUFFER: usize = 1 << 18;

/// Passes every entry of a file to `take`. Returns the reason if the file, or a part of it, is not read.
pub(super) fn read(path: &Path, take: TakeEntry<'_>) -> Option<String> {
    entries(path, take).unwrap_or_else(|error| Some(error.to_string()))
}

fn entries(path: &Path, take: TakeEntry<'_>) -> Result<Option<String>, Box<dyn Error>> {
    let mut file = disk::open_named(path)?;
    let mut begins = [0; SQLITE.len()];
    if file.read_exact(&mut begins).is_ok() && begins == SQLITE {
        return Ok(database(path, take)?);
    }
    file.rewind()?;
    match path.extension().is_some_and(|ending| ending == "json") {
        true => document(file, take),
        false => {
            let damaged = objects(BufReader::with_capacity(BUFFER, file), None, take)?;
            Ok(left_out(damaged, "line"))
        }
    }
}

fn left_out(count: u64, noun: &str) -> Option<String> {
    (count > 0).then(|| format!("{} that cannot be read: left out", plural(count, noun)))
}

/// A single object with a list of messages, as cline writes it.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "sessionId", default)]
    session: Json,
    messages: Vec<Box<RawValue>>,
}

fn document(file: File, take: TakeEntry<'_>) -> Result<Option<String>, Box<dyn Error>> {
    let mut text = Vec::new();
    // The additional byte tells a larger file from one of the maximum size.
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        return Ok(Some("it is too large to be read in one piece".to_owned()));
    }
    let document: Document = serde_json::from_slice(&text)?;
    // The messages own their text by now, so that only one copy stays in memory.
    drop(text);
    let mut damaged = 0;
    for message in document.messages {
        let Ok(mut members) = serde_json::from_str::<Map<String, Json>>(message.get()) else {
            damaged += 1;
            continue;
        };
        // The reader tells the agents apart by the type of an entry, and cline writes none.
        members.insert("type".to_owned(), "cline".into());
        members.insert("sessionId".to_owned(), document.session.clone());
        take(&Json::Object(members));
    }
    Ok(left_out(damaged, "message"))
}

/// Time limit for a database. The largest ones that agents make take seconds.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Memory limit of all open databases. Ids are sorted in memory, while rows are read one by one.
const MAX_MEMORY_BYTES: u64 = 256 * 1024 * 1024;

/// Maximum bytes of an entry with all its parts. The rest is left out.
const MAX_ENTRY_BYTES: usize = 32 << 20;

/// Bytes that a part takes in addition to its text.
const PART: usize = 32;

/// Callback that takes one entry.
pub(super) type TakeEntry<'t> = &'t mut dyn FnMut(&Json);

/// Passes every entry of a database to `take`, without writing to it. Returns the reason if a part is not read.
///
/// # Errors
/// The database cannot be read.
fn database(path: &Path, take: TakeEntry<'_>) -> rusqlite::Result<Option<String>> {
    let (connection, unread) = open(path)?;
    // This thread interrupts a query that does not end. It ends with this function, when the channel closes.
    let (ended, waiting) = mpsc::channel::<()>();
    let interrupt = connection.get_interrupt_handle();
    thread::spawn(move || {
        if waiting.recv_timeout(MAX_TIME) == Err(RecvTimeoutError::Timeout) {
            interrupt.interrupt();
        }
    });
    // A view, a virtual table or a computed column could run any function, and a single function call cannot be
    // interrupted.
    let has = |table: &str| {
        let query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND rootpage > 0";
        let mut is_plain = connection.query_row(query, [table], |_| Ok(())).is_ok();
        // As a statement: a table of the file could take the place of the function `pragma_table_xinfo`.
        let asked = connection.pragma(None, "table_xinfo", table, |row| {
            is_plain &= row.get::<_, i64>("hidden")? == 0;
            Ok(())
        });
        is_plain && asked.is_ok()
    };
    match () {
        () if has("part") && has("message") => opencode(&connection, take)?,
        () if has("messages") && has("sessions") => goose(&connection, take)?,
        () => return Ok(Some("it is a database of another program".to_owned())),
    }
    // Closing the channel ends the waiting thread.
    drop(ended);
    Ok(unread.map(str::to_owned))
}

/// Opens a database so that no file is created.
///
/// If the index of a write-ahead log is missing, reading the log would create it. The log is then ignored.
fn open(path: &Path) -> rusqlite::Result<(Connection, Option<&'static str>)> {
    let beside = |ending: &str| {
        let about = std::fs::metadata(format!("{}{ending}", path.display()));
        about.is_ok_and(|about| about.len() > 0)
    };
    let (log, index) = (beside("-wal"), beside("-shm"));
    let mode = if log && index { "mode=ro" } else { "immutable=1" };
    let unread = "its newest changes, in its -wal file, are not read";
    let unread = Some(unread).filter(|_| log && !index);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // The name is part of a URI, where these characters have a meaning.
    let name = path.to_string_lossy().replace('%', "%25");
    let name = name.replace('?', "%3f").replace('#', "%23");
    let connection = Connection::open_with_flags(format!("file:{name}?{mode}"), flags)?;
    // Sorting must not create a file either.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // The agent's model may have written the file.
    connection.pragma_update(None, "trusted_schema", false)?;
    let limit = format!("PRAGMA hard_heap_limit = {MAX_MEMORY_BYTES}");
    connection.query_row(&limit, [], |_| Ok(()))?;
    Ok((connection, unread))
}

/// Parses the values of a row as JSON. Invalid values, and values without room, become null.
fn parsed(text: &str, room: &mut usize) -> Json {
    let left = room.checked_sub(text.len() + PART);
    *room = left.unwrap_or(0);
    left.and_then(|_| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn opencode(connection: &Connection, take: TakeEntry<'_>) -> rusqlite::Result<()> {
    let mut ids =
        connection.prepare("SELECT id, session_id FROM message ORDER BY session_id, time_created, id")?;
    let mut message = connection.prepare("SELECT data FROM message WHERE id = ?1")?;
    let mut parts = connection.prepare("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = ids.query([])?;
    while let Some(row) = rows.next()? {
        let (id, session): (String, String) = (row.get(0)?, row.get(1)?);
        // The bound covers a message with all its parts, because one entry holds them.
        let mut room = MAX_ENTRY_BYTES;
        let data: String = message.query_row(params![id], |row| row.get(0))?;
        let data = parsed(&data, &mut room);
        let mut of_message = parts.query(params![id])?;
        let mut parts = Vec::new();
        while room > 0
            && let Some(part) = of_message.next()?
        {
            parts.push(parsed(part.get_ref(0)?.as_str()?, &mut room));
        }
        take(&json!({"type": "opencode", "id": id, "sessionId": session, "message": data, "parts": parts}));
    }
    Ok(())
}

fn goose(connection: &Connection, take: TakeEntry<'_>) -> rusqlite::Result<()> {
    let mut sessions = connection.prepare(
        "SELECT id, working_dir, accumulated_input_tokens, accumulated_output_tokens, input_tokens, model_config_json FROM sessions ORDER BY id",
    )?;
    let mut messages = connection.prepare(
        "SELECT message_id, role, content_json, created_timestamp FROM messages WHERE session_id = ?1 ORDER BY id",
    )?;
    let mut rows = sessions.query([])?;
    while let Some(row) = rows.next()? {
        let (session, directory): (String, String) = (row.get(0)?, row.get(1)?);
        let mut all = messages.query(params![session])?;
        while let Some(row) = all.next()? {
            let (id, role): (Option<String>, String) = (row.get(0)?, row.get(1)?);
            // goose counts seconds, and all other records milliseconds.
            let (content, seconds): (String, i64) = (row.get(2)?, row.get(3)?);
            let mut room = MAX_ENTRY_BYTES;
            take(
                &json!({"type": "goose", "id": id, "sessionId": session, "cwd": directory, "role": role,
                "content": parsed(&content, &mut room), "ts": seconds.saturating_mul(1000)}),
            );
        }
        // goose records the tokens of a session only as sums. They follow its messages, over which they are
        // spread.
        let number = |at: usize| row.get::<_, Option<i64>>(at);
        let model: Option<String> = row.get(5)?;
        let mut room = MAX_ENTRY_BYTES;
        let model = model.map_or(Json::Null, |config| {
            parsed(&config, &mut room)["model_name"].clone()
        });
        take(
            &json!({"type": "goose_sums", "sessionId": session, "model": model, "all_input": number(2)?,
            "all_output": number(3)?, "last_input": number(4)?}),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_computes_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, i AS session_id, i AS time_created, i AS data FROM n";
        for (name, tables) in [
            ("view", format!("CREATE TABLE part (id, message_id, data); CREATE VIEW message AS {endless};")),
            ("views", format!("CREATE VIEW messages AS {endless}; CREATE VIEW sessions AS {endless};")),
            ("computed", "CREATE TABLE part (id, message_id, data); CREATE TABLE message (id, session_id, time_created,
                data AS (instr(hex(zeroblob(60000000)), hex(zeroblob(30000000)) || '1')));".to_owned()),
            ("shadowed", "CREATE TABLE part (id, message_id, data); CREATE TABLE message (id, session_id, time_created,
                data AS (instr(hex(zeroblob(60000000)), hex(zeroblob(30000000)) || '1')));
                CREATE VIRTUAL TABLE pragma_table_xinfo USING fts5(hidden);".to_owned()),
            ("virtual", "CREATE TABLE part (id); CREATE VIRTUAL TABLE message USING fts5(id, session_id, time_created, data);".to_owned()),
        ] {
            let path = dir.path().join(name);
            Connection::open(&path).unwrap().execute_batch(&tables).unwrap();
            let unread = database(&path, &mut |_| panic!("{name}")).unwrap();
            assert_eq!(unread.as_deref(), Some("it is a database of another program"), "{name}");
        }
    }

    #[test]
    fn an_entry_has_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large.db");
        let rows = "CREATE TABLE message (id, session_id, time_created, data); CREATE TABLE part (id, message_id, data);
            INSERT INTO message VALUES ('m', 's', 1, '{}');
            WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 18)
            INSERT INTO part SELECT CAST(i AS TEXT), 'm', '\"' || hex(zeroblob(4000000)) || '\"' FROM n;";
        Connection::open(&path).unwrap().execute_batch(rows).unwrap();
        let mut parts = 0;
        database(&path, &mut |entry| {
            parts = entry["parts"].as_array().map_or(0, Vec::len)
        })
        .unwrap();
        assert_eq!(parts, 5, "four of 8 MB, and one that has no room");
    }
}
