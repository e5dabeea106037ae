//! The outcome of a leg.

use super::framing::payload;
use crate::bill::TokenCounts;
use bytes::Bytes;

use crate::bill::CacheMiss;
use crate::text::{Span, json};
use crate::tools::{TOOL_NAME, ToolNames};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Tokens of one leg, as its provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that no cache served.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Of these, tokens that are stored for the provider's long lifetime. Absent in JSON where it is zero.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_long: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Of these, tokens of reasoning.
    pub reasoning: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// All input tokens, cached ones included.
    pub fn all_input(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// Tokens of the context of the last leg that has any and is not one of `own`: of its input and its output.
    pub fn of_context(legs: &[Option<Self>], own: &[u32]) -> Option<u64> {
        let of_agent = (0_u32..).zip(legs).filter(|(leg, _)| !own.contains(leg));
        let counted = of_agent.filter_map(|(_, tokens)| *tokens);
        let last = counted.filter(|tokens| *tokens != Self::default()).last()?;
        Some(last.all_input().saturating_add(last.output))
    }

    /// The sum of what is known of each leg; `None` where nothing is.
    pub fn sum(legs: impl Iterator<Item = Self>) -> Option<Self> {
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
    /// Why a leg ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum StopReason {
        /// No terminal event was seen.
        #[default]
        Open = "open",
        /// The model was done.
        Done = "done",
        /// The model waits for its calls.
        Calls = "calls",
        /// Out of room.
        Truncated = "truncated",
        /// Refused or filtered.
        Refused = "refused",
        /// Paused by the provider.
        Paused = "paused",
        /// An error event ended it.
        Error = "error",
    }
}

impl StopReason {
    /// Whether the model ended its turn itself.
    pub fn natural(self) -> bool {
        matches!(self, Self::Done | Self::Calls)
    }
}

/// A call of our tool, hidden from the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenCall {
    /// Upstream's id of it.
    pub id: String,
    /// The tool of ours.
    pub tool: &'static str,
    /// The arguments' JSON text, as collected; empty where it was over the limit.
    pub arguments: String,
    /// Whether all of it came.
    pub complete: bool,
    /// Whether it was over the limit of what is collected.
    pub oversize: bool,
    /// The number of visible parts before it in the leg.
    pub after: usize,
    /// Other parts of the call that must come back unchanged (Gemini: the whole part; Responses: the item).
    pub raw: Option<String>,
    /// Names the reasoning right before it, which the API takes back with this call alone (Responses).
    pub bound_to: Option<String>,
}

impl HiddenCall {
    /// A call of which all came at once; arguments of more than `limit` bytes are not kept.
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

    /// Takes a piece of the arguments, within the limit. Beyond it none are kept: with a hole they would be another
    /// call's.
    pub fn collect(&mut self, piece: &str, limit: usize) {
        if self.oversize || self.arguments.len() + piece.len() > limit {
            self.oversize = true;
            self.arguments = String::new();
        } else {
            self.arguments.push_str(piece);
        }
    }

    /// The tool's name.
    pub fn name(&self) -> &'static str {
        if self.tool.is_empty() {
            TOOL_NAME
        } else {
            self.tool
        }
    }

    /// The arguments as a JSON object: an empty one where they are none.
    pub fn object(&self) -> &str {
        match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&self.arguments) {
            Ok(_) => self.arguments.trim(),
            Err(_) => "{}",
        }
    }

    /// The arguments' JSON text as it goes back upstream: an empty object where they were not kept.
    pub fn put_back(&self) -> &str {
        if self.oversize { "{}" } else { &self.arguments }
    }
}

/// The outcome of a leg.
#[derive(Debug, Clone, Default)]
pub struct LegReport {
    /// Hidden calls, in order.
    pub hidden: Vec<HiddenCall>,
    /// Ids (or fingerprints) of the visible calls, each with its place among the leg's visible parts.
    pub calls: Vec<(String, usize)>,
    /// Visible parts.
    pub parts: usize,
    /// Whether the last visible part may not be a message's last one (Anthropic: thinking).
    pub unfit: bool,
    /// Why it ended.
    pub stop: StopReason,
    /// Whether its last event was seen.
    pub ended: bool,
    /// A later leg that ended in an error before anything of it was shown: it may be tried again.
    pub again: bool,
    /// That error, as the body of one, if the account has no quota left: no other try helps.
    pub quota: Option<String>,
    pub usage: Usage,
    /// The model that answered.
    pub served: ServedBy,
    /// Upstream's id of the response.
    pub id: String,
    /// Model texts that were escaped.
    pub escaped_sentinels: usize,
    /// Thinking that the provider dropped from the request.
    pub dropped_thinking: DroppedThinking,
}

impl LegReport {
    /// Notes a visible call, which comes after the parts so far.
    pub(super) fn call(&mut self, name: String) {
        self.calls.push((name, self.parts));
    }

    /// Whether a message that ends with this leg, its hidden calls dropped, would be refused when the agent sends it
    /// back. `emitted`: something was shown before this leg.
    pub fn is_unsendable(&self, emitted: bool) -> bool {
        let dropped = !self.hidden.is_empty() && self.calls.is_empty();
        dropped && (self.unfit || (self.parts == 0 && !emitted))
    }
}

/// What is looked for in a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseWatch {
    /// The tools whose calls are ours to hide: it was we who offered them.
    pub hide: ToolNames,
    /// Bytes of a hidden call's arguments that are collected.
    pub buffered_bytes: usize,
}

/// Output of a model in one leg, kept for a follow-up.
#[derive(Debug, Clone)]
pub enum LegOutput {
    /// The stream's frames, as they came.
    Stream(Vec<Bytes>),
    /// The reply's body.
    Reply(Bytes),
}

impl LegOutput {
    /// The payloads of the frames, or the reply.
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
    /// What was found in it.
    pub report: LegReport,
    /// A sentinel or aside to be shown after it.
    pub then: Option<String>,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As the last leg ended.
    Own,
    /// As the last leg ended, but without the call and without a stop for tools.
    WithoutCall,
    /// After the sentinel (stop mode); the input side of usage is what the next request will send.
    Stopped {
        /// Estimated input tokens of the next request.
        next_input: u64,
    },
    /// After the sentinel, because there is no next leg.
    Lost {
        /// Estimated input tokens of the next request.
        next_input: u64,
    },
}

impl Ending {
    /// Estimated input tokens of the next request, where baton itself ends the response.
    pub(super) fn next_input(self) -> Option<u64> {
        match self {
            Self::Own | Self::WithoutCall => None,
            Self::Stopped { next_input } | Self::Lost { next_input } => Some(next_input),
        }
    }
}

/// Longest name that is kept, in bytes.
const MAX_NAME: usize = 200;

/// The model that answered a leg. Providers may answer with another one than was requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedBy {
    /// Its name; empty where upstream gave none.
    pub model: String,
    /// The speed or the service tier, where upstream names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Why the provider's prompt cache did not serve it, where upstream says so (Anthropic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_miss: Option<CacheMiss>,
}

impl ServedBy {
    /// Reads the members of a response object: `model` or `modelVersion`; `usage.speed`, `diagnostics.cache_miss_reason`
    /// (Anthropic); `service_tier` (OpenAI). Members that are absent change nothing.
    pub(super) fn take(&mut self, data: &[u8], response: Span) {
        let [model, version, tier, usage, diagnostics] = json::pick(
            data,
            response,
            ["model", "modelVersion", "service_tier", "usage", "diagnostics"],
        );
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
        let miss = diagnostics.and_then(|diagnostics| json::get(data, diagnostics, "cache_miss_reason"));
        self.cache_miss = miss
            .and_then(|miss| serde_json::from_slice(miss.of(data)).ok())
            .or(self.cache_miss);
    }
}

fn own(data: &[u8], literal: Span) -> Option<String> {
    let name = json::string(data, literal)?;
    (!name.is_empty() && name.len() <= MAX_NAME).then(|| Cow::into_owned(name))
}

/// Types of an entry that says that thinking was dropped.
const TYPES: [&str; 2] = ["thinking_dropped", "reasoning"];

/// Reasons that report a changed prefix of the thinking.
const PREFIX: [&str; 2] = ["prefix_binding_mismatch", "prefix_mismatch"];

/// By design: reasoning of an earlier turn.
const TURN_BOUNDARY: &str = "turn_boundary";

/// How many blocks of thinking a provider dropped from a request without an error, as its answer reports in
/// `input_transformations`.
///
/// Anthropic: `{type: "thinking_dropped", path, reason: prefix_binding_mismatch | model_binding_mismatch}`, with the
/// beta `thinking-binding-controls-2026-08-01`. OpenAI Responses: `{type: "reasoning", action: "removed", reason:
/// prefix_mismatch | model_mismatch | …}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedThinking {
    /// Because their prefix changed.
    pub prefix: u32,
    /// For another reason, mostly because the model changed.
    pub other: u32,
}

impl DroppedThinking {
    /// What the member `input_transformations` of an object reports, where it has one.
    pub(super) fn of_member(text: &[u8], object: Span) -> Option<Self> {
        Self::of_list(text, json::get(text, object, "input_transformations")?)
    }

    /// What that member's value reports, where it is a list.
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

    /// All of them; `None` where there was none.
    pub fn some(self) -> Option<u32> {
        Some(self.total()).filter(|total| *total > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::CacheMissReason;

    /// `null`: the diagnosis was still pending.
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
