//! A handoff as the commands print it.

use serde::Serialize;

use crate::cli::stored::resume_line;
use baton_core::record::{CarriedItem, Handoff, distinctive_line};

/// A handoff as JSON, without internal fields. The names are API.
#[derive(Serialize)]
pub(super) struct HandoffOutput<'a> {
    id: String,
    resume: String,
    principal: &'a str,
    conversation: &'a str,
    wire: &'static str,
    model: Option<&'a str>,
    parent: Option<String>,
    created_ms: u64,
    history_bytes: u64,
    origin: &'static str,
    prompt_bytes: usize,
    archived: bool,
    reason: Option<&'a str>,
    /// The rules, to-dos and claims that the prompt was checked for.
    carried: &'a [CarriedItem],
    prompt: &'a str,
}

impl<'a> HandoffOutput<'a> {
    pub(super) fn of(handoff: &'a Handoff) -> Self {
        Self {
            id: handoff.id.to_string(),
            resume: resume_line(handoff),
            principal: &handoff.principal,
            conversation: &handoff.conversation,
            wire: handoff.wire.name(),
            model: handoff.model.as_deref(),
            parent: handoff.parent.map(|id| id.to_string()),
            created_ms: handoff.created_ms,
            history_bytes: handoff.history_bytes,
            origin: handoff.origin.name(),
            prompt_bytes: handoff.prompt.len(),
            archived: handoff.archived,
            reason: handoff.reason.as_deref(),
            carried: &handoff.carried,
            prompt: &handoff.prompt,
        }
    }
}

/// The title of a handoff in a list: the first distinctive line of its prompt, and its reason.
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
    use baton_core::record::{HandoffOrigin, WireId};

    pub(in super::super) const A: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    pub(in super::super) const B: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e12";

    pub(in super::super) fn handoff(id: &str) -> Handoff {
        Handoff {
            id: id.parse().unwrap(),
            principal: "local".into(),
            conversation: "c0ffee".into(),
            wire: WireId::Anthropic,
            prompt: "\n# Task two\n\u{1b}[2JDo it.".into(),
            reason: Some("done\u{7}".into()),
            head: "not shown".into(),
            parent: None,
            model: Some("claude".into()),
            created_ms: 0,
            history_bytes: 2048,
            origin: HandoffOrigin::Model,
            recall: false,
            archived: false,
            spelled_out: None,
            routed: None,
            carried: Vec::new(),
        }
    }
}
