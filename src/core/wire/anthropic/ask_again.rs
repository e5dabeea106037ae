//! What a model wrote to Anthropic's API, returned to it with the answers to its calls.

use bytes::Bytes;

use super::Anthropic;
use super::pairs;
use super::reply::{called, raw};
use crate::record::HiddenPair;
use crate::text::{Span, json};
use crate::tools::ToolNames;
use crate::wire::{AskAgain, LegOutput, sse};

impl AskAgain for Anthropic {
    /// The assistant's own message with our call as its last block (its place on every later request, after what the
    /// agent was shown), then the call's result. `None` where thinking follows a call of ours: it is bound to that
    /// order.
    fn ask_again(&self, spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Option<String> {
        let blocks = match spoken {
            LegOutput::Reply(body) => {
                let whole = Span::new(json::blank(body, 0), body.len());
                let content = json::get(body, whole, "content")?;
                json::elements(body, content)
                    .into_iter()
                    .map(|b| raw(body, b))
                    .collect()
            }
            LegOutput::Stream(frames) => streamed(frames),
        };
        let ours =
            |b: &String| called(b.as_bytes(), Span::new(0, b.len())).is_some_and(|name| ours.has(&name));
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
}

fn is_thinking(block: &str) -> bool {
    let kind = json::get_string(block.as_bytes(), Span::new(0, block.len()), "type");
    kind.is_some_and(|k| matches!(&*k, "thinking" | "redacted_thinking"))
}

/// Rebuilds content blocks from the frames that streamed them.
fn streamed(frames: &[Bytes]) -> Vec<String> {
    let mut message = AnthropicEcho { blocks: Vec::new() };
    for frame in frames {
        message.frame(&sse::data(frame));
    }
    message.blocks.iter().filter_map(|b| b.finished()).collect()
}

struct AnthropicEcho {
    blocks: Vec<EchoBlock>,
}

#[derive(Default)]
struct EchoBlock {
    start: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    input: Option<String>,
    citations: Vec<String>,
}

impl AnthropicEcho {
    fn frame(&mut self, data: &[u8]) {
        let whole = Span::new(json::blank(data, 0), data.len());
        match json::get_string(data, whole, "type").as_deref() {
            Some("content_block_start") => {
                let start = json::get(data, whole, "content_block")
                    .map(|b| raw(data, b))
                    .unwrap_or_default();
                self.blocks.push(EchoBlock {
                    start,
                    ..EchoBlock::default()
                });
            }
            Some("content_block_delta") => {
                if let (Some(block), Some(delta)) = (self.blocks.last_mut(), json::get(data, whole, "delta"))
                {
                    block.delta(data, delta);
                }
            }
            _ => {}
        }
    }
}

impl EchoBlock {
    fn delta(&mut self, data: &[u8], delta: Span) {
        let grow = |to: &mut Option<String>, key: &str| {
            if let Some(piece) = json::get_string(data, delta, key) {
                to.get_or_insert_default().push_str(&piece);
            }
        };
        grow(&mut self.text, "text");
        grow(&mut self.thinking, "thinking");
        grow(&mut self.input, "partial_json");
        if let Some(signature) = json::get_string(data, delta, "signature") {
            self.signature = Some(signature.into_owned());
        }
        self.citations
            .extend(json::get(data, delta, "citation").map(|c| raw(data, c)));
    }

    /// The block with its deltas in it; `None` where the API would refuse it.
    fn finished(&self) -> Option<String> {
        let mut block: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&self.start).ok()?;
        let mut join = |key: &str, piece: &Option<String>| {
            if let Some(piece) = piece {
                let before = block.get(key).and_then(|v| v.as_str()).unwrap_or_default();
                let all = format!("{before}{piece}");
                block.insert(key.to_owned(), all.into());
            }
        };
        join("text", &self.text);
        join("thinking", &self.thinking);
        if let Some(signature) = &self.signature {
            block.insert("signature".into(), signature.as_str().into());
        }
        if let Some(input) = self.input.as_deref().filter(|i| !i.trim().is_empty()) {
            let value = serde_json::from_str(input).unwrap_or_else(|_| serde_json::json!({}));
            block.insert("input".into(), value);
        }
        if !self.citations.is_empty() {
            let all: Vec<serde_json::Value> = self
                .citations
                .iter()
                .filter_map(|c| serde_json::from_str(c).ok())
                .collect();
            block.insert("citations".into(), all.into());
        }
        let blank = block.get("type").is_some_and(|t| t == "text")
            && block
                .get("text")
                .and_then(|t| t.as_str())
                .is_none_or(|t| t.trim().is_empty());
        (!blank).then(|| serde_json::Value::Object(block).to_string())
    }
}
