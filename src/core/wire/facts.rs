//! What of a wire is a value: one row a wire, in its `facts.rs`.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;

use super::error::{BEARER, KeyHeader, ProxyError};
use super::framing::Framing;
use super::leg_state::Dialect;
use super::members::TextRules;
use super::openai;
use super::sibling_calls::CallAt;
use super::view::{InjectedItem, ToolList, ToolShape, TurnChange, TurnPart, View};
use crate::record::{HiddenPair, HiddenResult, WireId};
use crate::text::splice::Edit;

/// Lists of words: an error matches that has all words of one list.
pub(super) type Wordings = &'static [&'static [&'static str]];

/// The facts of a wire. A row names what differs from `of`.
pub struct WireFacts {
    pub id: WireId,
    /// The provider as OpenTelemetry's conventions spell it (`gen_ai.provider.name`).
    pub provider: &'static str,
    /// How streams are framed where the request does not say.
    pub framing: Framing,
    /// The header that the provider expects a key in.
    pub(super) header: KeyHeader,
    /// Environment variables in which people have a key of the provider, the usual one first.
    pub key_variables: &'static [&'static str],
    /// Error answers (status 400) by which upstream says that returned blocks do not follow their original prefix;
    /// none where it does not check.
    pub(super) prefix_mismatches: Wordings,
    /// Error answers (status 400) that refuse thinking which the request may leave out.
    pub(super) thinking_refusals: Wordings,
    /// Whether a text block of only whitespace is refused, and so dropped.
    pub drops_blank_text: bool,
    /// The placeholder for the content of a message with calls and without text.
    pub absent_content: Option<&'static str>,
    /// Whether calls have ids. Where these may be missing, calls go by fingerprints.
    pub(super) has_call_ids: bool,
    /// Whether the calls of a message are a list of their own, after all text, also where agents write that member first.
    pub(super) calls_are_last: bool,
    /// Members around the transcript by which a provider holds the agent's own history: without a cut or our tool.
    pub holding_members: &'static [&'static str],
    /// Members around the transcript that describe the agent's history, which a later leg does not have.
    pub first_leg_members: &'static [&'static str],
    /// Further edits that every request with the tool needs.
    pub companions: fn(&View) -> Vec<Edit>,
    /// What some wires know of the turns of a transcript.
    pub turns: TurnRules,
    /// What holds of a transcript of items that have ids, and of responses that a request continues by their ids alone.
    pub items: Option<ItemRules>,
    /// The body of an error of our own, as JSON in the provider's error shape.
    pub(super) error_body: fn(ProxyError<'_>) -> String,
    /// The event of a stream (server-sent) that states an error of this body, on one line.
    pub(super) error_event: fn(&str) -> String,
    /// How a tool is declared in this list.
    pub(super) tool_shape: fn(&View, &ToolList) -> ToolShape,
    /// What is the wire's own in reading the answer to a request.
    pub(super) dialect: fn(&View) -> Box<dyn Dialect>,
    /// What changes in a request that asks for a text.
    pub(super) text: TextRules,
}

impl WireFacts {
    /// What most wires have.
    pub(super) const fn new(
        id: WireId,
        provider: &'static str,
        dialect: fn(&View) -> Box<dyn Dialect>,
    ) -> Self {
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
            dialect,
            text: TextRules::DEFAULT,
        }
    }

    /// The header that `key` goes into, in a request to `target`: the provider's, except for clouds that sell several
    /// providers' models. OAuth tokens are bearer tokens, Anthropic's and Google's; and Google's are what Vertex takes,
    /// whoever made the model. Azure's older paths know only one header.
    pub fn key_header(&self, target: &str, key: &str) -> KeyHeader {
        let token = key.starts_with("sk-ant-oat") || key.starts_with("ya29.");
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

    /// Whether an error answer (status 400) reports a mismatch of that check.
    pub fn is_prefix_mismatch(&self, body: &[u8]) -> bool {
        says(body, self.prefix_mismatches)
    }

    /// Whether upstream may refuse returned thinking.
    pub fn may_refuse_thinking(&self) -> bool {
        !self.thinking_refusals.is_empty()
    }

    /// Whether an error answer (status 400) refuses thinking that the request may leave out.
    pub fn refuses_thinking(&self, body: &[u8]) -> bool {
        says(body, self.thinking_refusals)
    }
}

/// What one or two wires know of turns, and the others do not.
#[derive(Clone, Copy)]
pub struct TurnRules {
    /// Whether a turn of the system's is read only until the user's next message.
    pub ends_at_next_user: fn(&View, usize) -> bool,
    /// The changes of which tools exist that a provider's summary replaces, as an element.
    pub compacted_changes: fn(&View, &TurnPart) -> Option<String>,
    /// The turns that are one message of the model's together with this one.
    pub message: fn(&View, usize) -> Range<usize>,
    /// The edits that remove a part's or its turn's binding to a prefix that has changed. Reasoning itself goes as a
    /// whole.
    pub unbind: fn(&View, usize, &TurnPart) -> Vec<Edit>,
    /// The edits at a part of the model's that is sent back although upstream has refused the thinking in front of it.
    /// Thinking itself goes as a whole.
    pub omit: fn(&View, usize, &TurnPart) -> Vec<Edit>,
    /// A part of the model's with this text; `None` where the wire has no parts.
    pub own_part: fn(&str) -> Option<String>,
    /// A hidden call without what binds it to its prefix; `None`: it has nothing of the kind.
    pub unbound_call: fn(&str) -> Option<String>,
    /// Final changes of a request with the tool, after these: repairs without which a lost hidden pair would be refused.
    pub repairs: fn(&View, &[TurnChange]) -> Vec<TurnChange>,
    /// What changes in the turns in front of an aside where a hidden pair was put back.
    pub mend_before_aside: fn(&View, usize) -> Vec<TurnChange>,
}

impl TurnRules {
    /// A wire that knows none of it.
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

/// A turn and the changes at it; `None` where there is no place.
pub type PlacedChanges = Option<(usize, Vec<TurnChange>)>;

/// What a transcript of items needs besides.
#[derive(Clone, Copy)]
pub struct ItemRules {
    /// What makes the lone string that a transcript may be an element of a list.
    pub around_string: [&'static str; 2],
    /// The repairs after a cut in this turn: results right after it are without their calls.
    pub repair: fn(&View, usize) -> Vec<TurnChange>,
    /// Makes the request continue another earlier response (`Some`), or none.
    pub previous: fn(&View, Option<&str>) -> Vec<Edit>,
    /// The sibling of a dropped call that was between this reasoning and the text of the model's after it.
    pub(super) bound: fn(&View, usize) -> Option<String>,
    /// The items that siblings name by their own ids, at or after an offset.
    pub(super) find: fn(&View, &[&str], usize) -> Vec<Option<CallAt>>,
    /// Whether a turn that is no message represents one of the model's.
    pub(super) refers: fn(&View, usize) -> bool,
    /// Replaces a reference to an item of ours, where the model had written nothing, by the whole item.
    pub filler: fn(&View, &InjectedItem) -> Option<String>,
    /// Items of ours that are identified by their id.
    pub own_items: fn(&View) -> Vec<InjectedItem>,
    /// The result of a hidden call without its call: upstream holds the call itself.
    pub lone_result: fn(&str, &HiddenResult) -> String,
    /// The changes that put back pairs whose siblings have only results in the transcript, each with the result's turn.
    /// Upstream stores the calls, or the agent refers to them by item id.
    pub put_by_results: fn(&View, &[&HiddenPair]) -> Vec<PlacedChanges>,
    /// A reply whose echo of the request is the agent's own.
    pub shaped_for: fn(&View, Bytes) -> Bytes,
}

fn says(body: &[u8], wordings: Wordings) -> bool {
    let has = |word: &&str| memmem::find(body, word.as_bytes()).is_some();
    wordings.iter().any(|words| words.iter().all(has))
}
