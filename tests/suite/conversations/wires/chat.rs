//! OpenAI Chat Completions.

use baton_strict::{CallStyle, Part, Reply, Stop};
use serde_json::{Value, json};

use super::{Traits, WireProfile, data, list, pieces, string, sum, whole_events};
use crate::conversations::agent_quirks::AgentQuirks;
use crate::conversations::items::{Item, arguments};
use crate::matrix::variants;

pub const CHAT: WireProfile = WireProfile {
    variant: variants::CHAT,
    user: |texts| match texts {
        [only] => json!({"role": "user", "content": only}),
        _ => {
            let part = |text: &String| json!({"type": "text", "text": text});
            json!({"role": "user", "content": texts.iter().map(part).collect::<Vec<_>>()})
        }
    },
    system: Some(|text| json!({"role": "system", "content": text})),
    read,
    alter,
    patched: |raw| {
        let events = whole_events(raw)?;
        (!data(&events).is_empty()).then(|| (events + "data: [DONE]\n\n").into_bytes())
    },
    partial,
    events,
    word: |stop, calls| match stop {
        Stop::MaxTokens => "length",
        Stop::ContentFilter => "content_filter",
        _ if calls => "tool_calls",
        _ => "stop",
    },
    lost: "stop",
    transcript: "messages",
    traits: Traits {
        text_first: true,
        ..Traits::DEFAULT
    },
};

pub(super) fn read(messages: &[Value]) -> Vec<Item> {
    let mut out = Vec::new();
    for message in messages {
        let texts: Vec<String> = match &message["content"] {
            Value::String(text) => vec![text.clone()],
            parts => list(parts).iter().map(|p| string(&p["text"])).collect(),
        };
        let texts = texts.into_iter();
        match message["role"].as_str().unwrap() {
            "system" => out.extend(texts.map(Item::System)),
            "user" => out.extend(texts.map(Item::User)),
            "tool" => out.push(Item::Result {
                id: string(&message["tool_call_id"]),
                text: texts.collect(),
            }),
            _ => out.extend(texts.map(Item::Model)),
        }
        out.extend(list(&message["tool_calls"]).iter().map(|call| Item::Call {
            id: string(&call["id"]),
            name: string(&call["function"]["name"]),
            arguments: match &call["function"]["arguments"] {
                Value::String(_) => arguments(&call["function"]["arguments"]),
                value => value.clone(),
            },
        }));
    }
    out
}

fn alter(quirks: AgentQuirks, history: &[Value]) -> Vec<Value> {
    let assistant = |m: &Value| {
        let mut m = m.clone();
        if let Some(text) = m["content"].as_str().map(str::to_owned) {
            let text = if quirks.trim { text.trim_end() } else { &text };
            let calls = !list(&m["tool_calls"]).is_empty();
            m["content"] = match text {
                _ if quirks.no_blank && calls && text.trim().is_empty() => Value::Null,
                "" => "".into(),
                _ if quirks.strings => json!([{"type": "text", "text": text}]),
                _ => text.into(),
            };
        }
        if quirks.no_thoughts {
            m.as_object_mut().unwrap().remove("reasoning_content");
        }
        m
    };
    let each = |m: &Value| match m["role"] == "assistant" {
        true => assistant(m),
        false => m.clone(),
    };
    history.iter().map(each).collect()
}

pub(super) fn partial(keep: &[Value]) -> Vec<Value> {
    let Some(mut message) = keep.first().cloned() else {
        return Vec::new();
    };
    let fields = message.as_object_mut().unwrap();
    fields.remove("tool_calls");
    match message["content"].as_str().unwrap_or_default().trim().is_empty() {
        true => Vec::new(),
        false => vec![message],
    }
}

fn events(reply: &Reply) -> usize {
    let names = |style| match style {
        CallStyle::OneChunk | CallStyle::Standard => 1,
        _ => 2,
    };
    1 + sum(reply, |part| match part {
        Part::Thinking(text) if reply.delivery.reasoning => pieces(reply, text),
        Part::Text(text) => pieces(reply, text),
        Part::Call { .. } if reply.delivery.call_style == CallStyle::OneChunk => 1,
        Part::Call { arguments, .. } => names(reply.delivery.call_style) + pieces(reply, &arguments.text()),
        _ => 0,
    })
}
