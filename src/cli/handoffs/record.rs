//! Handoffs as the commands print them.

use serde_json::{Value, json};

use baton_core::marker::sentinel;
use baton_core::record::{DocumentRecord, Handoff, distinctive_line};
use baton_state::files::documents::document_of;

/// Converts a handoff to JSON, without internal fields. The member names are public API.
pub(super) fn record(handoff: &Handoff) -> Value {
    json!({
        "id": handoff.id,
        "resume": sentinel::opening(handoff.id),
        "principal": handoff.principal,
        "conversation": handoff.conversation,
        "wire": handoff.wire.name(),
        "model": handoff.model,
        "parent": handoff.parent,
        "created_ms": handoff.created_ms,
        "history_bytes": handoff.history_bytes,
        "origin": handoff.origin.name(),
        "prompt_bytes": handoff.prompt.len(),
        "archived": handoff.archived,
        "reason": handoff.reason,
        // The rules, to-dos and claims that the prompt was checked for.
        "carried": handoff.carried,
        "prompt": handoff.prompt,
    })
}

/// Adds the fields of a handoff's document to a list entry, or null without a document.
///
/// The member names are public API.
pub(super) fn with_document(mut shown: Value, record: Option<&DocumentRecord>) -> Value {
    let document = record.and_then(document_of);
    shown["kind"] = json!(document.as_ref().map(|document| document.kind));
    shown["repository"] = json!(record.map(|record| &record.repository));
    shown["branch"] = json!(record.map(|record| &record.branch));
    shown["topic"] = json!(record.map(|record| &record.topic));
    shown["next_action"] = json!(document.and_then(|document| document.next_action));
    shown["folder"] = json!(record.map(|record| &record.directory));
    shown
}

/// Title of a handoff in a list: its reason and the first distinctive line of its prompt.
pub(in crate::cli) fn named(handoff: &Handoff) -> String {
    let line = distinctive_line(&handoff.prompt);
    match &handoff.reason {
        Some(reason) => format!("{}: {line}", reason.trim()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const A: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    pub(in super::super) const B: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e12";

    pub(in super::super) fn handoff(id: &str) -> Handoff {
        Handoff {
            id: id.parse().unwrap(),
            principal: "local".into(),
            conversation: "c0ffee".into(),
            prompt: "\n# Task two\n\u{1b}[2JDo it.".into(),
            reason: Some("done\u{7}".into()),
            head: "not shown".into(),
            model: Some("claude".into()),
            history_bytes: 2048,
            ..Handoff::default()
        }
    }
}
