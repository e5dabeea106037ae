//! Reads the entries of a session file: lines of JSON, one document, or rows of a database. Writes nothing.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::databases::{self, TakeEntry};
use crate::cli::handoffs::objects;
use crate::cli::output::plural;
use baton_state::disk;

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
        return Ok(databases::read(path, take)?);
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
