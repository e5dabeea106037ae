//! Transcripts of Claude Code for tests.

use serde_json::{Value, json};

use crate::handoffs::draft::{DraftSpec, Preset};
use crate::record::WireId;
use crate::wire::{self, Operation, View};

/// A request with these messages.
pub(crate) fn view(messages: &[Value]) -> View {
    let body = json!({"model": "m", "system": "You are Claude Code.", "messages": messages});
    let wire = wire::wire(WireId::Anthropic);
    wire.read(&body.to_string().into(), Operation::Generate).unwrap()
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

pub(crate) fn model(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

/// A tool call and its result.
pub(crate) fn called(id: &str, name: &str, input: Value, result: &str, failed: bool) -> [Value; 2] {
    [
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}]}),
    ]
}

pub(crate) fn ran(id: &str, command: &str, result: &str, failed: bool) -> [Value; 2] {
    called(id, "Bash", json!({"command": command}), result, failed)
}

/// A request for a draft of this size.
pub(crate) fn draft_request(tokens: usize) -> DraftSpec<'static> {
    DraftSpec {
        focus: "",
        preset: Preset::Implement,
        tokens,
        repository: "",
        git: true,
        commands: true,
        why: true,
    }
}
