//! Removes results after a cut whose calls were cut, because upstream refuses a result without its call.

use std::collections::HashSet;

use crate::text::Span;
use crate::wire::view::{self, Role, TurnChange, TurnContent, TurnPart, TurnPartKind, View};

/// Changes that remove the orphaned results after turn `cut`. `left` is the rest of that turn.
pub(super) fn dropped(view: &View, cut: usize, left: &[TurnPart]) -> Vec<TurnChange> {
    let mut calls = CallIds::new(&view.body);
    calls.made(left);
    let mut changes = Vec::new();
    for turn in cut + 1..view.turns.len() {
        let role = view.turns[turn].role;
        if !matches!(role, Role::Assistant | Role::User | Role::Tool) {
            continue;
        }
        let content = view.content(turn);
        if role == Role::Assistant {
            // A message may have come back as several elements (Gemini sends one for each streamed chunk).
            if view.turns[turn - 1].role != Role::Assistant {
                calls.next_message();
            }
            calls.made(&content.parts);
            continue;
        }
        let lost: Vec<bool> = content.parts.iter().map(|p| !calls.answers(p)).collect();
        if lost.contains(&true) {
            changes.extend(without(turn, &content, &lost));
        }
    }
    changes
}

/// Removes these parts of a turn, or the whole turn if nothing would be left.
fn without(turn: usize, content: &TurnContent, lost: &[bool]) -> Vec<TurnChange> {
    let spans: Vec<Span> = content.parts.iter().map(|p| p.span).collect();
    match view::kept(&spans, lost) {
        Some(edits) => TurnChange::within(turn, edits),
        None => vec![TurnChange::LeftOut(turn)],
    }
}

/// Maximum number of calls of one message that are compared one by one, because a set costs more for so few.
const FEW: usize = 16;

/// Calls after the cut.
struct CallIds<'a> {
    text: &'a [u8],
    /// Ids of the last message's calls, which nearly all results answer.
    last: Vec<&'a [u8]>,
    /// Ids of earlier calls.
    before: HashSet<&'a [u8]>,
    /// Number of the last message's calls without a result so far.
    unanswered: usize,
    /// Number of unanswered calls without an id, whose results can only be counted.
    nameless: usize,
}

impl<'a> CallIds<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            last: Vec::new(),
            before: HashSet::new(),
            unanswered: 0,
            nameless: 0,
        }
    }

    fn next_message(&mut self) {
        // Results without ids can only belong to the last message.
        (self.unanswered, self.nameless) = (0, 0);
        self.before.extend(self.last.drain(..));
    }

    fn made(&mut self, parts: &[TurnPart]) {
        for call in parts.iter().filter(|p| p.kind == TurnPartKind::Call) {
            self.unanswered += 1;
            match call.id {
                Some(id) => self.last.push(id.of(self.text)),
                None => self.nameless += 1,
            }
        }
    }

    fn knows(&mut self, id: &[u8]) -> bool {
        if self.last.len() > FEW {
            self.before.extend(self.last.drain(..));
        }
        self.last.contains(&id) || self.before.contains(id)
    }

    /// Whether a part answers one of the calls, or is not a result.
    fn answers(&mut self, part: &TurnPart) -> bool {
        if part.kind != TurnPartKind::Result {
            return true;
        }
        match part.id {
            Some(id) if self.knows(id.of(self.text)) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                true
            }
            // A result may have an id although its call has none.
            Some(_) => take(&mut self.nameless),
            None => take(&mut self.unanswered),
        }
    }
}

fn take(from: &mut usize) -> bool {
    let any = *from > 0;
    *from = from.saturating_sub(1);
    any
}
