//! Reads one exchange in full from the file, and compares its two sides.

use std::collections::HashMap;

use super::bill::BillFilter;
use super::diff::{ComparedMessage, MessageFate, MessageState, compare};
use super::filter::RowFilter;
use super::filter_terms::FilteredRow;
use super::headers::{self, StoredHeaders};
use super::query::{BodySide, ExchangeFilter, JournalReader, rows_of};
use super::row::{
    BodySize, CHAIN, EnvelopeChange, ExchangeDetail, ExchangeRow, Headers, LegDetail, MessageList,
    MessageSummary, legs, with_legs,
};
use super::schema::JournalResult;
use super::summary::{self, ShownPart};
use super::{envelope, explain};
use crate::database::{all, first};
use baton_core::bill::PriceTable;
use baton_core::rewrite::ChangeReason;
use serde::Serialize;

impl JournalReader {
    /// Returns a body byte for byte, except for redactions. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn body(&self, id: &str, side: BodySide) -> JournalResult<Option<Vec<u8>>> {
        let nodes = match side {
            BodySide::Received | BodySide::Sent(_) => self.request_nodes(id, side)?,
            BodySide::Response(_) | BodySide::Shown => {
                return match self.answer_chunk(id, side)? {
                    0 => Ok(None),
                    chunk => self.text(chunk).map(Some),
                };
            }
        };
        // Three empty chains mean that the body was not stored.
        let Some(nodes) = nodes.filter(|nodes| *nodes != [0; 3]) else {
            return Ok(None);
        };
        let mut body = Vec::new();
        for node in nodes {
            self.join(node, &mut body)?;
        }
        Ok(Some(body))
    }

    /// Returns the chunk of a response. 0 if there is none.
    fn answer_chunk(&self, id: &str, side: BodySide) -> JournalResult<i64> {
        let Some(stored) = self.stored(id)? else {
            return Ok(0);
        };
        let BodySide::Response(n) = side else {
            return Ok(stored.shown);
        };
        let legs = legs(&self.conn, stored.seq)?;
        // A relayed error is stored once, as the response shown to the agent.
        let is_relayed = |leg: &LegDetail| {
            leg.answer == 0
                && legs.last().is_some_and(|last| last.n == n)
                && leg.response.status.is_none_or(|status| status >= 400)
        };
        let leg = legs.iter().find(|leg| leg.n == n);
        Ok(leg.map_or(0, |leg| if is_relayed(leg) { stored.shown } else { leg.answer }))
    }

    /// Returns one exchange in full.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn exchange(&self, id: &str) -> JournalResult<Option<ExchangeDetail>> {
        let Some(stored) = self.stored(id)? else {
            return Ok(None);
        };
        let mut received = MessageList {
            messages: self.messages(stored.body[1])?,
            envelope: envelope::rows(&self.envelope(stored.body)?),
        };
        let mut legs = legs(&self.conn, stored.seq)?;
        for (i, leg) in legs.iter_mut().enumerate() {
            self.fill(leg, stored.body, &mut received, i == 0)?;
        }
        let mut exchange = ExchangeDetail {
            headers: Headers {
                received: self.headers(&stored.headers)?,
                response: self.headers(&stored.shown_headers)?,
            },
            received,
            legs,
            shown: BodySize {
                bytes: self.size(stored.shown)?,
                truncated: stored.shown_cut,
            },
            notes: Vec::new(),
            exchange: with_legs(&self.conn, stored, &mut HashMap::new())?,
        };
        exchange.notes = explain::notes(&exchange);
        Ok(Some(exchange))
    }

    /// Fills a leg from its bodies and headers, and compares it with the agent's request.
    fn fill(
        &self,
        leg: &mut LegDetail,
        asked: [i64; 3],
        received: &mut MessageList,
        first: bool,
    ) -> JournalResult<()> {
        let sent = &mut leg.sent;
        sent.messages = self.messages(leg.body[1])?;
        let whys: Vec<ChangeReason> = leg.changes.iter().map(|change| change.why).collect();
        let text = |chunk| {
            let text = self.text(chunk).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        let ours = items(&sent.messages);
        let (theirs, mut fates) = compare(&items(&received.messages), &ours, &whys, &text);
        // Corrects reasons that depend on the position of a message.
        explain::name(&ours, &whys, &mut fates);
        mark(&mut sent.messages, &fates);
        let their_envelope;
        (their_envelope, sent.envelope) =
            envelope::compare(&self.envelope(asked)?, &self.envelope(leg.body)?);
        // The agent's own list shows its states toward the first leg.
        if first {
            mark(&mut received.messages, &theirs);
            received.envelope = their_envelope;
        }
        sent.headers = self.headers(&leg.sent_headers)?;
        sent.envelope_changes = self.envelope_changes(asked, leg.body)?;
        (leg.received_states, leg.received_whys) = theirs.into_iter().unzip();
        leg.response.headers = self.headers(&leg.headers)?;
        Ok(())
    }

    /// Returns the messages of a list as summaries without their text.
    pub(super) fn messages(&self, list: i64) -> JournalResult<Vec<MessageSummary>> {
        let sql = format!(
            "{CHAIN} SELECT c.piece, p.size, p.role, p.kind, p.line FROM chain c JOIN pieces p ON p.id = c.piece
             ORDER BY depth DESC"
        );
        let mut found = all(&self.conn, &sql, [list], |row| {
            let word = |column| row.get::<_, Option<String>>(column);
            Ok(MessageSummary {
                i: 0,
                chunk: row.get(0)?,
                bytes: row.get(1)?,
                role: word(2)?.unwrap_or_else(|| "other".to_owned()),
                kind: word(3)?.unwrap_or_else(|| "other".to_owned()),
                first_line: word(4)?.unwrap_or_default(),
                state: MessageState::Kept,
                why: None,
            })
        })?;
        for (i, message) in found.iter_mut().enumerate() {
            message.i = i;
        }
        Ok(found)
    }

    fn headers(&self, kept: &StoredHeaders) -> JournalResult<Vec<(String, String)>> {
        match kept.model {
            0 => Ok(Vec::new()),
            model => Ok(headers::read(&self.text(model)?, kept.own.as_deref())),
        }
    }

    fn size(&self, chunk: i64) -> JournalResult<u64> {
        let sql = "SELECT size FROM pieces WHERE id = ?1";
        Ok(first(&self.conn, sql, [chunk], |row| row.get(0))?.unwrap_or_default())
    }

    /// Returns the differences between two requests outside of their messages.
    fn envelope_changes(&self, ours: [i64; 3], sent: [i64; 3]) -> JournalResult<Vec<EnvelopeChange>> {
        // Equal chains have equal bytes, so nothing needs to be unpacked.
        if ours[0] == sent[0] && ours[2] == sent[2] {
            return Ok(Vec::new());
        }
        let (ours, sent) = (self.envelope(ours)?, self.envelope(sent)?);
        Ok(envelope::differences(&ours, &sent))
    }

    /// Returns a request without its messages.
    pub(super) fn envelope(&self, [head, _, tail]: [i64; 3]) -> JournalResult<Vec<u8>> {
        let mut text = Vec::new();
        self.join(head, &mut text)?;
        self.join(tail, &mut text)?;
        Ok(text)
    }

    /// Returns one message in full.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn message(&self, id: &str, side: BodySide, i: usize) -> JournalResult<Option<FullMessage>> {
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
    pub fn envelope_row(&self, id: &str, side: BodySide, i: usize) -> JournalResult<Option<FullMessage>> {
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
    pub(super) fn request_nodes(&self, id: &str, side: BodySide) -> JournalResult<Option<[i64; 3]>> {
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

    /// Returns the exchanges that match the filter, newest first.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn filtered(&self, query: &RowQuery<'_>) -> JournalResult<Vec<ExchangeRow>> {
        if query.filter.is_empty() {
            return self.list(&query.range);
        }
        let limit = rows_of(query.range.limit);
        let oldest = query.filter.oldest_ms(query.now_ms);
        let costs = self.costs(query)?;
        let mut range = ExchangeFilter {
            failed: query.filter.is_of_failures(),
            limit: BATCH,
            ..query.range.clone()
        };
        let mut found = Vec::new();
        loop {
            let rows = self.list(&range)?;
            let more = rows.len() == BATCH;
            range.before = rows.last().map(|row| row.id.clone());
            for row in rows {
                // Rows are sorted by id, and so by time: no later row can match.
                if row.at_ms < oldest {
                    return Ok(found);
                }
                if query.holds(&row, &costs) {
                    found.push(row);
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
            if !more {
                return Ok(found);
            }
        }
    }

    /// Whether an exchange matches the filter.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn is_filtered(&self, query: &RowQuery<'_>, row: &ExchangeRow) -> JournalResult<bool> {
        let mut of_row = query.clone();
        // Billing one conversation instead of the whole journal: the page asks this for every new exchange.
        of_row.range.conversation.clone_from(&row.conversation);
        Ok(query.holds(row, &self.costs(&of_row)?))
    }

    /// Returns the cost of each exchange if the filter uses costs.
    fn costs(&self, query: &RowQuery<'_>) -> JournalResult<HashMap<String, f64>> {
        if !query.filter.needs_cost() {
            return Ok(HashMap::new());
        }
        let filter = BillFilter {
            conversation: query.range.conversation.clone(),
            since_ms: query.filter.oldest_ms(query.now_ms),
        };
        let bill = self.bill(&filter, query.prices)?.into_iter();
        Ok(bill.filter_map(|entry| Some((entry.id, entry.cost?))).collect())
    }
}

fn items(messages: &[MessageSummary]) -> Vec<ComparedMessage> {
    let item = |m: &MessageSummary| ComparedMessage {
        chunk: m.chunk,
        role: m.role.clone(),
    };
    messages.iter().map(item).collect()
}

fn mark(messages: &mut [MessageSummary], fates: &[MessageFate]) {
    for (message, (state, why)) in messages.iter_mut().zip(fates) {
        message.state = *state;
        message.why = *why;
    }
}

/// A message with all its parts, unabridged.
#[derive(Debug, Serialize)]
pub struct FullMessage {
    /// Role of the message.
    pub role: String,
    pub parts: Vec<ShownPart>,
}

/// Number of exchanges read at once.
const BATCH: usize = 500;

/// Selects exchanges, with the values that the filter's terms are compared with.
#[derive(Debug, Clone)]
pub struct RowQuery<'a> {
    /// Conversation, position in the list, and maximum number.
    pub range: ExchangeFilter,
    pub filter: &'a RowFilter,
    /// Prices for filters by cost.
    pub prices: &'a PriceTable,
    /// Prefix of chat commands.
    pub command_prefix: &'a str,
    /// Current time in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

impl RowQuery<'_> {
    fn holds(&self, row: &ExchangeRow, costs: &HashMap<String, f64>) -> bool {
        self.filter.holds(FilteredRow {
            row,
            cost: costs.get(&row.id).copied(),
            now_ms: self.now_ms,
            command_prefix: self.command_prefix,
        })
    }
}
