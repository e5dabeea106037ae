//! The differences between APIs: one trait for each file of a wire's folder. Pure.

use std::ops::Range;

use bytes::Bytes;

use super::aside::{AsidePlace, SplitTurn};
use super::call_fingerprint;
use super::dialect::Dialect;
use super::error::Errors;
use super::fingerprints::{self, CallMemo, FingerprintSource};
use super::framing::Framing;
use super::leg::{Ending, HiddenCall, Leg, LegOutput, LegReport, ResponseWatch};
use super::local_answer::{AnswerShape, LocalAnswer};
use super::members::{TextRules, TranscriptMembers, other_choice};
use super::own_text;
use super::sibling_calls::{self, CallAt, SiblingPair};
use super::view::{
    Operation, OwnItem, Role, ToolList, ToolShape, TurnContent, TurnPart, TurnPartKind, UnreadReason, View,
};
use crate::mark::gap;
use crate::record::{HiddenPair, HiddenResult, WireId};
use crate::text::splice::Edit;
use crate::tools::{ToolNames, ToolTable};

/// One provider API.
pub trait Wire:
    Requests
    + Turns
    + Pairs
    + Streams
    + Replies
    + AskAgain
    + TextRequests
    + Compose
    + Errors
    + Send
    + Sync
    + 'static
{
    /// Which one it is.
    fn id(&self) -> WireId;

    /// The provider as OpenTelemetry's conventions spell it (`gen_ai.provider.name`).
    fn provider(&self) -> &'static str;
}

/// A request as a whole: read, and the edits of a rewrite that are not about one turn.
pub trait Requests: Turns {
    /// Indexes a request body.
    ///
    /// # Errors
    /// It is not JSON, not of this wire's shape, or repeats a key that a rewrite would touch.
    fn read(&self, body: &Bytes, operation: Operation) -> Result<View, UnreadReason>;

    /// The edit that adds our tools; `None` where there is no list to add them to.
    fn tools(&self, view: &View, ours: &ToolTable) -> Option<Edit> {
        let tools = view.tools?;
        Some(tools.with(ours, self.tool_shape(view, &tools)))
    }

    /// How a tool is declared in this list.
    fn tool_shape(&self, view: &View, tools: &ToolList) -> ToolShape;

    /// Edits that make a list of a transcript that is there as a lone string; none where it is a list.
    fn listed(&self, _view: &View) -> Vec<Edit> {
        Vec::new()
    }

    /// The repairs after a cut in turn `cut`; `None`: results right after it without their calls.
    fn repair(&self, _view: &View, _cut: usize) -> Option<Vec<Edit>> {
        None
    }

    /// Makes the request continue another earlier response (`Some`), or none.
    fn previous(&self, _view: &View, _id: Option<&str>) -> Vec<Edit> {
        Vec::new()
    }

    /// Further edits that every request with the tool needs (chat: usage in the stream).
    fn companions(&self, _view: &View) -> Vec<Edit> {
        Vec::new()
    }

    /// The carry-over message: preamble blocks as they were, the prompt as the last one.
    fn carry_over(&self, blocks: &[String], prompt: &str) -> String;

    /// A user message of plain text: what is left of a preamble that was in a string.
    fn user_text(&self, text: &str) -> String {
        self.carry_over(&[], text)
    }

    /// The edits that append a text of ours to a turn of the user's or a tool's. It becomes the last text of the user's
    /// message, or a message of its own. None for another's turn.
    fn put_text(&self, view: &View, turn: usize, text: &str) -> Vec<Edit> {
        let Some(whole) = view.turns.get(turn) else {
            return Vec::new();
        };
        let message = || own_text::message(whole, self.user_text(text));
        match whole.role {
            Role::User => self
                .text_inside(&self.content(view, turn), text)
                .unwrap_or_else(message),
            Role::Tool => message(),
            _ => Vec::new(),
        }
    }

    /// The edits that make a text of ours the last one of a message of the user's; `None`: it becomes a message.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>>;

    /// A sentinel or aside as this wire streams it.
    fn sentinel_text(&self, mark: &str) -> String {
        gap::spaced(mark)
    }

    /// Whether a text block of only whitespace is refused, and so dropped.
    fn drops_blank_text(&self) -> bool {
        true
    }

    /// The placeholder for the content of a message with calls and without text.
    fn absent_content(&self) -> Option<&'static str> {
        None
    }

    /// Members around the transcript by which a provider holds the agent's own history: without a cut or our tool.
    fn holding_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Members around the transcript that describe the agent's history, which a later leg does not have.
    fn first_leg_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a later request may continue a response by its id alone.
    fn goes_on_by_id(&self) -> bool {
        false
    }
}

/// The turns of a transcript.
pub trait Turns {
    /// What a turn is made of.
    fn content(&self, view: &View, turn: usize) -> TurnContent;

    /// Whether a turn is the model's own, or represents one that is.
    fn is_models(&self, view: &View, turn: usize) -> bool {
        view.turns[turn].role == Role::Assistant
    }

    /// Whether a turn of the system's is read only until the user's next message.
    fn ends_at_next_user(&self, _view: &View, _turn: usize) -> bool {
        false
    }

    /// The changes of which tools exist that a provider's summary replaces, as an element.
    fn compacted_changes(&self, _view: &View, _part: &TurnPart) -> Option<String> {
        None
    }

    /// The turns that are one message of the model's together with this one.
    fn message(&self, _view: &View, turn: usize) -> Range<usize> {
        turn..turn + 1
    }

    /// Whether the transcript holds anything bound to its prefix (signed thinking, encrypted reasoning).
    fn bound(&self, view: &View) -> bool;

    /// The edits that remove a part's or its turn's binding to a prefix that has changed. Reasoning itself goes as a
    /// whole.
    fn unbind(&self, _view: &View, _turn: usize, _part: &TurnPart) -> Vec<Edit> {
        Vec::new()
    }

    /// The edits at a part of the model's that is sent back although upstream has refused the thinking in front of it.
    /// Thinking itself goes as a whole.
    fn omit(&self, view: &View, turn: usize, part: &TurnPart) -> Vec<Edit> {
        self.unbind(view, turn, part)
    }

    /// A part of the model's with this text; `None` where the wire has no parts.
    fn own_part(&self, _text: &str) -> Option<String> {
        None
    }

    /// A hidden call without what binds it to its prefix; `None`: it has nothing of the kind.
    fn unbound_call(&self, _call: &str) -> Option<String> {
        None
    }

    /// Replaces a reference to an item of ours, where the model had written nothing, by the whole item.
    fn filler(&self, _view: &View, _item: &OwnItem) -> Option<String> {
        None
    }

    /// Items of ours that are identified by their id.
    fn own_items(&self, _view: &View) -> Vec<OwnItem> {
        Vec::new()
    }
}

/// Hidden pairs: how their siblings are named and found, and how they are restored.
pub trait Pairs: Turns {
    /// How the transcript is read for fingerprints, where calls may be without ids and go by those.
    fn fingerprinted(&self) -> Option<&dyn FingerprintSource> {
        None
    }

    /// What hidden pairs name the calls of this turn by: the calls' ids, where the wire has nothing better. `memo` is
    /// of the same view, and caches the walk over many turns.
    fn call_names(&self, view: &View, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        if let Some(source) = self.fingerprinted() {
            return fingerprints::call_names(source, view, turn, memo);
        }
        let calls = self
            .content(view, turn)
            .parts
            .into_iter()
            .filter(|p| p.kind == TurnPartKind::Call);
        calls.filter_map(|p| Some(view.str(p.id?).into_owned())).collect()
    }

    /// The positions of the calls that hidden pairs name as their siblings, at or after offset `from`.
    fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        match self.fingerprinted() {
            Some(source) => fingerprints::find_calls(source, view, siblings, from),
            None => sibling_calls::find_by_ids(|turn| self.content(view, turn), view, siblings, from),
        }
    }

    /// The siblings by names that survive edits before the calls, where their own do not.
    fn settled(&self, view: &View, siblings: &[&str], from: usize) -> Option<Vec<String>> {
        let source = self.fingerprinted()?;
        Some(fingerprints::settled(source, view, siblings, from))
    }

    /// For each call that a pair of *another* conversation is next to, whether it is surely in this transcript, too:
    /// the conversation continues here under another name. An id that a server counts up proves nothing.
    fn prove(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        if let Some(source) = self.fingerprinted() {
            return fingerprints::prove(source, view, siblings);
        }
        siblings
            .iter()
            .map(|sibling| call_fingerprint::is_random(sibling))
            .collect()
    }

    /// For each sibling by which a pair was looked up among this transcript's names of calls, whether it is that very
    /// call: an id is.
    fn are_here(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        let Some(source) = self.fingerprinted() else {
            return vec![true; siblings.len()];
        };
        let found = fingerprints::find_calls(source, view, siblings, 0);
        found.iter().map(Option::is_some).collect()
    }

    /// Final edits of a request with the tool, after `edits`: repairs without which a lost hidden pair would be
    /// refused. Turns before `from` are not sent.
    fn repairs(&self, _view: &View, _from: usize, _edits: &[Edit]) -> Vec<Edit> {
        Vec::new()
    }

    /// The call as restored in the upstream view: a block, an element, an item or a part.
    fn hidden_call(&self, call: &HiddenCall) -> String;

    /// The result of a hidden call without its call: upstream holds the call itself (Responses).
    fn lone_result(&self, _call_id: &str, _answer: &HiddenResult) -> Option<String> {
        None
    }

    /// The edits that put each of these pairs back next to its sibling; none for one that has no place there.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<Edit>>;

    /// The edits that put back pairs whose siblings have only results in the transcript, at or after offset `from`, each with
    /// the result's turn. Upstream stores the calls, or the agent refers to them by item id.
    fn put_by_results(
        &self,
        _view: &View,
        pairs: &[&HiddenPair],
        _from: usize,
    ) -> Vec<Option<(usize, Vec<Edit>)>> {
        vec![None; pairs.len()]
    }

    /// Puts a hidden pair back at its aside.
    fn put_aside(&self, aside: &AsidePlace<'_>, pair: &HiddenPair) -> Vec<Edit> {
        let split = aside.split();
        split.map_or(Vec::new(), |split| self.put_between(&split, pair))
    }

    /// Puts a hidden pair between the two halves of a turn, in place of the aside's text.
    fn put_between(&self, _split: &SplitTurn<'_>, _pair: &HiddenPair) -> Vec<Edit> {
        Vec::new()
    }
}

pub trait Streams {
    /// How streams are framed where the request does not say.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// The machine that reads this wire's streams.
    fn dialect(&self, view: &View, watch: ResponseWatch) -> Box<dyn Dialect>;
}

/// Replies in one piece.
pub trait Replies {
    /// Reads a reply that came in one piece.
    fn reply(&self, body: &Bytes, watch: ResponseWatch) -> Option<LegReport>;

    /// Reads the reply to the request `view`: calls are named by where the transcript will have them.
    fn reply_to(&self, _view: &View, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        self.reply(body, watch)
    }

    /// Joins the replies of an exchange's legs into the one the agent gets. `opening` is a sentinel shown in
    /// front of them all: the first leg is a later one.
    fn join(&self, legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes;

    /// A reply whose echo of the request is the agent's own.
    fn shaped_for(&self, _view: &View, reply: Bytes) -> Bytes {
        reply
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

/// Requests that ask the model for a text, and for no call.
pub trait TextRequests: Requests {
    /// The members that these edits change.
    fn rules(&self) -> &'static TextRules;

    /// The edits by which the model answers in text. Transcript, system prompt, tools, thinking and sampling stay.
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let rules = self.rules();
        let members = TranscriptMembers::of(view, rules.named);
        let bound = (rules.bound)(&members, how.max_tokens, how.forbids_calls);
        let choice =
            other_choice(view, how.forbids_calls).and_then(|choice| (rules.choice)(&members, choice));
        bound.into_iter().chain(choice).collect()
    }

    /// The edits that leave of a request its settings: one message in place of the transcript, and no tools.
    fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let rules = self.rules();
        let members = TranscriptMembers::of(view, rules.named);
        let mut edits = vec![members.only_turn(&self.user_text(lone.text))];
        edits.extend((rules.bound)(&members, lone.max_tokens, rules.bounds_lone));
        edits.extend(members.without_tools(rules.with_tools, rules.of_model, lone.model));
        edits
    }

    /// The edits by which the request goes to another model: its name where the body has one, and settings that are bound to a model
    /// go.
    fn for_model(&self, view: &View, model: &str) -> Vec<Edit> {
        let rules = self.rules();
        TranscriptMembers::of(view, rules.named).without_tools(&[], rules.of_model, Some(model))
    }
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
