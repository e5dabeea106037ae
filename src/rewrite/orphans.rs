//! Removes results behind a cut whose calls were cut: upstream refuses a result without its call.

use std::collections::HashSet;

use crate::text::Span;
use crate::text::splice::Edit;
use crate::wire::view::{Part, PartKind, Role, TurnContent, View};
use crate::wire::{Wire, view};

/// Edits that take them out, wherever behind turn `cut` they stand. `left` is what is left of that turn.
pub(super) fn dropped(wire: &dyn Wire, view: &View, cut: usize, left: &[Part]) -> Vec<Edit> {
    let mut calls = Calls::new(&view.body);
    calls.made(left);
    let mut edits = Vec::new();
    for turn in cut + 1..view.turns.len() {
        let role = view.turns[turn].role;
        if !matches!(role, Role::Assistant | Role::User | Role::Tool) {
            continue;
        }
        let content = wire.content(view, turn);
        if role == Role::Assistant {
            // One message may have come back as several elements (Gemini: one for each streamed chunk).
            if view.turns[turn - 1].role != Role::Assistant {
                calls.next_message();
            }
            calls.made(&content.parts);
            continue;
        }
        let lost: Vec<bool> = content.parts.iter().map(|p| !calls.answers(p)).collect();
        if lost.contains(&true) {
            edits.extend(without(view, turn, &content, &lost));
        }
    }
    edits
}

/// The turn without these parts; nothing of it where nothing would be left.
fn without(view: &View, turn: usize, content: &TurnContent, lost: &[bool]) -> Vec<Edit> {
    let spans: Vec<Span> = content.parts.iter().map(|p| p.span).collect();
    view::kept(&spans, lost).unwrap_or_else(|| {
        let before = view.turns[turn - 1].span.end;
        vec![Edit::delete(Span::new(before, view.turns[turn].span.end))]
    })
}

/// Up to so many calls of one message are compared one by one: a set costs more.
const FEW: usize = 16;

/// Calls behind the cut.
struct Calls<'a> {
    text: &'a [u8],
    /// Ids of the last message's calls: nearly all results answer those.
    last: Vec<&'a [u8]>,
    /// Ids of the calls before it, which go into the set when somebody asks for one of them.
    before: Vec<&'a [u8]>,
    known: HashSet<&'a [u8]>,
    /// Calls of the last message that were not answered yet, and those among them that have no id: their
    /// results are known by their number alone.
    open: usize,
    nameless: usize,
}

impl<'a> Calls<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            last: Vec::new(),
            before: Vec::new(),
            known: HashSet::new(),
            open: 0,
            nameless: 0,
        }
    }

    fn next_message(&mut self) {
        (self.open, self.nameless) = (0, 0);
        self.before.append(&mut self.last);
    }

    fn made(&mut self, parts: &[Part]) {
        for call in parts.iter().filter(|p| p.kind == PartKind::Call) {
            self.open += 1;
            match call.id {
                Some(id) => self.last.push(id.of(self.text)),
                None => self.nameless += 1,
            }
        }
    }

    fn knows(&mut self, id: &[u8]) -> bool {
        let few = self.last.len() <= FEW;
        if few && self.last.contains(&id) {
            return true;
        }
        self.known.extend(self.before.drain(..));
        if !few {
            self.known.extend(self.last.drain(..));
        }
        self.known.contains(id)
    }

    /// Whether a part answers one of them, or is no result at all.
    fn answers(&mut self, part: &Part) -> bool {
        if part.kind != PartKind::Result {
            return true;
        }
        match part.id {
            Some(id) if self.knows(id.of(self.text)) => {
                self.open = self.open.saturating_sub(1);
                true
            }
            Some(_) => take(&mut self.nameless),
            None => take(&mut self.open),
        }
    }
}

fn take(from: &mut usize) -> bool {
    let any = *from > 0;
    *from = from.saturating_sub(1);
    any
}
