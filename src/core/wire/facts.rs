//! A wire: its constants, rules and functions. One row per wire, in its `mod.rs`.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;

use super::aside::{SplitTurn, SyntheticTurn};
use super::error::{BEARER, KeyHeader, ProxyError};
use super::framing::Framing;
use super::leg::{HiddenCall, LegOutput};
use super::leg_state::Dialect;
use super::members::TextRules;
use super::openai;
use super::sibling_calls::{CallAt, SiblingPair};
use super::synthetic::{AnswerShape, StreamOpening, SyntheticResponse};
use super::view::{
    InjectedItem, LocatedBody, Operation, ToolList, ToolShape, Turn, TurnChange, TurnContent, TurnPart,
    UnreadReason, View,
};
use crate::marker::gap;
use crate::record::{HiddenPair, HiddenResult, WireId};
use crate::text::splice::Edit;
use crate::tools::ToolNames;

/// Alternatives of words. An error body matches if it contains all words of one alternative.
pub(super) type Wordings = &'static [&'static [&'static str]];

/// A provider API. Each row names only the fields that differ from `new`.
pub struct Wire {
    pub(super) id: WireId,
    /// Provider in the spelling of OpenTelemetry's conventions (`gen_ai.provider.name`).
    pub provider: &'static str,
    /// Framing of streams unless the request asks for another one.
    pub framing: Framing,
    /// Header that the provider expects the key in.
    pub(super) header: KeyHeader,
    /// Environment variables that usually hold a key of the provider, the most common one first.
    pub key_variables: &'static [&'static str],
    /// Error bodies (status 400) which report that returned blocks do not follow their original prefix. Empty
    /// if the provider does not check that.
    pub(super) prefix_mismatches: Wordings,
    /// Error bodies (status 400) that refuse thinking which the request may omit.
    pub(super) thinking_refusals: Wordings,
    /// Whether upstream rejects text blocks of only whitespace, so that a rewrite drops them.
    pub drops_blank_text: bool,
    /// Placeholder for the content of a message that has calls and no text.
    pub absent_content: Option<&'static str>,
    /// Whether calls always have ids. Otherwise calls are identified by fingerprints.
    pub(super) has_call_ids: bool,
    /// Whether a message lists its calls after all of its text, even if an agent writes that member first.
    pub(super) calls_are_last: bool,
    /// Members around the transcript that make the provider store the agent's own history, without a cut or
    /// baton's tool.
    pub holding_members: &'static [&'static str],
    /// Members around the transcript that describe the agent's history. A later leg does not have that
    /// history.
    pub first_leg_members: &'static [&'static str],
    /// Additional edits for every request with the tool.
    pub companions: fn(&View) -> Vec<Edit>,
    /// Rules for turns that only some wires need.
    pub turns: TurnRules,
    /// Rules for transcripts of items with ids, and for responses that a request continues by id. `None` if
    /// transcripts consist of messages.
    pub items: Option<ItemRules>,
    /// Serializes an error from baton in the provider's error shape.
    pub(super) error_body: fn(ProxyError<'_>) -> String,
    /// Formats the server-sent event for an error body, which has one line.
    pub(super) error_event: fn(&str) -> String,
    /// Declaration of a tool in this list.
    pub(super) tool_shape: fn(&View, &ToolList) -> ToolShape,
    /// Edits of a request that asks only for text.
    pub(super) text: TextRules,
    /// Functions that each wire has.
    pub functions: WireFunctions,
}

/// Functions of a wire. They are pure.
#[derive(Clone, Copy)]
pub struct WireFunctions {
    /// Parses a request body into spans. Called by [`Wire::read`].
    pub(super) read: fn(&Bytes, Operation) -> Result<View, UnreadReason>,
    /// Creates the wire's decoder for the response to a request.
    pub(super) dialect: fn(&View) -> Box<dyn Dialect>,
    /// Builds the carry-over message: the preamble blocks unchanged, then the prompt.
    pub carry_over: fn(&[String], &str) -> String,
    /// Returns the edits that append one of baton's messages to a user message. `None` means that it has to
    /// become a message of its own.
    pub(super) text_inside: fn(&TurnContent, &str) -> Option<Vec<Edit>>,
    /// Parses a turn. Called only by `View::content`; the bytes are the buffer that the turn's spans refer to.
    pub(super) content: fn(&View, Turn, &[u8]) -> TurnContent,
    /// Whether the transcript contains anything bound to its prefix, such as signed thinking or encrypted
    /// reasoning.
    pub bound: fn(&View) -> bool,
    /// Serializes the call for the upstream request: as a block, an element, an item or a part.
    pub hidden_call: fn(&HiddenCall) -> String,
    /// For each pair, returns the changes that put it back next to its sibling. Empty if the pair has no
    /// position there.
    pub put_beside: fn(&View, &[SiblingPair<'_>]) -> Vec<Vec<TurnChange>>,
    /// Returns the turns that replace a turn with an aside: both halves, with the hidden pair between them.
    pub put_between: fn(&SplitTurn<'_>, &HiddenPair) -> Vec<SyntheticTurn>,
    /// Returns the elements to append to the transcript after baton has answered the model's call: the model's
    /// message as it was streamed, then the results.
    ///
    /// The pairs belong to the first of baton's calls, in order; further calls are omitted. The last argument lists
    /// the names of baton's tools.
    pub ask_again: fn(&LegOutput, &[HiddenPair], ToolNames) -> Option<String>,
    /// Creates a complete response in this wire's success shape. Nothing is sent upstream.
    pub compose: fn(&View, &SyntheticResponse<'_>, AnswerShape) -> Bytes,
    /// Creates the frames before the first text of a synthetic stream. The wire's decoder takes the identity
    /// of the response from them.
    pub stream_opening: fn(&View, &SyntheticResponse<'_>, Framing) -> StreamOpening,
}

impl Wire {
    /// Defaults that most wires share.
    pub(super) const fn new(id: WireId, provider: &'static str, functions: WireFunctions) -> Self {
        Self {
            id,
            provider,
            framing: Framing::Sse,
            header: BEARER,
            key_variables: &["OPENAI_API_KEY"],
            prefix_mismatches: &[],
            thinking_refusals: &[],
            drops_blank_text: true,
            absent_content: None,
            has_call_ids: true,
            calls_are_last: false,
            holding_members: &[],
            first_leg_members: &[],
            companions: |_| Vec::new(),
            turns: TurnRules::NONE,
            items: None,
            error_body: openai::error_body,
            error_event: |body| format!("data: {body}\n\n"),
            tool_shape: |_, _| openai::TOOL,
            text: TextRules::DEFAULT,
            functions,
        }
    }

    /// Identifies the wire.
    pub fn id(&self) -> WireId {
        self.id
    }

    /// Parses a request body into spans.
    ///
    /// # Errors
    /// The body is not JSON, does not have this wire's shape, or repeats a key that a rewrite would touch.
    pub fn read(&self, body: &Bytes, operation: Operation) -> Result<View, UnreadReason> {
        (self.functions.read)(body, operation)
    }

    /// Locates the turns in a body. An unreadable body has none.
    pub fn located(&self, body: &Bytes, operation: Operation) -> LocatedBody {
        match self.read(body, operation) {
            Ok(view) => (&view).into(),
            Err(_) => LocatedBody {
                text: body.clone(),
                ..LocatedBody::default()
            },
        }
    }

    /// Creates a plain user message, for example from the rest of a preamble that was part of a string.
    pub fn user_text(&self, text: &str) -> String {
        (self.functions.carry_over)(&[], text)
    }

    /// Adds the line breaks that this wire streams around a sentinel or an aside.
    pub fn sentinel_text(&self, mark: &str) -> String {
        gap::spaced(mark)
    }

    /// Serializes an error from baton in the provider's error shape.
    pub fn error_body(&self, error: ProxyError<'_>) -> String {
        (self.error_body)(error)
    }

    /// Creates the error event that ends a stream. `begun` tells whether anything was sent before it.
    pub fn stream_error(&self, framing: Framing, error: &str, begun: bool) -> String {
        match framing {
            Framing::Sse => (self.error_event)(error),
            Framing::Lines => format!("{error}\n"),
            // An array that has begun is closed after its next element; otherwise the error is the whole
            // array.
            Framing::JsonArray if begun => format!("\n,\n{error}\n]\n"),
            Framing::JsonArray => format!("[{error}]"),
        }
    }

    /// Returns the header that carries `key` in a request to `target`.
    ///
    /// Usually the provider's own. Clouds that sell several providers' models differ:
    /// * Azure's older paths know only `api-key`.
    /// * Vertex takes Google's OAuth tokens, whoever made the model.
    ///
    /// OAuth tokens of Anthropic and Google are always bearer tokens.
    pub fn key_header(&self, target: &str, key: &str) -> KeyHeader {
        // OAuth tokens of Anthropic and Google begin like this.
        let token = key.starts_with("sk-ant-oat") || key.starts_with("ya29.");
        // Azure accepts a key here only in `api-key`; a bearer token would have to come from Entra ID.
        if target.contains("/openai/deployments/") {
            KeyHeader::plain("api-key")
        } else if token || target.contains("/publishers/anthropic/") {
            BEARER
        } else {
            self.header
        }
    }

    /// Whether upstream checks that returned blocks follow their original prefix.
    pub fn binds_prefixes(&self) -> bool {
        !self.prefix_mismatches.is_empty()
    }

    /// Whether an error body (status 400) reports a failure of that check.
    pub fn is_prefix_mismatch(&self, body: &[u8]) -> bool {
        says(body, self.prefix_mismatches)
    }

    /// Whether upstream may refuse returned thinking.
    pub fn may_refuse_thinking(&self) -> bool {
        !self.thinking_refusals.is_empty()
    }

    /// Whether an error body (status 400) refuses thinking that the request may omit.
    pub fn refuses_thinking(&self, body: &[u8]) -> bool {
        says(body, self.thinking_refusals)
    }
}

/// Rules for turns that only one or two wires need.
#[derive(Clone, Copy)]
pub struct TurnRules {
    /// Whether a system turn counts only until the next user message.
    pub ends_at_next_user: fn(&View, usize) -> bool,
    /// Returns the tool changes that a provider's summary replaces, as an element.
    pub compacted_changes: fn(&View, &TurnPart) -> Option<String>,
    /// Range of turns that form one model message with this turn.
    pub message: fn(&View, usize) -> Range<usize>,
    /// Returns the edits that remove a binding to a changed prefix from a part or its turn. Reasoning parts
    /// are removed as a whole elsewhere.
    pub unbind: fn(&View, usize, &TurnPart) -> Vec<Edit>,
    /// Returns the edits for a model part that is sent back although upstream refused the thinking before it.
    /// Thinking parts are removed as a whole elsewhere.
    pub omit: fn(&View, usize, &TurnPart) -> Vec<Edit>,
    /// Creates a model part from text, or `None` if the wire has no parts.
    pub own_part: fn(&str) -> Option<String>,
    /// Removes from a hidden call whatever binds it to its prefix, or returns `None` if nothing does.
    pub unbound_call: fn(&str) -> Option<String>,
    /// Returns further changes after all others in a request with the tool. Without these repairs upstream
    /// would reject the request because of a lost hidden pair.
    pub repairs: fn(&View, &[TurnChange]) -> Vec<TurnChange>,
    /// Returns the changes of the turns before an aside whose hidden pair was restored.
    pub mend_before_aside: fn(&View, usize) -> Vec<TurnChange>,
}

impl TurnRules {
    /// Rules of a wire that needs none of them.
    pub(super) const NONE: Self = Self {
        ends_at_next_user: |_, _| false,
        compacted_changes: |_, _| None,
        message: |_, turn| turn..turn + 1,
        unbind: |_, _, _| Vec::new(),
        omit: |_, _, _| Vec::new(),
        own_part: |_| None,
        unbound_call: |_| None,
        repairs: |_, _| Vec::new(),
        mend_before_aside: |_, _| Vec::new(),
    };
}

/// A turn and its changes, or `None` if the pair has no position.
pub type PlacedChanges = Option<(usize, Vec<TurnChange>)>;

/// Additional rules for transcripts of items.
#[derive(Clone, Copy)]
pub struct ItemRules {
    /// Text to add around a transcript that is a single string, to make it an element of a list.
    pub around_string: [&'static str; 2],
    /// Returns the repairs after a cut in this turn. The results that follow it may have lost their calls.
    pub repair: fn(&View, usize) -> Vec<TurnChange>,
    /// Makes the request continue a different response, or none.
    pub previous: fn(&View, Option<&str>) -> Vec<Edit>,
    /// Returns the sibling of a dropped call that stood between this reasoning item and the model's text
    /// after it.
    pub(super) bound: fn(&View, usize) -> Option<String>,
    /// Finds the items that siblings name by item id, at or after an offset.
    pub(super) find: fn(&View, &[&str], usize) -> Vec<Option<CallAt>>,
    /// Whether a turn that is not a message stands for one of the model.
    pub(super) refers: fn(&View, usize) -> bool,
    /// Replaces a reference to an injected placeholder item by the whole item.
    pub filler: fn(&View, &InjectedItem) -> Option<String>,
    /// Returns the injected items that are identified by their id.
    pub own_items: fn(&View) -> Vec<InjectedItem>,
    /// Serializes the result of a hidden call without the call, because upstream stores the call itself.
    pub lone_result: fn(&str, &HiddenResult) -> String,
    /// Returns the changes that restore pairs whose siblings have only results in the transcript, each with
    /// the turn of the result.
    ///
    /// That happens if upstream stores the calls, or if the agent refers to them by item id.
    pub put_by_results: fn(&View, &[&HiddenPair]) -> Vec<PlacedChanges>,
    /// Restores the agent's own values where the reply echoes the request.
    pub shaped_for: fn(&View, Bytes) -> Bytes,
}

fn says(body: &[u8], wordings: Wordings) -> bool {
    let has = |word: &&str| memmem::find(body, word.as_bytes()).is_some();
    wordings.iter().any(|words| words.iter().all(has))
}
