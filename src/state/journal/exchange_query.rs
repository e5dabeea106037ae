//! Reads one exchange in full from the file, and compares its two sides.

use rusqlite::{OptionalExtension, params};

use super::diff::{ComparedMessage, MessageFate, MessageState, compare};
use super::exchange::{
    BodySize, EnvelopeChange, ExchangeDetail, Headers, LegDetail, LegRequest, LegResponse, MessageList,
    MessageSummary,
};
use super::headers::{self, StoredHeaders};
use super::query::{BodySide, JournalReader};
use super::row::{CHAIN, json};
use super::schema::JournalError;
use super::{envelope, explain, reasons};
use baton_core::rewrite::{ChangeReason, SizeChange};

/// The columns of an exchange that its summary row has not.
pub(super) struct StoredExchange {
    pub(super) seq: i64,
    pub(super) body: [i64; 3],
    headers: StoredHeaders,
    pub(super) shown: i64,
    shown_cut: bool,
    shown_headers: StoredHeaders,
}

/// The columns of a leg.
pub(super) struct StoredLeg {
    pub(super) n: u32,
    at_ms: u64,
    pub(super) body: [i64; 3],
    changes: Vec<SizeChange>,
    response: LegResponse,
    headers: StoredHeaders,
    url: String,
    sent_headers: StoredHeaders,
    answered_ms: Option<u64>,
    ended_ms: Option<u64>,
    /// The chunk of its answer.
    pub(super) answer: i64,
}

impl JournalReader {
    /// A body as it was, byte for byte except for what was redacted; `None` where there is none.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn body(&self, id: &str, side: BodySide) -> Result<Option<Vec<u8>>, JournalError> {
        let nodes = match side {
            BodySide::Received | BodySide::Sent(_) => self.request_nodes(id, side)?,
            BodySide::Response(_) | BodySide::Shown => {
                return match self.answer_chunk(id, side)? {
                    0 => Ok(None),
                    chunk => self.text(chunk).map(Some),
                };
            }
        };
        let Some(nodes) = nodes.filter(|nodes| *nodes != [0; 3]) else {
            return Ok(None);
        };
        let mut body = Vec::new();
        for node in nodes {
            self.join(node, &mut body)?;
        }
        Ok(Some(body))
    }

    /// The chunk of an answer; 0 where there is none.
    fn answer_chunk(&self, id: &str, side: BodySide) -> Result<i64, JournalError> {
        let Some(stored) = self.stored(id)? else {
            return Ok(0);
        };
        let BodySide::Response(n) = side else {
            return Ok(stored.shown);
        };
        let legs = self.legs(stored.seq)?;
        // An error that was relayed as it came is kept once: as what the agent was shown.
        let is_relayed = |leg: &StoredLeg| {
            leg.answer == 0
                && legs.last().is_some_and(|last| last.n == n)
                && leg.response.status.is_none_or(|status| status >= 400)
        };
        let leg = legs.iter().find(|leg| leg.n == n);
        Ok(leg.map_or(0, |leg| if is_relayed(leg) { stored.shown } else { leg.answer }))
    }

    /// One exchange in full.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn exchange(&self, id: &str) -> Result<Option<ExchangeDetail>, JournalError> {
        let (Some(row), Some(stored)) = (self.row(id)?, self.stored(id)?) else {
            return Ok(None);
        };
        let mut received = MessageList {
            messages: self.messages(stored.body[1])?,
            envelope: envelope::rows(&self.envelope(stored.body)?),
        };
        let mut legs = Vec::new();
        for leg in self.legs(stored.seq)? {
            let leg = self.leg(leg, &stored, &mut received, legs.is_empty())?;
            legs.push(leg);
        }
        let headers = Headers {
            received: self.headers(&stored.headers)?,
            response: self.headers(&stored.shown_headers)?,
        };
        let mut exchange = ExchangeDetail {
            headers,
            received,
            legs,
            shown: BodySize {
                bytes: self.size(stored.shown)?,
                truncated: stored.shown_cut,
            },
            notes: Vec::new(),
            exchange: row,
        };
        exchange.notes = explain::notes(&exchange);
        Ok(Some(exchange))
    }

    fn leg(
        &self,
        leg: StoredLeg,
        stored: &StoredExchange,
        received: &mut MessageList,
        first: bool,
    ) -> Result<LegDetail, JournalError> {
        let mut sent = self.messages(leg.body[1])?;
        let whys: Vec<ChangeReason> = leg.changes.iter().map(|change| change.why).collect();
        let text = |chunk| {
            let text = self.text(chunk).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        let ours = items(&sent);
        let (theirs, mut fates) = compare(&items(&received.messages), &ours, &whys, &text);
        reasons::name(&ours, &whys, &mut fates);
        mark(&mut sent, &fates);
        let ours = self.envelope(leg.body)?;
        let (their_envelope, our_envelope) = envelope::compare(&self.envelope(stored.body)?, &ours);
        if first {
            mark(&mut received.messages, &theirs);
            received.envelope = their_envelope;
        }
        let mut response = leg.response;
        response.headers = self.headers(&leg.headers)?;
        Ok(LegDetail {
            n: leg.n,
            at_ms: leg.at_ms,
            answered_ms: leg.answered_ms,
            ended_ms: leg.ended_ms,
            sent: LegRequest {
                url: leg.url,
                headers: self.headers(&leg.sent_headers)?,
                messages: sent,
                envelope: our_envelope,
                envelope_changes: self.envelope_changes(stored.body, leg.body)?,
            },
            received_states: theirs.iter().map(|(state, _)| *state).collect(),
            received_whys: theirs.into_iter().map(|(_, why)| why).collect(),
            response,
        })
    }

    pub(super) fn stored(&self, id: &str) -> Result<Option<StoredExchange>, JournalError> {
        let mut ask = self.conn.prepare_cached(
            "SELECT seq, head, list, tail, headers, shown, shown_cut, shown_headers, headers_own,
             shown_headers_own FROM exchanges WHERE id = ?1",
        )?;
        let found = ask.query_row([id], |row| {
            Ok(StoredExchange {
                seq: row.get(0)?,
                body: [row.get(1)?, row.get(2)?, row.get(3)?],
                headers: StoredHeaders {
                    model: row.get(4)?,
                    own: row.get(8)?,
                },
                shown: row.get(5)?,
                shown_cut: row.get(6)?,
                shown_headers: StoredHeaders {
                    model: row.get(7)?,
                    own: row.get(9)?,
                },
            })
        });
        Ok(found.optional()?)
    }

    pub(super) fn legs(&self, seq: i64) -> Result<Vec<StoredLeg>, JournalError> {
        let mut ask = self.conn.prepare_cached(
            "SELECT n, at_ms, head, list, tail, changes, status, response_bytes, stop, usage, response_cut, headers,
             headers_own, url, sent_headers, sent_headers_own, answered_ms, ended_ms, response FROM legs WHERE exchange = ?1 ORDER BY n",
        )?;
        let legs = ask.query_map(params![seq], |row| {
            Ok(StoredLeg {
                n: row.get(0)?,
                at_ms: row.get(1)?,
                body: [row.get(2)?, row.get(3)?, row.get(4)?],
                changes: json(row, 5)?.unwrap_or_default(),
                response: LegResponse {
                    status: row.get(6)?,
                    bytes: row.get(7)?,
                    stop: row.get(8)?,
                    usage: json(row, 9)?,
                    truncated: row.get(10)?,
                    headers: Vec::new(),
                },
                headers: StoredHeaders {
                    model: row.get(11)?,
                    own: row.get(12)?,
                },
                url: row.get(13)?,
                sent_headers: StoredHeaders {
                    model: row.get(14)?,
                    own: row.get(15)?,
                },
                answered_ms: row.get(16)?,
                ended_ms: row.get(17)?,
                answer: row.get(18)?,
            })
        })?;
        Ok(legs.collect::<Result<_, _>>()?)
    }

    /// The messages of a list, as summaries without their texts.
    pub(super) fn messages(&self, list: i64) -> Result<Vec<MessageSummary>, JournalError> {
        let sql = format!(
            "{CHAIN} SELECT c.piece, p.size, p.role, p.kind, p.line FROM chain c JOIN pieces p ON p.id = c.piece
             ORDER BY depth DESC"
        );
        let mut ask = self.conn.prepare_cached(&sql)?;
        let all = ask.query_map([list], |row| {
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
        let mut all: Vec<MessageSummary> = all.collect::<Result<_, _>>()?;
        for (i, message) in all.iter_mut().enumerate() {
            message.i = i;
        }
        Ok(all)
    }

    fn headers(&self, kept: &StoredHeaders) -> Result<Vec<(String, String)>, JournalError> {
        match kept.model {
            0 => Ok(Vec::new()),
            model => Ok(headers::read(&self.text(model)?, kept.own.as_deref())),
        }
    }

    fn size(&self, chunk: i64) -> Result<u64, JournalError> {
        let mut ask = self
            .conn
            .prepare_cached("SELECT size FROM pieces WHERE id = ?1")?;
        Ok(ask
            .query_row([chunk], |row| row.get(0))
            .optional()?
            .unwrap_or_default())
    }

    /// The differences between two requests outside of their messages.
    fn envelope_changes(&self, ours: [i64; 3], sent: [i64; 3]) -> Result<Vec<EnvelopeChange>, JournalError> {
        if ours[0] == sent[0] && ours[2] == sent[2] {
            return Ok(Vec::new());
        }
        Ok(envelope::differences(
            &self.envelope(ours)?,
            &self.envelope(sent)?,
        ))
    }

    /// A request without its messages.
    pub(super) fn envelope(&self, [head, _, tail]: [i64; 3]) -> Result<Vec<u8>, JournalError> {
        let mut text = Vec::new();
        self.join(head, &mut text)?;
        self.join(tail, &mut text)?;
        Ok(text)
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
