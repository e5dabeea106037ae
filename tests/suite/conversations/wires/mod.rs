//! A table of wires. Requests and answers are those of `matrix::variants`; added here are how a transcript is parsed, and
//! how the wire's agents change theirs.

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

/// One wire.
#[derive(Clone, Copy)]
pub struct WireProfile {
    pub variant: Variant,
    /// A user message of these texts.
    pub user: fn(&[String]) -> Value,
    /// A system message between others, where the wire has them.
    pub system: Option<fn(&str) -> Value>,
    /// A transcript, item by item.
    pub read: fn(&[Value]) -> Vec<Item>,
    /// The history as an agent with these quirks sends it.
    pub alter: fn(AgentQuirks, &[Value]) -> Vec<Value>,
    /// What arrived of a broken stream, completed as an agent does that keeps it.
    pub patched: fn(&[u8]) -> Option<Vec<u8>>,
    /// The part of that which an agent can send back: complete, and without unanswered calls.
    pub partial: fn(&[Value]) -> Vec<Value>,
    /// How many events there are before those that end a stream.
    pub events: fn(&Reply) -> usize,
    /// The stop reason of a reply.
    pub word: fn(&Stop, bool) -> &'static str,
    /// The stop reason after a sentinel whose next leg failed for good.
    pub lost: &'static str,
    /// The field of a request that holds its transcript.
    pub transcript: &'static str,
    pub traits: Traits,
}

/// What the oracle must know of a wire.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Thinking is a part of its own, and agents send it back.
    pub thoughts: bool,
    /// A message has its text first, then its calls, in whatever order they arrived.
    pub text_first: bool,
    /// Calls have ids that agents send back.
    pub ids: bool,
    /// Invalid arguments are sent back unchanged, not as an empty object.
    pub raw_arguments: bool,
    /// A message with only thinking is not valid.
    pub thought_is_content: bool,
    /// Agents never join separate texts.
    pub apart: bool,
    /// The length of a transcript is counted in parts, not in messages.
    pub counts_parts: bool,
    /// The blank lines around a sentinel.
    pub gap: &'static str,
    /// Agents that drop ids are tested.
    pub drops_ids: bool,
    /// The dropped ids are those of calls: calls that differ only in their ids are then the same.
    pub drops_call_ids: bool,
    /// Agents that trim texts trim joined ones alone: elsewhere each piece of a stream is a part.
    pub trims_joined: bool,
    /// Blocks that only this wire has: hidden thinking, server tools.
    pub blocks: bool,
    /// A preamble is in the same string as the first user text.
    pub one_string: bool,
}

impl Traits {
    /// The defaults: a wire differs from them in a few.
    pub const DEFAULT: Self = Self {
        thoughts: false,
        text_first: false,
        ids: true,
        raw_arguments: false,
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

/// How many pieces a text is streamed in.
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

/// The last position after a complete event.
fn whole_events(raw: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(raw).replace("\r\n", "\n");
    let end = text.rfind("\n\n")? + 2;
    Some(text[..end].to_owned())
}

/// The data of each event.
fn data(events: &str) -> Vec<Value> {
    let lines = events.lines().filter_map(|l| l.strip_prefix("data: "));
    lines.filter_map(|l| serde_json::from_str(l).ok()).collect()
}
