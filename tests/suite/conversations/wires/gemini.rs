//! Gemini's generateContent.

use baton_strict::{Part, Reply, Stop};
use serde_json::{Value, json};

use super::{Traits, WireProfile, data, list, pieces, string, sum, whole_events};
use crate::conversations::agent_quirks::AgentQuirks;
use crate::conversations::items::Item;
use crate::matrix::variants;

pub const GEMINI: WireProfile = WireProfile {
    variant: variants::GEMINI,
    user: |texts| {
        let part = |text: &String| json!({"text": text});
        json!({"role": "user", "parts": texts.iter().map(part).collect::<Vec<_>>()})
    },
    system: None,
    read,
    alter,
    patched,
    partial,
    events,
    word: |stop, _| match stop {
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
        Stop::ContentFilter => "PROHIBITED_CONTENT",
        _ => "STOP",
    },
    lost: "STOP",
    transcript: "contents",
    traits: Traits {
        ids: false,
        drops_call_ids: true,
        trims_joined: true,
        ..Traits::DEFAULT
    },
};

fn read(contents: &[Value]) -> Vec<Item> {
    let mut out = Vec::new();
    for content in contents {
        let model = content["role"] == "model";
        for part in list(&content["parts"]) {
            if part["thought"] == true {
                out.push(Item::Thought(string(&part["text"])));
            } else if let Some(call) = part.get("functionCall") {
                out.push(Item::Call {
                    id: string(&call["id"]),
                    name: string(&call["name"]),
                    arguments: call["args"].clone(),
                });
            } else if let Some(result) = part.get("functionResponse") {
                let answer = &result["response"];
                let text = answer
                    .get("output")
                    .or_else(|| answer.get("error"))
                    .unwrap_or(answer);
                out.push(Item::Result {
                    id: string(&result["id"]),
                    text: string(text),
                });
            } else if model {
                out.push(Item::Model(string(&part["text"])));
            } else {
                out.push(Item::User(string(&part["text"])));
            }
        }
    }
    out
}

fn alter(quirks: AgentQuirks, history: &[Value]) -> Vec<Value> {
    let mut out = Vec::new();
    for content in history {
        let mut content = content.clone();
        if quirks.no_ids {
            for part in content["parts"].as_array_mut().unwrap() {
                for key in ["functionCall", "functionResponse"] {
                    if let Some(call) = part.get_mut(key) {
                        call.as_object_mut().unwrap().remove("id");
                    }
                }
            }
        }
        if content["role"] != "model" {
            out.push(content);
            continue;
        }
        let mut parts = list(&content["parts"]);
        if quirks.text_first {
            parts.sort_by_key(|p| p.get("functionCall").is_some());
        }
        if quirks.glue {
            parts = glued(parts, quirks);
        }
        if parts.is_empty() {
            continue;
        }
        match quirks.chunks {
            true => out.extend(parts.into_iter().map(|p| json!({"role": "model", "parts": [p]}))),
            false => {
                content["parts"] = parts.into();
                out.push(content);
            }
        }
    }
    out
}

/// Joins adjacent text parts. The rest of thinking without text is removed.
fn glued(parts: Vec<Value>, quirks: AgentQuirks) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for part in parts {
        let bare = |p: &Value| p.get("text").is_some() && p.get("thoughtSignature").is_none();
        if quirks.no_thoughts && part["text"] == "" {
            continue;
        }
        match out.last_mut() {
            Some(last) if bare(last) && bare(&part) => {
                last["text"] = (string(&last["text"]) + &string(&part["text"])).into();
            }
            _ => out.push(part),
        }
    }
    if quirks.trim {
        for part in out.iter_mut().filter(|p| p.get("text").is_some()) {
            part["text"] = string(&part["text"]).trim_end().into();
        }
    }
    out
}

fn patched(raw: &[u8]) -> Option<Vec<u8>> {
    let events = whole_events(raw)?;
    let first = data(&events).into_iter().next()?;
    let candidate = json!({"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"});
    let end = json!({"candidates": [candidate], "responseId": first["responseId"]});
    Some(format!("{events}data: {end}\n\n").into_bytes())
}

fn partial(keep: &[Value]) -> Vec<Value> {
    let parts = list(&keep.first().cloned().unwrap_or_default()["parts"]).into_iter();
    let mut parts: Vec<Value> = parts.take_while(|p| p.get("functionCall").is_none()).collect();
    parts.retain(|p| p["text"] != "");
    let answer: String = parts.iter().map(|p| string(&p["text"])).collect();
    match answer.trim().is_empty() {
        true => Vec::new(),
        false => vec![json!({"role": "model", "parts": parts})],
    }
}

fn events(reply: &Reply) -> usize {
    let thinks = |part: &Part| matches!(part, Part::Thinking(_) | Part::Redacted);
    let calls = |part: &Part| matches!(part, Part::Call { .. });
    let answer = sum(reply, |part| match part {
        Part::Thinking(text) | Part::Text(text) => pieces(reply, text),
        _ => 0,
    });
    let mut runs = 0;
    let mut before = false;
    for part in &reply.parts {
        runs += usize::from(calls(part) && !before);
        before = calls(part);
    }
    let signed = runs == 0 && reply.parts.iter().any(thinks);
    (answer + runs + usize::from(signed)).max(1) - 1
}
