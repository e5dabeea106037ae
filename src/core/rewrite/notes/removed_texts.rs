//! Changes that remove spans and turns from a transcript.

use std::collections::{HashMap, HashSet};

use crate::commands;
use crate::marker::gap;
use crate::text::splice::Edit;
use crate::text::{Span, cost, json};
use crate::wire::view::{self, Role, TurnChange, TurnPart, TurnPartKind, View};

use super::undone::UndoneHandoffs;
use crate::rewrite::users_words::{NoteSearch, own_text};
use crate::rewrite::{RequestReading, elements};

/// Tags of a user's custom command that Claude Code expanded.
pub(super) const INVOCATIONS: [&str; 2] = ["<command-message>", "<command-name>"];

/// Items to remove: spans by turn and part, and whole turns.
#[derive(Default)]
pub(super) struct RemovedTexts {
    pub(super) texts: HashMap<(usize, usize), Vec<Span>>,
    pub(super) turns: HashSet<usize>,
    pub(super) commands: HashSet<usize>,
}

impl RemovedTexts {
    pub(super) fn text(&mut self, turn: usize, part: usize, span: Span) {
        self.texts.entry((turn, part)).or_default().push(span);
    }

    pub(super) fn whole(&mut self, turn: usize) {
        self.turns.insert(turn);
    }

    /// Removes the command in a user turn.
    pub(super) fn command(&mut self, view: &View, turn: usize, look: NoteSearch<'_>) {
        if self.commands.insert(turn)
            && let Some((part, span, text)) = own_text(view, turn, look.tags)
            && commands::is_or_was_command(&text, look.prefix)
        {
            self.text(turn, part, span);
            self.invocation(view, turn);
        }
    }

    /// Removes the agent's invocation next to a command that it expanded.
    pub(super) fn invocation(&mut self, view: &View, turn: usize) {
        let parts = view.content(turn).parts.into_iter().enumerate();
        for (n, inside) in parts.filter_map(|(n, part)| Some((n, part.text?))) {
            let words = view.text(inside);
            if INVOCATIONS.iter().any(|tag| words.starts_with(tag.as_bytes())) {
                self.text(turn, n, inside);
            }
        }
    }

    /// Returns the request without these items; `None` if there are none, or nothing else.
    pub(super) fn taken_out_of(&self, reading: &RequestReading) -> Option<RequestReading> {
        let changes = self.changes(&reading.view, &UndoneHandoffs::default());
        elements::changed(reading, changes)
    }

    pub(super) fn changes(&self, view: &View, undone: &UndoneHandoffs) -> Vec<TurnChange> {
        let mut turns: Vec<usize> = self.texts.keys().map(|(turn, _)| *turn).collect();
        // After an undo, thinking and calls in any model turn may be bound to another prefix.
        if undone.is_any() {
            let models = |turn: &usize| view.turns[*turn].role == Role::Assistant;
            turns.extend((0..view.turns.len()).filter(models));
        }
        turns.sort_unstable();
        turns.dedup();
        let mut lost: Vec<bool> = (0..view.turns.len()).map(|n| self.turns.contains(&n)).collect();
        let mut changes = Vec::new();
        for turn in turns {
            if lost[turn] {
                continue;
            }
            match self.in_turn(view, turn, undone) {
                Some(edits) => changes.extend(TurnChange::within(turn, edits)),
                None => lost[turn] = true,
            }
        }
        blank_neighbours(view, &mut lost);
        // A transcript that would become empty is left unchanged.
        if !lost.contains(&false) {
            return Vec::new();
        }
        changes.extend(
            (0..lost.len())
                .filter(|turn| lost[*turn])
                .map(TurnChange::LeftOut),
        );
        changes
    }

    /// Edits in one turn; `None` if nothing is left of it.
    pub(super) fn in_turn(&self, view: &View, turn: usize, undone: &UndoneHandoffs) -> Option<Vec<Edit>> {
        let content = view.content(turn);
        let mut edits = Vec::new();
        let mut lost = vec![false; content.parts.len()];
        let is_models = view.turns[turn].role == Role::Assistant;
        for (n, part) in content.parts.iter().enumerate() {
            if is_models && undone.is_stale(part.span.start) {
                lost[n] |= part.kind == TurnPartKind::Thinking;
                edits.extend((view.turn_rules().unbind)(view, turn, part));
            }
            if let (Some(spans), Some(inside)) = (self.texts.get(&(turn, n)), part.text) {
                match without(&view.body, inside, spans) {
                    Some(some) => edits.extend(some),
                    None => lost[n] = true,
                }
            }
        }
        if !lost.contains(&true) {
            return Some(edits);
        }
        // Thinking before removed text is removed with it, because no message may end with thinking
        // (Anthropic).
        if is_models {
            let is_thinking = |n: &usize| lost[*n] || content.parts[*n].kind == TurnPartKind::Thinking;
            let last_first = (0..content.parts.len()).rev();
            for n in last_first.take_while(is_thinking).collect::<Vec<_>>() {
                lost[n] = true;
            }
        }
        let says = |(n, part): (usize, &TurnPart)| !lost[n] && part.kind != TurnPartKind::Thinking;
        if !content.parts.iter().enumerate().any(says) {
            return None;
        }
        match content.list {
            Some(list) => {
                let spans: Vec<Span> = content.parts.iter().map(|p| p.span).collect();
                // Chat has its calls next to the list of content.
                let (inside, beside): (Vec<usize>, Vec<usize>) =
                    (0..spans.len()).partition(|&n| list.holds(spans[n].start));
                debug_assert!(
                    beside
                        .iter()
                        .all(|&n| !lost[n] || content.parts[n].text.is_none())
                );
                let in_list: Vec<Span> = inside.iter().map(|&n| spans[n]).collect();
                let lost: Vec<bool> = inside.iter().map(|&n| lost[n]).collect();
                let kept = view::kept(&in_list, &lost);
                let absent = || vec![Edit::replace(list, view.wire().absent_content.unwrap_or("[]"))];
                edits.extend(kept.unwrap_or_else(absent));
            }
            // The content is a string next to calls.
            None => {
                let first = content.parts.first().filter(|p| p.text.is_some())?;
                let absent = view.wire().absent_content?;
                edits.push(Edit::replace(first.span, absent));
            }
        }
        Some(edits)
    }
}

/// Edits that remove these spans and the line breaks around them; `None` if nothing is left of the string.
pub(super) fn without(text: &[u8], inside: Span, spans: &[Span]) -> Option<Vec<Edit>> {
    let mut spans = spans.to_vec();
    spans.sort_unstable_by_key(|s| s.start);
    let mut edits = Vec::new();
    let mut left = false;
    let mut at = inside.start;
    for span in spans {
        let from = gap::before(text, inside.start, span.start).max(at);
        let to = gap::after(text, span.end.max(from), inside.end);
        left |= says(&text[at..from]);
        // Two paragraphs that the removed text separated must not run together.
        let between = left && says(&text[to..inside.end]);
        edits.push(Edit::replace(
            Span::new(from, to),
            if between { r"\n\n" } else { "" },
        ));
        at = to;
    }
    (left || says(&text[at..inside.end])).then_some(edits)
}

/// Whether the inside of a literal contains anything but white space.
pub(super) fn says(raw: &[u8]) -> bool {
    let mut at = 0;
    while let Some((c, used)) = json::char_at(&raw[at..])
        && c.is_whitespace()
    {
        cost::add(1);
        at += used;
    }
    at < raw.len()
}

/// Marks blank elements next to removed ones of the same response, because an agent may store a stream's
/// chunks as elements.
///
/// Other blank elements are the model's own words, such as the blank between two of its chunks.
pub(super) fn blank_neighbours(view: &View, lost: &mut [bool]) {
    let blank = |turn: usize| {
        let says_nothing =
            |p: &TurnPart| p.kind == TurnPartKind::Text && p.text.is_some_and(|t| !says(view.text(t)));
        view.content(turn).parts.iter().all(says_nothing)
    };
    let of_model = |turn: usize| view.turns[turn].role == Role::Assistant;
    let gone: Vec<usize> = (0..lost.len()).filter(|&n| lost[n] && of_model(n)).collect();
    let mut message = 0..0;
    for turn in gone {
        if turn >= message.end {
            message = (view.turn_rules().message)(view, turn);
        }
        let is_blank = |next: usize| !lost[next] && of_model(next) && blank(next);
        let before = (message.start..turn).rev().take_while(|&next| is_blank(next));
        let after = (turn + 1..message.end).take_while(|&next| is_blank(next));
        for next in before.chain(after).collect::<Vec<_>>() {
            lost[next] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use crate::marker::note;
    use crate::record::WireId;
    use crate::rewrite::{RequestReading, notes};
    use crate::wire::{Operation, wire};

    #[test]
    fn a_blank_between_two_chunks_of_an_answer_is_text_of_the_model() {
        let content = |role: &str, text: &str| json!({"role": role, "parts": [{"text": text}]});
        let said = ["\n\n", "So", " ", "be it."].map(|chunk| content("model", chunk));
        let note = note::answer("a handoff is being written.", Uuid::from_u128(7));
        let mut contents = vec![content("user", "Hello."), content("model", &note)];
        contents.extend(said.clone());
        contents.push(content("user", "Go on."));
        let wire = wire(WireId::Gemini);
        let body = Bytes::from(json!({"contents": contents}).to_string());
        let reading = RequestReading::new(wire, &body, Operation::Generate).unwrap();
        let look = notes::NoteSearch {
            prefix: "::",
            tags: &[],
        };
        let cleaned = notes::take_out(&reading, look, &[]).unwrap();
        let left: Value = serde_json::from_slice(&cleaned.reading.view.body).unwrap();
        let texts: Vec<&Value> = left["contents"].as_array().unwrap()[1..].iter().collect();
        assert_eq!(texts, [&said[1], &said[2], &said[3], &contents[6]]);
    }
}
