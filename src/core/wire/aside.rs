//! Splits an assistant turn at an aside's line: the content before it and the content after it.

use std::borrow::Cow;

use bytes::Bytes;

use super::view::{Role, TurnContent, TurnPart, View};
use crate::marker::gap;
use crate::text::{Span, json};

/// An assistant turn, split at an aside's line.
pub struct SplitTurn<'v> {
    pub(super) view: &'v View,
    pub(super) turn: usize,
    pub(super) content: &'v TurnContent,
    pub(super) part: usize,
    /// Span of the whole turn.
    pub(super) whole: Span,
    /// The part that contains the line.
    pub(super) here: TurnPart,
    /// Inside of that part's text literal.
    pub(super) inside: Span,
    /// Text before the line, without the line breaks that were streamed with the line.
    pub(super) before: Span,
    /// Text after the line, without the line breaks that were streamed with the line.
    pub(super) after: Span,
}

/// A turn that a rewrite creates.
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

/// The remainder of a turn after a line.
pub struct TurnRest {
    /// Bytes that reopen the turn: its beginning up to the first content that is kept.
    pub prefix: String,
    /// Offset where the agent's bytes continue after `prefix`.
    pub from: usize,
    /// Index of the first part that is kept.
    pub part: usize,
}

/// Text to add around a part when a turn whose content is not a list is rewritten as one.
#[derive(Default)]
pub(super) struct LonePart {
    /// Brackets of the list.
    pub(super) brackets: [&'static str; 2],
    /// The block to wrap around text that is not a block yet.
    pub(super) block: Option<[&'static str; 2]>,
}

impl<'v> SplitTurn<'v> {
    /// Treats the whole turn as the aside. Such a turn is an item that is recognized by its id.
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

    /// Splits a turn at `line`, a span in a part's text. Returns `None` if the part has no text.
    pub fn at(
        view: &'v View,
        turn: usize,
        content: &'v TurnContent,
        part: usize,
        line: Span,
    ) -> Option<Self> {
        let text = view.text_of(turn);
        let inside = content.parts.get(part)?.text?;
        // The line breaks around the line are baton's. Upstream must see the model's text without them.
        let before = gap::before(text, inside.start, line.start).max(inside.start);
        let after = gap::after(text, line.end, inside.end);
        Some(Self {
            before: Span::new(inside.start, before),
            ..Self::from(view, turn, content, part, after)?
        })
    }

    /// Splits a turn at the offset `rest` in a part's text. Returns `None` if the part has no text.
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

    /// Returns the turn without everything before the text after the line, or `None` if that leaves nothing.
    pub fn rest(&self) -> Option<TurnRest> {
        let facts = self.view.wire();
        let next = self.content.parts.get(self.part + 1);
        // Without another part the message itself would be blank. Every API rejects that, even one that
        // accepts blank text next to calls.
        let drops_blank = facts.drops_blank_text || next.is_none();
        let is_empty = self.after.is_empty() || drops_blank && self.is_blank(self.after);
        let until = |end: usize| self.str(Span::new(self.whole.start, end)).into_owned();
        let (prefix, from) = match (self.content.list, is_empty) {
            (Some(list), false) => {
                let block = self.str(Span::new(self.here.span.start, self.inside.start));
                (until(list.start + 1) + &block, self.after.start)
            }
            (None, false) => (until(self.inside.start), self.after.start),
            // More blocks follow in the same list, so the line's own block is dropped.
            (Some(list), true) if next.is_some_and(|n| list.holds(n.span.start)) => {
                (until(list.start + 1), next?.span.start)
            }
            // Only calls in a member of their own remain, so the content becomes the wire's placeholder.
            (list, true) => {
                next?;
                let content = list.unwrap_or(self.here.span);
                (until(content.start) + facts.absent_content?, content.end)
            }
        };
        let part = self.part + usize::from(is_empty);
        Some(TurnRest { prefix, from, part })
    }

    /// A piece of the turn as a string.
    pub(super) fn str(&self, piece: Span) -> Cow<'_, str> {
        self.view.str_in(self.turn, piece)
    }

    /// Whether a piece of the text contains only whitespace.
    pub(super) fn is_blank(&self, piece: Span) -> bool {
        let text = json::unescape(piece.of(self.view.text_of(self.turn)));
        text.trim().is_empty()
    }

    /// Returns the parts before the line and the parts after it, unchanged. The two halves of the split text
    /// become parts as well.
    pub(super) fn halves(&self, lone: &LonePart) -> [Vec<String>; 2] {
        let mut first = self.texts(&self.content.parts[..self.part]);
        // A blank half gets no part, because the API refuses blank text.
        first.extend(self.block(self.before, lone));
        let mut last: Vec<String> = self.block(self.after, lone).into_iter().collect();
        last.extend(self.texts(self.content.parts.get(self.part + 1..).unwrap_or_default()));
        [first, last]
    }

    /// Splits the turn around a hidden pair: the first half ending with `call`, the message `result`, then
    /// the second half, if any.
    pub(super) fn around(&self, call: &str, result: SyntheticTurn, lone: &LonePart) -> Vec<SyntheticTurn> {
        let [mut first, last] = self.halves(lone);
        first.push(call.to_owned());
        let half = |parts: &[String]| SyntheticTurn::new(Role::Assistant, self.message(parts, lone));
        let last = (!last.is_empty()).then(|| half(&last));
        [half(&first), result].into_iter().chain(last).collect()
    }

    /// Returns the turn with its parts replaced by `parts`.
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

    /// Returns the part with only `piece` of its text, or `None` if that is blank.
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
