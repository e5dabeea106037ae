//! The calls of a transcript by their fingerprints: what the wires share whose ids may be missing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::call_fingerprint::{self, Fingerprint, Fingerprints, MessageNumber, Traits};
use super::fingerprint_index::FingerprintIndex;
use super::sibling_calls::CallAt;
use super::view::{Role, View};
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;

/// Names a call by its distance from the transcript's end, calls of ours not counted: it holds while texts and
/// results before the call are edited.
const FROM_END: &str = "~@";

/// How a wire's transcript is read.
pub trait FingerprintSource {
    /// The calls of one of the model's turns, in order.
    fn calls(&self, view: &View, turn: usize) -> Vec<CallInTurn>;

    /// The insides of the texts of one of the user's turns, in order.
    fn user_texts(&self, view: &View, turn: usize) -> Vec<Span>;
}

#[derive(Debug, Clone, Copy)]
pub struct CallInTurn {
    /// What it is identified by.
    pub(super) traits: Traits,
    /// Which part of its turn it is.
    pub(super) part: usize,
    /// Offset that a cut must precede for the call to be sent.
    pub(super) start: usize,
}

/// A call in a transcript.
#[derive(Debug, Clone, Copy)]
struct KnownCall {
    turn: usize,
    call: CallInTurn,
    /// Its name and arguments.
    same: u64,
}

/// Cache of a transcript's calls between lookups.
#[derive(Debug, Default)]
pub struct CallMemo {
    places: Option<SharedPlaces>,
    /// The messages that were read last, with their calls: a message's place depends on the one before it.
    read: Vec<(Range<usize>, Arc<[KnownCall]>)>,
    /// The message whose calls were named last.
    named: Option<(Range<usize>, CallKeys)>,
}

/// What the calls of a message are named by, each with its turn, in order.
type CallKeys = Vec<(usize, String)>;

/// Data shared by all places.
#[derive(Debug)]
struct SharedPlaces {
    opening: u64,
    /// Of each turn, how many messages of the model's have begun.
    messages: Vec<u32>,
}

/// The turns of the model's message that `turn` belongs to: neighbours, since agents send what was streamed in
/// pieces of their own.
pub(super) fn message(view: &View, turn: usize) -> Range<usize> {
    let mine = |t: &usize| view.turns[*t].role == Role::Assistant;
    let start = (0..turn).rev().take_while(mine).last().unwrap_or(turn);
    let end = (turn..view.turns.len()).take_while(mine).last().unwrap_or(turn) + 1;
    start..end
}

impl SharedPlaces {
    fn new(source: &dyn FingerprintSource, view: &View) -> Self {
        let first = view.turns.iter().position(|t| t.role == Role::User);
        let opening = first.and_then(|t| Some((t, source.user_texts(view, t).pop()?)));
        let (mut begun, mut speaks) = (0, false);
        let count = view.turns.iter().map(|turn| {
            let models = turn.role == Role::Assistant;
            begun += u32::from(models && !speaks);
            speaks = models;
            begun
        });
        Self {
            opening: opening.map_or_else(
                || call_fingerprint::of_text(""),
                |(turn, o)| call_fingerprint::of_text(&json::unescape(o.of(view.text_of(turn)))),
            ),
            messages: count.collect(),
        }
    }

    /// The place of the message that begins at `start`, which may be the one that is to come.
    fn of(&self, view: &View, start: usize, lead: u64) -> MessageNumber {
        let begun = match self.messages.get(start) {
            Some(begun) => *begun,
            None => self.messages.last().copied().unwrap_or_default() + 1,
        };
        debug_assert!(start <= view.turns.len());
        call_fingerprint::place(begun.into(), self.opening, lead)
    }
}

/// Reads a message's calls, or has them already.
fn calls(
    source: &dyn FingerprintSource,
    view: &View,
    message: Range<usize>,
    memo: &mut CallMemo,
) -> Arc<[KnownCall]> {
    if let Some((_, known)) = memo.read.iter().find(|(range, _)| *range == message) {
        return Arc::clone(known);
    }
    let known: Arc<[KnownCall]> = message
        .clone()
        .flat_map(|turn| {
            let calls = source.calls(view, turn).into_iter();
            calls.map(move |call| KnownCall {
                turn,
                call,
                same: call_fingerprint::same(view.text_of(turn), &call.traits),
            })
        })
        .collect();
    memo.read.truncate(1);
    memo.read.insert(0, (message, Arc::clone(&known)));
    known
}

/// The context of the message that begins at `start`: the calls before it, else the user's last words. Tagged texts of
/// harnesses vary and are ignored.
fn lead(source: &dyn FingerprintSource, view: &View, start: usize, memo: &mut CallMemo) -> u64 {
    let models = |t: &usize| view.turns[*t].role == Role::Assistant;
    let Some(last) = (0..start).rev().find(models) else {
        return 0;
    };
    let before = calls(source, view, message(view, last), memo);
    if !before.is_empty() {
        return before
            .iter()
            .fold(1, |all, known| call_fingerprint::mix(all, known.same));
    }
    let texts = (last + 1..start).rev().flat_map(|t| {
        source
            .user_texts(view, t)
            .into_iter()
            .rev()
            .map(move |span| (t, span))
    });
    let mut words = texts.map(|(turn, span)| json::unescape(span.of(view.text_of(turn))));
    let words = words.find_map(|text| {
        let text = text.trim();
        (!text.is_empty() && !text.starts_with('<')).then(|| call_fingerprint::of_text(text))
    });
    words.unwrap_or_default()
}

/// The fingerprints of a message's calls.
fn fingerprints(
    source: &dyn FingerprintSource,
    view: &View,
    message: &Range<usize>,
    memo: &mut CallMemo,
) -> Vec<(Fingerprint, KnownCall)> {
    let known = calls(source, view, message.clone(), memo);
    if known.is_empty() {
        return Vec::new();
    }
    let lead = lead(source, view, message.start, memo);
    let places = memo.places.get_or_insert_with(|| SharedPlaces::new(source, view));
    let place = places.of(view, message.start, lead);
    let mut fingerprints = Fingerprints::default();
    let fingerprint = |k: &KnownCall| {
        (
            fingerprints.of(view.text_of(k.turn), k.call.traits, k.same, place),
            *k,
        )
    };
    known.iter().map(fingerprint).collect()
}

/// The place of the answer to this request.
pub(super) fn place_of_answer(source: &dyn FingerprintSource, view: &View) -> MessageNumber {
    let mut memo = CallMemo::default();
    let end = view.turns.len();
    // An answer may continue with the message that the request ends with.
    let start = match view.turns.last() {
        Some(turn) if turn.role == Role::Assistant => message(view, end - 1).start,
        _ => end,
    };
    let lead = lead(source, view, start, &mut memo);
    SharedPlaces::new(source, view).of(view, start, lead)
}

/// What the calls of a turn are named by.
pub(super) fn call_names(
    source: &dyn FingerprintSource,
    view: &View,
    turn: usize,
    memo: &mut CallMemo,
) -> Vec<String> {
    let named = memo.named.take().filter(|(range, _)| range.contains(&turn));
    let named = named.unwrap_or_else(|| {
        let message = message(view, turn);
        let all = fingerprints(source, view, &message, memo).into_iter();
        let keys = all
            .map(|(fingerprint, known)| (known.turn, fingerprint.text()))
            .collect();
        (message, keys)
    });
    let first = named.1.partition_point(|(t, _)| *t < turn);
    let mine = named.1[first..].iter().take_while(|(t, _)| *t == turn);
    let keys = mine.map(|(_, key)| key.clone()).collect();
    memo.named = Some(named);
    keys
}

/// Every call at or after offset `from`, with its fingerprint.
fn all(source: &dyn FingerprintSource, view: &View, from: usize) -> Vec<(Fingerprint, KnownCall)> {
    let mut memo = CallMemo::default();
    let mut turn = view.turns.partition_point(|t| t.span.end <= from);
    let mut found = Vec::new();
    while turn < view.turns.len() {
        if view.turns[turn].role != Role::Assistant {
            turn += 1;
            continue;
        }
        let message = message(view, turn);
        turn = message.end;
        found.extend(fingerprints(source, view, &message, &mut memo));
    }
    found.retain(|(_, known)| known.call.start >= from);
    found
}

/// The calls that these siblings name, at or after offset `from`: one walk over the transcript for all of them.
pub(super) fn find_calls(
    source: &dyn FingerprintSource,
    view: &View,
    siblings: &[&str],
    from: usize,
) -> Vec<Option<CallAt>> {
    let (mut index, mut from_end) = (None, None);
    let found = siblings.iter().map(|sibling| {
        if let Some(distance) = sibling.strip_prefix(FROM_END) {
            let distance: usize = distance.parse().ok()?;
            let from_end = from_end.get_or_insert_with(|| visible(source, view).collect::<Vec<_>>());
            return from_end.get(distance.checked_sub(1)?).copied();
        }
        let index = index.get_or_insert_with(|| {
            let all = all(source, view, from).into_iter();
            FingerprintIndex::new(
                all.map(|(fingerprint, known)| (fingerprint, known.at()))
                    .collect(),
            )
        });
        index.find(&Fingerprint::read(sibling)).copied()
    });
    found.collect()
}

impl KnownCall {
    fn at(&self) -> CallAt {
        CallAt {
            turn: self.turn,
            part: self.call.part,
        }
    }
}

/// The agent's own calls, last ones first.
fn visible<'a>(source: &'a dyn FingerprintSource, view: &'a View) -> impl Iterator<Item = CallAt> + use<'a> {
    let turns = (0..view.turns.len()).rev();
    let models = turns.filter(|&t| view.turns[t].role == Role::Assistant);
    let calls = models.flat_map(move |turn| {
        let calls = source.calls(view, turn).into_iter().rev();
        calls.map(move |call| KnownCall { turn, call, same: 0 })
    });
    let agents = calls.filter(move |known| {
        let name = known.call.traits.name;
        let name = name.map(|name| json::unescape(name.of(view.text_of(known.turn))));
        name.is_none_or(|n| n != TOOL_NAME && !view.facts.ours.has(&n))
    });
    agents.map(|known| known.at())
}

/// The siblings by their distance from the transcript's end.
pub(super) fn settled(
    source: &dyn FingerprintSource,
    view: &View,
    siblings: &[&str],
    from: usize,
) -> Vec<String> {
    let found = find_calls(source, view, siblings, from);
    let distances: HashMap<CallAt, usize> = visible(source, view).zip(1..).collect();
    let distance = |at: CallAt| distances.get(&at).copied();
    let settled = found
        .into_iter()
        .map(|at| format!("{FROM_END}{}", at.and_then(distance).unwrap_or_default()));
    settled.collect()
}

/// For each sibling, whether the call that it names is surely in the transcript.
pub(super) fn prove(source: &dyn FingerprintSource, view: &View, siblings: &[&str]) -> Vec<bool> {
    let index = FingerprintIndex::new(all(source, view, 0));
    let proven = siblings
        .iter()
        .map(|sibling| index.proves(&Fingerprint::read(sibling)));
    proven.collect()
}

#[cfg(test)]
mod tests;
