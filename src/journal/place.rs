//! Where on a side of an exchange a text stands, so that a hit of the search can be opened there.

use super::envelope;
use super::exchange::StoredLeg;
use super::query::Query;
use super::schema::JournalError;
use super::search::{Hit, Place, Wanted};

/// The place of a piece that was first seen in the hit's exchange.
pub(super) fn of(query: &Query, hit: &Hit, piece: i64, wanted: &Wanted) -> Result<Place, JournalError> {
    let headers = Place {
        of: "headers",
        ..Place::default()
    };
    let Some(stored) = query.stored(&hit.exchange)? else {
        return Ok(headers);
    };
    match hit.side.as_str() {
        "received" => Ok(in_body(query, stored.body, piece, wanted)?.unwrap_or(headers)),
        "shown" if piece != 0 && piece == stored.shown => Ok(Place {
            of: "body",
            ..headers
        }),
        "sent" => {
            for leg in query.legs(stored.seq)? {
                if let Some(place) = in_body(query, leg.body, piece, wanted)? {
                    let leg = Some(leg.n);
                    return Ok(Place { leg, ..place });
                }
            }
            Ok(headers)
        }
        "response" => {
            let legs = query.legs(stored.seq)?;
            let answered = |leg: &&StoredLeg| piece != 0 && leg.answer == piece;
            Ok(match legs.iter().find(answered) {
                Some(leg) => Place {
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
    query: &Query,
    body: [i64; 3],
    piece: i64,
    wanted: &Wanted,
) -> Result<Option<Place>, JournalError> {
    let place = |of, i| Place {
        of,
        leg: None,
        i: Some(i),
    };
    let messages = query.messages(body[1])?;
    if let Some(i) = messages.iter().position(|message| message.piece == piece) {
        return Ok(Some(place("messages", i)));
    }
    let text = query.envelope(body)?;
    let found = envelope::position(&text, |part| {
        let text = part.text.as_deref().or(part.json.as_ref().map(|json| json.get()));
        text.is_some_and(|text| wanted.is_in(text))
    });
    Ok(found.map(|i| place("envelope", i)))
}
