//! Where a request body is cut into pieces, so that what two bodies share is the same piece. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::json::{self, Span};
use crate::wire::View;

/// An envelope's member under this size stays with its neighbours: a piece of its own costs about a hundred bytes.
const WORTH: usize = 512;

/// Arrays in the envelope with more elements are one piece: lists of tools change rarely.
const FEW: usize = 16;

/// A body as three rows of pieces. Joined, with the separators, they are the body byte for byte.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    /// What stands before the first message.
    pub(super) head: Vec<Span>,
    /// The messages, each with what separates it from the one before.
    pub(super) list: Vec<(Span, Span)>,
    /// What stands behind the last message.
    pub(super) tail: Vec<Span>,
}

impl Cuts {
    /// Cuts at the boundaries of messages and of the envelope's large members.
    pub(super) fn of(view: &View) -> Self {
        let Some(list) = messages(view) else {
            return Self::whole(view.body.len());
        };
        let first = list.first().map_or(view.list.start + 1, |(gap, _)| gap.start);
        let last = list.last().map_or(first, |(_, span)| span.end);
        let members = envelope(&view.body);
        Self {
            head: runs(&view.body, Span::new(0, first), &members),
            tail: runs(&view.body, Span::new(last, view.body.len()), &members),
            list,
        }
    }

    /// One piece.
    pub(super) fn whole(len: usize) -> Self {
        Self {
            head: vec![Span::new(0, len)],
            ..Self::default()
        }
    }
}

/// The messages with the gaps before them; `None` where they do not follow each other in the list.
fn messages(view: &View) -> Option<Vec<(Span, Span)>> {
    let mut at = view.list.start + 1;
    let mut out = Vec::with_capacity(view.turns.len());
    for turn in &view.turns {
        let gap = Span::new(at, turn.span.start);
        let fits = turn.span.start >= at && turn.span.end < view.list.end;
        let plain = gap
            .of(&view.body)
            .iter()
            .all(|b| matches!(b, b',' | b' ' | b'\n' | b'\r' | b'\t'));
        if !fits || !plain {
            return None;
        }
        out.push((gap, turn.span));
        at = turn.span.end;
    }
    Some(out)
}

/// Values of the top level that are worth a piece, in order.
fn envelope(body: &[u8]) -> Vec<Span> {
    let Ok(whole) = json::whole(body) else {
        return Vec::new();
    };
    let values = json::members(body, whole).into_iter().map(|(_, value)| value);
    let split = values.flat_map(|value| match json::elements(body, value) {
        few if !few.is_empty() && few.len() <= FEW => few,
        _ => vec![value],
    });
    split.filter(|span| span.len() >= WORTH).collect()
}

/// A region as pieces: each of `marks` that lies in it, and what is between them.
fn runs(body: &[u8], region: Span, marks: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    let mut at = region.start;
    for mark in marks
        .iter()
        .filter(|m| region.start <= m.start && m.end <= region.end)
    {
        out.push(Span::new(at, mark.start));
        out.push(*mark);
        at = mark.end;
    }
    out.push(Span::new(at, region.end.min(body.len())));
    out.retain(|span| !span.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Call, Wire, anthropic::Anthropic};
    use bytes::Bytes;

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
            let view = Anthropic.read(&bytes, Call::Generate).unwrap();
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
    fn large_members_stand_alone() {
        let long = "x".repeat(600);
        let body = Bytes::from(format!(
            r#"{{"a":1,"system":"{long}","b":2,"messages":[{{"role":"user","content":"a"}}]}}"#
        ));
        let view = Anthropic.read(&body, Call::Generate).unwrap();
        let cuts = Cuts::of(&view);
        assert_eq!(cuts.head.len(), 3);
        assert_eq!(cuts.head[1].len(), 602);
    }
}
