//! Looks for a text in everything the journal holds, newest first, for as long as a person waits.
//!
//! There is no index: it would be larger than the compressed texts. Each text is there once, so reading them
//! all is a matter of a second for months of work.

use std::time::{Duration, Instant};

use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::pool::unpack;
use super::query::Query;
use super::schema::JournalError;
use crate::json;

/// Bytes of text that one search reads.
const READ: usize = 512 << 20;

/// Time that one search takes.
const TIME: Duration = Duration::from_secs(2);

/// Bytes before and behind a hit that are shown.
const AROUND: usize = 80;

/// Hits of one search, at most.
const MOST_HITS: usize = 500;

/// A text that holds what was looked for.
#[derive(Debug, Clone, Serialize)]
pub struct Hit {
    /// The exchange in which the text was first seen.
    pub exchange: String,
    /// Its conversation.
    pub conversation: Option<String>,
    /// When it began.
    pub at_ms: u64,
    /// Where: `received`, `sent`, `response`, `shown`.
    pub side: String,
    /// The text around.
    pub snippet: String,
}

impl Query {
    /// Texts that hold `wanted`, whatever its case, newest first; one hit for each text.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn search(&self, wanted: &str, limit: usize) -> Result<Vec<Hit>, JournalError> {
        let quoted = json::quote(wanted.trim());
        let needle = quoted[1..quoted.len() - 1].to_ascii_lowercase();
        let mut hits = Vec::new();
        if needle.is_empty() {
            return Ok(hits);
        }
        let limit = if limit == 0 {
            MOST_HITS
        } else {
            limit.min(MOST_HITS)
        };
        let finder = memchr::memmem::Finder::new(needle.as_bytes());
        let began = Instant::now();
        let mut read = 0;
        let mut ask = self
            .conn
            .prepare("SELECT exchange, side, size, packed, body FROM pieces ORDER BY id DESC")?;
        let mut rows = ask.query([])?;
        while let Some(row) = rows.next()? {
            let text = unpack(row.get(4)?, row.get(3)?, row.get(2)?);
            read += text.len();
            if let Some(at) = finder.find(&text.to_ascii_lowercase()) {
                let around = snippet(&text, at, needle.len());
                hits.extend(self.hit(row.get(0)?, row.get(1)?, around)?);
            }
            if hits.len() >= limit || read > READ || began.elapsed() > TIME {
                break;
            }
        }
        if hits.len() < limit && began.elapsed() <= TIME {
            self.search_headers(&needle, limit, &mut hits)?;
        }
        Ok(hits)
    }

    /// Values of headers that only one exchange has.
    fn search_headers(&self, needle: &str, limit: usize, hits: &mut Vec<Hit>) -> Result<(), JournalError> {
        let mut ask = self.conn.prepare_cached(
            "SELECT * FROM (
                SELECT seq, 'received', headers_own AS own FROM exchanges UNION ALL
                SELECT seq, 'shown', shown_headers_own FROM exchanges UNION ALL
                SELECT exchange, 'response', headers_own FROM legs
             ) WHERE instr(lower(own), ?1) ORDER BY seq DESC LIMIT ?2",
        )?;
        let mut rows = ask.query(params![needle, limit - hits.len()])?;
        while let Some(row) = rows.next()? {
            let own: String = row.get(2)?;
            let at = own.to_ascii_lowercase().find(needle).unwrap_or_default();
            let around = snippet(own.as_bytes(), at, needle.len());
            hits.extend(self.hit(row.get(0)?, row.get(1)?, around)?);
        }
        Ok(())
    }

    fn hit(&self, seq: i64, side: String, snippet: String) -> Result<Option<Hit>, JournalError> {
        let mut ask = self
            .conn
            .prepare_cached("SELECT id, conversation, at_ms FROM exchanges WHERE seq = ?1")?;
        let hit = ask.query_row([seq], |row| {
            Ok(Hit {
                exchange: row.get(0)?,
                conversation: row.get(1)?,
                at_ms: row.get(2)?,
                side,
                snippet,
            })
        });
        Ok(hit.optional()?)
    }
}

fn snippet(text: &[u8], at: usize, len: usize) -> String {
    let from = boundary(text, at.saturating_sub(AROUND));
    let to = boundary(text, (at + len + AROUND).min(text.len()));
    let shown = json::unescape(&text[from..to]).into_owned();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The next offset that splits neither a character nor an escape.
fn boundary(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && (text[at] & 0xC0 == 0x80 || at > 0 && text[at - 1] == b'\\') {
        at += 1;
    }
    at
}
