//! Cuts a request body into chunks, at boundaries that two similar bodies share. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::record::WireId;
use crate::text::{Span, cost, json};
use crate::wire::Turn;

/// Smaller members of the envelope share a chunk with their neighbours: a chunk of its own costs about a hundred bytes.
const WORTH: usize = 512;

/// Arrays in the envelope with more elements are one piece: lists of tools change rarely.
const FEW: usize = 16;

/// Where the messages of a body are.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageSpans<'a> {
    /// The wire as which the body was read.
    pub(super) wire: WireId,
    pub(super) list: Span,
    pub(super) turns: &'a [Turn],
}

/// A body in three regions. Joined, with the gaps, they are the body byte for byte.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Regions {
    /// What stands before the first message.
    pub(super) head: Span,
    /// The messages, each with what separates it from the one before.
    pub(super) list: Vec<(Span, Span)>,
    /// What stands behind the last message.
    pub(super) tail: Span,
}

impl Regions {
    /// Cuts at the boundaries of messages: those of `turns`, which stand in the array `list`. What separates the first `known`
    /// of them was looked at in another body that begins with them, and is not read again.
    pub(super) fn of(body: &[u8], list: Span, turns: &[Turn], known: usize) -> Self {
        let Some(messages) = messages(body, list, turns, known) else {
            return Self::whole(body.len());
        };
        let first = messages.first().map_or(list.start + 1, |(gap, _)| gap.start);
        let last = messages.last().map_or(first, |(_, span)| span.end);
        Self {
            head: Span::new(0, first),
            list: messages,
            tail: Span::new(last, body.len()),
        }
    }

    /// A body whose messages are not known.
    pub(super) fn whole(len: usize) -> Self {
        Self {
            head: Span::new(0, len),
            list: Vec::new(),
            tail: Span::new(len, len),
        }
    }

    /// All messages with their gaps.
    pub(super) fn messages(&self) -> Span {
        Span::new(self.head.end, self.tail.start)
    }
}

/// The messages with the gaps before them; `None` where they do not follow each other in the list.
fn messages(body: &[u8], list: Span, turns: &[Turn], known: usize) -> Option<Vec<(Span, Span)>> {
    let mut at = list.start + 1;
    let mut out = Vec::with_capacity(turns.len());
    for (i, turn) in turns.iter().enumerate() {
        if turn.span.start < at || turn.span.end >= list.end {
            return None;
        }
        let gap = Span::new(at, turn.span.start);
        if i >= known && !separates(gap.of(body)) {
            return None;
        }
        out.push((gap, turn.span));
        at = turn.span.end;
    }
    Some(out)
}

/// Whether nothing but a comma and blanks stands between two messages.
fn separates(gap: &[u8]) -> bool {
    cost::add(gap.len());
    gap.iter()
        .all(|b| matches!(b, b',' | b' ' | b'\n' | b'\r' | b'\t'))
}

/// The chunks of what stands before the messages: cut at the envelope's large members.
pub(super) fn head(text: &[u8]) -> Vec<Span> {
    runs(text.len(), &large(text, json::blank(text, 0)))
}

/// The chunks of what stands behind them.
pub(super) fn tail(text: &[u8]) -> Vec<Span> {
    let bracket = json::blank(text, 0);
    let comma = json::blank(text, bracket + 1);
    if text.get(bracket) != Some(&b']') || text.get(comma) != Some(&b',') {
        return runs(text.len(), &[]);
    }
    // The rest of an object is walked as an object; the brace stands where the comma was.
    let object = [b"{", &text[comma + 1..]].concat();
    let shifted = large(&object, 0)
        .into_iter()
        .map(|span| Span::new(span.start + comma, span.end + comma));
    runs(text.len(), &shifted.collect::<Vec<_>>())
}

/// Values of the object at `at` that are worth a chunk, in order. Where the text ends before the object does, those
/// of its beginning.
fn large(text: &[u8], at: usize) -> Vec<Span> {
    let mut values = Vec::new();
    let _ = json::object(text, at, |_, at| {
        let end = json::value_end(text, at)?;
        values.push(Span::new(at, end));
        Ok(end)
    });
    let split = values
        .into_iter()
        .flat_map(|value| match json::elements(text, value) {
            few if !few.is_empty() && few.len() <= FEW => few,
            _ => vec![value],
        });
    split.filter(|span| span.len() >= WORTH).collect()
}

/// A region as chunks: each of `marks`, and what is between them.
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
    use crate::wire::{Operation, Requests, View, anthropic::Anthropic};
    use bytes::Bytes;

    /// A body as three rows of chunks.
    struct Cuts {
        head: Vec<Span>,
        list: Vec<(Span, Span)>,
        tail: Vec<Span>,
    }

    impl Cuts {
        fn of(view: &View) -> Self {
            let regions = Regions::of(&view.body, view.list, &view.turns, 0);
            let placed = |region: Span, spans: Vec<Span>| {
                let placed = spans
                    .into_iter()
                    .map(|span| Span::new(span.start + region.start, span.end + region.start));
                placed.collect()
            };
            Self {
                head: placed(regions.head, head(regions.head.of(&view.body))),
                tail: placed(regions.tail, tail(regions.tail.of(&view.body))),
                list: regions.list,
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
            let view = Anthropic.read(&bytes, Operation::Generate).unwrap();
            let cuts = Cuts::of(&view);
            assert_eq!(joined(&bytes, &cuts), body.as_bytes());
            assert_eq!(cuts.list.len(), view.turns.len());
            assert!(
                cuts.list
                    .iter()
                    .all(|(_, span)| span.of(&bytes).starts_with(b"{"))
            );
        }
    }

    #[test]
    fn large_members_stand_alone_also_behind_the_messages() {
        let long = "x".repeat(600);
        for (gap, end) in [("", ""), (" ", "\n"), ("\n  ", " ")] {
            let body = Bytes::from(format!(
                r#"{{"messages":[{{"role":"user","content":"a"}}{end}]{gap},{gap}"a":1,"tools":[{{"d":"{long}"}},{{"d":"{long}"}}],"b":"{long}"}}"#
            ));
            let view = Anthropic.read(&body, Operation::Generate).unwrap();
            let cuts = Cuts::of(&view);
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
        let view = Anthropic.read(&body, Operation::Generate).unwrap();
        let cuts = Cuts::of(&view);
        assert_eq!(cuts.head.len(), 3);
        assert_eq!(cuts.head[1].len(), 602);
    }
}
