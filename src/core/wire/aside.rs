//! An aside's line in a text of the model's: what was written before it, and what was written after it.

use super::view::{TurnContent, TurnPart, View};
use crate::mark::gap;
use crate::text::splice::Edit;
use crate::text::{Span, json};

/// The position of an aside. An item of its own has no parts.
pub struct AsidePlace<'v> {
    pub view: &'v View,
    pub turn: usize,
    /// What the turn is made of.
    pub content: &'v TurnContent,
    /// The part whose text the line is in.
    pub part: usize,
    /// The line.
    pub mark: Span,
}

/// A turn that is split at an aside's line.
pub struct SplitTurn<'v> {
    pub(super) view: &'v View,
    pub(super) content: &'v TurnContent,
    pub(super) part: usize,
    /// The turn.
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

/// What a part that is in the place of a list gets around it when the turn is rewritten.
#[derive(Default)]
pub(super) struct LonePart {
    /// The list's brackets.
    pub(super) brackets: [&'static str; 2],
    /// The block around a text that is none.
    pub(super) block: Option<[&'static str; 2]>,
}

impl<'v> AsidePlace<'v> {
    /// Splits the turn; `None` where the line is in no text.
    pub(super) fn split(&self) -> Option<SplitTurn<'v>> {
        let text: &[u8] = &self.view.body;
        let here = *self.content.parts.get(self.part)?;
        let inside = here.text?;
        let before = gap::before(text, inside.start, self.mark.start).max(inside.start);
        let after = gap::after(text, self.mark.end, inside.end);
        Some(SplitTurn {
            view: self.view,
            content: self.content,
            part: self.part,
            whole: self.view.turns[self.turn].span,
            here,
            inside,
            before: Span::new(inside.start, before),
            after: Span::new(after, inside.end),
        })
    }
}

impl SplitTurn<'_> {
    /// Whether only whitespace is in a piece of the text.
    pub(super) fn is_blank(&self, piece: Span) -> bool {
        json::unescape(self.view.text(piece)).trim().is_empty()
    }

    /// The parts before the line and after it, each as it was, the text's own halves as parts.
    pub(super) fn halves(&self, lone: &LonePart) -> [Vec<String>; 2] {
        let mut first = self.texts(&self.content.parts[..self.part]);
        first.extend(self.block(self.before, lone));
        let mut last: Vec<String> = self.block(self.after, lone).into_iter().collect();
        last.extend(self.texts(&self.content.parts[self.part + 1..]));
        [first, last]
    }

    /// The turn in two: the first half with `call` at its end, then the message `result`, then the second half, if any.
    pub(super) fn around(&self, call: &str, result: &str, lone: &LonePart) -> Vec<Edit> {
        let [mut first, last] = self.halves(lone);
        first.push(call.to_owned());
        let mut with = format!("{},{result}", self.message(&first, lone));
        if !last.is_empty() {
            with.push(',');
            with.push_str(&self.message(&last, lone));
        }
        vec![Edit::replace(self.whole, with)]
    }

    /// The turn with these parts in the place of its own.
    pub(super) fn message(&self, parts: &[String], lone: &LonePart) -> String {
        let (list, [open, close]) = match self.content.list {
            Some(list) => (list.inner(), ["", ""]),
            None => (self.here.span, lone.brackets),
        };
        let head = self.view.str(Span::new(self.whole.start, list.start));
        let tail = self.view.str(Span::new(list.end, self.whole.end));
        format!("{head}{open}{}{close}{tail}", parts.join(","))
    }

    fn texts(&self, parts: &[TurnPart]) -> Vec<String> {
        let text = |part: &TurnPart| self.view.str(part.span).into_owned();
        parts.iter().map(text).collect()
    }

    /// The part with a piece of its text; `None` where that is blank.
    fn block(&self, piece: Span, lone: &LonePart) -> Option<String> {
        if self.is_blank(piece) {
            return None;
        }
        let text = self.view.str(piece);
        Some(match lone.block.filter(|_| self.content.list.is_none()) {
            Some([open, close]) => format!("{open}{text}{close}"),
            None => {
                let open = self.view.str(Span::new(self.here.span.start, self.inside.start));
                let close = self.view.str(Span::new(self.inside.end, self.here.span.end));
                format!("{open}{text}{close}")
            }
        })
    }
}
