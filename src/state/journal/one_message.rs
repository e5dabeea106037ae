//! One message of an exchange in full, or one row of its envelope.

use serde::Serialize;

use super::envelope;
use super::leg::legs;
use super::query::{BodySide, JournalReader};
use super::schema::JournalError;
use super::summary::{self, ShownPart};

/// A message with all its parts, unabridged.
#[derive(Debug, Serialize)]
pub struct FullMessage {
    /// Role of the message.
    pub role: String,
    pub parts: Vec<ShownPart>,
}

impl JournalReader {
    /// Returns one message in full.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn message(&self, id: &str, side: BodySide, i: usize) -> Result<Option<FullMessage>, JournalError> {
        let Some([_, list, _]) = self.request_nodes(id, side)? else {
            return Ok(None);
        };
        let messages = self.messages(list)?;
        let Some(message) = messages.get(i) else {
            return Ok(None);
        };
        let text = self.text(message.chunk)?;
        let parts = summary::parts(&text, summary::role_named(&message.role));
        Ok(Some(FullMessage {
            role: message.role.clone(),
            parts,
        }))
    }

    /// Returns the system prompt or a tool of a request in full.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn envelope_row(
        &self,
        id: &str,
        side: BodySide,
        i: usize,
    ) -> Result<Option<FullMessage>, JournalError> {
        let Some(body) = self.request_nodes(id, side)? else {
            return Ok(None);
        };
        let found = envelope::parts(&self.envelope(body)?, i);
        Ok(found.map(|(role, parts)| FullMessage {
            role: role.to_owned(),
            parts,
        }))
    }

    /// Returns the last nodes of a request's three chains.
    pub(super) fn request_nodes(&self, id: &str, side: BodySide) -> Result<Option<[i64; 3]>, JournalError> {
        let Some(stored) = self.stored(id)? else {
            return Ok(None);
        };
        Ok(match side {
            BodySide::Received => Some(stored.body),
            BodySide::Sent(n) => {
                let mut legs = legs(&self.conn, stored.seq)?.into_iter();
                legs.find(|leg| leg.n == n).map(|leg| leg.body)
            }
            // Responses are single chunks without messages.
            BodySide::Response(_) | BodySide::Shown => None,
        })
    }
}
