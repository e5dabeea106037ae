//! Changes that agents make to a history before they send it again. None of them changes the model's words,
//! so none may change the model's view.

use serde_json::{Value, json};

/// The changes that an agent makes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quirks {
    /// Joins consecutive text blocks of the model.
    pub glue: bool,
    /// Trims the end of the model's text blocks.
    pub trim: bool,
    /// Drops text blocks of only whitespace.
    pub no_blank: bool,
    /// Turns a single text block into a string.
    pub strings: bool,
    /// Puts a cache breakpoint on the last block of the history.
    pub cache: bool,
    /// Moves text before calls.
    pub text_first: bool,
}

/// The history as sent by an agent with these quirks.
pub fn applied(quirks: Quirks, history: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = history
        .iter()
        .map(|m| {
            if m["role"] == "assistant" {
                assistant(quirks, m)
            } else {
                m.clone()
            }
        })
        .collect();
    if quirks.strings {
        for message in &mut out {
            let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
            if let [only] = blocks
                && only["type"] == "text"
            {
                message["content"] = only["text"].clone();
            }
        }
    }
    if quirks.cache
        && let Some(blocks) = out.last_mut().and_then(|m| m["content"].as_array_mut())
        && let Some(last) = blocks.last_mut().filter(|b| b["type"] != "thinking")
    {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
    out
}

fn assistant(quirks: Quirks, message: &Value) -> Value {
    let mut blocks: Vec<Value> = message["content"].as_array().cloned().unwrap_or_default();
    let is_text = |b: &Value| b["type"] == "text";
    let first_call = blocks.iter().position(|b| b["type"] == "tool_use");
    if let Some(at) = first_call.filter(|_| quirks.text_first) {
        let behind = blocks.split_off(at);
        let (texts, others): (Vec<_>, Vec<_>) = behind.into_iter().partition(is_text);
        blocks.extend(texts);
        blocks.extend(others);
    }
    if quirks.glue {
        let mut glued: Vec<Value> = Vec::new();
        for block in blocks {
            match glued.last_mut() {
                Some(last) if is_text(last) && is_text(&block) => {
                    let all = format!(
                        "{}{}",
                        last["text"].as_str().unwrap(),
                        block["text"].as_str().unwrap()
                    );
                    last["text"] = all.into();
                }
                _ => glued.push(block),
            }
        }
        blocks = glued;
    }
    if quirks.trim {
        for block in blocks.iter_mut().filter(|b| is_text(b)) {
            block["text"] = block["text"].as_str().unwrap().trim_end().into();
        }
    }
    if quirks.no_blank {
        blocks.retain(|b| !is_text(b) || !b["text"].as_str().unwrap().trim().is_empty());
    }
    json!({"role": "assistant", "content": blocks})
}
