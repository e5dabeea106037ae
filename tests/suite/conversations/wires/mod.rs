//! A table of wires.
//!
//! Requests and responses come from `matrix::variants`. The table adds parsers of transcripts, and the
//! changes by each wire's agents.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use baton_strict::{Part, Reply, Stop};
use serde_json::Value;

use super::agent_quirks::AgentQuirks;
use super::items::Item;
use crate::matrix::variants::Variant;

pub use self::anthropic::ANTHROPIC;
pub use self::chat::CHAT;
pub use self::gemini::GEMINI;
pub use self::ollama::OLLAMA;
pub use self::responses::RESPONSES;

/// A wire.
#[derive(Clone, Copy)]
pub struct WireProfile {
    pub variant: Variant,
    /// A user message with these text parts.
    pub user: fn(&[String]) -> Value,
    /// A system message between others, on wires that have them.
    pub system: Option<fn(&str) -> Value>,
    /// Converts a transcript to items.
    pub read: fn(&[Value]) -> Vec<Item>,
    /// The history as sent by an agent with these quirks.
    pub alter: fn(AgentQuirks, &[Value]) -> Vec<Value>,
    /// Completes the partial output of an interrupted stream, like an agent that keeps it.
    pub patched: fn(&[u8]) -> Option<Vec<u8>>,
    /// The part of that output that an agent can send back: complete, and without unanswered calls.
    pub partial: fn(&[Value]) -> Vec<Value>,
    /// Number of events before those that end a stream.
    pub events: fn(&Reply) -> usize,
    /// Stop reason of a reply.
    pub word: fn(&Stop, bool) -> &'static str,
    /// Stop reason after a sentinel whose next leg failed for good.
    pub lost: &'static str,
    /// Field of a request that holds its transcript.
    pub transcript: &'static str,
    pub traits: Traits,
}

/// Properties of a wire that the oracle needs.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Thinking is a part of its own, and agents send it back.
    pub thoughts: bool,
    /// A message has its text first, then its calls, in whatever order they arrived.
    pub text_first: bool,
    /// Calls have ids that agents send back.
    pub ids: bool,
    /// A message with only thinking is not valid.
    pub thought_is_content: bool,
    /// Agents never join separate text parts.
    pub apart: bool,
    /// The length of a transcript is a number of parts instead of messages.
    pub counts_parts: bool,
    /// Blank lines around a sentinel.
    pub gap: &'static str,
    /// Agents that drop ids are tested.
    pub drops_ids: bool,
    /// The dropped ids are those of calls: calls that differ only in their ids are then the same.
    pub drops_call_ids: bool,
    /// Agents that trim text trim only joined text. On other wires each piece of a stream is a part.
    pub trims_joined: bool,
    /// Blocks that only this wire has: hidden thinking, server tools.
    pub blocks: bool,
    /// A preamble and the first user text are in the same string.
    pub one_string: bool,
}

impl Traits {
    /// Default traits. A wire overrides a few.
    pub const DEFAULT: Self = Self {
        thoughts: false,
        text_first: false,
        ids: true,
        thought_is_content: false,
        apart: false,
        counts_parts: false,
        gap: "\n\n",
        drops_ids: true,
        drops_call_ids: false,
        trims_joined: false,
        blocks: false,
        one_string: false,
    };
}

/// Every wire.
pub const PROFILES: [WireProfile; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

/// Number of pieces in which text is streamed.
fn pieces(reply: &Reply, text: &str) -> usize {
    text.chars().count().div_ceil(reply.delivery.delta.max(1))
}

/// The sum over a reply's parts.
fn sum(reply: &Reply, of: impl Fn(&Part) -> usize) -> usize {
    reply.parts.iter().map(of).sum()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Text up to the last complete event.
fn whole_events(raw: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(raw).replace("\r\n", "\n");
    let end = text.rfind("\n\n")? + 2;
    Some(text[..end].to_owned())
}

/// Data of each event.
fn data(events: &str) -> Vec<Value> {
    let lines = events.lines().filter_map(|l| l.strip_prefix("data: "));
    lines.filter_map(|l| serde_json::from_str(l).ok()).collect()
}
