//! Removes results after a cut whose calls were cut: upstream refuses a result without its call.

use std::collections::HashSet;

use crate::text::Span;
use crate::text::splice::Edit;
use crate::wire::view::{Role, TurnContent, TurnPart, TurnPartKind, View};
use crate::wire::{OpenCalls, Wire, view};

/// Edits that remove them after turn `cut`. `left` is the rest of that turn.
pub(super) fn dropped(wire: &dyn Wire, view: &View, cut: usize, left: &[TurnPart]) -> Vec<Edit> {
    let place = (cut, left.iter().map(|part| part.span).collect());
    let (mut calls, known) = match view.shared.open_calls(&place) {
        Some((open, known)) => (CallIds::new(&view.body, open), known),
        None => {
            let mut calls = CallIds::new(&view.body, OpenCalls::default());
            calls.made(left);
            (calls, 0)
        }
    };
    let from = known.max(cut + 1);
    let kept = view.shared.kept();
    let mut edits = Vec::new();
    for turn in from..=view.turns.len() {
        // After the turns that later requests share. Where results were lost, later requests search again.
        if turn == kept && turn > from && edits.is_empty() {
            view.shared.keep_open_calls(&place, &calls.open);
        }
        let Some(role) = view.turns.get(turn).map(|turn| turn.role) else {
            break;
        };
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

/// Maximum calls of one message that are compared one by one: a set costs more.
const FEW: usize = 16;

/// Calls after the cut.
struct CallIds<'a> {
    text: &'a [u8],
    open: OpenCalls,
    /// Number of ids before the last message that are in the set; they are inserted on demand.
    in_set: usize,
    set: HashSet<&'a [u8]>,
}

impl<'a> CallIds<'a> {
    fn new(text: &'a [u8], open: OpenCalls) -> Self {
        Self {
            text,
            open,
            in_set: 0,
            set: HashSet::new(),
        }
    }

    fn next_message(&mut self) {
        let open = &mut self.open;
        (open.unanswered, open.nameless) = (0, 0);
        open.before.append(&mut open.last);
    }

    fn made(&mut self, parts: &[TurnPart]) {
        for call in parts.iter().filter(|p| p.kind == TurnPartKind::Call) {
            self.open.unanswered += 1;
            match call.id {
                Some(id) => self.open.last.push(id),
                None => self.open.nameless += 1,
            }
        }
    }

    fn knows(&mut self, id: &[u8]) -> bool {
        let (text, open) = (self.text, &mut self.open);
        if open.last.len() > FEW {
            open.before.append(&mut open.last);
        } else if open.last.iter().any(|call| call.of(text) == id) {
            return true;
        }
        let more = open.before[self.in_set..].iter().map(|call| call.of(text));
        self.set.extend(more);
        self.in_set = open.before.len();
        self.set.contains(id)
    }

    /// Whether a part answers one of them, or is no result.
    fn answers(&mut self, part: &TurnPart) -> bool {
        if part.kind != TurnPartKind::Result {
            return true;
        }
        match part.id {
            Some(id) if self.knows(id.of(self.text)) => {
                self.open.unanswered = self.open.unanswered.saturating_sub(1);
                true
            }
            Some(_) => take(&mut self.open.nameless),
            None => take(&mut self.open.unanswered),
        }
    }
}

fn take(from: &mut usize) -> bool {
    let any = *from > 0;
    *from = from.saturating_sub(1);
    any
}
