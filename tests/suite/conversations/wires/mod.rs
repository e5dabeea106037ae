//! How each wire is spoken in a conversation: a row of one table. Requests and answers are those of the matrix; what
//! is added here is how a transcript is read back, and what the wire's agents do to theirs (CLIENTS.md, sections 0,
//! 3 and 7).

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use baton_proxy::strict::{Part, Reply, Stop};
use serde_json::Value;

use super::items::Item;
use super::ways::Ways;
use crate::matrix::sides::Side;

pub use self::anthropic::ANTHROPIC;
pub use self::chat::CHAT;
pub use self::gemini::GEMINI;
pub use self::ollama::OLLAMA;
pub use self::responses::RESPONSES;

/// One wire.
#[derive(Clone, Copy)]
pub struct Tongue {
    pub side: Side,
    /// A user message of these texts.
    pub user: fn(&[String]) -> Value,
    /// A system message between others, where the wire has such a thing.
    pub system: Option<fn(&str) -> Value>,
    /// A transcript, item by item.
    pub read: fn(&[Value]) -> Vec<Item>,
    /// The history as an agent of these ways sends it.
    pub alter: fn(Ways, &[Value]) -> Vec<Value>,
    /// What came of a broken stream, ended as an agent ends it that keeps what it has.
    pub patched: fn(&[u8]) -> Option<Vec<u8>>,
    /// What of that an agent can send back: complete, and without calls that nobody answers.
    pub partial: fn(&[Value]) -> Vec<Value>,
    /// How many events stand before those that end a stream.
    pub events: fn(&Reply) -> usize,
    /// The word for how a reply ended.
    pub word: fn(&Stop, bool) -> &'static str,
    /// The word behind a sentinel that no further leg could be had for.
    pub lost: &'static str,
    /// The member of a request that holds its transcript.
    pub transcript: &'static str,
    pub traits: Traits,
}

/// What differs in the eyes of the oracle.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Thinking is a part of its own, and comes back.
    pub thoughts: bool,
    /// A message is its text first, then its calls, whatever the order they came in.
    pub text_first: bool,
    /// Calls are known by ids that agents echo.
    pub ids: bool,
    /// Broken arguments go back as they are, and not as an empty object.
    pub raw_arguments: bool,
    /// A message of nothing but thinking cannot stand.
    pub thought_is_content: bool,
    /// Texts that stand apart are never joined by an agent.
    pub apart: bool,
    /// A transcript counts by its parts, and not by its messages.
    pub counts_parts: bool,
    /// What is streamed around a sentinel.
    pub gap: &'static str,
    /// Agents that do not send ids back are among those that are tried.
    pub drops_ids: bool,
    /// The ids that they drop are those of calls: what is alike but for them is then the same call.
    pub drops_call_ids: bool,
    /// Blocks that are the wire's own: hidden thinking, a server's tools.
    pub blocks: bool,
    /// A preamble comes in one string with the first thing said.
    pub one_string: bool,
}

/// Every wire.
pub const TONGUES: [Tongue; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

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

/// The last place behind a whole event.
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
