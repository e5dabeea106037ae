//! All wires, and what a request can be asked once its wire is known.

use super::api::Wire;
use super::facts::{ItemRules, TurnRules};
use super::fingerprints::{CallMemo, FingerprintedCalls};
use super::sibling_calls::{self, CallAt, calls_in};
use super::view::{Role, TurnChange, TurnContent, View};
use super::{anthropic, call_fingerprint, gemini, ollama, openai_chat, openai_responses};
use crate::record::WireId;
use crate::text::splice::Edit;
use crate::tools::ToolTable;
use bytes::Bytes;

pub fn wire(id: WireId) -> &'static dyn Wire {
    match id {
        WireId::Anthropic => &anthropic::Anthropic,
        WireId::OpenaiChat => &openai_chat::OpenaiChat,
        WireId::OpenaiResponses => &openai_responses::OpenaiResponses,
        WireId::Gemini => &gemini::Gemini,
        WireId::Ollama => &ollama::Ollama,
    }
}

pub const WIRES: &[&dyn Wire] = &[
    &anthropic::Anthropic,
    &openai_chat::OpenaiChat,
    &openai_responses::OpenaiResponses,
    &gemini::Gemini,
    &ollama::Ollama,
];

/// What follows for every request from what its wire is.
impl View {
    /// The request's API, which knows what the spans mean.
    pub fn wire(&self) -> &'static dyn Wire {
        wire(self.wire)
    }

    /// What only some wires know of turns.
    pub fn turn_rules(&self) -> &'static TurnRules {
        &self.wire().facts().turns
    }

    /// The rules of a transcript of items; `None` where the wire has messages.
    pub fn item_rules(&self) -> Option<ItemRules> {
        self.wire().facts().items
    }

    /// What a turn is made of.
    pub fn content(&self, turn: usize) -> TurnContent {
        let whole = self.turns.get(turn).copied();
        let content = |whole| self.wire().content(self, whole, self.text_of(turn));
        whole.map(content).unwrap_or_default()
    }

    /// A reply whose echo of the request is the agent's own.
    pub fn shaped_for(&self, reply: Bytes) -> Bytes {
        match self.item_rules() {
            Some(items) => (items.shaped_for)(self, reply),
            None => reply,
        }
    }

    /// Whether a turn is the model's own, or represents one that is.
    pub fn is_models(&self, turn: usize) -> bool {
        let refers = |items: ItemRules| (items.refers)(self, turn);
        self.turns[turn].role == Role::Assistant || self.item_rules().is_some_and(refers)
    }

    /// The edit that adds our tools; `None` where there is no list to add them to.
    pub fn add_tools(&self, ours: &ToolTable) -> Option<Edit> {
        let tools = self.tools?;
        Some(tools.with(ours, (self.wire().facts().tool_shape)(self, &tools)))
    }

    /// The changes that append a text of ours to a turn of the user's or a tool's. It becomes the last text of the user's
    /// message, or a message of its own. None for another's turn.
    pub fn put_text(&self, turn: usize, text: &str) -> Vec<TurnChange> {
        let inside = match self.turns[turn].role {
            Role::User => self.wire().text_inside(&self.content(turn), text),
            Role::Tool => None,
            _ => return Vec::new(),
        };
        match inside {
            Some(edits) => TurnChange::within(turn, edits),
            None => vec![TurnChange::After(turn, self.wire().user_text(text))],
        }
    }

    /// The transcript by the fingerprints of its calls, where those may be without ids.
    fn fingerprinted(&self) -> Option<FingerprintedCalls<'_>> {
        (!self.wire().facts().has_call_ids).then_some(FingerprintedCalls { view: self })
    }

    /// The positions of the calls that hidden pairs name as their siblings, at or after offset `from`.
    pub fn find_calls(&self, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        let from = self.calls_from(from);
        if let Some(calls) = self.fingerprinted() {
            return calls.find(siblings, from);
        }
        let mut found = sibling_calls::find_by_ids(self, siblings, from);
        if let Some(items) = self.item_rules() {
            let items = (items.find)(self, siblings, from);
            found
                .iter_mut()
                .zip(items)
                .for_each(|(at, item)| *at = at.or(item));
        }
        found
    }

    /// What hidden pairs name the calls of this turn by: the calls' ids, where the wire has nothing better. `memo` is
    /// of the same view, and caches the walk over many turns.
    pub fn call_names(&self, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        if let Some(calls) = self.fingerprinted() {
            return calls.names(turn, memo);
        }
        let calls = calls_in(self, turn);
        let ids = calls.filter_map(|(_, call)| Some(self.str_in(turn, call.id?).into_owned()));
        let items = self.item_rules();
        ids.chain(items.and_then(|items| (items.bound)(self, turn)))
            .collect()
    }

    /// The siblings by names that survive edits before the calls, where their own do not.
    pub fn settled(&self, siblings: &[&str], from: usize) -> Option<Vec<String>> {
        let calls = self.fingerprinted()?;
        Some(calls.settled(siblings, self.calls_from(from)))
    }

    /// Where the calls begin that count from here on: from within a message's text on, all of its calls do.
    fn calls_from(&self, from: usize) -> usize {
        let turn = self.turn_at(from).filter(|_| self.wire().facts().calls_are_last);
        turn.map_or(from, |turn| self.turns[turn].span.start)
    }

    /// For each call that a pair of *another* conversation is next to, whether it is surely in this transcript, too:
    /// the conversation continues here under another name. An id that a server counts up proves nothing.
    pub fn prove(&self, siblings: &[&str]) -> Vec<bool> {
        match self.fingerprinted() {
            Some(calls) => calls.prove(siblings),
            None => siblings
                .iter()
                .map(|id| call_fingerprint::is_random(id))
                .collect(),
        }
    }

    /// For each sibling by which a pair was looked up among this transcript's names of calls, whether it is that very
    /// call: an id is.
    pub fn are_here(&self, siblings: &[&str]) -> Vec<bool> {
        match self.fingerprinted() {
            Some(calls) => calls.find(siblings, 0).iter().map(Option::is_some).collect(),
            None => vec![true; siblings.len()],
        }
    }
}
