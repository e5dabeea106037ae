//! Finds the calls of a transcript by fingerprint, for wires whose calls may lack ids.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::call_fingerprint::{self, Fingerprint, Fingerprints, MessageNumber, is_random};
use super::sibling_calls::{CallAt, calls_in};
use super::view::{Role, TurnPart, View};
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;

/// Prefix of a name that counts the agent's calls back from the transcript's end.
///
/// The name stays valid while text and results before the call are edited, because baton's calls do not
/// count.
const FROM_END: &str = "~@";

/// A transcript whose calls are identified by fingerprints.
#[derive(Clone, Copy)]
pub(super) struct FingerprintedCalls<'a> {
    pub(super) view: &'a View,
}

/// A call in a transcript.
#[derive(Debug, Clone, Copy)]
struct KnownCall {
    at: CallAt,
    part: TurnPart,
    /// Hash of the name and arguments.
    same: u64,
}

/// Cache of a transcript's calls between lookups.
#[derive(Debug, Default)]
pub struct CallMemo {
    places: Option<SharedPlaces>,
    /// The last two messages read, with their calls. Two suffice, because the position of a message depends
    /// only on the one before it.
    read: Vec<(Range<usize>, Arc<[KnownCall]>)>,
    /// The last message whose calls were named, with those names in order.
    named: Option<(Range<usize>, CallNames)>,
}

/// Names of a message's calls, each with its turn.
type CallNames = Vec<(usize, String)>;

/// Data that the positions of all messages share.
#[derive(Debug)]
struct SharedPlaces {
    opening: u64,
    /// For each turn, the number of model messages that have begun by then.
    messages: Vec<u32>,
}

/// Returns the range of turns that form one model message with `turn`.
///
/// Agents may send one streamed message back as several adjacent turns.
pub(super) fn message(view: &View, turn: usize) -> Range<usize> {
    let mine = |t: &usize| view.turns[*t].role == Role::Assistant;
    let start = (0..turn).rev().take_while(mine).last().unwrap_or(turn);
    let end = (turn..view.turns.len()).take_while(mine).last().unwrap_or(turn) + 1;
    start..end
}

impl SharedPlaces {
    /// Returns the position of the message that begins at `start`. The message may be the next one, which
    /// does not exist yet.
    fn of(&self, start: usize, lead: u64) -> MessageNumber {
        let begun = match self.messages.get(start) {
            Some(begun) => *begun,
            None => self.messages.last().copied().unwrap_or_default() + 1,
        };
        debug_assert!(start <= self.messages.len());
        call_fingerprint::place(begun.into(), self.opening, lead)
    }
}

impl<'a> FingerprintedCalls<'a> {
    fn is_models(&self, turn: usize) -> bool {
        self.view.turns[turn].role == Role::Assistant
    }

    /// Insides of a turn's text literals, in order.
    fn texts(&self, turn: usize) -> impl DoubleEndedIterator<Item = Span> + use<> {
        let parts = self.view.content(turn).parts.into_iter();
        parts.filter_map(|part| part.text)
    }

    fn unescaped(&self, turn: usize, inside: Span) -> std::borrow::Cow<'a, str> {
        json::unescape(inside.of(self.view.text_of(turn)))
    }

    fn places(&self) -> SharedPlaces {
        let turns = &self.view.turns;
        let first = turns.iter().position(|t| t.role == Role::User);
        // The last text of the first user turn: a preamble before it may change between requests.
        let opening = first.and_then(|turn| Some(self.unescaped(turn, self.texts(turn).next_back()?)));
        let (mut begun, mut speaks) = (0, false);
        let count = turns.iter().map(|turn| {
            let models = turn.role == Role::Assistant;
            // Adjacent model turns are one message.
            begun += u32::from(models && !speaks);
            speaks = models;
            begun
        });
        SharedPlaces {
            opening: call_fingerprint::of_text(&opening.unwrap_or_default()),
            messages: count.collect(),
        }
    }

    /// Returns a message's calls, read or cached.
    fn calls(&self, message: Range<usize>, memo: &mut CallMemo) -> Arc<[KnownCall]> {
        if let Some((_, known)) = memo.read.iter().find(|(range, _)| *range == message) {
            return Arc::clone(known);
        }
        let calls = message.clone().flat_map(|turn| {
            let text = self.view.text_of(turn);
            calls_in(self.view, turn).map(move |(at, part)| KnownCall {
                at,
                part,
                same: call_fingerprint::same(text, &part),
            })
        });
        let known: Arc<[KnownCall]> = calls.collect();
        // Keep the newest entry next to the new one: a backward walk needs each message and its predecessor.
        memo.read.truncate(1);
        memo.read.insert(0, (message, Arc::clone(&known)));
        known
    }

    /// Hashes the context of the message that begins at `start`.
    ///
    /// The context is the calls of the model message before it, or else the user's last words.
    ///
    /// Text that begins with a tag is ignored, because harnesses vary it from request to request.
    fn lead(&self, start: usize, memo: &mut CallMemo) -> u64 {
        let Some(last) = (0..start).rev().find(|turn| self.is_models(*turn)) else {
            return 0;
        };
        let before = self.calls(message(self.view, last), memo);
        if !before.is_empty() {
            return before
                .iter()
                // Begins with 1, because 0 stands for a message without any before it.
                .fold(1, |all, known| call_fingerprint::mix(all, known.same));
        }
        let mut words = (last + 1..start)
            .rev()
            .flat_map(|turn| self.texts(turn).rev().map(move |span| self.unescaped(turn, span)));
        let words = words.find_map(|text| {
            let text = text.trim();
            (!text.is_empty() && !text.starts_with('<')).then(|| call_fingerprint::of_text(text))
        });
        words.unwrap_or_default()
    }

    /// Fingerprints a message's calls that begin at or after offset `from`.
    fn fingerprints(
        &self,
        message: &Range<usize>,
        from: usize,
        memo: &mut CallMemo,
    ) -> Vec<(Fingerprint, CallAt)> {
        let known = self.calls(message.clone(), memo);
        if known.is_empty() {
            return Vec::new();
        }
        let lead = self.lead(message.start, memo);
        let places = memo.places.get_or_insert_with(|| self.places());
        let place = places.of(message.start, lead);
        let mut fingerprints = Fingerprints::default();
        // A streamed call is named before its arguments are complete. With its id, its number in the message is enough.
        let by_number = self.view.wire().has_call_ids;
        let all = known.iter().map(|known| {
            let text = self.view.text_of(known.at.turn);
            let same = if by_number { 0 } else { known.same };
            (fingerprints.call(text, &known.part, same, place), known)
        });
        // Filtered after the count: without the calls before `from` the ordinals of equal calls would shift.
        let sent = all.filter(|(_, known)| known.part.span.start >= from);
        sent.map(|(fingerprint, known)| (fingerprint, known.at)).collect()
    }

    /// Returns the position of the response to this request.
    pub(super) fn place_of_answer(&self) -> MessageNumber {
        let end = self.view.turns.len();
        // If the request ends with an assistant message, the response may continue that message.
        let start = match end.checked_sub(1).filter(|last| self.is_models(*last)) {
            Some(last) => message(self.view, last).start,
            None => end,
        };
        let lead = self.lead(start, &mut CallMemo::default());
        self.places().of(start, lead)
    }

    /// Returns the names of a turn's calls.
    pub(super) fn names(&self, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        let named = memo.named.take().filter(|(range, _)| range.contains(&turn));
        let named = named.unwrap_or_else(|| {
            let message = message(self.view, turn);
            let all = self.fingerprints(&message, 0, memo).into_iter();
            let keys = all.map(|(fingerprint, at)| (at.turn, fingerprint.text()));
            (message, keys.collect())
        });
        // The names are in the order of the turns.
        let first = named.1.partition_point(|(t, _)| *t < turn);
        let mine = named.1[first..].iter().take_while(|(t, _)| *t == turn);
        let keys = mine.map(|(_, key)| key.clone()).collect();
        memo.named = Some(named);
        keys
    }

    /// Indexes all calls at or after offset `from`.
    fn index(&self, from: usize) -> FingerprintIndex<CallAt> {
        let mut memo = CallMemo::default();
        let mut turn = self.view.turns.partition_point(|t| t.span.end <= from);
        let mut found = Vec::new();
        while turn < self.view.turns.len() {
            if !self.is_models(turn) {
                turn += 1;
                continue;
            }
            let message = message(self.view, turn);
            turn = message.end;
            found.extend(self.fingerprints(&message, from, &mut memo));
        }
        FingerprintIndex::new(found)
    }

    /// Finds the calls that `siblings` name, at or after offset `from`. One walk over the transcript serves
    /// all of them.
    pub(super) fn find(&self, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        let (mut index, mut from_end) = (None, None);
        let found = siblings.iter().map(|sibling| {
            // A name that `settled` has created.
            if let Some(distance) = sibling.strip_prefix(FROM_END) {
                let distance: usize = distance.parse().ok()?;
                let from_end = from_end.get_or_insert_with(|| self.visible().collect::<Vec<_>>());
                return from_end.get(distance.checked_sub(1)?).copied();
            }
            let index = index.get_or_insert_with(|| self.index(from));
            index.find(&Fingerprint::read(sibling)).copied()
        });
        found.collect()
    }

    /// The agent's calls, last first.
    fn visible(&self) -> impl Iterator<Item = CallAt> {
        let newest_first = (0..self.view.turns.len()).rev();
        let models = newest_first.filter(|turn| self.is_models(*turn));
        let calls = models.flat_map(|turn| calls_in(self.view, turn).rev());
        let agents = calls.filter(|(at, call)| {
            let name = call.name.map(|name| self.unescaped(at.turn, name));
            // Only the upstream view contains hidden calls, so they must not change the distances.
            name.is_none_or(|n| n != TOOL_NAME && !self.view.facts.ours.has(&n))
        });
        agents.map(|(at, _)| at)
    }

    /// Names the siblings by their distance from the transcript's end.
    pub(super) fn settled(&self, siblings: &[&str], from: usize) -> Vec<String> {
        let distances: HashMap<CallAt, usize> = self.visible().zip(1..).collect();
        let distance = |at: CallAt| distances.get(&at).copied();
        let settled = |at: Option<_>| format!("{FROM_END}{}", at.and_then(distance).unwrap_or_default());
        self.find(siblings, from).into_iter().map(settled).collect()
    }

    /// For each sibling, whether the transcript certainly contains the call that it names.
    pub(super) fn prove(&self, siblings: &[&str]) -> Vec<bool> {
        let index = self.index(0);
        let proves = |sibling: &&str| index.proves(&Fingerprint::read(sibling));
        siblings.iter().map(proves).collect()
    }
}

/// Calls by every key that can identify them. Each lookup is a hash access instead of a walk over all calls.
pub(super) struct FingerprintIndex<T> {
    all: Vec<(Fingerprint, T)>,
    /// Index of the first call with this key.
    first: HashMap<CallName, usize>,
    /// Ids of several calls.
    repeated: HashSet<String>,
}

/// A key that identifies a call.
#[derive(PartialEq, Eq, Hash)]
enum CallName {
    Id(String),
    IdAt(String, MessageNumber),
    Signed(u64),
    SignedAt(u64, MessageNumber),
    At(u64, Option<MessageNumber>),
}

impl<T> FingerprintIndex<T> {
    pub(super) fn new(all: Vec<(Fingerprint, T)>) -> Self {
        let (mut first, mut ids, mut repeated) = (HashMap::new(), HashSet::new(), HashSet::new());
        for (n, (fingerprint, _)) in all.iter().enumerate() {
            let mut name = |name: CallName| {
                first.entry(name).or_insert(n);
            };
            let place = fingerprint.place.unwrap_or_default();
            if !fingerprint.id.is_empty() {
                if !ids.insert(&*fingerprint.id) {
                    repeated.insert(fingerprint.id.clone());
                }
                name(CallName::Id(fingerprint.id.clone()));
                name(CallName::IdAt(fingerprint.id.clone(), place));
            }
            if let Some(signature) = fingerprint.signature {
                name(CallName::Signed(signature));
                name(CallName::SignedAt(signature, place));
            }
            name(CallName::At(fingerprint.call, fingerprint.place));
        }
        Self { all, first, repeated }
    }

    /// Returns the best match for a fingerprint; among equal matches, the first one.
    pub(super) fn find(&self, wanted: &Fingerprint) -> Option<&T> {
        let here = self.first.get(&CallName::At(wanted.call, wanted.place)).copied();
        // A server may give all calls of a response the same id.
        let same_id = here.filter(|&n| !wanted.id.is_empty() && self.all[n].0.id == wanted.id);
        // Without a certain match, an equal call at the same position will do.
        let equal = || here.filter(|&n| wanted.may_be(&self.all[n].0));
        let found = same_id.or_else(|| self.surely(wanted)).or_else(equal);
        found.map(|n| &self.all[n].1)
    }

    /// Finds a call by id, else by signature. A candidate at the same position wins.
    fn surely(&self, wanted: &Fingerprint) -> Option<usize> {
        let place = wanted.place.unwrap_or_default();
        // Ids from a server's counter repeat, so the same id at the same position comes first. Elsewhere such an id is
        // ambiguous.
        let is_unique = is_random(&wanted.id) || !self.repeated.contains(&wanted.id);
        let by_id = (!wanted.id.is_empty()).then(|| {
            let id = || wanted.id.clone();
            let anywhere = is_unique.then(|| CallName::Id(id()));
            [Some(CallName::IdAt(id(), place)), anywhere]
                .into_iter()
                .flatten()
        });
        let by_signature = wanted
            .signature
            .map(|s| [CallName::SignedAt(s, place), CallName::Signed(s)]);
        let names = by_id
            .into_iter()
            .flatten()
            .chain(by_signature.into_iter().flatten());
        names.filter_map(|name| self.first.get(&name).copied()).next()
    }

    /// Whether a unique feature, a random id or a signature, proves that the call is here.
    pub(super) fn proves(&self, wanted: &Fingerprint) -> bool {
        let has = |name: CallName| self.first.contains_key(&name);
        wanted.signature.is_some_and(|s| has(CallName::Signed(s)))
            || is_random(&wanted.id) && has(CallName::Id(wanted.id.clone()))
    }
}

#[cfg(test)]
mod tests;
