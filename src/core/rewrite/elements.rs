//! A request as a list of elements.
//!
//! Each pass changes turns, relative to the turn's own text. One place writes the bytes, and everything that
//! no pass has changed is a slice of the agent's own body.

use std::ops::Range;

use bytes::Bytes;

use super::{ChangeReason, RequestReading, SizeChange};
use crate::text::Span;
use crate::text::splice::{self, Edit, Rope};
use crate::wire::SyntheticTurn;
use crate::wire::view::{Role, Turn, TurnChange, View};

pub(super) struct Elements<'v> {
    /// Request as the agent sent it.
    pub(super) agents: &'v RequestReading,
    /// Transcript in its current state.
    pub(super) view: View,
    /// Origin of each turn.
    sources: Vec<ElementSource>,
    /// Changes to make when the bytes are written, in the order of the passes.
    changes: Vec<TurnChange>,
    /// Edits of the agent's body, around its turns and in turns that no other pass replaces.
    edits: Vec<Edit>,
    /// Elements to add at the end of the list.
    appended: Vec<String>,
    /// Changed bytes by reason.
    sizes: Vec<SizeChange>,
    /// Whether the transcript was not a list and now has brackets.
    listed: bool,
}

#[derive(Clone, Copy, Default)]
struct ElementSource {
    /// Index of the agent turn that the element was created from; `None` for an element of baton.
    turn: Option<usize>,
    /// Bytes between the previous element and this one in the agent's body; empty means "write a comma".
    gap: Span,
}

impl<'v> Elements<'v> {
    pub(super) fn new(agents: &'v RequestReading) -> Self {
        let view = &agents.view;
        let mut end = view.list.start;
        let sources = view.turns.iter().enumerate().map(|(n, turn)| {
            let gap = Span::new(std::mem::replace(&mut end, turn.span.end), turn.span.start);
            ElementSource { turn: Some(n), gap }
        });
        Self {
            sources: sources.collect(),
            agents,
            view: view.clone(),
            changes: Vec::new(),
            edits: Vec::new(),
            appended: Vec::new(),
            sizes: Vec::new(),
            listed: false,
        }
    }

    /// Turns that come from the agent, in whole or in pieces, each with the agent's index.
    pub(super) fn origins(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let sources = self.sources.iter().enumerate();
        sources.filter_map(|(turn, source)| Some((turn, source.turn?)))
    }

    /// For each agent turn, the current index of its first piece.
    pub(super) fn places(&self) -> Vec<Option<usize>> {
        let mut places = vec![None; self.agents.view.turns.len()];
        let newest_first = self.origins().rev();
        newest_first.for_each(|(now, turn)| places[turn] = Some(now));
        places
    }

    /// Index of the agent turn that a turn was created from.
    pub(super) fn origin(&self, turn: usize) -> Option<usize> {
        self.sources[turn].turn
    }

    /// Whether a turn is an unchanged agent turn.
    pub(super) fn is_agents(&self, turn: usize) -> bool {
        self.view.turns[turn].text == 0
    }

    fn made(&mut self, role: Role, text: impl Into<Bytes>) -> Turn {
        let text: Bytes = text.into();
        let span = Span::new(0, text.len());
        self.view.made.push(text);
        Turn {
            span,
            role,
            text: self.view.made.len(),
        }
    }

    /// Adds to the sizes changed for a reason.
    fn count(&mut self, why: ChangeReason, removed: usize, added: usize) {
        let handoff = None;
        match self.sizes.iter_mut().find(|size| size.why == why) {
            Some(size) => (size.removed, size.added) = (size.removed + removed, size.added + added),
            None if removed + added == 0 => {}
            None => self.sizes.push(SizeChange {
                why,
                removed,
                added,
                handoff,
            }),
        }
    }

    /// Replaces turns with others.
    pub(super) fn replace(&mut self, why: ChangeReason, turns: Range<usize>, made: Vec<SyntheticTurn>) {
        let old = turns
            .clone()
            .map(|turn| self.view.turns[turn].span.len() + self.sources[turn].gap.len());
        let added = made.iter().map(|made| made.text.len() + 1).sum();
        self.count(why, old.sum(), added);
        let mut sources = vec![ElementSource::default(); made.len()];
        if let (Some(first), Some(here)) = (sources.first_mut(), self.sources.get_mut(turns.start)) {
            // The first new turn keeps the agent's separator.
            first.gap = std::mem::take(&mut here.gap);
        }
        let made = made.into_iter().map(|made| self.made(made.role, made.text));
        let made: Vec<Turn> = made.collect();
        self.sources.splice(turns.clone(), sources);
        self.view.turns.splice(turns, made);
    }

    /// Makes this the only element of the transcript.
    pub(super) fn only(&mut self, why: ChangeReason, made: SyntheticTurn) {
        let agents = &self.agents.view;
        self.listed = agents.list.of(&agents.body).first() != Some(&b'[');
        self.replace(why, 0..self.view.turns.len(), vec![made]);
    }

    /// Replaces each of these turns with several, and returns the index of the last one of each.
    pub(super) fn split(
        &mut self,
        why: ChangeReason,
        pieces: Vec<(usize, Vec<SyntheticTurn>)>,
    ) -> Vec<usize> {
        let turns = std::mem::take(&mut self.view.turns);
        let sources = std::mem::take(&mut self.sources);
        let mut pieces = pieces.into_iter().peekable();
        let mut last = Vec::new();
        for (n, (turn, mut source)) in turns.into_iter().zip(sources).enumerate() {
            let Some((_, made)) = pieces.next_if(|(turn, _)| *turn == n) else {
                self.view.turns.push(turn);
                self.sources.push(source);
                continue;
            };
            // A split turn counts as kept; only the size difference is recorded.
            let now = made.iter().map(|made| made.text.len() + 1).sum::<usize>();
            let before = turn.span.len() + 1;
            self.count(why, before.saturating_sub(now), now.saturating_sub(before));
            for made in made {
                let turn = self.made(made.role, made.text);
                self.view.turns.push(turn);
                self.sources.push(source);
                // Only the first piece keeps the agent's separator.
                source.gap = Span::default();
            }
            last.push(self.view.turns.len() - 1);
        }
        last
    }

    /// Makes the single string of a transcript an element of a list.
    pub(super) fn list(&mut self, around: [&str; 2]) {
        for turn in 0..self.view.turns.len() {
            if self.view.raw(turn).first() == Some(&b'"') {
                let mut rope = Rope::new(self.view.text_of(turn).clone());
                // The cut is inside the string.
                rope.splice(self.view.turns[turn].span, self.edits.clone());
                let string = rope.done().concat();
                let text = [around[0].as_bytes(), &string, around[1].as_bytes()].concat();
                self.view.turns[turn] = self.made(Role::User, text);
            }
        }
        self.listed = true;
    }

    /// Changes turns when the bytes are written. Later passes see them unchanged.
    pub(super) fn change(&mut self, why: ChangeReason, changes: Vec<TurnChange>) {
        self.count_changes(why, &changes);
        self.changes.extend(changes);
    }

    /// Applies changes immediately, so that later passes see the new bytes and omissions.
    pub(super) fn settle(&mut self, why: ChangeReason, mut changes: Vec<TurnChange>) {
        if changes.is_empty() {
            return;
        }
        self.count_changes(why, &changes);
        changes.sort_by_key(TurnChange::turn);
        let mut is_kept = vec![true; self.view.turns.len()];
        for of_turn in changes.chunk_by(|a, b| a.turn() == b.turn()) {
            let turn = of_turn[0].turn();
            if is_left_out(of_turn) {
                is_kept[turn] = false;
                continue;
            }
            let mut rope = Rope::new(self.view.text_of(turn).clone());
            rope.splice(self.view.turns[turn].span, edits(of_turn));
            let made = splice::flat(rope.done());
            self.view.turns[turn] = self.made(self.view.turns[turn].role, made);
        }
        let mut kept = is_kept.iter();
        self.view.turns.retain(|_| kept.next() == Some(&true));
        let mut kept = is_kept.iter();
        self.sources.retain(|_| kept.next() == Some(&true));
    }

    fn count_changes(&mut self, why: ChangeReason, changes: &[TurnChange]) {
        for change in changes {
            let (removed, added) = match change {
                TurnChange::Before(_, element) | TurnChange::After(_, element) => (0, element.len() + 1),
                TurnChange::Within(_, edit) => (edit.span.len(), edit.with.len()),
                TurnChange::LeftOut(turn) => (self.view.raw(*turn).len() + self.sources[*turn].gap.len(), 0),
            };
            self.count(why, removed, added);
        }
    }

    /// Edits the agent's body.
    pub(super) fn edit(&mut self, why: ChangeReason, edits: Vec<Edit>) {
        for edit in &edits {
            self.count(why, edit.span.len(), edit.with.len());
        }
        self.edits.extend(edits);
    }

    /// Appends elements to the list.
    pub(super) fn append(&mut self, why: ChangeReason, elements: &[String]) {
        self.count(why, 0, elements.iter().map(|element| element.len() + 1).sum());
        self.appended.extend_from_slice(elements);
    }

    /// Writes the bytes of the request, and returns them with the changed sizes.
    pub(super) fn written(mut self) -> (Vec<Bytes>, Vec<SizeChange>) {
        let agents = &self.agents.view;
        let (body, list, turns) = (&agents.body, agents.list, &agents.turns);
        let is_list = list.of(body).first() == Some(&b'[');
        // Before the closing bracket, where elements are appended.
        let close = if is_list { list.end - 1 } else { list.end };
        let opens = turns.first().map_or(close, |turn| turn.span.start);
        let closes = turns.last().map_or(close, |turn| turn.span.end);
        // Computed on demand, because most requests only have edits around their turns.
        let mut places = None;
        let mut around = Vec::new();
        for edit in std::mem::take(&mut self.edits) {
            // Edits outside the turns apply to the agent's body. Others become changes of their turn.
            if !Span::new(opens, closes).holds(edit.span.start) {
                around.push(edit);
            } else if let Some(turn) = agents.turn_at(edit.span.start)
                && let Some(turn) = places.get_or_insert_with(|| self.places())[turn]
                && self.is_agents(turn)
            {
                self.changes.push(TurnChange::Within(turn, edit));
            }
        }
        // A stable sort: changes of one turn keep the order of the passes.
        self.changes.sort_by_key(TurnChange::turn);
        let mut list = ListWriter {
            rope: Rope::new(body.clone()),
            gap: None,
        };
        let (before, after) = around.into_iter().partition(|edit| edit.span.start < opens);
        list.rope.splice(Span::new(0, opens), before);
        if self.listed {
            list.rope.add(Bytes::from_static(b"["));
        }
        let mut changes = &self.changes[..];
        for (n, source) in self.sources.iter().enumerate() {
            // Sorted by turn, so each turn takes the next run of changes.
            let (here, later) = changes.split_at(changes.partition_point(|change| change.turn() == n));
            changes = later;
            // `None` until the first element, which has no separator before it.
            list.gap = list.gap.map(|_| source.gap);
            self.write_turn(n, here, &mut list);
        }
        list.rope.keep(Span::new(closes, close));
        for element in &self.appended {
            list.element(element);
        }
        if self.listed {
            list.rope.add(Bytes::from_static(b"]"));
        }
        list.rope.splice(Span::new(close, body.len()), after);
        (list.rope.done(), self.sizes)
    }

    fn write_turn(&self, turn: usize, changes: &[TurnChange], list: &mut ListWriter) {
        // Fast path: nearly all turns are unchanged.
        if changes.is_empty() && self.is_agents(turn) {
            list.separate();
            return list.rope.keep(self.view.turns[turn].span);
        }
        for change in changes {
            if let TurnChange::Before(_, element) = change {
                list.element(element);
            }
        }
        if !is_left_out(changes) {
            list.separate();
            let turn = self.view.turns[turn];
            // 0 stands for the agent's body, any other number for text from a pass.
            match turn.text {
                0 => list.rope.splice(turn.span, edits(changes)),
                n => {
                    let mut own = Rope::new(self.view.made[n - 1].clone());
                    own.splice(turn.span, edits(changes));
                    own.done().into_iter().for_each(|piece| list.rope.add(piece));
                }
            }
        }
        for change in changes {
            if let TurnChange::After(_, element) = change {
                list.element(element);
            }
        }
    }
}

/// Reads a request with these changes as a new one; `None` if there are no changes.
pub(super) fn changed(reading: &RequestReading, changes: Vec<TurnChange>) -> Option<RequestReading> {
    if changes.is_empty() {
        return None;
    }
    let mut elements = Elements::new(reading);
    elements.settle(ChangeReason::Note, changes);
    reading.again(&splice::flat(elements.written().0))
}

/// Writes elements and their separators.
struct ListWriter {
    rope: Rope,
    /// Bytes before the next element in the agent's body; empty for a comma, `None` before the first element.
    gap: Option<Span>,
}

impl ListWriter {
    fn separate(&mut self) {
        match self.gap.replace(Span::default()) {
            Some(gap) if gap.is_empty() => self.rope.add(Bytes::from_static(b",")),
            Some(gap) => self.rope.keep(gap),
            None => {}
        }
    }

    fn element(&mut self, element: &str) {
        self.separate();
        self.rope.add(Bytes::copy_from_slice(element.as_bytes()));
    }
}

fn is_left_out(changes: &[TurnChange]) -> bool {
    let mut changes = changes.iter();
    changes.any(|change| matches!(change, TurnChange::LeftOut(_)))
}

fn edits(changes: &[TurnChange]) -> Vec<Edit> {
    let within = changes.iter().filter_map(|change| match change {
        TurnChange::Within(_, edit) => Some(edit.clone()),
        _ => None,
    });
    within.collect()
}
