//! Locates a text in an exchange, so that a search hit can be opened there.

use serde::Serialize;

use super::envelope;
use super::exchange_query::StoredLeg;
use super::query::JournalReader;
use super::schema::JournalError;
use super::search_pattern::SearchPattern;

/// The position of a text on a side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TextPosition {
    /// `messages`, `envelope`, `body`, `headers`.
    pub of: &'static str,
    /// The leg, from 0, where the side has legs.
    pub leg: Option<u32>,
    /// The message, or the row of the envelope.
    pub i: Option<usize>,
}

/// The position of a chunk that was first seen on this side of this exchange.
pub(super) fn of(
    query: &JournalReader,
    (exchange, side): (&str, &str),
    chunk: i64,
    wanted: &SearchPattern,
) -> Result<TextPosition, JournalError> {
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
            for leg in query.legs(stored.seq)? {
                if let Some(position) = in_body(query, leg.body, chunk, wanted)? {
                    let leg = Some(leg.n);
                    return Ok(TextPosition { leg, ..position });
                }
            }
            Ok(headers)
        }
        "response" => {
            let legs = query.legs(stored.seq)?;
            let answered = |leg: &&StoredLeg| chunk != 0 && leg.answer == chunk;
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
) -> Result<Option<TextPosition>, JournalError> {
    let position = |of, i| TextPosition {
        of,
        leg: None,
        i: Some(i),
    };
    let messages = query.messages(body[1])?;
    if let Some(i) = messages.iter().position(|message| message.chunk == chunk) {
        return Ok(Some(position("messages", i)));
    }
    let text = query.envelope(body)?;
    let found = envelope::position(&text, |part| {
        let text = part.text.as_deref().or(part.json.as_ref().map(|json| json.get()));
        text.is_some_and(|text| wanted.is_in(text))
    });
    Ok(found.map(|i| position("envelope", i)))
}
