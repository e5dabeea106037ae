//! Synthetic responses as Anthropic messages, complete or streamed; messages that ask the model again.
//!
//! Events: <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use super::answer::said;
use super::usage::counted;
use bytes::Bytes;

use super::pairs;
use crate::record::HiddenPair;
use crate::text::{Span, json};
use crate::tools::ToolNames;
use crate::wire::{AnswerShape, Framing, LegOutput, StreamOpening, SyntheticResponse, View, own_text, sse};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

pub(super) fn compose(_: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
    match shape {
        AnswerShape::Whole => {
            let content = own_text::block(answer.text);
            message(answer, &content, r#""end_turn""#, answer.output()).into()
        }
        AnswerShape::Stream(_) => {
            let usage = counted(answer.input(), answer.output());
            let end = format!(r#""delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{usage}"#);
            // A real `message_start` states a small output count, and the last event the whole one.
            let mut frames = vec![start(answer, 1)];
            frames.extend(said(0, answer.text));
            frames.push(event("message_delta", &end));
            frames.push(sse::named("message_stop", r#"{"type":"message_stop"}"#));
            frames.concat().into()
        }
    }
}

pub(super) fn stream_opening(_: &View, answer: &SyntheticResponse<'_>, _: Framing) -> StreamOpening {
    StreamOpening::shown(start(answer, answer.output()))
}

fn message(answer: &SyntheticResponse<'_>, content: &str, stop: &str, output: u64) -> String {
    format!(
        r#"{{"id":"{}","type":"message","role":"assistant","model":{},"content":[{content}],"stop_reason":{stop},"stop_sequence":null,"usage":{}}}"#,
        answer.id("msg_"),
        json::quote(answer.model),
        counted(answer.input(), output)
    )
}

fn event(name: &str, members: &str) -> Bytes {
    sse::named(name, &format!(r#"{{"type":"{name}",{members}}}"#))
}

fn start(answer: &SyntheticResponse<'_>, output: u64) -> Bytes {
    let message = message(answer, "", "null", output);
    event("message_start", &format!(r#""message":{message}"#))
}

/// Builds the assistant's message with baton's calls as its last blocks, followed by their results.
///
/// The calls keep that position, after everything the agent was shown, on every later request. Returns
/// `None` if thinking follows one of them, because thinking is bound to the original order.
pub(super) fn ask_again(spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Option<String> {
    let blocks = match spoken {
        LegOutput::Reply(body) => {
            let whole = json::root(body);
            let content = json::get(body, whole, "content")?;
            let blocks = json::elements(body, content).into_iter();
            blocks.map(|block| block.text(body)).collect()
        }
        LegOutput::Stream(frames) => streamed(frames),
    };
    let ours = |b: &String| called(b).is_some_and(|name| ours.has(&name));
    let first = blocks.iter().position(ours).unwrap_or(blocks.len());
    if blocks[first..].iter().any(|b| is_thinking(b)) {
        return None;
    }
    let mut content: Vec<String> = blocks.into_iter().filter(|b| !ours(b)).collect();
    content.extend(pairs.iter().map(|p| p.call.clone()));
    let results: Vec<_> = pairs.iter().map(pairs::result).collect();
    Some(format!(
        r#"{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}"#,
        content.join(","),
        results.join(",")
    ))
}

/// Name of the tool that a block calls.
fn called(block: &str) -> Option<Cow<'_, str>> {
    let (text, whole) = (block.as_bytes(), Span::new(0, block.len()));
    json::get_string(text, whole, "type").filter(|kind| kind == "tool_use")?;
    json::get_string(text, whole, "name")
}

fn is_thinking(block: &str) -> bool {
    let kind = json::get_string(block.as_bytes(), Span::new(0, block.len()), "type");
    kind.is_some_and(|k| matches!(&*k, "thinking" | "redacted_thinking"))
}

/// Rebuilds content blocks from streamed frames.
fn streamed(frames: &[Bytes]) -> Vec<String> {
    let mut blocks: Vec<EchoBlock> = Vec::new();
    for frame in frames {
        let data = &sse::data(frame)[..];
        let whole = json::root(data);
        match json::get_string(data, whole, "type").as_deref() {
            Some("content_block_start") => {
                let start = json::get(data, whole, "content_block");
                blocks.push(EchoBlock {
                    members: start.and_then(|start| serde_json::from_slice(start.of(data)).ok()),
                    input: String::new(),
                });
            }
            Some("content_block_delta") => {
                if let (Some(block), Some(delta)) = (blocks.last_mut(), json::get(data, whole, "delta")) {
                    block.take(data, delta);
                }
            }
            _ => {}
        }
    }
    blocks.into_iter().filter_map(EchoBlock::finished).collect()
}

/// A block under construction from its deltas.
struct EchoBlock {
    members: Option<Map<String, Value>>,
    /// Input received so far, as raw JSON.
    input: String,
}

impl EchoBlock {
    fn take(&mut self, data: &[u8], delta: Span) {
        let Some(members) = &mut self.members else { return };
        let piece = |key: &str| json::get_string(data, delta, key);
        for key in ["text", "thinking"] {
            match (members.get_mut(key), piece(key)) {
                (Some(Value::String(text)), Some(piece)) => text.push_str(&piece),
                (_, Some(piece)) => drop(members.insert(key.to_owned(), piece.into())),
                (_, None) => {}
            }
        }
        // A signature arrives whole, in a single delta, so it replaces instead of growing.
        if let Some(signature) = piece("signature") {
            members.insert("signature".to_owned(), signature.into());
        }
        // Pieces of JSON do not parse one by one, so `finished` reads them together.
        self.input.push_str(&piece("partial_json").unwrap_or_default());
        let citation = json::get(data, delta, "citation");
        if let Some(citation) = citation.and_then(|c| serde_json::from_slice::<Value>(c.of(data)).ok()) {
            match members.get_mut("citations").and_then(Value::as_array_mut) {
                Some(all) => all.push(citation),
                None => drop(members.insert("citations".to_owned(), json!([citation]))),
            }
        }
    }

    /// Returns the block, or `None` if the API would reject it.
    fn finished(self) -> Option<String> {
        let mut members = self.members?;
        if !self.input.trim().is_empty() {
            // Truncated arguments do not parse, and the API accepts only objects.
            let input = serde_json::from_str(&self.input).unwrap_or_else(|_| json!({}));
            members.insert("input".to_owned(), input);
        }
        let text = members.get("text").and_then(Value::as_str).unwrap_or_default();
        // The API rejects text blocks without visible characters.
        let blank = text.trim().is_empty() && members.get("type").is_some_and(|kind| kind == "text");
        (!blank).then(|| Value::Object(members).to_string())
    }
}
