//! Blocks of the oracle, created from the script.

use baton_core::record::HiddenResult;
use baton_strict::{Arguments, Part, Reply};
use serde_json::{Value, json};

pub fn is_hidden(part: &Part) -> bool {
    matches!(part, Part::Call { name, .. } if name == "session_handoff") || is_recall(part)
}

pub fn is_recall(part: &Part) -> bool {
    matches!(part, Part::Call { name, .. } if name == "session_recall")
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

/// A block as upstream itself stores it, with arguments that do not parse.
pub fn held(part: &Part) -> Value {
    let mut block = block(part);
    if let Part::Call {
        arguments: Arguments::Raw(text),
        ..
    } = part
    {
        block["raw"] = text.clone().into();
    }
    block
}

pub fn result(call: &Part, answer: HiddenResult) -> Value {
    let Part::Call { id, .. } = call else {
        unreachable!()
    };
    json!({"type": "tool_result", "tool_use_id": id, "content": answer.text()})
}

/// Blocks as shown to the agent. Sentinel-like text is escaped across all text blocks of a message.
pub fn scrubbed(blocks: &[Value]) -> Vec<Value> {
    let mut before = String::new();
    let mut out = Vec::new();
    for block in blocks {
        let mut block = block.clone();
        if block["type"] == "text" {
            let seen = scrub(&before).len();
            before.push_str(block["text"].as_str().unwrap());
            block["text"] = scrub(&before)[seen..].into();
        }
        out.push(block);
    }
    out
}

/// Escapes sentinel-like text with one backslash before the colon.
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

/// Tokens of a reply, as counted by the strict provider.
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
