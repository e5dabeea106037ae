//! Hidden calls and their results in Gemini contents.
//!
//! An agent may return one response as a content per streamed chunk. Here, a message is therefore a run of
//! adjacent model contents.

use crate::wire::aside::{LonePart, SplitTurn, SyntheticTurn};
use crate::wire::{CallAt, HiddenCall, SiblingPair};
use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem;

use super::part::{LOST_SIGNATURE, PartMembers};
use super::turns::pieces;
use crate::marker::{self, MarkerKind};
use crate::record::HiddenPair;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::fingerprints::message;
use crate::wire::own_text::id_member;
use crate::wire::view::{Role, TurnChange, TurnPartKind, View};

/// Prefixes of models that do not sign, or do not require signatures.
const UNSIGNED_MODELS: [&str; 2] = ["gemini-1", "gemini-2"];

/// Serializes the result of a hidden call as a part.
pub(super) fn result(pair: &HiddenPair) -> String {
    let key = if pair.answer.is_error() { "error" } else { "output" };
    let (id, tool, text) = (
        id_member(&pair.call_id),
        &pair.tool,
        json::quote(pair.answer.text()),
    );
    format!(r#"{{"functionResponse":{{{id}"name":"{tool}","response":{{"{key}":{text}}}}}}}"#)
}

/// A part and its turn.
#[derive(Clone, Copy)]
struct PlacedPart {
    turn: usize,
    piece: PartMembers,
}

/// A result, and whether its turn has a list of parts.
#[derive(Clone, Copy)]
struct PlacedResult {
    turn: usize,
    span: Span,
    listed: bool,
}

fn placed(view: &View, turns: impl Iterator<Item = usize>) -> Vec<PlacedPart> {
    turns
        .flat_map(|turn| {
            let all = pieces(view, turn).into_iter();
            all.map(move |piece| PlacedPart { turn, piece })
        })
        .collect()
}

/// Ranges of parts that an offset counts as one unit: a call, or a run of adjacent text parts, which agents
/// join.
///
/// Thinking and empty text are skipped, because agents drop them. Text with a sentinel belongs to the earlier
/// leg, so it is not joined to the text after it.
fn units(view: &View, all: &[PlacedPart]) -> Vec<(usize, usize)> {
    let mut units: Vec<(usize, usize)> = Vec::new();
    let mut text = false;
    for (i, p) in all.iter().enumerate() {
        let is_text = p.piece.part.kind == TurnPartKind::Text;
        if p.piece.part.kind == TurnPartKind::Thinking || p.piece.is_empty_text() {
            continue;
        }
        match units.last_mut() {
            // Every streamed chunk is a part of its own, but an agent may send the joined text.
            Some(last) if text && is_text => last.1 = i,
            _ => units.push((i, i)),
        }
        text = is_text && !marked(view, p);
    }
    units
}

/// A message with the results after it, read once for all pairs next to its calls.
struct MessageWithResults {
    turns: Range<usize>,
    all: Vec<PlacedPart>,
    units: Vec<(usize, usize)>,
    /// For each turn, the number of parts before it.
    before: Vec<usize>,
    /// For each part, the number of calls before it, and finally the total.
    calls: Vec<usize>,
    /// For each turn, whether its parts are a list.
    listed: Vec<bool>,
    /// For each unit, the last unit before it that contains a sentinel. Computed on demand.
    marked: Option<Vec<Option<usize>>>,
    results: Vec<PlacedResult>,
}

impl MessageWithResults {
    fn read(view: &View, turn: usize) -> Self {
        let turns = message(view, turn);
        let all = placed(view, turns.clone());
        let count = |t| all.partition_point(|p| p.turn < t);
        let is_call = |p: &PlacedPart| p.piece.part.kind == TurnPartKind::Call;
        let mut calls = vec![0];
        calls.extend(all.iter().scan(0, |count, p| {
            *count += usize::from(is_call(p));
            Some(*count)
        }));
        Self {
            units: units(view, &all),
            before: turns.clone().map(count).collect(),
            calls,
            listed: turns.clone().map(|t| is_listed(view, t)).collect(),
            marked: None,
            results: results(view, turns.end),
            turns,
            all,
        }
    }

    /// The neighbor of a pair's call, and whether the call follows it.
    fn position(&mut self, view: &View, at: CallAt, offset: i32) -> Option<(usize, bool)> {
        let sibling = self.before.get(at.turn - self.turns.start)? + at.part;
        let unit = self.units.binary_search_by_key(&sibling, |unit| unit.1).ok()?;
        let distance = usize::try_from(offset.unsigned_abs()).unwrap_or_default();
        if offset >= 0 {
            return Some((self.units[(unit + distance).min(self.units.len() - 1)].1, true));
        }
        // Text with a sentinel also belongs to the earlier leg, so the call never moves before it.
        let marked = self.marked.get_or_insert_with(|| {
            let mut last = None;
            let units = self.units.iter().enumerate().map(|(n, unit)| {
                let before = last;
                last = marked(view, &self.all[unit.0]).then_some(n).or(last);
                before
            });
            units.collect()
        });
        let most = marked[unit].map_or(unit, |mark| unit - mark - 1);
        Some((self.units[unit - most.min(distance - 1)].0, false))
    }

    fn changes(&mut self, view: &View, at: CallAt, pair: &HiddenPair) -> Option<Vec<TurnChange>> {
        let (part, after) = self.position(view, at, pair.place.offset())?;
        let here = self.all[part];
        // Nothing can be inserted next to a single part that is not in a list.
        if !self.listed[here.turn - self.turns.start] {
            return None;
        }
        let span = here.piece.part.span;
        let call = if after {
            Edit::insert(span.end, format!(",{}", pair.call))
        } else {
            Edit::insert(span.start, format!("{},", pair.call))
        };
        let result = self.result(self.calls[part + usize::from(after)], &result(pair))?;
        Some(vec![TurnChange::Within(here.turn, call), result])
    }

    /// Inserts the result at the same position among the results as the call among the calls, because counts
    /// and order must agree.
    ///
    /// If there are no results yet, they get a content of their own.
    fn result(&self, position: usize, result: &str) -> Option<TurnChange> {
        let Some(first) = self.results.first() else {
            let last = self.turns.end.checked_sub(1)?;
            let message = format!(r#"{{"role":"user","parts":[{result}]}}"#);
            return Some(TurnChange::After(last, message));
        };
        let near = self.results[position.min(self.results.len()).saturating_sub(1)];
        let edit = match position {
            0 => Edit::insert(first.span.start, format!("{result},")),
            _ => Edit::insert(near.span.end, format!(",{result}")),
        };
        near.listed.then(|| TurnChange::Within(near.turn, edit))
    }
}

/// Results in the user contents from turn `first` on.
fn results(view: &View, first: usize) -> Vec<PlacedResult> {
    let answers = first..view.turns.len();
    let answers = answers.take_while(|&t| matches!(view.turns[t].role, Role::User | Role::Tool));
    let answers = answers.map(|t| (t, view.content(t)));
    let results = answers.flat_map(|(turn, content)| {
        let listed = content.list.is_some();
        let parts = content.parts.into_iter();
        let parts = parts.filter(|p| p.kind == TurnPartKind::Result);
        parts.map(move |p| PlacedResult {
            turn,
            span: p.span,
            listed,
        })
    });
    results.collect()
}

fn is_listed(view: &View, turn: usize) -> bool {
    let text = view.text_of(turn);
    let parts = json::get(text, view.turns[turn].span, "parts");
    parts.is_some_and(|parts| text.get(parts.start) == Some(&b'['))
}

/// Whether a part contains a sentinel or an aside. Look-alikes from the model are escaped and do not count.
fn marked(view: &View, p: &PlacedPart) -> bool {
    let Some(inside) = p.piece.part.text else {
        return false;
    };
    let literal = Span::new(inside.start - 1, inside.end + 1);
    let marks = marker::marks(literal.of(view.text_of(p.turn)));
    marks.iter().any(|m| !matches!(m.kind, MarkerKind::Broken(_)))
}

/// Earliest possible start of the current turn: after the user's last text without results next to it.
///
/// Whether text right after results begins a turn is up to the API.
fn last_question(view: &View) -> usize {
    let mut end = view.turns.len();
    while end > 0 {
        let users = |t: &usize| view.turns[*t].role != Role::Assistant;
        let start = (0..end).rev().take_while(users).last().unwrap_or(end);
        let answers = |t| {
            let parts = view.content(t).parts;
            parts.iter().any(|p| p.kind == TurnPartKind::Result)
        };
        if start < end && !(start..end).any(answers) {
            return end;
        }
        end = start.min(end - 1);
    }
    0
}

/// Serializes a hidden call, using upstream's own part if it was kept. Arguments that are not a JSON
/// object become `{}`, because the API accepts nothing else.
pub(super) fn hidden_call(call: &HiddenCall) -> String {
    if let Some(raw) = &call.raw {
        return raw.clone();
    }
    let (id, name, args) = (id_member(&call.id), call.name(), call.object());
    format!(r#"{{"functionCall":{{{id}"name":"{name}","args":{args}}}}}"#)
}

pub(super) fn put_beside(view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<TurnChange>> {
    // For each turn that was read, the index of its message.
    let mut messages: HashMap<usize, usize> = HashMap::new();
    let mut read: Vec<MessageWithResults> = Vec::new();
    let changes = besides.iter().map(|SiblingPair { at, pair }| {
        if !messages.contains_key(&at.turn) {
            let message = MessageWithResults::read(view, at.turn);
            messages.extend(message.turns.clone().map(|turn| (turn, read.len())));
            read.push(message);
        }
        let message = messages.get(&at.turn).and_then(|&n| read.get_mut(n));
        let changes = message.and_then(|message| message.changes(view, *at, pair));
        changes.unwrap_or_default()
    });
    changes.collect()
}

/// Splits the content at the aside's line: the parts before it with the call, the result, and the parts
/// after it.
pub(super) fn put_between(split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<SyntheticTurn> {
    let answer = format!(r#"{{"role":"user","parts":[{}]}}"#, result(pair));
    split.around(&pair.call, SyntheticTurn::new(Role::User, answer), &LONE)
}

/// Adds the API's placeholder for signatures that were lost with a hidden call.
///
/// If the model signs, the first call of each step of the current turn must have a signature.
pub(super) fn repairs(view: &View, changes: &[TurnChange]) -> Vec<TurnChange> {
    let model = view.facts.model.as_deref().unwrap_or_default();
    if UNSIGNED_MODELS.iter().any(|m| model.starts_with(m)) {
        return Vec::new();
    }
    // Models with a known name sign; others do if their history shows it.
    let signs = model.starts_with("gemini-")
        || (0..view.turns.len()).any(|turn| {
            let has = |word: &str| memmem::find(view.raw(turn), word.as_bytes()).is_some();
            has("\"thoughtSignature\"") || has("\"thought_signature\"")
        });
    if !signs {
        return Vec::new();
    }
    let mut repairs = Vec::new();
    let mut turn = last_question(view);
    while turn < view.turns.len() {
        if view.turns[turn].role != Role::Assistant {
            turn += 1;
            continue;
        }
        let turns = message(view, turn);
        turn = turns.end;
        let mut placed = placed(view, turns.clone()).into_iter();
        let first = placed.find(|p| p.piece.part.kind == TurnPartKind::Call);
        let Some(first) = first.filter(|p| p.piece.part.signature.is_none()) else {
            continue;
        };
        let at = first.piece.part.span.start;
        // If a hidden call is restored before this one, that call carries the signature.
        let restored = changes.iter().any(|change| {
            let TurnChange::Within(turn, edit) = change else {
                return false;
            };
            let is_before = *turn < first.turn || *turn == first.turn && edit.span.start <= at;
            is_before && turns.contains(turn) && memmem::find(&edit.with, b"\"functionCall\"").is_some()
        });
        if !restored {
            let signature = format!(r#""thoughtSignature":"{LOST_SIGNATURE}","#);
            repairs.push(TurnChange::Within(first.turn, Edit::insert(at + 1, signature)));
        }
    }
    repairs
}

/// A single part gets brackets.
const LONE: LonePart = LonePart {
    brackets: ["[", "]"],
    block: None,
};
