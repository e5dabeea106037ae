//! Looks for a text in everything the journal holds, newest first, for as long as a person waits.
//!
//! There is no index: it would be larger than the compressed texts. Each text is there once, so reading them
//! all is a matter of a second for months of work. What is searched is what a person read: strings without their
//! escapes, and answers put together from their streams.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use regex::{Regex, RegexBuilder, bytes};
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::place;
use super::pool::unpack;
use super::query::Query;
use super::schema::JournalError;
use crate::text::json;
use crate::transcript::{Answered, as_read};

/// Bytes of text that one search reads.
const READ: usize = 512 << 20;

/// Time that one search takes.
const TIME: Duration = Duration::from_secs(2);

/// Characters before and behind a match that are shown: the match is to be in view where two lines are.
const BEFORE: usize = 40;
const BEHIND: usize = 100;

/// Characters around a match by which two hits are known to be one text: an answer comes back in the next request.
const ALIKE: usize = 24;

/// Hits of one search, at most.
const MOST_HITS: usize = 500;

/// Characters of what is looked for.
const LONGEST: usize = 1000;

/// What a search found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Found {
    /// The hits, newest first.
    pub hits: Vec<Hit>,
    /// Whether all of the journal was read: what is not found is not there.
    pub complete: bool,
}

/// A text that holds what was looked for.
#[derive(Debug, Clone, Serialize)]
pub struct Hit {
    /// The exchange in which the text was first seen.
    pub exchange: String,
    /// Its conversation.
    pub conversation: Option<String>,
    /// The conversation's title.
    pub title: Option<String>,
    /// When the exchange began.
    pub at_ms: u64,
    /// Where: `received`, `sent`, `response`, `shown`.
    pub side: String,
    /// Where on that side.
    #[serde(flatten)]
    pub place: Place,
    /// What stands before the match, the match, and what follows.
    pub snippet: [String; 3],
}

/// Where on a side a text stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `messages`, `envelope`, `body`, `headers`.
    pub of: &'static str,
    /// The leg, from 0, where the side has legs.
    pub leg: Option<u32>,
    /// The message, or the row of the envelope.
    pub i: Option<usize>,
}

/// What is looked for.
pub(super) struct Wanted {
    text: Regex,
    /// A word of it that stands in JSON as it is, so that most texts need not be read.
    word: Option<bytes::Regex>,
}

impl Wanted {
    /// `None` where nothing is asked for, or too much.
    fn new(wanted: &str) -> Option<Self> {
        if wanted.chars().count() > LONGEST {
            return None;
        }
        let words: Vec<String> = wanted.split_whitespace().map(regex::escape).collect();
        if words.is_empty() {
            return None;
        }
        let text = RegexBuilder::new(&words.join(r"\s+"))
            .case_insensitive(true)
            .build()
            .ok()?;
        let plain = wanted.split(|c: char| !c.is_ascii_alphanumeric());
        let longest = plain
            .max_by_key(|word| word.len())
            .filter(|word| !word.is_empty());
        let word = longest.and_then(|word| bytes::Regex::new(&format!("(?i-u){word}")).ok());
        Some(Self { text, word })
    }

    /// Where it stands in a text that is read.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.text.is_match(text)
    }

    fn snippet(&self, text: &str) -> Option<[String; 3]> {
        let found = self.text.find(text)?;
        let before: String = last_chars(&text[..found.start()], BEFORE);
        let behind: String = text[found.end()..].chars().take(BEHIND).collect();
        Some([line(&before), line(found.as_str()), line(&behind)])
    }

    /// The first match in a piece.
    fn look(&self, piece: &[u8], side: &str) -> Option<[String; 3]> {
        // Words of a stream are split over its events.
        let answered = matches!(side, "response" | "shown");
        if answered
            && self
                .word
                .as_ref()
                .is_none_or(|word| Answered::may_hold(piece, |text| word.is_match(text)))
            && let Some(found) = Answered::of(piece).as_read().and_then(|text| self.snippet(&text))
        {
            return Some(found);
        }
        if self.word.as_ref().is_some_and(|word| !word.is_match(piece)) {
            return None;
        }
        // A part of a body is no JSON by itself.
        as_read(piece)
            .and_then(|text| self.snippet(&text))
            .or_else(|| self.snippet(&json::unescape(piece)))
    }
}

fn last_chars(text: &str, n: usize) -> String {
    let from = text.char_indices().rev().take(n).last();
    from.map_or("", |(at, _)| &text[at..]).to_owned()
}

/// A text in one line; blanks at its ends stay, since it is one of three.
fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if out.ends_with(' ') => {}
            true => out.push(' '),
            false => out.push(c),
        }
    }
    out
}

impl Query {
    /// Texts that hold `wanted`, whatever its case and its white space, newest first; one hit for each text, at the
    /// exchange that brought it.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn search(&self, wanted: &str, limit: usize) -> Result<Found, JournalError> {
        let Some(wanted) = Wanted::new(wanted) else {
            return Ok(Found::default());
        };
        let limit = if limit == 0 {
            MOST_HITS
        } else {
            limit.min(MOST_HITS)
        };
        let began = Instant::now();
        let mut hits = Hits::default();
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
            if hits.all.len() >= limit || read > READ || began.elapsed() > TIME {
                return Ok(hits.found(false));
            }
        }
        self.search_headers(&wanted, limit, &mut hits)?;
        let complete = hits.all.len() < limit;
        Ok(hits.found(complete))
    }

    /// Values of headers that only one exchange has.
    fn search_headers(&self, wanted: &Wanted, limit: usize, hits: &mut Hits) -> Result<(), JournalError> {
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
                hits.add(self.hit(row.get(0)?, row.get(1)?, 0, snippet, wanted)?);
                if hits.all.len() >= limit {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The oldest exchange whose request still has a piece. It walks from the piece to the ends of all rows that it is in,
    /// and is asked only where the exchange that the piece came with was dropped.
    fn holder(&self, piece: i64) -> Result<Option<i64>, JournalError> {
        let mut ask = self.conn.prepare_cached(
            "WITH RECURSIVE behind (id) AS (
                SELECT id FROM nodes WHERE piece = ?1
                UNION
                SELECT n.id FROM nodes n JOIN behind b ON n.parent = b.id
             ) SELECT MIN(e.seq) FROM exchanges e
             WHERE e.list IN behind OR e.head IN behind OR e.tail IN behind",
        )?;
        Ok(ask.query_row([piece], |row| row.get(0))?)
    }

    fn hit(
        &self,
        seq: i64,
        side: String,
        piece: i64,
        snippet: [String; 3],
        wanted: &Wanted,
    ) -> Result<Option<Hit>, JournalError> {
        let mut ask = self.conn.prepare_cached(
            "SELECT e.id, e.conversation, e.at_ms, t.title FROM exchanges e
             LEFT JOIN titles t ON t.conversation = e.conversation WHERE e.seq = ?1",
        )?;
        let hit = ask.query_row(params![seq], |row| {
            Ok(Hit {
                exchange: row.get(0)?,
                conversation: row.get(1)?,
                at_ms: row.get(2)?,
                title: row.get(3)?,
                side,
                place: Place::default(),
                snippet: snippet.clone(),
            })
        });
        let Some(mut hit) = hit.optional()? else {
            // The exchange that brought the text is gone; a later one may still hold it.
            return match self.holder(piece)? {
                Some(holder) if holder != seq => {
                    self.hit(holder, "received".to_owned(), piece, snippet, wanted)
                }
                _ => Ok(None),
            };
        };
        hit.place = place::of(self, &hit, piece, wanted)?;
        Ok(Some(hit))
    }
}

/// Hits, each text once.
#[derive(Default)]
struct Hits {
    all: Vec<Hit>,
    seen: HashSet<(Option<String>, String)>,
}

impl Hits {
    /// Adds a hit, or puts it in the place of a later one with the same text.
    fn add(&mut self, hit: Option<Hit>) {
        let Some(hit) = hit else { return };
        let text = alike(&hit);
        if self.seen.insert((hit.conversation.clone(), text.clone())) {
            self.all.push(hit);
        } else if let Some(later) = self
            .all
            .iter_mut()
            .find(|known| known.conversation == hit.conversation && alike(known) == text)
        {
            *later = hit;
        }
    }

    fn found(mut self, complete: bool) -> Found {
        self.all.sort_by_key(|hit| std::cmp::Reverse(hit.at_ms));
        Found {
            hits: self.all,
            complete,
        }
    }
}

fn alike(hit: &Hit) -> String {
    let [before, found, behind] = &hit.snippet;
    let behind: String = behind.trim().chars().take(ALIKE).collect();
    format!("{}{found}{behind}", last_chars(before.trim(), ALIKE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_case_do_not_matter_and_the_match_is_in_view() {
        let wanted = Wanted::new("  The \"ROOF\"  leaks ").unwrap();
        let long = format!("{} the\n\t\"roof\" LEAKS badly", "x ".repeat(500));
        let [before, found, behind] = wanted.snippet(&long).unwrap();
        assert_eq!(
            (found.as_str(), behind.as_str()),
            ("the \"roof\" LEAKS", " badly")
        );
        assert!(before.chars().count() <= BEFORE);
        let piece = serde_json::json!({"role": "user", "content": long}).to_string();
        assert!(wanted.look(piece.as_bytes(), "received").is_some());
        assert!(Wanted::new(" \n").is_none());
        let other = Wanted::new("Größe ändern").unwrap();
        assert!(other.is_in("die GRÖSSE oder die GRÖßE ÄNDERN"));
    }
}
