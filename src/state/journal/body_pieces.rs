//! Splits a body for storage: the text before its messages, the messages, and the text after them.
//!
//! Nearly all messages of a sent body came with the agent's request. Only the bytes between them are parsed
//! again. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

use bytes::Bytes;

use super::chunks::BodyRegions;
use baton_core::text::{Span, splice};
use baton_core::wire::{LocatedBody, Role, Turn};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BodyPieces {
    pub(super) head: Bytes,
    pub(super) messages: Vec<MessagePiece>,
    pub(super) tail: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessagePiece {
    /// Message with the bytes between it and the previous one.
    pub(super) text: Bytes,
    /// Number of those bytes.
    pub(super) gap: usize,
    pub(super) role: Role,
    /// Index of the same message in the agent's request, if it directly follows the same message there.
    pub(super) at: Option<usize>,
}

/// A run of adjacent messages that the sent body shares with the request.
///
/// Only the first one is in the shortened text and is parsed. The others are added afterwards.
struct MessageRun {
    /// Offset of the first message in the shortened text.
    at: usize,
    /// Indices of the other messages in the request.
    others: Range<usize>,
}

impl BodyPieces {
    pub(super) fn from_body(body: &LocatedBody) -> Self {
        let regions = BodyRegions::from_body(body);
        let messages = regions.messages().map(|found| message(&body.text, found));
        Self {
            head: slice(&body.text, regions.head),
            messages: messages.collect(),
            tail: slice(&body.text, regions.tail),
        }
    }

    /// Splits a sent body, given as slices of the request and new strings. `read` locates messages in a body.
    pub(super) fn sent(
        rope: Vec<Bytes>,
        request: &LocatedBody,
        read: impl Fn(&Bytes) -> LocatedBody,
    ) -> Self {
        Self::shortened(&rope, request, &read).unwrap_or_else(|| Self::from_body(&read(&splice::flat(rope))))
    }

    /// Parses the body without the shared messages that directly follow another one, then adds those back.
    fn shortened(
        rope: &[Bytes],
        request: &LocatedBody,
        read: impl Fn(&Bytes) -> LocatedBody,
    ) -> Option<Self> {
        let text = &request.text;
        let regions = BodyRegions::from_body(request);
        let turns = regions.turns;
        let (mut short, mut runs) = (Vec::new(), Vec::new());
        for piece in rope {
            // Bytes that baton wrote are parsed.
            let Some(at) = offset_in(text, piece) else {
                short.extend_from_slice(piece);
                continue;
            };
            let first = turns.partition_point(|turn| turn.span.start < at);
            let end = turns.partition_point(|turn| turn.span.end <= at + piece.len());
            let others = first + 1..end;
            // Fewer than two complete messages: there is nothing to skip.
            if others.is_empty() {
                short.extend_from_slice(piece);
                continue;
            }
            let kept = turns[first].span;
            runs.push(MessageRun {
                at: short.len() + kept.start - at,
                others,
            });
            short.extend_from_slice(&piece[..kept.end - at]);
            short.extend_from_slice(&piece[turns[end - 1].span.end - at..]);
        }
        if runs.is_empty() {
            return None;
        }
        let known: Vec<(Span, Turn)> = regions.messages().collect();
        let short = read(&Bytes::from(short));
        let regions = BodyRegions::from_body(&short);
        let mut runs = runs.into_iter().peekable();
        let mut messages = Vec::new();
        for found in regions.messages() {
            messages.push(message(&short.text, found));
            if let Some(run) = runs.next_if(|run| run.at == found.1.span.start) {
                let others = run.others.clone().zip(&known[run.others]);
                messages.extend(others.map(|(at, found)| MessagePiece {
                    at: Some(at),
                    ..message(text, *found)
                }));
            }
        }
        // A shared slice turned out not to hold messages here, for example inside a string: parse the whole
        // body instead.
        runs.peek().is_none().then(|| Self {
            head: slice(&short.text, regions.head),
            messages,
            tail: slice(&short.text, regions.tail),
        })
    }
}

/// Returns the offset of a slice within its text, or `None` if it belongs to another text.
fn offset_in(text: &Bytes, piece: &Bytes) -> Option<usize> {
    // By address: equal bytes from elsewhere must not count as a part of the request.
    let at = piece.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    (at + piece.len() <= text.len()).then_some(at)
}

fn message(text: &Bytes, (gap, turn): (Span, Turn)) -> MessagePiece {
    MessagePiece {
        text: text.slice(gap.start..turn.span.end),
        gap: gap.len(),
        role: turn.role,
        at: None,
    }
}

fn slice(text: &Bytes, span: Span) -> Bytes {
    text.slice(span.start..span.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::record::WireId;
    use baton_core::text::splice::Edit;
    use baton_core::wire::{Operation, wire};
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::cell::Cell;

    fn read(text: &Bytes) -> LocatedBody {
        wire(WireId::Anthropic).located(text, Operation::Generate)
    }

    fn request(messages: usize, gap: &str) -> LocatedBody {
        let message = |n| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"{n}, {{}}"}}"#)
        };
        let messages: Vec<String> = (0..messages).map(message).collect();
        let messages = messages.join(gap);
        let text = Bytes::from(format!(r#"{{"model":"m","messages":[{messages}],"tools":[]}}"#));
        read(&text)
    }

    /// Checks the indices in the request, and removes them.
    fn apart(pieces: &BodyPieces, request: &LocatedBody) -> BodyPieces {
        let mut pieces = pieces.clone();
        let known: Vec<_> = BodyRegions::from_body(request).messages().collect();
        for piece in &mut pieces.messages {
            if let Some(at) = piece.at.take() {
                assert_eq!(*piece, message(&request.text, known[at]));
            }
        }
        pieces
    }

    #[test]
    fn what_came_with_the_request_is_not_read_again() {
        let request = request(50, ",");
        let turns = &request.turns;
        let edits = vec![
            Edit::replace(
                Span::new(turns[0].span.start, turns[9].span.end),
                r#"{"role":"user","content":"Go on."}"#,
            ),
            Edit::insert(request.text.len() - 2, r#"{"name":"t"}"#),
        ];
        let rope = splice::splice(&request.text, edits);
        let bytes = Cell::new(0);
        let pieces = BodyPieces::sent(rope.clone(), &request, |text| {
            bytes.set(bytes.get() + text.len());
            read(text)
        });
        let whole = splice::flat(rope);
        assert_eq!(apart(&pieces, &request), BodyPieces::from_body(&read(&whole)));
        assert_eq!(pieces.messages.len(), 41);
        assert_eq!(pieces.messages.iter().filter(|m| m.at.is_some()).count(), 39);
        assert!(bytes.get() < 200, "{} bytes are read", bytes.get());
    }

    /// A slice of the request may be used elsewhere than in the message list.
    #[test]
    fn a_message_in_a_string_is_none() {
        let request = request(3, ",");
        let quoted = request.text.slice(request.list.start..request.list.end);
        let rope = vec![
            Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":"a"}],"metadata":"#),
            quoted,
            Bytes::from_static(b"}"),
        ];
        let pieces = BodyPieces::sent(rope.clone(), &request, read);
        let whole = splice::flat(rope);
        assert_eq!(apart(&pieces, &request), BodyPieces::from_body(&read(&whole)));
        assert_eq!(pieces.messages.len(), 1);
    }

    proptest! {
        #[test]
        fn a_sent_body_has_the_messages_that_its_text_has(
            messages in 0usize..12,
            gap in prop::sample::select(vec![",", " , ", "\n,"]),
            edits in prop::collection::vec((any::<Index>(), any::<Index>(), 0usize..6), 0..5),
        ) {
            const TEXTS: [&str; 6] = ["", ",", "x", r#"{"role":"user","content":"n"}"#, r#",{"role":"user","content":"n"}"#, "]"];
            let request = request(messages, gap);
            // Mostly at the boundaries of messages, and sometimes anywhere.
            let spans = request.turns.iter().flat_map(|turn| [turn.span.start, turn.span.end]);
            let places: Vec<usize> = spans.chain([0, 5, 40, 61, request.text.len() - 2]).collect();
            let place = |index: &Index| places[index.index(places.len())].min(request.text.len());
            let edits = edits.iter().map(|(from, to, with)| {
                let (from, to) = (place(from), place(to));
                Edit::replace(Span::new(from.min(to), from.max(to)), TEXTS[*with])
            });
            let rope = splice::splice(&request.text, edits.collect());
            let whole = splice::flat(rope.clone());
            let pieces = BodyPieces::sent(rope, &request, read);
            prop_assert_eq!(apart(&pieces, &request), BodyPieces::from_body(&read(&whole)));
        }
    }
}
