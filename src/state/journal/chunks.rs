//! Cuts a request body into chunks, at boundaries that two similar bodies share. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;

use baton_core::text::{Span, cost, json};
use baton_core::wire::{Role, Turn};

/// Smaller members of the envelope share a chunk with their neighbours: a chunk of its own costs about a hundred bytes.
const WORTH: usize = 512;

/// Arrays in the envelope with more elements are one piece: lists of tools change rarely.
const FEW: usize = 16;

/// A body in three regions: what is before the messages, these with the gaps between them, and what is after
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BodyRegions<'a> {
    /// Text before the first message.
    pub(super) head: Span,
    pub(super) turns: &'a [Turn],
    /// Text after the last message.
    pub(super) tail: Span,
}

impl<'a> BodyRegions<'a> {
    /// Cuts at the boundaries of messages: those of `turns`, which are in the array `list`. What separates the first `known`
    /// of them was examined in another body that begins with them, and is not read again.
    pub(super) fn of(body: &[u8], list: Span, turns: &'a [Turn], known: usize) -> Self {
        let start = list.start + 1;
        if !follow_each_other(body, list, turns, known) {
            return Self::whole(body.len());
        }
        Self {
            head: Span::new(0, start),
            turns,
            tail: Span::new(end(start, turns), body.len()),
        }
    }

    /// A body whose messages are unknown.
    pub(super) fn whole(len: usize) -> Self {
        Self {
            head: Span::new(0, len),
            turns: &[],
            tail: Span::new(len, len),
        }
    }

    /// All messages with their gaps.
    pub(super) fn messages(&self) -> Span {
        Span::new(self.head.end, self.tail.start)
    }
}

/// The end of the messages that begin at `start`.
fn end(start: usize, turns: &[Turn]) -> usize {
    turns.last().map_or(start, |last| last.span.end)
}

/// Whether the messages follow each other in the list, with nothing but separators between them.
fn follow_each_other(body: &[u8], list: Span, turns: &[Turn], known: usize) -> bool {
    let (known, further) = turns.split_at(known);
    let mut at = end(list.start + 1, known);
    at < list.end
        && further.iter().all(|turn| {
            let Span { start, end } = turn.span;
            let follows = at <= start && end < list.end && separates(Span::new(at, start).of(body));
            at = end;
            follows
        })
}

/// Messages of a text, each with what separates it from the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageChunks<'a> {
    pub(super) text: &'a Bytes,
    /// The offset of the first one's gap.
    start: usize,
    turns: &'a [Turn],
}

impl<'a> MessageChunks<'a> {
    /// The messages of these regions.
    pub(super) fn of(text: &'a Bytes, regions: &BodyRegions<'a>) -> Self {
        Self::at(text, regions.head.end, regions.turns)
    }

    /// These turns, the first of which follows the text before `start`.
    pub(super) fn at(text: &'a Bytes, start: usize, turns: &'a [Turn]) -> Self {
        Self { text, start, turns }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// The end of the first `n` messages.
    pub(super) fn end_of_first(&self, count: usize) -> usize {
        end(self.start, &self.turns[..count])
    }

    /// A message.
    pub(super) fn span(&self, i: usize) -> Span {
        self.turns[i].span
    }

    /// The text between the message and the one before.
    pub(super) fn gap(&self, i: usize) -> Span {
        Span::new(self.end_of_first(i), self.span(i).start)
    }

    /// The message with its gap.
    pub(super) fn with_gap(&self, i: usize) -> Span {
        Span::new(self.gap(i).start, self.span(i).end)
    }

    /// Whose it is.
    pub(super) fn role(&self, i: usize) -> Role {
        self.turns[i].role
    }

    /// The first message whose gap begins at `at` or after it; their number where there is none.
    pub(super) fn first_from(&self, at: usize) -> usize {
        match self.turns.split_last() {
            Some((_, before)) if self.start < at => 1 + before.partition_point(|turn| turn.span.end < at),
            _ => 0,
        }
    }

    /// How many end at `at` or before it, and where the last of them ends.
    pub(super) fn up_to(&self, at: usize) -> (usize, usize) {
        let count = self.turns.partition_point(|turn| turn.span.end <= at);
        (count, self.end_of_first(count))
    }
}

/// Whether nothing but a comma and blanks is between two messages.
fn separates(gap: &[u8]) -> bool {
    cost::add(gap.len());
    gap.iter()
        .all(|b| matches!(b, b',' | b' ' | b'\n' | b'\r' | b'\t'))
}

/// The chunks of what is before the messages: cut at the envelope's large members.
pub(super) fn head(text: &[u8]) -> Vec<Span> {
    runs(text.len(), &large(text, json::blank(text, 0)))
}

/// The chunks of what is after them.
pub(super) fn tail(text: &[u8]) -> Vec<Span> {
    let bracket = json::blank(text, 0);
    let comma = json::blank(text, bracket + 1);
    if text.get(bracket) != Some(&b']') || text.get(comma) != Some(&b',') {
        return runs(text.len(), &[]);
    }
    // The rest of an object is walked as an object; the brace replaces the comma.
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
    use baton_core::wire::{Operation, Requests, View, anthropic::Anthropic};

    /// A body as three rows of chunks.
    struct Cuts {
        head: Vec<Span>,
        list: Vec<(Span, Span)>,
        tail: Vec<Span>,
    }

    impl Cuts {
        fn of(view: &View) -> Self {
            let regions = BodyRegions::of(&view.body, view.list, &view.turns, 0);
            let messages = MessageChunks::of(&view.body, &regions);
            let placed = |region: Span, spans: Vec<Span>| {
                let placed = spans
                    .into_iter()
                    .map(|span| Span::new(span.start + region.start, span.end + region.start));
                placed.collect()
            };
            Self {
                head: placed(regions.head, head(regions.head.of(&view.body))),
                tail: placed(regions.tail, tail(regions.tail.of(&view.body))),
                list: (0..messages.len())
                    .map(|i| (messages.gap(i), messages.span(i)))
                    .collect(),
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

    fn turns(spans: &[(usize, usize)]) -> Vec<Turn> {
        let turn = |(start, end): &(usize, usize)| Turn {
            span: Span::new(*start, *end),
            role: Role::User,
        };
        spans.iter().map(turn).collect()
    }

    /// Turns that are in a body otherwise than one after the other make one region of it.
    #[test]
    fn a_body_is_cut_where_its_messages_follow_each_other() {
        let body = b"[{}, {} ,{}]x{}";
        let list = Span::new(0, 12);
        let is_cut = |spans: &[(usize, usize)], known| {
            let turns = turns(spans);
            let regions = BodyRegions::of(body, list, &turns, known);
            assert!(regions.turns.len() == turns.len() || regions == BodyRegions::whole(body.len()));
            regions.turns.len() == turns.len()
        };
        let good = [(1, 3), (5, 7), (9, 11)];
        assert!(
            (0..=3).all(|known| is_cut(&good, known)),
            "what is known is not looked at"
        );
        assert!(is_cut(&good[..1], 0) && is_cut(&[], 0));
        assert!(!is_cut(&[(1, 3), (9, 11)], 0), "one is left out");
        assert!(
            is_cut(&[(1, 3), (9, 11)], 2),
            "which is not seen where both are known"
        );
        assert!(!is_cut(&[(5, 7), (1, 3)], 0), "turned round");
        assert!(!is_cut(&[(1, 6), (5, 7)], 0), "one in the other");
        assert!(!is_cut(&[(1, 3), (5, 7), (9, 11), (13, 15)], 3), "after the list");
        assert!(!is_cut(&[(1, 15)], 1), "it ends after the list, known or not");
    }

    #[test]
    fn messages_are_found_by_where_they_stand() {
        let text = Bytes::from_static(b"[{}, {} ,{}]");
        let turns = turns(&[(1, 3), (5, 7), (9, 11)]);
        let messages = MessageChunks::at(&text, 1, &turns);
        let gaps: Vec<_> = (0..3).map(|i| messages.gap(i).of(&text)).collect();
        assert_eq!(gaps, [&b""[..], b", ", b" ,"]);
        assert_eq!(messages.with_gap(2).of(&text), b" ,{}");
        // Gaps begin at 1, 3 and 7.
        let firsts: Vec<_> = (0..=12).map(|at| messages.first_from(at)).collect();
        assert_eq!(firsts, [0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
        // Messages end at 3, 7 and 11.
        let ends: Vec<_> = [0, 2, 3, 6, 7, 10, 11, 12].map(|at| messages.up_to(at)).into();
        assert_eq!(
            ends,
            [(0, 1), (0, 1), (1, 3), (1, 3), (2, 7), (2, 7), (3, 11), (3, 11)]
        );
        let none = MessageChunks::at(&text, 1, &[]);
        assert_eq!((none.first_from(5), none.up_to(12)), (0, (0, 1)));
    }

    #[test]
    fn large_members_stand_alone_also_after_the_messages() {
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
