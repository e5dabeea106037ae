//! An aside's line in a text of the model's: what was written before it, and what was written after it.

use std::borrow::Cow;

use bytes::Bytes;

use super::view::{Role, TurnContent, TurnPart, View};
use crate::marker::gap;
use crate::text::{Span, json};

/// A turn that is split at an aside's line.
pub struct SplitTurn<'v> {
    pub(super) view: &'v View,
    pub(super) turn: usize,
    pub(super) content: &'v TurnContent,
    pub(super) part: usize,
    /// The whole turn.
    pub(super) whole: Span,
    /// The part that holds the line.
    pub(super) here: TurnPart,
    /// The inside of its text.
    pub(super) inside: Span,
    /// The text before the line.
    pub(super) before: Span,
    /// The text after it.
    pub(super) after: Span,
}

/// A turn that a rewrite makes.
pub struct SyntheticTurn {
    pub role: Role,
    pub text: Bytes,
}

impl SyntheticTurn {
    pub fn new(role: Role, text: impl Into<Bytes>) -> Self {
        let text = text.into();
        Self { role, text }
    }
}

/// What is left of a turn after a line.
pub struct TurnRest {
    /// The bytes that reopen the turn.
    pub prefix: String,
    /// Offset from which its own bytes are kept.
    pub from: usize,
    /// First part that is kept.
    pub part: usize,
}

/// What a part that is in the place of a list gets around it when the turn is rewritten.
#[derive(Default)]
pub(super) struct LonePart {
    /// The list's brackets.
    pub(super) brackets: [&'static str; 2],
    /// The block around a text that is none.
    pub(super) block: Option<[&'static str; 2]>,
}

impl<'v> SplitTurn<'v> {
    /// A turn that is nothing but an aside, as an item is that is known by its id.
    pub fn whole(view: &'v View, turn: usize, content: &'v TurnContent) -> Self {
        Self {
            view,
            turn,
            content,
            part: content.parts.len(),
            whole: view.turns[turn].span,
            here: TurnPart::default(),
            inside: Span::default(),
            before: Span::default(),
            after: Span::default(),
        }
    }

    /// Splits a turn at a line in the text of a part; `None` where the part has none.
    pub fn at(
        view: &'v View,
        turn: usize,
        content: &'v TurnContent,
        part: usize,
        line: Span,
    ) -> Option<Self> {
        let text = view.text_of(turn);
        let inside = content.parts.get(part)?.text?;
        let before = gap::before(text, inside.start, line.start).max(inside.start);
        let after = gap::after(text, line.end, inside.end);
        Some(Self {
            before: Span::new(inside.start, before),
            ..Self::from(view, turn, content, part, after)?
        })
    }

    /// A turn from an offset in the text of a part on; `None` where the part has none.
    pub fn from(
        view: &'v View,
        turn: usize,
        content: &'v TurnContent,
        part: usize,
        rest: usize,
    ) -> Option<Self> {
        let here = *content.parts.get(part)?;
        let inside = here.text?;
        Some(Self {
            part,
            here,
            inside,
            after: Span::new(rest, inside.end),
            ..Self::whole(view, turn, content)
        })
    }

    /// The turn without what is before the text after the line; `None` where nothing is left of it.
    pub fn rest(&self) -> Option<TurnRest> {
        let facts = self.view.wire().facts();
        let next = self.content.parts.get(self.part + 1);
        // A blank message counts as empty, also where blank text is allowed next to calls.
        let drops_blank = facts.drops_blank_text || next.is_none();
        let is_empty = self.after.is_empty() || drops_blank && self.is_blank(self.after);
        let until = |end: usize| self.str(Span::new(self.whole.start, end)).into_owned();
        let (prefix, from) = match (self.content.list, is_empty) {
            (Some(list), false) => {
                let block = self.str(Span::new(self.here.span.start, self.inside.start));
                (until(list.start + 1) + &block, self.after.start)
            }
            (None, false) => (until(self.inside.start), self.after.start),
            (Some(list), true) if next.is_some_and(|n| list.holds(n.span.start)) => {
                (until(list.start + 1), next?.span.start)
            }
            (list, true) => {
                next?;
                let content = list.unwrap_or(self.here.span);
                (until(content.start) + facts.absent_content?, content.end)
            }
        };
        let part = self.part + usize::from(is_empty);
        Some(TurnRest { prefix, from, part })
    }

    /// A piece of the turn.
    pub(super) fn str(&self, piece: Span) -> Cow<'_, str> {
        self.view.str_in(self.turn, piece)
    }

    /// Whether only whitespace is in a piece of the text.
    pub(super) fn is_blank(&self, piece: Span) -> bool {
        json::unescape(piece.of(self.view.text_of(self.turn)))
            .trim()
            .is_empty()
    }

    /// The parts before the line and after it, each as it was, the text's own halves as parts.
    pub(super) fn halves(&self, lone: &LonePart) -> [Vec<String>; 2] {
        let mut first = self.texts(&self.content.parts[..self.part]);
        first.extend(self.block(self.before, lone));
        let mut last: Vec<String> = self.block(self.after, lone).into_iter().collect();
        last.extend(self.texts(self.content.parts.get(self.part + 1..).unwrap_or_default()));
        [first, last]
    }

    /// The turn in two: the first half with `call` at its end, then the message `result`, then the second half, if any.
    pub(super) fn around(&self, call: &str, result: SyntheticTurn, lone: &LonePart) -> Vec<SyntheticTurn> {
        let [mut first, last] = self.halves(lone);
        first.push(call.to_owned());
        let half = |parts: &[String]| SyntheticTurn::new(Role::Assistant, self.message(parts, lone));
        let last = (!last.is_empty()).then(|| half(&last));
        [half(&first), result].into_iter().chain(last).collect()
    }

    /// The turn with these parts in the place of its own.
    pub(super) fn message(&self, parts: &[String], lone: &LonePart) -> String {
        let (list, [open, close]) = match self.content.list {
            Some(list) => (list.inner(), ["", ""]),
            None => (self.here.span, lone.brackets),
        };
        let head = self.str(Span::new(self.whole.start, list.start));
        let tail = self.str(Span::new(list.end, self.whole.end));
        format!("{head}{open}{}{close}{tail}", parts.join(","))
    }

    fn texts(&self, parts: &[TurnPart]) -> Vec<String> {
        let text = |part: &TurnPart| self.str(part.span).into_owned();
        parts.iter().map(text).collect()
    }

    /// The part with a piece of its text; `None` where that is blank.
    fn block(&self, piece: Span, lone: &LonePart) -> Option<String> {
        if self.is_blank(piece) {
            return None;
        }
        let text = self.str(piece);
        Some(match lone.block.filter(|_| self.content.list.is_none()) {
            Some([open, close]) => format!("{open}{text}{close}"),
            None => {
                let open = self.str(Span::new(self.here.span.start, self.inside.start));
                let close = self.str(Span::new(self.inside.end, self.here.span.end));
                format!("{open}{text}{close}")
            }
        })
    }
}
