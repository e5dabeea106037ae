//! OpenAI Responses.

use baton_strict::{Part, Stop};
use serde_json::{Value, json};

use super::{Traits, WireProfile, data, list, pieces, string, sum, whole_events};
use crate::conversations::agent_quirks::AgentQuirks;
use crate::conversations::items::{Item, arguments};
use crate::matrix::variants;

pub const RESPONSES: WireProfile = WireProfile {
    variant: variants::RESPONSES,
    user: |texts| {
        let part = |text: &String| json!({"type": "input_text", "text": text});
        json!({"type": "message", "role": "user", "content": texts.iter().map(part).collect::<Vec<_>>()})
    },
    system: Some(|text| json!({"type": "message", "role": "developer", "content": text})),
    read,
    alter,
    patched,
    partial,
    events: |reply| {
        2 + sum(reply, |part| match part {
            Part::Thinking(_) | Part::Redacted => 2,
            Part::Text(text) => 5 + pieces(reply, text),
            Part::Call { arguments, .. } => 3 + pieces(reply, &arguments.text()),
            _ => 2,
        })
    },
    word: |stop, _| match stop {
        Stop::MaxTokens | Stop::ContentFilter => "incomplete",
        _ => "completed",
    },
    lost: "completed",
    transcript: "input",
    traits: Traits {
        thoughts: true,
        thought_is_content: true,
        apart: true,
        counts_parts: true,
        ..Traits::DEFAULT
    },
};

fn read(items: &[Value]) -> Vec<Item> {
    let mut out = Vec::new();
    for item in items {
        match item["type"].as_str().unwrap_or("message") {
            "message" => {
                let texts: Vec<String> = match &item["content"] {
                    Value::String(text) => vec![text.clone()],
                    parts => list(parts).iter().map(|p| string(&p["text"])).collect(),
                };
                let texts = texts.into_iter();
                match item["role"].as_str().unwrap() {
                    "user" => out.extend(texts.map(Item::User)),
                    "assistant" => out.extend(texts.map(Item::Model)),
                    _ => out.extend(texts.map(Item::System)),
                }
            }
            "reasoning" => out.push(Item::Thought(String::new())),
            "function_call" => out.push(Item::Call {
                id: string(&item["call_id"]),
                name: string(&item["name"]),
                arguments: arguments(&item["arguments"]),
            }),
            "function_call_output" => out.push(Item::Result {
                id: string(&item["call_id"]),
                text: string(&item["output"]),
            }),
            _ => out.push(Item::Other(item.clone())),
        }
    }
    out
}

fn alter(quirks: AgentQuirks, history: &[Value]) -> Vec<Value> {
    let mut out = history.to_vec();
    if quirks.no_thoughts {
        out.retain(|item| item["type"] != "reasoning");
    }
    for item in &mut out {
        let produced =
            item["role"] == "assistant" || item["type"] == "function_call" || item["type"] == "reasoning";
        if quirks.references && produced && item.get("id").is_some() {
            *item = json!({"type": "item_reference", "id": item["id"]});
            continue;
        }
        if item["type"] == "reasoning" {
            continue;
        }
        // The API refuses an id without its reasoning.
        if quirks.no_ids || quirks.no_thoughts {
            item.as_object_mut().unwrap().remove("id");
        }
        if item["role"] != "assistant" {
            continue;
        }
        for part in item["content"].as_array_mut().into_iter().flatten() {
            if quirks.trim {
                part["text"] = string(&part["text"]).trim_end().into();
            }
        }
        if let (true, [only]) = (quirks.strings, &list(&item["content"])[..]) {
            item["content"] = only["text"].clone();
        }
    }
    out
}

/// Only complete items count.
fn patched(raw: &[u8]) -> Option<Vec<u8>> {
    let text = whole_events(raw)?;
    let events = data(&text);
    let mut response = events.first()?.get("response")?.clone();
    let done = events.iter().filter(|e| e["type"] == "response.output_item.done");
    let items: Vec<Value> = done.map(|e| e["item"].clone()).collect();
    let mut out = String::new();
    let mut number = 0;
    let mut event = |kind: &str, mut data: Value| {
        data["type"] = kind.into();
        data["sequence_number"] = number.into();
        number += 1;
        out.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    };
    event("response.created", json!({"response": response}));
    for (index, item) in items.iter().enumerate() {
        event(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        event(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }
    response["status"] = "completed".into();
    response["output"] = items.into();
    event("response.completed", json!({"response": response}));
    Some(out.into_bytes())
}

fn partial(keep: &[Value]) -> Vec<Value> {
    let kept = keep
        .iter()
        .take_while(|i| i["type"] == "message" || i["type"] == "reasoning");
    let mut kept: Vec<Value> = kept.cloned().collect();
    while kept.last().is_some_and(|i| i["type"] == "reasoning") {
        kept.pop();
    }
    kept
}
