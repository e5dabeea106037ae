//! Transcripts of Claude Code for tests.

use std::sync::atomic::{AtomicUsize, Ordering};

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

/// A tool call with an id of its own, and its result, which failed if it begins with an exit code.
pub(crate) fn called(name: &str, input: Value, result: &str) -> [Value; 2] {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let id = format!("toolu_{}", CALLS.fetch_add(1, Ordering::Relaxed));
    let failed = result.starts_with("Exit code");
    [
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}]}),
    ]
}

pub(crate) fn ran(command: &str, result: &str) -> [Value; 2] {
    called("Bash", json!({"command": command}), result)
}

/// The same call with a result that is marked as an error.
pub(crate) fn failing([call, mut result]: [Value; 2]) -> [Value; 2] {
    result["content"][0]["is_error"] = json!(true);
    [call, result]
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
