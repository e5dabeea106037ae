//! Secrets are not shown; documents are completed.

mod budgets;
mod documents;
mod goals;
pub(crate) mod linear;
mod replaced;
mod rerun;
mod same;
mod secrets;
mod user;

use serde_json::{Value, json};

use super::{DraftSpec, Preset};
use crate::handoffs::document::{HandoffDocument, HandoffSize, HandoffSource};
use crate::record::{Handoff, HandoffOrigin, WireId};
use crate::redact::Redactor;
use crate::transcript::Transcript;
use crate::wire::{self, Operation, View};
use crate::work::{DraftIndex, DraftIndexSettings};

fn settings() -> DraftIndexSettings {
    DraftIndexSettings {
        redactor: Redactor::new(&[]),
        ..DraftIndexSettings::default()
    }
}

fn request(tokens: usize) -> DraftSpec<'static> {
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

/// A request from Claude Code with these messages.
fn view(messages: &[Value]) -> View {
    let body = json!({"model": "m", "system": "You are Claude Code.", "messages": messages});
    let wire = wire::wire(WireId::Anthropic);
    wire.read(&body.to_string().into(), Operation::Generate).unwrap()
}

fn indexed(messages: &[Value]) -> DraftIndex {
    DraftIndex::from_transcript(settings(), &Transcript::from_view(&view(messages)))
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

/// The document of a handoff after these messages.
pub(crate) fn document(index: &DraftIndex) -> HandoffDocument {
    HandoffDocument::from_source(&HandoffSource {
        handoff: &Handoff {
            id: "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11".parse().unwrap(),
            principal: "local".into(),
            conversation: "c0ffee".into(),
            wire: WireId::Anthropic,
            prompt: "x".into(),
            reason: None,
            head: String::new(),
            parent: None,
            model: None,
            created_ms: 0,
            history_bytes: 0,
            origin: HandoffOrigin::Model,
            recall: false,
            archived: false,
            spelled_out: None,
            routed: None,
            carried: Vec::new(),
            kept: None,
        },
        seen: &index.seen(),
        directory: None,
        checkout: None,
        is_unread: false,
        topic: None,
        exchange: None,
        assumptions: &[],
        context: None,
        bytes: HandoffSize::default(),
        clean: &|text| index.clean(text),
    })
}
