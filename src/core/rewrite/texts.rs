//! Finds the text of a transcript at an offset, for many offsets.

use crate::text::Span;
use crate::text::cost;
use crate::wire::Wire;
use crate::wire::view::{Role, TurnContent, TurnPartKind, View};

/// Finds texts by offset. Offsets in the order of turns, in either direction, cost one walk over each turn, however
/// many there are.
pub(super) struct TextFinder<'a> {
    wire: &'a dyn Wire,
    view: &'a View,
    turn: Option<usize>,
    content: TurnContent,
    /// The texts of the turn with their parts' numbers, by place: a turn's parts need not be in the body's order.
    spans: Vec<(Span, usize)>,
}

impl<'a> TextFinder<'a> {
    pub(super) fn new(wire: &'a dyn Wire, view: &'a View) -> Self {
        Self {
            wire,
            view,
            turn: None,
            content: TurnContent::default(),
            spans: Vec::new(),
        }
    }

    /// The turn and the part whose text holds this offset, where the turn is one of these roles'.
    pub(super) fn at(&mut self, offset: usize, roles: &[Role]) -> Option<(usize, usize)> {
        cost::add(1);
        let turn = self.view.turn_at(offset)?;
        if !roles.contains(&self.view.turns[turn].role) {
            return None;
        }
        if self.turn != Some(turn) {
            self.take_apart(turn);
        }
        let i = self.spans.partition_point(|(span, _)| span.end <= offset);
        let (_, part) = self.spans.get(i).filter(|(span, _)| span.holds(offset))?;
        Some((turn, *part))
    }

    /// The content of the turn that was requested last.
    pub(super) fn content(&self) -> &TurnContent {
        &self.content
    }

    fn take_apart(&mut self, turn: usize) {
        self.content = self.wire.content(self.view, turn);
        let parts = self.content.parts.iter().enumerate();
        let texts = parts.filter(|(_, p)| p.kind == TurnPartKind::Text);
        self.spans = texts.filter_map(|(i, p)| Some((p.text?, i))).collect();
        self.spans.sort_unstable();
        self.turn = Some(turn);
    }
}
