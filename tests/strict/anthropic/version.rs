//! Rules that depend on the version of the API or of the model.
//!
//! Source: Anthropic's page on the migration to 2026-10-21.

use serde_json::Value;

use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::{list, text};

/// Versions known to the API, oldest first.
const VERSIONS: [&str; 2] = ["2023-06-01", "2026-10-21"];

/// Members that the newest version refuses, even with their default values.
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];

/// Models that refuse a tool choice which forces a call.
const UNFORCED: [&str; 4] = ["fable-5-1", "fable-5-2", "mythos-5-1", "mythos-5-2"];

pub(super) fn refuses_forced_choice(model: &str) -> bool {
    UNFORCED.iter().any(|name| model.contains(name))
}

pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    // On Vertex the version is part of the body.
    let Some(version) = request.header("anthropic-version") else {
        return;
    };
    if !VERSIONS.contains(&version) {
        let message = format!("anthropic-version: {version:?} is not a valid version");
        findings.add(Rule::Version, message);
    }
    if version != VERSIONS[1] {
        return;
    }
    for member in SAMPLING {
        if request.body.get(member).is_some() {
            let message = format!("{member}: Extra inputs are not permitted");
            findings.add(Rule::Version, message);
        }
    }
    for (n, message) in list(&request.body, "messages").iter().enumerate() {
        let role = text(message, "role");
        for (m, block) in list(message, "content").iter().enumerate() {
            let place = format!("messages.{n}.content.{m}");
            if role == "assistant" && text(block, "type") == "document" {
                let message = format!("{place}: `document` blocks are not permitted in assistant messages");
                findings.add(Rule::Version, message);
            }
            if role == "user" && cites(block) {
                let message = format!("{place}: `citations` are not permitted on text in user messages");
                findings.add(Rule::Version, message);
            }
        }
    }
}

/// Whether a block of text has citations, including one inside a result. The switch of a document is not a list.
fn cites(block: &Value) -> bool {
    let cited = text(block, "type") == "text" && !list(block, "citations").is_empty();
    cited || list(block, "content").iter().any(cites)
}
