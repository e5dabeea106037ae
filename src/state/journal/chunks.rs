//! Splits a request body into chunks, at boundaries that similar bodies share. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use baton_core::text::{Span, json};
use baton_core::wire::{LocatedBody, Turn};

/// Minimum size of a separate chunk in the envelope. A chunk costs about a hundred bytes, so smaller members
/// share one.
const MIN_CHUNK_BYTES: usize = 512;

/// Maximum number of elements of an array that is split. Longer arrays are one chunk: lists of tools rarely
/// change.
const MAX_SPLIT_ELEMENTS: usize = 16;

/// A body in three regions: before the messages, the messages with the gaps between them, and after the
/// messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BodyRegions<'a> {
    /// Text before the first message.
    pub(super) head: Span,
    pub(super) turns: &'a [Turn],
    /// Text after the last message.
    pub(super) tail: Span,
}

impl<'a> BodyRegions<'a> {
    /// Splits a body at the boundaries of its messages. If the messages are unknown, the body is one region.
    pub(super) fn from_body(body: &'a LocatedBody) -> Self {
        let LocatedBody { text, list, turns } = body;
        if !follow_each_other(text, *list, turns) {
            return Self {
                head: Span::new(0, text.len()),
                turns: &[],
                tail: Span::new(text.len(), text.len()),
            };
        }
        let start = list.start + 1;
        let end = turns.last().map_or(start, |last| last.span.end);
        Self {
            head: Span::new(0, start),
            turns,
            tail: Span::new(end, text.len()),
        }
    }

    /// Returns the messages, each with the gap before it.
    pub(super) fn messages(&self) -> impl Iterator<Item = (Span, Turn)> {
        let mut end = self.head.end;
        self.turns.iter().map(move |turn| {
            let gap = Span::new(end, turn.span.start);
            end = turn.span.end;
            (gap, *turn)
        })
    }
}

/// Whether the messages follow each other in the list, with only separators between them.
fn follow_each_other(body: &[u8], list: Span, turns: &[Turn]) -> bool {
    let mut at = list.start + 1;
    at < list.end
        && turns.iter().all(|turn| {
            let Span { start, end } = turn.span;
            let follows = at <= start && end < list.end && separates(Span::new(at, start).of(body));
            at = end;
            follows
        })
}

/// Whether a gap consists of commas and whitespace only.
fn separates(gap: &[u8]) -> bool {
    gap.iter()
        .all(|b| matches!(b, b',' | b' ' | b'\n' | b'\r' | b'\t'))
}

/// Returns the chunks of the region before the messages, split at the large members of the envelope.
pub(super) fn head(text: &[u8]) -> Vec<Span> {
    runs(text.len(), &large(text, json::blank(text, 0)))
}

/// Returns the chunks of the region after the messages.
pub(super) fn tail(text: &[u8]) -> Vec<Span> {
    let bracket = json::blank(text, 0);
    let comma = json::blank(text, bracket + 1);
    // Not the expected form: the region becomes one chunk.
    if text.get(bracket) != Some(&b']') || text.get(comma) != Some(&b',') {
        return runs(text.len(), &[]);
    }
    // The region starts in the middle of an object. A brace in place of the comma makes it an object of its
    // own.
    let object = [b"{", &text[comma + 1..]].concat();
    let shift = |span: Span| Span::new(span.start + comma, span.end + comma);
    let shifted = large(&object, 0).into_iter().map(shift);
    runs(text.len(), &shifted.collect::<Vec<_>>())
}

/// Returns the values of the object at `at` that deserve a chunk, in order. If the object breaks off, only
/// the complete ones.
fn large(text: &[u8], at: usize) -> Vec<Span> {
    let mut values = Vec::new();
    // An error ends the walk, and the values found so far are used.
    let _ = json::object(text, at, |_, at| {
        let end = json::value_end(text, at)?;
        values.push(Span::new(at, end));
        Ok(end)
    });
    let split = values
        .into_iter()
        .flat_map(|value| match json::elements(text, value) {
            few if !few.is_empty() && few.len() <= MAX_SPLIT_ELEMENTS => few,
            _ => vec![value],
        });
    split.filter(|span| span.len() >= MIN_CHUNK_BYTES).collect()
}

/// Splits a region into chunks: each of `marks`, and the text between them.
fn runs(len: usize, marks: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    let mut at = 0;
    for mark in marks {
        out.push(Span::new(at, mark.start));
        out.push(*mark);
        at = mark.end;
    }
    out.push(Span::new(at, len));
    out.retain(|span| !span.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::wire::{Operation, Role, View, anthropic};
    use bytes::Bytes;

    /// A body as three rows of chunks.
    struct Cuts {
        head: Vec<Span>,
        list: Vec<(Span, Span)>,
        tail: Vec<Span>,
    }

    impl Cuts {
        fn from_view(view: &View) -> Self {
            let body = LocatedBody::from(view);
            let regions = BodyRegions::from_body(&body);
            let placed = |region: Span, spans: Vec<Span>| {
                let placed = spans
                    .into_iter()
                    .map(|span| Span::new(span.start + region.start, span.end + region.start));
                placed.collect()
            };
            Self {
                head: placed(regions.head, head(regions.head.of(&view.body))),
                tail: placed(regions.tail, tail(regions.tail.of(&view.body))),
                list: regions.messages().map(|(gap, turn)| (gap, turn.span)).collect(),
            }
        }
    }

    fn joined(body: &[u8], cuts: &Cuts) -> Vec<u8> {
        let list = cuts.list.iter().flat_map(|(gap, span)| [*gap, *span]);
        let all = cuts
            .head
            .iter()
            .copied()
            .chain(list)
            .chain(cuts.tail.iter().copied());
        all.flat_map(|span| span.of(body).to_vec()).collect()
    }

    #[test]
    fn pieces_join_to_the_body() {
        let long = "x".repeat(600);
        let bodies = [
            format!(
                r#"{{ "model":"m", "system":[{{"type":"text","text":"{long}"}}, {{"type":"text","text":"b"}}] , "messages" : [ {{"role":"user","content":"a"}} , {{"role":"assistant","content":"b"}} ] ,"tools":[{{"name":"{long}"}}]}} "#
            ),
            r#"{"messages":[{"role":"user","content":"a"}]}"#.to_owned(),
        ];
        for body in bodies {
            let bytes = Bytes::from(body.clone());
            let view = anthropic::WIRE.read(&bytes, Operation::Generate).unwrap();
            let cuts = Cuts::from_view(&view);
            assert_eq!(joined(&bytes, &cuts), body.as_bytes());
            assert_eq!(cuts.list.len(), view.turns.len());
            assert!(
                cuts.list
                    .iter()
                    .all(|(_, span)| span.of(&bytes).starts_with(b"{"))
            );
        }
    }

    fn turns(spans: &[(usize, usize)]) -> Vec<Turn> {
        let turn = |(start, end): &(usize, usize)| Turn::new(Span::new(*start, *end), Role::User);
        spans.iter().map(turn).collect()
    }

    /// Turns that do not follow each other in the list make the body one region.
    #[test]
    fn a_body_is_cut_where_its_messages_follow_each_other() {
        let is_cut = |spans: &[(usize, usize)]| {
            let body = LocatedBody {
                text: Bytes::from_static(b"[{}, {} ,{}]x{}"),
                list: Span::new(0, 12),
                turns: turns(spans),
            };
            let regions = BodyRegions::from_body(&body);
            let cut = regions.turns.len() == body.turns.len();
            assert!(
                cut || regions
                    == BodyRegions::from_body(&LocatedBody {
                        text: body.text.clone(),
                        ..LocatedBody::default()
                    })
            );
            cut
        };
        assert!(is_cut(&[(1, 3), (5, 7), (9, 11)]));
        assert!(is_cut(&[(1, 3)]) && is_cut(&[]));
        assert!(!is_cut(&[(1, 3), (9, 11)]), "one is left out");
        assert!(!is_cut(&[(5, 7), (1, 3)]), "turned round");
        assert!(!is_cut(&[(1, 6), (5, 7)]), "one in the other");
        assert!(!is_cut(&[(1, 3), (5, 7), (9, 11), (13, 15)]), "after the list");
        assert!(!is_cut(&[(1, 15)]), "it ends after the list");
    }

    #[test]
    fn large_members_stand_alone_also_after_the_messages() {
        let long = "x".repeat(600);
        for (gap, end) in [("", ""), (" ", "\n"), ("\n  ", " ")] {
            let body = Bytes::from(format!(
                r#"{{"messages":[{{"role":"user","content":"a"}}{end}]{gap},{gap}"a":1,"tools":[{{"d":"{long}"}},{{"d":"{long}"}}],"b":"{long}"}}"#
            ));
            let view = anthropic::WIRE.read(&body, Operation::Generate).unwrap();
            let cuts = Cuts::from_view(&view);
            assert_eq!(joined(&body, &cuts), body);
            let large = cuts.tail.iter().filter(|span| span.len() > 600);
            assert_eq!((large.count(), cuts.tail.len()), (3, 7));
        }
    }

    #[test]
    fn large_members_stand_alone() {
        let long = "x".repeat(600);
        let body = Bytes::from(format!(
            r#"{{"a":1,"system":"{long}","b":2,"messages":[{{"role":"user","content":"a"}}]}}"#
        ));
        let view = anthropic::WIRE.read(&body, Operation::Generate).unwrap();
        let cuts = Cuts::from_view(&view);
        assert_eq!(cuts.head.len(), 3);
        assert_eq!(cuts.head[1].len(), 602);
    }
}
