//! Reads the entries of a session file: lines of JSON, one document, or rows of a database. Nothing is written.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::databases;
use super::entries::{FileRead, TakeEntry};
use crate::cli::handoffs::{LineRead, next_line};
use baton_core::handoffs::yaml::MAX_LINE_BYTES;

/// How an SQLite file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Bytes of a file that is one document.
const MOST: u64 = 32 << 20;

/// Bytes of a buffer for reading.
const BUFFER: usize = 1 << 18;

/// Gives every entry of a file.
///
/// # Errors
/// Why it cannot be read, in words.
pub(super) fn read(path: &Path, take: TakeEntry<'_>) -> Result<FileRead, String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let mut begins = [0; SQLITE.len()];
    let is_database = file.read_exact(&mut begins).is_ok() && begins == SQLITE;
    if is_database {
        return databases::read(path, take);
    }
    file.rewind().map_err(|error| error.to_string())?;
    match path.extension().is_some_and(|ending| ending == "json") {
        true => document(file, take),
        false => lines(BufReader::with_capacity(BUFFER, file), take),
    }
}

fn lines(mut reader: BufReader<File>, take: TakeEntry<'_>) -> Result<FileRead, String> {
    let mut read = FileRead::default();
    let mut line = Vec::new();
    loop {
        match next_line(&mut reader, &mut line).map_err(|error| error.to_string())? {
            LineRead::End => return Ok(read),
            LineRead::TooLong => read.damaged += 1,
            LineRead::Line => {
                let text = line.trim_ascii();
                if text.is_empty() {
                    continue;
                }
                let entry = serde_json::from_slice::<Json>(text).ok().filter(Json::is_object);
                match entry.filter(|_| text.len() <= MAX_LINE_BYTES) {
                    Some(entry) => {
                        read.entries += 1;
                        take(&entry);
                    }
                    None => read.damaged += 1,
                }
            }
        }
    }
}

/// One object with a list of messages, as cline writes it.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "sessionId", default)]
    session: Json,
    messages: Vec<Box<RawValue>>,
}

fn document(file: File, take: TakeEntry<'_>) -> Result<FileRead, String> {
    let mut text = Vec::new();
    file.take(MOST + 1)
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST {
        return Err("it is too large to be read in one piece".to_owned());
    }
    let document: Document = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    drop(text);
    let mut read = FileRead::default();
    for message in document.messages {
        match serde_json::from_str::<Map<String, Json>>(message.get()) {
            Ok(mut members) => {
                members.entry("type").or_insert_with(|| "cline".into());
                members
                    .entry("sessionId")
                    .or_insert_with(|| document.session.clone());
                read.entries += 1;
                take(&Json::Object(members));
            }
            Err(_) => read.damaged += 1,
        }
    }
    Ok(read)
}
