//! Anthropic Messages.

use baton_strict::{Part, Stop};
use serde_json::{Value, json};

use super::{Traits, WireProfile, list, pieces, string, sum, whole_events};
use crate::conversations::agent_quirks::AgentQuirks;
use crate::conversations::items::Item;
use crate::harness::AgentWire;
use crate::harness::anthropic::Anthropic;
use crate::harness::quirks::{self, Quirks};
use crate::matrix::variants;

pub const ANTHROPIC: WireProfile = WireProfile {
    variant: variants::ANTHROPIC,
    user: |texts| {
        let block = |text: &String| json!({"type": "text", "text": text});
        json!({"role": "user", "content": texts.iter().map(block).collect::<Vec<_>>()})
    },
    system: Some(|text| json!({"role": "system", "content": [{"type": "text", "text": text}]})),
    read,
    alter,
    patched,
    partial,
    events: |reply| {
        2 + sum(reply, |part| match part {
            Part::Thinking(text) => 3 + pieces(reply, text),
            Part::Text(text) => 2 + pieces(reply, text),
            Part::Call { arguments, .. } => 3 + pieces(reply, &arguments.text()),
            _ => 2,
        })
    },
    word: |stop, calls| match stop {
        Stop::MaxTokens => "max_tokens",
        Stop::Refusal | Stop::ContentFilter => "refusal",
        Stop::PauseTurn => "pause_turn",
        _ if calls => "tool_use",
        _ => "end_turn",
    },
    lost: "pause_turn",
    transcript: "messages",
    traits: Traits {
        thoughts: true,
        blocks: true,
        ..Traits::DEFAULT
    },
};

fn read(messages: &[Value]) -> Vec<Item> {
    let mut out = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap();
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            blocks => list(blocks),
        };
        out.extend(blocks.iter().map(|block| item(role, block)));
    }
    out
}

fn item(role: &str, block: &Value) -> Item {
    match (block["type"].as_str().unwrap(), role) {
        ("text", "user") => Item::User(string(&block["text"])),
        ("text", "system") => Item::System(string(&block["text"])),
        ("text", _) => Item::Model(string(&block["text"])),
        ("thinking" | "redacted_thinking", _) => Item::Thought(string(&block["thinking"])),
        ("tool_use", _) => Item::Call {
            id: string(&block["id"]),
            name: string(&block["name"]),
            arguments: block["input"].clone(),
        },
        ("tool_result", _) => Item::Result {
            id: string(&block["tool_use_id"]),
            text: match &block["content"] {
                Value::String(text) => text.clone(),
                blocks => list(blocks).iter().map(|b| string(&b["text"])).collect(),
            },
        },
        _ => {
            let mut block = block.clone();
            block.as_object_mut().unwrap().remove("cache_control");
            Item::Other(block)
        }
    }
}

fn alter(quirks: AgentQuirks, history: &[Value]) -> Vec<Value> {
    let mut history = history.to_vec();
    if quirks.no_thoughts {
        for message in history.iter_mut().filter(|m| m["role"] == "assistant") {
            if let Some(blocks) = message["content"].as_array_mut() {
                blocks.retain(|b| b["type"] != "thinking" && b["type"] != "redacted_thinking");
            }
        }
        history.retain(|m| m["content"].as_array().is_none_or(|b| !b.is_empty()));
    }
    let quirks = Quirks {
        glue: quirks.glue,
        trim: quirks.trim,
        no_blank: quirks.no_blank,
        strings: quirks.strings,
        cache: quirks.cache,
        text_first: quirks.text_first,
    };
    quirks::applied(quirks, &history)
}

/// Only complete blocks count.
fn patched(raw: &[u8]) -> Option<Vec<u8>> {
    let message = Anthropic.parse(whole_events(raw)?.as_bytes(), true, true).ok()?;
    let mut out = String::new();
    let mut event = |kind: &str, mut data: Value| {
        data["type"] = kind.into();
        out.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    };
    event(
        "message_start",
        json!({"message": {"id": message.id, "usage": message.usage}}),
    );
    for (index, block) in message.content.iter().enumerate() {
        event(
            "content_block_start",
            json!({"index": index, "content_block": block}),
        );
        event("content_block_stop", json!({"index": index}));
    }
    event(
        "message_delta",
        json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 0}}),
    );
    event("message_stop", json!({}));
    Some(out.into_bytes())
}

fn partial(keep: &[Value]) -> Vec<Value> {
    let Some(message) = keep.first() else {
        return Vec::new();
    };
    let kind = |b: &Value| string(&b["type"]);
    let blocks = list(&message["content"]).into_iter();
    let mut blocks: Vec<Value> = blocks
        .take_while(|b| matches!(kind(b).as_str(), "text" | "thinking" | "redacted_thinking"))
        .collect();
    while blocks.last().is_some_and(|b| kind(b) != "text") {
        blocks.pop();
    }
    match blocks.is_empty() {
        true => Vec::new(),
        false => vec![json!({"role": "assistant", "content": blocks})],
    }
}
