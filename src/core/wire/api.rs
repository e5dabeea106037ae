//! The differences between APIs: one trait for each file of a wire's folder. Pure.

use super::aside::{MadeTurn, SplitTurn};
use super::call_fingerprint;
use super::error::OwnError;
use super::facts::{ItemRules, WireFacts};
use super::fingerprints::{CallMemo, FingerprintedCalls};
use super::framing::Framing;
use super::leg::{HiddenCall, LegOutput};
use super::members::TranscriptMembers;
use super::sibling_calls::{self, CallAt, SiblingPair, calls_in};
use super::view::{Operation, Role, TurnChange, TurnContent, Turns, UnreadReason, View};
use crate::limits::BYTES_PER_TOKEN;
use crate::mark::gap;
use crate::record::{HiddenPair, WireId};
use crate::text::splice::Edit;
use crate::tools::{ToolNames, ToolTable};
use bytes::Bytes;
use uuid::Uuid;

/// One provider API.
pub trait Wire: Requests + Turns + Pairs + AskAgain + Compose + Send + Sync + 'static {
    /// What of it is a value.
    fn facts(&self) -> &'static WireFacts;
}

/// A request as a whole: read, and the edits of a rewrite that are not about one turn.
pub trait Requests: Turns {
    /// Indexes a request body.
    ///
    /// # Errors
    /// It is not JSON, not of this wire's shape, or repeats a key that a rewrite would touch.
    fn read(&self, body: &Bytes, operation: Operation) -> Result<View, UnreadReason>;

    /// The carry-over message: preamble blocks as they were, the prompt as the last one.
    fn carry_over(&self, blocks: &[String], prompt: &str) -> String;

    /// The edits that make a text of ours the last one of a message of the user's; `None`: it becomes a message.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>>;
}

/// Hidden pairs: how their siblings are named and found, and how they are restored.
pub trait Pairs: Turns {
    /// Final changes of a request with the tool, after `changes`: repairs without which a lost hidden pair would be
    /// refused.
    fn repairs(&self, _view: &View, _changes: &[TurnChange]) -> Vec<TurnChange> {
        Vec::new()
    }

    /// The call as restored in the upstream view: a block, an element, an item or a part.
    fn hidden_call(&self, call: &HiddenCall) -> String;

    /// The changes that put each of these pairs back next to its sibling; none for one that has no place there.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<TurnChange>>;

    /// The turns that take the place of one with an aside: the two halves around the aside's line, and the hidden pair
    /// between them.
    fn put_between(&self, split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<MadeTurn>;

    /// What changes in the turns in front of an aside where a hidden pair was put back.
    fn mend_before_aside(&self, _view: &View, _turn: usize) -> Vec<TurnChange> {
        Vec::new()
    }
}

/// Asks the model again after a refused call.
pub trait AskAgain {
    /// The elements to append to the transcript: the model's own message as it streamed it, then the results. `pairs` are of its first calls of ours, in order;
    /// further ones are left out. `ours`: the names of our tools.
    fn ask_again(&self, spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Option<String>;
}

/// How a request that continues asks only for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOnly {
    /// No tool may be called, and a bound of the output is added where there is none. A server that refuses this is
    /// asked again without both.
    pub forbids_calls: bool,
    /// Most tokens of output; the request's own bound holds where it is smaller.
    pub max_tokens: u64,
}

/// A request of one message, with what else the agent's request sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoneText<'a> {
    /// The message.
    pub text: &'a str,
    /// Another model than the request's: settings that are bound to a model go.
    pub model: Option<&'a str>,
    /// Most tokens of output; the request's own bound holds where it is smaller.
    pub max_tokens: u64,
}

/// Answers of our own.
pub trait Compose {
    /// A whole answer of our own, in this wire's success shape: nothing goes upstream.
    fn compose(&self, view: &View, answer: &LocalAnswer<'_>, shape: AnswerShape) -> Bytes;

    /// What a stream of our own begins with, in front of its first text; a dialect takes the answer's identity from it.
    fn stream_opening(&self, view: &View, answer: &LocalAnswer<'_>, framing: Framing) -> StreamOpening;
}

/// The beginning of a stream of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOpening {
    /// Frames as upstream would send them.
    pub frames: Bytes,
    /// Whether the agent gets them: some wires have no empty frame.
    pub is_shown: bool,
}

/// What follows for every wire from what it is.
impl dyn Wire + '_ {
    /// Which one it is.
    pub fn id(&self) -> WireId {
        self.facts().id
    }

    /// A reply whose echo of the request is the agent's own.
    pub fn shaped_for(&self, view: &View, reply: Bytes) -> Bytes {
        match self.facts().items {
            Some(items) => (items.shaped_for)(view, reply),
            None => reply,
        }
    }

    /// Whether a turn is the model's own, or represents one that is.
    pub fn is_models(&self, view: &View, turn: usize) -> bool {
        let refers = |items: ItemRules| (items.refers)(view, turn);
        view.turns[turn].role == Role::Assistant || self.facts().items.is_some_and(refers)
    }

    /// The edit that adds our tools; `None` where there is no list to add them to.
    pub fn tools(&self, view: &View, ours: &ToolTable) -> Option<Edit> {
        let tools = view.tools?;
        Some(tools.with(ours, (self.facts().tool_shape)(view, &tools)))
    }

    /// A user message of plain text: what is left of a preamble that was in a string.
    pub fn user_text(&self, text: &str) -> String {
        self.carry_over(&[], text)
    }

    /// The changes that append a text of ours to a turn of the user's or a tool's. It becomes the last text of the user's
    /// message, or a message of its own. None for another's turn.
    pub fn put_text(&self, view: &View, turn: usize, text: &str) -> Vec<TurnChange> {
        let inside = match view.turns[turn].role {
            Role::User => self.text_inside(&self.content(view, turn), text),
            Role::Tool => None,
            _ => return Vec::new(),
        };
        match inside {
            Some(edits) => TurnChange::within(turn, edits),
            None => vec![TurnChange::After(turn, self.user_text(text))],
        }
    }

    /// A sentinel or aside as this wire streams it.
    pub fn sentinel_text(&self, mark: &str) -> String {
        gap::spaced(mark)
    }

    /// The transcript by the fingerprints of its calls, where those may be without ids.
    fn fingerprinted<'a>(&'a self, view: &'a View) -> Option<FingerprintedCalls<'a>> {
        (!self.facts().has_call_ids).then_some(FingerprintedCalls { turns: self, view })
    }

    /// The positions of the calls that hidden pairs name as their siblings, at or after offset `from`.
    pub fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        let facts = self.facts();
        let from = self.calls_from(view, from);
        if let Some(calls) = self.fingerprinted(view) {
            return calls.find(siblings, from);
        }
        let mut found = sibling_calls::find_by_ids(self, view, siblings, from);
        if let Some(items) = facts.items {
            let items = (items.find)(view, siblings, from);
            found
                .iter_mut()
                .zip(items)
                .for_each(|(at, item)| *at = at.or(item));
        }
        found
    }

    /// What hidden pairs name the calls of this turn by: the calls' ids, where the wire has nothing better. `memo` is
    /// of the same view, and caches the walk over many turns.
    pub fn call_names(&self, view: &View, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        if let Some(calls) = self.fingerprinted(view) {
            return calls.names(turn, memo);
        }
        let calls = calls_in(self, view, turn);
        let ids = calls.filter_map(|(_, call)| Some(view.str_in(turn, call.id?).into_owned()));
        let items = self.facts().items.as_ref();
        ids.chain(items.and_then(|items| (items.bound)(view, turn)))
            .collect()
    }

    /// The siblings by names that survive edits before the calls, where their own do not.
    pub fn settled(&self, view: &View, siblings: &[&str], from: usize) -> Option<Vec<String>> {
        let calls = self.fingerprinted(view)?;
        Some(calls.settled(siblings, self.calls_from(view, from)))
    }

    /// Where the calls begin that count from here on: from within a message's text on, all of its calls do.
    fn calls_from(&self, view: &View, from: usize) -> usize {
        let turn = view.turn_at(from).filter(|_| self.facts().calls_are_last);
        turn.map_or(from, |turn| view.turns[turn].span.start)
    }

    /// For each call that a pair of *another* conversation is next to, whether it is surely in this transcript, too:
    /// the conversation continues here under another name. An id that a server counts up proves nothing.
    pub fn prove(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        match self.fingerprinted(view) {
            Some(calls) => calls.prove(siblings),
            None => siblings
                .iter()
                .map(|id| call_fingerprint::is_random(id))
                .collect(),
        }
    }

    /// For each sibling by which a pair was looked up among this transcript's names of calls, whether it is that very
    /// call: an id is.
    pub fn are_here(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        match self.fingerprinted(view) {
            Some(calls) => calls.find(siblings, 0).iter().map(Option::is_some).collect(),
            None => vec![true; siblings.len()],
        }
    }

    /// The body of an error of our own, as JSON in the provider's error shape.
    pub fn error_body(&self, error: OwnError<'_>) -> String {
        (self.facts().error_body)(error)
    }

    /// The event of an error that ends a stream; `begun`: something is in front of it.
    pub fn stream_error(&self, framing: Framing, error: &str, begun: bool) -> String {
        match framing {
            Framing::Sse => (self.facts().error_event)(error),
            Framing::Lines => format!("{error}\n"),
            Framing::JsonArray if begun => format!("\n,\n{error}\n]\n"),
            Framing::JsonArray => format!("[{error}]"),
        }
    }

    /// The edits by which the model answers in text. Transcript, system prompt, tools, thinking and sampling stay.
    pub fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, &self.facts().text);
        let bound = members.bound(how.max_tokens, how.forbids_calls);
        bound
            .into_iter()
            .chain(members.choose(how.forbids_calls))
            .collect()
    }

    /// The edits that leave of a request its settings: one message in place of the transcript, and no tools.
    pub fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let rules = &self.facts().text;
        let members = TranscriptMembers::of(view, rules);
        let mut edits = vec![members.only_turn(&self.user_text(lone.text))];
        edits.extend(members.bound(lone.max_tokens, rules.bounds_lone));
        edits.extend(members.without(rules.with_tools));
        edits.extend(
            lone.model
                .into_iter()
                .flat_map(|model| self.for_model(view, model)),
        );
        edits
    }

    /// The edits by which the request goes to another model: its name where the body has one, and settings that are bound to a model
    /// go.
    pub fn for_model(&self, view: &View, model: &str) -> Vec<Edit> {
        let rules = &self.facts().text;
        match rules.for_model {
            Some(edits) => edits(view, model),
            None => TranscriptMembers::of(view, rules).for_model(model),
        }
    }
}

/// What an answer of our own says.
#[derive(Debug, Clone, Copy)]
pub struct LocalAnswer<'a> {
    /// A UUIDv7: the answer's ids and its time are made of it.
    pub id: Uuid,
    /// The model as the request named it.
    pub model: &'a str,
    /// The answer, as the assistant's text.
    pub text: &'a str,
    /// The handoff whose sentinel is in it.
    pub handoff: Option<Uuid>,
    /// Bytes of the request, for its size in tokens.
    pub request_bytes: usize,
}

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerShape {
    /// In one piece.
    Whole,
    Stream(Framing),
}

impl LocalAnswer<'_> {
    /// Seconds since the Unix epoch.
    pub(super) fn seconds(&self) -> u64 {
        u64::try_from(self.id.as_u128() >> 80).unwrap_or_default() / 1000
    }

    /// Estimated tokens of the request.
    pub(super) fn input(&self) -> u64 {
        (self.request_bytes as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// Estimated tokens of the answer.
    pub(super) fn output(&self) -> u64 {
        (self.text.len() as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// The answer's id after a wire's prefix.
    pub(super) fn id(&self, prefix: &str) -> String {
        format!("{prefix}baton_{}", self.id.simple())
    }
}
