//! Full-text search over the journal, newest first, within the time that a user waits.
//!
//! There is no index, because it would be larger than the compressed text. Each text is stored once, so
//! reading everything takes about a second for months of work. The search sees what the user sees: strings
//! without escapes, and responses assembled from their streams.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::chunk_store::unpack;
use super::envelope;
use super::query::JournalReader;
use super::row::{LegDetail, legs};
use super::schema::JournalResult;
use super::search_pattern::{SearchPattern, last_chars};
use crate::database::first;

/// Maximum bytes of text that one search reads.
const MAX_SEARCH_BYTES: usize = 512 << 20;

/// Maximum duration of one search.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(2);

/// Characters around a match that identify two hits as the same text: a response reappears in the next
/// request.
const SAME_TEXT_CONTEXT_CHARS: usize = 24;

/// Maximum number of hits.
const MAX_HITS: usize = 500;

/// The result of a search.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SearchResult {
    /// Hits, newest first.
    pub hits: Vec<SearchHit>,
    /// Whether the whole journal was searched, so that nothing was missed.
    pub complete: bool,
}

/// A match of the search.
#[derive(Debug, Clone, Serialize)]
pub struct SearchHit {
    /// First exchange that contains the text.
    pub exchange: String,
    pub conversation: Option<String>,
    /// Title of the conversation.
    pub title: Option<String>,
    /// When the exchange began.
    pub at_ms: u64,
    /// Side of the text: `received`, `sent`, `response`, `shown`.
    pub side: String,
    /// Position on that side.
    #[serde(flatten)]
    pub position: TextPosition,
    /// The text before the match, the match, and the text after it.
    pub snippet: [String; 3],
}

impl JournalReader {
    /// Finds messages and other stored text that contain `wanted`, newest first.
    ///
    /// Case and whitespace do not matter. Each text is one hit, in the exchange that brought it.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn search(&self, wanted: &str, limit: usize) -> JournalResult<SearchResult> {
        let Some(wanted) = SearchPattern::new(wanted) else {
            return Ok(SearchResult::default());
        };
        let limit = if limit == 0 { MAX_HITS } else { limit.min(MAX_HITS) };
        let began = Instant::now();
        let mut hits = SearchHits::default();
        let mut read = 0;
        let mut ask = self
            .conn
            .prepare("SELECT exchange, side, size, packed, body, id FROM pieces ORDER BY id DESC")?;
        let mut rows = ask.query([])?;
        while let Some(row) = rows.next()? {
            let text = unpack(row.get(4)?, row.get(3)?, row.get(2)?);
            read += text.len();
            let side: String = row.get(1)?;
            if let Some(snippet) = wanted.look(&text, &side) {
                hits.add(self.hit(row.get(0)?, side, row.get(5)?, snippet, &wanted)?);
            }
            if hits.all.len() >= limit || read > MAX_SEARCH_BYTES || began.elapsed() > MAX_SEARCH_TIME {
                return Ok(hits.found(false));
            }
        }
        self.search_headers(&wanted, limit, &mut hits)?;
        // At the limit there may be further headers that match.
        let complete = hits.all.len() < limit;
        Ok(hits.found(complete))
    }

    /// Searches the header values that only one exchange has.
    fn search_headers(
        &self,
        wanted: &SearchPattern,
        limit: usize,
        hits: &mut SearchHits,
    ) -> JournalResult<()> {
        let mut ask = self.conn.prepare_cached(
            "SELECT * FROM (
                SELECT seq, 'received', headers_own AS own FROM exchanges UNION ALL
                SELECT seq, 'shown', shown_headers_own FROM exchanges UNION ALL
                SELECT exchange, 'sent', sent_headers_own FROM legs UNION ALL
                SELECT exchange, 'response', headers_own FROM legs
             ) WHERE own IS NOT NULL ORDER BY seq DESC",
        )?;
        let mut rows = ask.query([])?;
        while let Some(row) = rows.next()? {
            let own: String = row.get(2)?;
            if let Some(snippet) = wanted.look(own.as_bytes(), "headers") {
                // Header values are not chunks, so there is none to locate: 0.
                hits.add(self.hit(row.get(0)?, row.get(1)?, 0, snippet, wanted)?);
                if hits.all.len() >= limit {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the oldest exchange whose request still contains a chunk.
    ///
    /// Walks from the chunk to the ends of all its chains. Needed only if the exchange that brought the chunk
    /// was deleted.
    fn holder(&self, chunk: i64) -> JournalResult<Option<i64>> {
        let mut ask = self.conn.prepare_cached(
            "WITH RECURSIVE descendants (id) AS (
                SELECT id FROM nodes WHERE piece = ?1
                UNION
                SELECT n.id FROM nodes n JOIN descendants b ON n.parent = b.id
             ) SELECT MIN(e.seq) FROM exchanges e
             WHERE e.list IN descendants OR e.head IN descendants OR e.tail IN descendants",
        )?;
        Ok(ask.query_row([chunk], |row| row.get(0))?)
    }

    fn hit(
        &self,
        seq: i64,
        side: String,
        chunk: i64,
        snippet: [String; 3],
        wanted: &SearchPattern,
    ) -> JournalResult<Option<SearchHit>> {
        let sql = "SELECT e.id, e.conversation, e.at_ms, t.title FROM exchanges e
             LEFT JOIN titles t ON t.conversation = e.conversation WHERE e.seq = ?1";
        let hit = first(&self.conn, sql, [seq], |row| {
            Ok(SearchHit {
                exchange: row.get(0)?,
                conversation: row.get(1)?,
                at_ms: row.get(2)?,
                title: row.get(3)?,
                side,
                position: TextPosition::default(),
                snippet: snippet.clone(),
            })
        });
        let Some(mut hit) = hit? else {
            // The exchange that brought the text was deleted, but a later one may still contain it.
            return match self.holder(chunk)? {
                // Prevents endless recursion if the row disappeared in between.
                Some(holder) if holder != seq => {
                    self.hit(holder, "received".to_owned(), chunk, snippet, wanted)
                }
                _ => Ok(None),
            };
        };
        hit.position = position_of(self, (&hit.exchange, &hit.side), chunk, wanted)?;
        Ok(Some(hit))
    }
}

/// Hits without duplicates.
#[derive(Default)]
struct SearchHits {
    all: Vec<SearchHit>,
    seen: HashSet<(Option<String>, String)>,
}

impl SearchHits {
    /// Adds a hit. It replaces a later one with the same text.
    fn add(&mut self, hit: Option<SearchHit>) {
        let Some(hit) = hit else { return };
        let text = alike(&hit);
        if self.seen.insert((hit.conversation.clone(), text.clone())) {
            self.all.push(hit);
        } else if let Some(later) = self
            .all
            .iter_mut()
            .find(|known| known.conversation == hit.conversation && alike(known) == text)
        {
            // Chunks are read newest first, so this hit is the earlier one.
            *later = hit;
        }
    }

    fn found(mut self, complete: bool) -> SearchResult {
        self.all.sort_by_key(|hit| std::cmp::Reverse(hit.at_ms));
        SearchResult {
            hits: self.all,
            complete,
        }
    }
}

fn alike(hit: &SearchHit) -> String {
    let [before, found, after] = &hit.snippet;
    let after: String = after.trim().chars().take(SAME_TEXT_CONTEXT_CHARS).collect();
    format!(
        "{}{found}{after}",
        last_chars(before.trim(), SAME_TEXT_CONTEXT_CHARS)
    )
}

/// The position of a hit on a side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TextPosition {
    /// `messages`, `envelope`, `body`, `headers`.
    pub of: &'static str,
    /// Leg, from 0, if the side has legs.
    pub leg: Option<u32>,
    /// Index of the message, or of the envelope's row.
    pub i: Option<usize>,
}

/// Finds the position of a chunk on the side of the exchange where it was first seen.
fn position_of(
    query: &JournalReader,
    (exchange, side): (&str, &str),
    chunk: i64,
    wanted: &SearchPattern,
) -> JournalResult<TextPosition> {
    // A chunk that is not in a body belongs to the headers.
    let headers = TextPosition {
        of: "headers",
        ..TextPosition::default()
    };
    let Some(stored) = query.stored(exchange)? else {
        return Ok(headers);
    };
    match side {
        "received" => Ok(in_body(query, stored.body, chunk, wanted)?.unwrap_or(headers)),
        "shown" if chunk != 0 && chunk == stored.shown => Ok(TextPosition {
            of: "body",
            ..headers
        }),
        "sent" => {
            for leg in legs(&query.conn, stored.seq)? {
                if let Some(position) = in_body(query, leg.body, chunk, wanted)? {
                    let leg = Some(leg.n);
                    return Ok(TextPosition { leg, ..position });
                }
            }
            Ok(headers)
        }
        "response" => {
            let legs = legs(&query.conn, stored.seq)?;
            let answered = |leg: &&LegDetail| chunk != 0 && leg.answer == chunk;
            Ok(match legs.iter().find(answered) {
                Some(leg) => TextPosition {
                    of: "body",
                    leg: Some(leg.n),
                    i: None,
                },
                None => headers,
            })
        }
        _ => Ok(headers),
    }
}

fn in_body(
    query: &JournalReader,
    body: [i64; 3],
    chunk: i64,
    wanted: &SearchPattern,
) -> JournalResult<Option<TextPosition>> {
    let position = |of, i| TextPosition {
        of,
        leg: None,
        i: Some(i),
    };
    let messages = query.messages(body[1])?;
    if let Some(i) = messages.iter().position(|message| message.chunk == chunk) {
        return Ok(Some(position("messages", i)));
    }
    // Chunks of the envelope do not coincide with its rows, so the row is searched by its text.
    let text = query.envelope(body)?;
    let found = envelope::position(&text, |part| {
        let text = part.text.as_deref().or(part.json.as_ref().map(|json| json.get()));
        text.is_some_and(|text| wanted.is_in(text))
    });
    Ok(found.map(|i| position("envelope", i)))
}
