//! Result of a leg: token usage, hidden calls, reason for the end.

use super::framing::payload;
use crate::bill::{CacheMiss, TokenCounts};
use bytes::Bytes;

use crate::text::units::is_zero;
use crate::text::{Span, json};
use crate::tools::{TOOL_NAME, ToolNames};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Token counts of one leg, as reported by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens not served from a cache.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Tokens written to the provider's long-lived cache, included in `cache_write`. Omitted from JSON if
    /// zero.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_long: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Reasoning tokens, included in `output`.
    pub reasoning: u64,
}

impl Usage {
    /// Total input tokens, including cached ones.
    pub fn all_input(self) -> u64 {
        let cached = self.cache_read.saturating_add(self.cache_write);
        self.input.saturating_add(cached)
    }

    /// Context size after the last leg that reported usage: input plus output tokens.
    ///
    /// Legs whose index is in `own` are skipped, because the agent's conversation does not contain them.
    pub fn of_context(legs: &[Option<Self>], own: &[u32]) -> Option<u64> {
        let of_agent = (0_u32..).zip(legs).filter(|(leg, _)| !own.contains(leg));
        let counted = of_agent.filter_map(|(_, tokens)| *tokens);
        // Zeros mean that upstream reported nothing; they would hide the context of the leg before.
        let last = counted.filter(|tokens| *tokens != Self::default()).last()?;
        Some(last.all_input().saturating_add(last.output))
    }

    /// Total usage over the given legs, or `None` without any.
    pub fn sum(legs: impl Iterator<Item = Self>) -> Option<Self> {
        // Upstream may report any number, and a sum must not overflow.
        let add = u64::saturating_add;
        legs.reduce(|sum, leg| Self {
            input: add(sum.input, leg.input),
            cache_read: add(sum.cache_read, leg.cache_read),
            cache_write: add(sum.cache_write, leg.cache_write),
            cache_write_long: add(sum.cache_write_long, leg.cache_write_long),
            output: add(sum.output, leg.output),
            reasoning: add(sum.reasoning, leg.reasoning),
        })
    }
}

impl From<Usage> for TokenCounts {
    fn from(usage: Usage) -> Self {
        let counts = Self {
            input: usage.input,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            output: usage.output,
            ..Self::default()
        };
        counts.splitting_long(usage.cache_write_long)
    }
}

named! {
    /// Reason for a leg's end.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum StopReason {
        /// No terminal event arrived.
        #[default]
        Open = "open",
        /// The model finished.
        Done = "done",
        /// The model waits for tool results.
        Calls = "calls",
        /// The output limit was reached.
        Truncated = "truncated",
        /// The output was refused or filtered.
        Refused = "refused",
        /// The provider paused the turn.
        Paused = "paused",
        /// An error event ended the leg.
        Error = "error",
    }
}

impl StopReason {
    /// Whether the model itself ended its turn.
    pub fn natural(self) -> bool {
        matches!(self, Self::Done | Self::Calls)
    }
}

/// A call of one of baton's tools, hidden from the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenCall {
    /// Call id assigned by upstream.
    pub id: String,
    /// Name of baton's tool; empty means `session_handoff`.
    pub tool: &'static str,
    /// Arguments as raw JSON; empty if they exceeded the limit.
    pub arguments: String,
    /// Whether the call arrived completely.
    pub complete: bool,
    /// Whether the arguments exceeded the limit.
    pub oversize: bool,
    /// Number of visible parts before the call in its leg.
    pub after: usize,
    /// Data to return unchanged with the call (Gemini: the whole part; Responses: the item).
    pub raw: Option<String>,
    /// Id of the reasoning item right before the call. The API accepts that reasoning only together with this
    /// call (Responses).
    pub bound_to: Option<String>,
}

impl HiddenCall {
    /// Creates a call that arrived in one piece. Arguments longer than `limit` bytes are dropped.
    pub fn whole(id: String, tool: &'static str, after: usize, arguments: &str, limit: usize) -> Self {
        let mut call = Self {
            id,
            tool,
            complete: true,
            after,
            ..Self::default()
        };
        call.collect(arguments, limit);
        call
    }

    /// Appends a piece of the arguments. Beyond the limit all of them are dropped, because arguments with a
    /// gap would be those of a different call.
    pub fn collect(&mut self, piece: &str, limit: usize) {
        if self.oversize || self.arguments.len() + piece.len() > limit {
            self.oversize = true;
            self.arguments = String::new();
        } else {
            self.arguments.push_str(piece);
        }
    }

    /// Tool name.
    pub fn name(&self) -> &'static str {
        if self.tool.is_empty() {
            TOOL_NAME
        } else {
            self.tool
        }
    }

    /// Arguments as a JSON object, or `{}` if they do not parse as one.
    pub fn object(&self) -> &str {
        match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&self.arguments) {
            Ok(_) => self.arguments.trim(),
            Err(_) => "{}",
        }
    }

    /// Arguments as a string to send back upstream: raw, or `{}` if they are not a JSON object.
    ///
    /// Some servers parse the arguments in the whole history, and would refuse every later request.
    pub fn put_back(&self) -> &str {
        let text = self.arguments.as_bytes();
        match json::whole(text).is_ok_and(|whole| text[whole.start] == b'{') {
            true => &self.arguments,
            false => "{}",
        }
    }
}

/// Result of a leg.
#[derive(Debug, Clone, Default)]
pub struct LegReport {
    /// Hidden calls in order.
    pub hidden: Vec<HiddenCall>,
    /// Visible calls by id or fingerprint, each with its index among the visible parts.
    pub calls: Vec<(String, usize)>,
    /// Number of visible parts.
    pub parts: usize,
    /// Whether a message must not end with the last visible part (Anthropic: thinking).
    pub unfit: bool,
    /// Reason for the end.
    pub stop: StopReason,
    /// Whether the terminal event arrived.
    pub ended: bool,
    /// Whether a later leg failed before any of its output was shown, so that it may be retried.
    pub again: bool,
    /// Payload of that error.
    pub error: Bytes,
    pub usage: Usage,
    /// Responses only: `max_output_tokens` of a response in the background, or zero without a limit.
    pub background: Option<u64>,
    /// Model that produced the response.
    pub served: ServedBy,
    /// Response id assigned by upstream.
    pub id: String,
    /// Number of sentinel-like strings that were escaped in the model's text.
    pub escaped_sentinels: usize,
    /// Thinking that the provider dropped from the request.
    pub dropped_thinking: DroppedThinking,
}

impl LegReport {
    /// Records a visible call at the current position.
    pub(super) fn call(&mut self, name: String) {
        self.calls.push((name, self.parts));
    }

    /// Whether the agent's next request would be rejected if its message ended with this leg, without the
    /// hidden calls.
    ///
    /// `emitted` tells whether anything was shown before this leg.
    pub fn is_unsendable(&self, emitted: bool) -> bool {
        // If the agent has calls of its own, those end the message.
        let dropped = !self.hidden.is_empty() && self.calls.is_empty();
        dropped && (self.unfit || (self.parts == 0 && !emitted))
    }
}

/// Configuration for reading a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseWatch {
    /// Tools whose calls are hidden, which are those that baton offered.
    pub hide: ToolNames,
    /// Maximum size of a hidden call's arguments, in bytes.
    pub buffered_bytes: usize,
}

/// Model output of one leg, kept for a follow-up request.
#[derive(Debug, Clone)]
pub enum LegOutput {
    /// Frames of the stream, unchanged.
    Stream(Vec<Bytes>),
    /// Body of the reply.
    Reply(Bytes),
}

impl LegOutput {
    /// Payloads of the frames, or the reply.
    pub(super) fn pieces(&self) -> Vec<Cow<'_, [u8]>> {
        match self {
            Self::Stream(frames) => frames.iter().map(|frame| payload(frame)).collect(),
            Self::Reply(body) => vec![Cow::Borrowed(body)],
        }
    }
}

/// A leg of an exchange without streaming.
#[derive(Debug, Clone)]
pub struct Leg {
    /// Upstream's body.
    pub body: Bytes,
    /// Result of reading the body.
    pub report: LegReport,
    /// Messages from baton to show after the leg.
    pub then: Vec<String>,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Like the last leg.
    Own,
    /// Like the last leg, but without the hidden call and without a stop for tools.
    WithoutCall,
    /// At the sentinel (stop mode). Usage reports the input of the next request.
    Stopped {
        /// Estimated input tokens of the next request.
        next_input: u64,
    },
    /// At the sentinel, because the next leg failed.
    Lost {
        /// Estimated input tokens of the next request.
        next_input: u64,
    },
}

impl Ending {
    /// Estimated input tokens of the next request if baton itself ends the response.
    pub(super) fn next_input(self) -> Option<u64> {
        match self {
            Self::Own | Self::WithoutCall => None,
            Self::Stopped { next_input } | Self::Lost { next_input } => Some(next_input),
        }
    }
}

/// Maximum length of a stored model or service name, in bytes.
const MAX_NAME: usize = 200;

/// The model that produced a leg. Providers may substitute another one for the requested model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedBy {
    /// Model name; empty if upstream does not report it.
    pub model: String,
    /// Speed or service tier, if upstream reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Reason for a miss of the provider's prompt cache, if upstream reports it (Anthropic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_miss: Option<CacheMiss>,
}

impl ServedBy {
    /// Reads the members of a response object. Absent members change nothing.
    ///
    /// * All wires: `model` or `modelVersion`.
    /// * Anthropic: `usage.speed` and `diagnostics.cache_miss_reason`.
    /// * OpenAI: `service_tier`.
    pub(super) fn take(&mut self, data: &[u8], response: Span) {
        self.take_members(data, json::pick(data, response, Self::MEMBERS));
    }

    pub(super) const MEMBERS: [&str; 5] = ["model", "modelVersion", "service_tier", "usage", "diagnostics"];

    /// Like [`take`](Self::take), with the values of [`MEMBERS`](Self::MEMBERS).
    pub(super) fn take_members(&mut self, data: &[u8], members: [Option<Span>; 5]) {
        let [model, version, tier, usage, diagnostics] = members;
        if let Some(model) = model.or(version).and_then(|name| own(data, name)) {
            self.model = model;
        }
        let of_usage = |usage| json::pick(data, usage, ["speed", "service_tier"]);
        let [speed, usage_tier] = usage.map_or([None; 2], of_usage);
        let mut named = [speed, tier, usage_tier].into_iter().flatten();
        if let Some(service) = named.find_map(|name| own(data, name)) {
            self.service = Some(service);
        }
        let diagnostics = diagnostics.filter(|diagnostics| data[diagnostics.start] == b'{');
        // A diagnosis that is absent or pending keeps an earlier one.
        let miss = diagnostics.and_then(|diagnostics| json::get(data, diagnostics, "cache_miss_reason"));
        let miss = miss.and_then(|miss| serde_json::from_slice(miss.of(data)).ok());
        self.cache_miss = miss.or(self.cache_miss);
    }
}

fn own(data: &[u8], literal: Span) -> Option<String> {
    let name = json::string(data, literal)?;
    (!name.is_empty() && name.len() <= MAX_NAME).then(|| Cow::into_owned(name))
}

/// Types of entries that report dropped thinking.
const TYPES: [&str; 2] = ["thinking_dropped", "reasoning"];

/// Reasons that report a changed prefix.
const PREFIX: [&str; 2] = ["prefix_binding_mismatch", "prefix_mismatch"];

/// Reason for reasoning of an earlier turn, which providers drop by design.
const TURN_BOUNDARY: &str = "turn_boundary";

/// Number of thinking blocks that a provider silently dropped from a request, read from
/// `input_transformations` of the response.
///
/// * Anthropic: `{type: "thinking_dropped", path, reason: prefix_binding_mismatch | model_binding_mismatch}`,
///   with the beta `thinking-binding-controls-2026-08-01`.
/// * OpenAI Responses: `{type: "reasoning", action: "removed", reason: prefix_mismatch | model_mismatch |
///   …}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedThinking {
    /// Blocks dropped because their prefix changed.
    pub prefix: u32,
    /// Blocks dropped for other reasons, mostly because the model changed.
    pub other: u32,
}

impl DroppedThinking {
    /// Reads the member `input_transformations` of `object`, if it has one.
    pub(super) fn of_member(text: &[u8], object: Span) -> Option<Self> {
        Self::of_list(text, json::get(text, object, "input_transformations")?)
    }

    /// Reads the value of that member, if it is a list.
    pub(super) fn of_list(text: &[u8], list: Span) -> Option<Self> {
        if text[list.start] != b'[' {
            return None;
        }
        let mut dropped = Self::default();
        for found in json::pick_each(text, list, ["type", "reason"]) {
            let [kind, reason] = found.map(|span| json::string_or_empty(text, span));
            if !TYPES.contains(&&*kind) || reason == TURN_BOUNDARY {
                continue;
            }
            match PREFIX.contains(&&*reason) {
                true => dropped.prefix += 1,
                false => dropped.other += 1,
            }
        }
        Some(dropped)
    }

    pub fn total(self) -> u32 {
        self.prefix.saturating_add(self.other)
    }

    /// Total number of dropped blocks, or `None` if it is zero.
    pub fn some(self) -> Option<u32> {
        Some(self.total()).filter(|total| *total > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::CacheMissReason;

    /// A `null` reason means that the diagnosis was still pending.
    #[test]
    fn the_providers_diagnosis_of_its_cache_is_read() {
        let found = |diagnostics: &str| {
            let message = format!(r#"{{"model":"m","diagnostics":{diagnostics}}}"#);
            let mut served = ServedBy::default();
            served.take(message.as_bytes(), Span::new(0, message.len()));
            served.cache_miss
        };
        let miss = |reason, tokens| Some(CacheMiss { reason, tokens });
        for (diagnostics, expected) in [
            (
                r#"{"cache_miss_reason":{"type":"tools_changed","cache_missed_input_tokens":41000}}"#,
                miss(CacheMissReason::ToolsChanged, 41_000),
            ),
            (
                r#"{"cache_miss_reason":{"type":"previous_message_not_found"}}"#,
                miss(CacheMissReason::PreviousMessageNotFound, 0),
            ),
            (
                r#"{"cache_miss_reason":{"type":"something_newer"}}"#,
                miss(CacheMissReason::Unavailable, 0),
            ),
            (r#"{"cache_miss_reason":null}"#, None),
            ("null", None),
        ] {
            assert_eq!(found(diagnostics), expected, "{diagnostics}");
        }
    }

    #[test]
    fn arguments_that_no_server_can_parse_are_not_sent_back() {
        let call = |arguments: &str| HiddenCall::whole("c".into(), TOOL_NAME, 0, arguments, 100);
        for whole in [r#" {"prompt": "a\ud800"}"#, "{}"] {
            assert_eq!(call(whole).put_back(), whole);
        }
        for other in [r#"{"prompt": "Goal"#, r#""Goal""#, "", "{} {}", "[]"] {
            assert_eq!(call(other).put_back(), "{}", "{other}");
        }
    }

    #[test]
    fn what_was_dropped_is_counted_by_reason() {
        let list = br#"{"input_transformations": [
            {"type":"thinking_dropped","path":"messages.1.content.0","reason":"prefix_binding_mismatch"},
            {"type":"thinking_dropped","path":"messages.3.content.0","reason":"model_binding_mismatch"},
            {"type":"thinking_dropped","path":null,"reason":null},
            {"type":"thinking_mismatch_allowed","path":"messages.5.content.0","reason":"prefix_binding_mismatch"},
            {"id":"rs_1","type":"reasoning","action":"removed","reason":"prefix_mismatch"},
            {"id":"rs_2","type":"reasoning","action":"removed","reason":"turn_boundary"}, 7]}"#;
        let found = DroppedThinking::of_member(list, Span::new(0, list.len()));
        assert_eq!(found, Some(DroppedThinking { prefix: 2, other: 2 }));
        for none in ["{}", r#"{"input_transformations":null}"#] {
            assert_eq!(
                DroppedThinking::of_member(none.as_bytes(), Span::new(0, none.len())),
                None
            );
        }
    }
}
