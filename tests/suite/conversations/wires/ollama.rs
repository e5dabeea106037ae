//! Ollama's chat.

use baton_strict::{Part, Stop};
use serde_json::{Value, json};

use super::{Traits, WireProfile, chat, pieces, string, sum};
use crate::conversations::agent_quirks::AgentQuirks;
use crate::matrix::variants;

pub const OLLAMA: WireProfile = WireProfile {
    variant: variants::OLLAMA,
    user: |texts| json!({"role": "user", "content": texts.concat()}),
    system: Some(|text| json!({"role": "system", "content": text})),
    read: chat::read,
    alter,
    patched: |raw| {
        let text = String::from_utf8_lossy(raw);
        let lines = &text[..=text.rfind('\n')?];
        let end =
            json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop"});
        Some(format!("{lines}{end}\n").into_bytes())
    },
    partial: chat::partial,
    events: |reply| {
        sum(reply, |part| match part {
            Part::Thinking(text) | Part::Text(text) => pieces(reply, text),
            Part::Call { .. } => 1,
            _ => 0,
        })
    },
    word: |stop, _| match stop {
        Stop::MaxTokens => "length",
        _ => "stop",
    },
    lost: "stop",
    transcript: "messages",
    traits: Traits {
        ids: false,
        one_string: true,
        ..chat::CHAT.traits
    },
};

fn alter(quirks: AgentQuirks, history: &[Value]) -> Vec<Value> {
    let assistant = |m: &Value| {
        let mut m = m.clone();
        if quirks.trim {
            m["content"] = string(&m["content"]).trim_end().into();
        }
        if quirks.no_thoughts {
            m.as_object_mut().unwrap().remove("thinking");
        }
        m
    };
    let each = |m: &Value| match m["role"] == "assistant" {
        true => assistant(m),
        false => m.clone(),
    };
    history.iter().map(each).collect()
}
