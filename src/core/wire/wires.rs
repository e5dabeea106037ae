//! All wires, and the queries that a request answers by means of its wire.

use super::facts::{ItemRules, TurnRules, Wire};
use super::fingerprints::{CallMemo, FingerprintedCalls};
use super::sibling_calls::{self, CallAt, calls_in};
use super::view::{Role, TurnChange, TurnContent, View};
use super::{anthropic, call_fingerprint, gemini, ollama, openai_chat, openai_responses};
use crate::record::{FINGERPRINT, InsertionPoint, WireId};
use crate::text::splice::Edit;
use crate::tools::ToolTable;
use bytes::Bytes;

/// Rules and functions of the wire with this id.
pub fn wire(id: WireId) -> &'static Wire {
    match id {
        WireId::Anthropic => &anthropic::WIRE,
        WireId::OpenaiChat => &openai_chat::WIRE,
        WireId::OpenaiResponses => &openai_responses::WIRE,
        WireId::Gemini => &gemini::WIRE,
        WireId::Ollama => &ollama::WIRE,
    }
}

pub static WIRES: &[&Wire] = &[
    &anthropic::WIRE,
    &openai_chat::WIRE,
    &openai_responses::WIRE,
    &gemini::WIRE,
    &ollama::WIRE,
];

/// Methods that every request derives from its wire.
impl View {
    /// The request's API, which interprets the spans.
    pub fn wire(&self) -> &'static Wire {
        wire(self.wire)
    }

    /// Rules for turns that only some wires have.
    pub fn turn_rules(&self) -> &'static TurnRules {
        &self.wire().turns
    }

    /// Rules for transcripts of items, or `None` if the wire has messages.
    pub fn item_rules(&self) -> Option<ItemRules> {
        self.wire().items
    }

    /// Parses a turn.
    pub fn content(&self, turn: usize) -> TurnContent {
        let whole = self.turns.get(turn).copied();
        let content = |whole| (self.wire().functions.content)(self, whole, self.text_of(turn));
        whole.map(content).unwrap_or_default()
    }

    /// Restores the agent's own values in a reply that echoes the request.
    pub fn shaped_for(&self, reply: Bytes) -> Bytes {
        match self.item_rules() {
            Some(items) => (items.shaped_for)(self, reply),
            None => reply,
        }
    }

    /// Whether a turn comes from the model, or stands for one that does.
    pub fn is_models(&self, turn: usize) -> bool {
        let refers = |items: ItemRules| (items.refers)(self, turn);
        self.turns[turn].role == Role::Assistant || self.item_rules().is_some_and(refers)
    }

    /// Returns the edit that adds baton's tools, or `None` if the request has no list of tools.
    pub fn add_tools(&self, ours: &ToolTable) -> Option<Edit> {
        let tools = self.tools?;
        Some(tools.with(ours, (self.wire().tool_shape)(self, &tools)))
    }

    /// Returns the changes that append baton's text after a user or tool turn.
    ///
    /// The text becomes the last block of a user message, or else a message of its own. Other turns get no
    /// changes.
    pub fn put_text(&self, turn: usize, text: &str) -> Vec<TurnChange> {
        let inside = match self.turns[turn].role {
            Role::User => (self.wire().functions.text_inside)(&self.content(turn), text),
            // A tool message contains only a result, so the text follows as a user message.
            Role::Tool => None,
            _ => return Vec::new(),
        };
        match inside {
            Some(edits) => TurnChange::within(turn, edits),
            None => vec![TurnChange::After(turn, self.wire().user_text(text))],
        }
    }

    /// The transcript with its calls identified by fingerprints, if calls may lack ids.
    fn fingerprinted(&self) -> Option<FingerprintedCalls<'_>> {
        (!self.wire().has_call_ids).then_some(FingerprintedCalls { view: self })
    }

    /// Finds the calls that hidden pairs name as siblings, at or after offset `from`.
    pub fn find_calls(&self, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        let from = self.calls_from(from);
        if let Some(calls) = self.fingerprinted() {
            return calls.find(siblings, from);
        }
        let mut found = sibling_calls::find_by_ids(self, siblings, from);
        if let Some(items) = self.item_rules() {
            // A sibling may also be an item without a call id, such as reasoning.
            let items = (items.find)(self, siblings, from);
            let found = found.iter_mut().zip(items);
            found.for_each(|(at, item)| *at = at.or(item));
        }
        let (numbers, names) = fingerprints_among(siblings);
        if !names.is_empty() {
            let calls = FingerprintedCalls { view: self }.find(&names, from);
            numbers.into_iter().zip(calls).for_each(|(n, at)| found[n] = at);
        }
        found
    }

    /// Returns the names that hidden pairs use for the calls of this turn: random ids, or else fingerprints.
    ///
    /// `memo` must belong to the same view. It caches the walk over many turns.
    pub fn call_names(&self, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        if let Some(calls) = self.fingerprinted() {
            return calls.names(turn, memo);
        }
        let calls = calls_in(self, turn).map(|(_, call)| call.id);
        let ids = calls.map(|id| id.map_or_else(String::new, |id| self.str_in(turn, id).into_owned()));
        let mut ids: Vec<String> = ids.collect();
        if self.item_rules().is_none() && !ids.iter().all(|id| call_fingerprint::is_random(id)) {
            let names = FingerprintedCalls { view: self }.names(turn, memo);
            let names = ids.iter_mut().zip(names);
            names
                .filter(|(id, _)| !call_fingerprint::is_random(id))
                .for_each(|(id, name)| *id = name);
        }
        let items = self.item_rules();
        let bound = items.and_then(|items| (items.bound)(self, turn));
        ids.into_iter().chain(bound).collect()
    }

    /// Completes the name of a call in the response to this request, which a hidden pair uses as its sibling.
    #[must_use]
    pub fn placed(&self, place: InsertionPoint) -> InsertionPoint {
        match place {
            InsertionPoint::Beside { sibling, offset } if call_fingerprint::lacks_place(&sibling) => {
                // An agent may refer to its items, so that only results show the ids of calls.
                let sibling = match self.item_rules() {
                    Some(_) => call_fingerprint::id_in(&sibling).into_owned(),
                    None => {
                        let answer = FingerprintedCalls { view: self }.place_of_answer();
                        call_fingerprint::placed(&sibling, answer)
                    }
                };
                InsertionPoint::Beside { sibling, offset }
            }
            place => place,
        }
    }

    /// Renames the siblings, so that the names stay valid when the transcript before the calls is edited.
    ///
    /// `None` if all of them are ids, which do not depend on other parts of the transcript.
    pub fn settled(&self, siblings: &[&str], from: usize) -> Option<Vec<String>> {
        let from = self.calls_from(from);
        if let Some(calls) = self.fingerprinted() {
            return Some(calls.settled(siblings, from));
        }
        let (numbers, names) = fingerprints_among(siblings);
        if names.is_empty() {
            return None;
        }
        let mut settled: Vec<String> = siblings.iter().map(|id| (*id).to_owned()).collect();
        let renamed = FingerprintedCalls { view: self }.settled(&names, from);
        numbers
            .into_iter()
            .zip(renamed)
            .for_each(|(n, name)| settled[n] = name);
        Some(settled)
    }

    /// Offset of the first call that counts. If the wire lists calls after all text, an offset within a
    /// message includes all of its calls.
    fn calls_from(&self, from: usize) -> usize {
        let turn = self.turn_at(from).filter(|_| self.wire().calls_are_last);
        turn.map_or(from, |turn| self.turns[turn].span.start)
    }

    /// For each call next to a pair of *another* conversation, whether this transcript certainly contains it.
    ///
    /// If so, that conversation continues here under another name. Ids from a server's counter prove nothing.
    pub fn prove(&self, siblings: &[&str]) -> Vec<bool> {
        match self.fingerprinted() {
            Some(calls) => calls.prove(siblings),
            None => {
                let is_random = |id: &&str| !id.starts_with(FINGERPRINT) && call_fingerprint::is_random(id);
                siblings.iter().map(is_random).collect()
            }
        }
    }

    /// For each sibling found among the names of this transcript's calls, whether it is exactly that call.
    /// Ids always are.
    pub fn are_here(&self, siblings: &[&str]) -> Vec<bool> {
        if let Some(calls) = self.fingerprinted() {
            return calls.find(siblings, 0).iter().map(Option::is_some).collect();
        }
        let (numbers, names) = fingerprints_among(siblings);
        let mut here = vec![true; siblings.len()];
        if !names.is_empty() {
            let calls = FingerprintedCalls { view: self }.find(&names, 0);
            numbers
                .into_iter()
                .zip(calls)
                .for_each(|(n, at)| here[n] = at.is_some());
        }
        here
    }
}

/// The fingerprints among siblings, each with its index there.
fn fingerprints_among<'a>(siblings: &[&'a str]) -> (Vec<usize>, Vec<&'a str>) {
    let all = siblings.iter().copied().enumerate();
    all.filter(|(_, sibling)| sibling.starts_with(FINGERPRINT))
        .unzip()
}
