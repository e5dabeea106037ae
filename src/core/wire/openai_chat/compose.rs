//! Synthetic responses as chat completions, complete or streamed; messages that ask the model again.
//!
//! Events: <https://platform.openai.com/docs/api-reference/chat-streaming>.

use bytes::Bytes;

use super::pairs::result;
use crate::record::HiddenPair;
use crate::text::json;
use crate::tools::ToolNames;
use crate::wire::openai::chat_usage;
use crate::wire::{AnswerShape, Framing, LegOutput, StreamOpening, SyntheticResponse, View, sse};
use serde_json::{Map, Value};

pub(super) fn compose(view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
    let text = json::quote(answer.text);
    match shape {
        AnswerShape::Whole => {
            let message = format!(r#"{{"role":"assistant","content":{text},"refusal":null}}"#);
            let choice =
                format!(r#"{{"index":0,"message":{message},"logprobs":null,"finish_reason":"stop"}}"#);
            let usage = format!(r#","usage":{}"#, chat_usage(answer.input(), answer.output()));
            object(answer, "chat.completion", &choice, &usage).into()
        }
        AnswerShape::Stream(_) => stream(view.facts.wants_usage, answer, &text).concat().into(),
    }
}

pub(super) fn stream_opening(view: &View, answer: &SyntheticResponse<'_>, _: Framing) -> StreamOpening {
    StreamOpening::shown(chunk(view.facts.wants_usage, answer, ROLE, "null"))
}

fn object(answer: &SyntheticResponse<'_>, kind: &str, choice: &str, usage: &str) -> String {
    let (id, at, model) = (
        answer.id("chatcmpl-"),
        answer.seconds(),
        json::quote(answer.model),
    );
    format!(r#"{{"id":"{id}","object":"{kind}","created":{at},"model":{model},"choices":[{choice}]{usage}}}"#)
}

/// Delta of the first chunk.
const ROLE: &str = r#""role":"assistant","content":"","refusal":null"#;

/// If the agent requests usage, every chunk has the member, and an additional chunk has the numbers.
fn chunk(wants_usage: bool, answer: &SyntheticResponse<'_>, delta: &str, finish: &str) -> Bytes {
    let none = if wants_usage { r#","usage":null"# } else { "" };
    let choice = format!(r#"{{"index":0,"delta":{{{delta}}},"logprobs":null,"finish_reason":{finish}}}"#);
    sse::unnamed(&object(answer, "chat.completion.chunk", &choice, none))
}

fn stream(wants_usage: bool, answer: &SyntheticResponse<'_>, text: &str) -> Vec<Bytes> {
    let chunk = |delta: &str, finish: &str| chunk(wants_usage, answer, delta, finish);
    let mut all = vec![
        chunk(ROLE, "null"),
        chunk(&format!(r#""content":{text}"#), "null"),
        chunk("", r#""stop""#),
    ];
    if wants_usage {
        let usage = format!(r#","usage":{}"#, chat_usage(answer.input(), answer.output()));
        all.push(sse::unnamed(&object(answer, "chat.completion.chunk", "", &usage)));
    }
    all.push(sse::unnamed("[DONE]"));
    all
}

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
    let extras = message.iter();
    let extras: String = extras
        .map(|(key, value)| format!(",{}:{value}", json::quote(key)))
        .collect();
    let calls = pairs
        .iter()
        .map(|p| p.call.as_str())
        .collect::<Vec<_>>()
        .join(",");
    let own = format!(r#"{{"role":"assistant","content":{content}{extras},"tool_calls":[{calls}]}}"#);
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
