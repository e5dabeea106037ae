//! Secrets are not quoted, and only the cut part is.

mod answers;
mod linear;

use serde_json::{Value, json};

use super::{CutPart, Question, RecallIndex, RecallIndexSettings};
use crate::record::WireId;
use crate::redact::Redactor;
use crate::transcript::Transcript;
use crate::wire::{self, Operation, View};

fn settings() -> RecallIndexSettings {
    RecallIndexSettings {
        redactor: Redactor::new(&[]),
        ..RecallIndexSettings::default()
    }
}

/// A request from Claude Code with these messages.
fn view(messages: &[Value]) -> View {
    let body = json!({"model": "m", "system": "You are Claude Code.", "messages": messages});
    let wire = wire::wire(WireId::Anthropic);
    wire.read(&body.to_string().into(), Operation::Generate).unwrap()
}

/// A cut part that spans the whole request.
fn whole(view: &View) -> CutPart<'_> {
    CutPart {
        transcript: Transcript::from_view(view),
        end: view.list.end,
    }
}

fn question(query: &str) -> Question {
    Question {
        query: query.to_owned(),
        limit: 8,
    }
}

fn answer_to(messages: &[Value], query: &str) -> String {
    let view = view(messages);
    RecallIndex::new(&whole(&view), &settings())
        .answer(&question(query))
        .text
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn model(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

/// A tool call and its result.
fn called(id: &str, name: &str, input: Value, result: &str, failed: bool) -> [Value; 2] {
    [
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}]}),
    ]
}

fn ran(id: &str, command: &str, result: &str, failed: bool) -> [Value; 2] {
    called(id, "Bash", json!({"command": command}), result, failed)
}
