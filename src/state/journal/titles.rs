//! Titles of conversations: each gets one, from its first request.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::note::ReceivedRequest;
use super::summary;
use baton_core::redact::Redactor;
use baton_core::wire;

/// Conversations of which it is remembered that they have a title.
const MOST_TITLED: usize = 8192;

/// Gives each conversation its title once.
pub(super) struct TitleWriter {
    /// Conversations that have one.
    known: HashSet<String>,
    /// How texts of a harness begin.
    tags: Vec<String>,
}

impl TitleWriter {
    pub(super) fn new(tags: Vec<String>) -> Self {
        Self {
            known: HashSet::new(),
            tags,
        }
    }

    /// Clears the cache, since titles may have been deleted or rolled back.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Writes the title of a conversation that has none, from this request.
    pub(super) fn add(
        &mut self,
        conn: &Connection,
        redactor: &Redactor,
        begun: &ReceivedRequest,
        conversation: &str,
    ) -> rusqlite::Result<()> {
        if self.known.contains(conversation) {
            return Ok(());
        }
        let known = conn
            .prepare_cached("SELECT 1 FROM titles WHERE conversation = ?1")?
            .exists([conversation])?;
        if !known {
            let Ok(view) = wire::wire(begun.wire).read(&begun.received, begun.operation) else {
                return Ok(());
            };
            let title = summary::title(&view, &self.tags);
            let title = summary::cut(&redactor.text(&title));
            conn.prepare_cached("INSERT INTO titles (conversation, title) VALUES (?1, ?2)")?
                .execute(params![conversation, title])?;
        }
        if self.known.len() >= MOST_TITLED {
            self.known.clear();
        }
        self.known.insert(conversation.to_owned());
        Ok(())
    }
}
