//! Returns the model's output to a chat server, with the results of its calls.

use serde_json::{Map, Value};

use super::pairs::result;
use crate::record::HiddenPair;
use crate::text::json;
use crate::tools::ToolNames;
use crate::wire::LegOutput;

/// Members of a reply that are not part of the model's output, or are written again here.
const NOT_REPEATED: [&str; 5] = ["role", "tool_calls", "annotations", "function_call", "audio"];

/// Builds the assistant's message, unchanged except that its calls have the form that every later request
/// restores, followed by their results.
pub(super) fn ask_again(spoken: &LegOutput, pairs: &[HiddenPair], _ours: ToolNames) -> Option<String> {
    // Content, reasoning and other members, by key.
    let mut message: Option<Map<String, Value>> = None;
    for piece in spoken.pieces() {
        let choices = json::get(&piece, json::root(&piece), "choices");
        let choice = choices.and_then(|choices| json::elements(&piece, choices).first().copied());
        let written = choice.map(|choice| json::pick(&piece, choice, ["delta", "message"]));
        let Some(written) = written.into_iter().flatten().flatten().next() else {
            continue;
        };
        let message = message.get_or_insert_default();
        for (key, value) in json::members(&piece, written) {
            let key = key.text(&piece);
            if NOT_REPEATED.contains(&key.as_str()) {
                continue;
            }
            // A piece may end with half of a surrogate pair, which serde rejects.
            let value = match json::string(&piece, value) {
                Some(text) => Value::String(text.into_owned()),
                None => serde_json::from_slice(value.of(&piece)).unwrap_or_default(),
            };
            grow(message.entry(key).or_insert_with(Value::default), value);
        }
    }
    let mut message = message?;
    let is_empty = |value: &Value| value.is_null() || *value == "" || *value == Value::Array(Vec::new());
    message.retain(|_, value| !is_empty(value));
    let content = message.shift_remove("content").unwrap_or_default();
    let extras = message
        .iter()
        .map(|(key, value)| format!(",{}:{value}", json::quote(key)));
    let calls: Vec<&str> = pairs.iter().map(|p| p.call.as_str()).collect();
    let own = format!(
        r#"{{"role":"assistant","content":{content}{},"tool_calls":[{}]}}"#,
        extras.collect::<String>(),
        calls.join(",")
    );
    let results = pairs.iter().map(result);
    Some([own].into_iter().chain(results).collect::<Vec<_>>().join(","))
}

/// Merges a piece into a member: strings are concatenated, lists appended, and for other values the last one
/// counts.
fn grow(grown: &mut Value, more: Value) {
    match (grown, more) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (Value::Array(all), Value::Array(more)) => all.extend(more),
        (grown, more) => *grown = more,
    }
}
