//! Replies and messages in one spelling, so that what was sent and what should have been can be compared.

use baton_proxy::handoff::record::Answer;
use baton_proxy::strict::{Part, Reply};
use serde_json::{Value, json};

pub fn is_hidden(part: &Part) -> bool {
    matches!(part, Part::Call { name, .. } if name == "session_handoff")
}

pub fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

pub fn block(part: &Part) -> Value {
    match part {
        Part::Thinking(text) => json!({"type": "thinking", "thinking": text}),
        Part::Redacted => json!({"type": "redacted_thinking"}),
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call { id, name, arguments } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": arguments.value()})
        }
        Part::Block(value) => value.clone(),
        other => panic!("{other:?}"),
    }
}

pub fn result(call: &Part, answer: Answer) -> Value {
    let Part::Call { id, .. } = call else {
        unreachable!()
    };
    let mut out = json!({"type": "tool_result", "tool_use_id": id, "content": answer.text()});
    if answer.is_error() {
        out["is_error"] = true.into();
    }
    out
}

pub fn broken_up(block: &Value) -> Value {
    let mut out = block.clone();
    if out["type"] == "text" {
        out["text"] = scrub(out["text"].as_str().unwrap()).into();
    }
    out
}

/// One backslash before the colon of whatever looks like a sentinel.
pub fn scrub(text: &str) -> String {
    let mut out = text.to_owned();
    for word in [
        "[[handoff-resume",
        "[[/handoff-resume",
        "[[handoff-aside",
        "[[/handoff-aside",
    ] {
        let pieces: Vec<&str> = out.split(word).collect();
        let mut next = pieces[0].to_owned();
        for piece in &pieces[1..] {
            next.push_str(word);
            let slashes = piece.len() - piece.trim_start_matches('\\').len();
            if piece[slashes..].starts_with(':') {
                next.push('\\');
            }
            next.push_str(piece);
        }
        out = next;
    }
    out
}

/// Tokens of a reply, as the strict provider counts them.
pub fn tokens(reply: &Reply) -> usize {
    let size = |part: &Part| match part {
        Part::Thinking(text) | Part::Text(text) => text.len(),
        Part::Redacted => 4,
        Part::Call { name, arguments, .. } => name.len() + arguments.text().len(),
        Part::Block(value) => value.to_string().len(),
        other => panic!("{other:?}"),
    };
    (reply.parts.iter().map(size).sum::<usize>() / 4).max(1)
}

/// Messages in one spelling: content as blocks, no cache marks, no signatures (the provider checks those).
pub fn plain(messages: &[Value]) -> Vec<Value> {
    let mut out = messages.to_vec();
    for message in &mut out {
        if let Some(text) = message["content"].as_str() {
            message["content"] = json!([{"type": "text", "text": text}]);
        }
        for block in message["content"].as_array_mut().into_iter().flatten() {
            *block = plain_block(block);
        }
    }
    out
}

/// A block in one spelling.
pub fn plain_block(block: &Value) -> Value {
    let mut block = block.clone();
    let redacted = block["type"] == "redacted_thinking";
    if let Some(fields) = block.as_object_mut() {
        fields.retain(|key, _| key != "cache_control" && key != "signature" && !(redacted && key == "data"));
    }
    block
}

pub fn lines(messages: &[Value]) -> String {
    messages.iter().map(|m| format!("  {m}\n")).collect()
}
