//! Rules for context management: betas, the provider's summaries, threads, and messages and tools for a part
//! of the conversation.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::transcript::as_blocks;
use crate::canonical;
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::{list, text};

/// Request members that require a beta.
const BETA_MEMBERS: [(&str, &str); 4] = [
    ("safeguards", "dangerous-tool-use-2026-09-03"),
    ("thread", "message-threads-2026-08-12"),
    ("context_hint", "context-hint-2026-04-09"),
    ("context_management", "context-management-2025-06-27"),
];
const CLEAR_AT: &str = "mid-conversation-system-clear-at-2026-08-21";
const TOOL_CHANGES: &str = "mid-conversation-tool-changes-2026-07-01";
const INLINE_TOOLS: &str = "inline-tools-2026-09-15";

/// Whether the request has this beta.
pub(super) fn has_beta(request: &Received, beta: &str) -> bool {
    let betas = request.headers.get_all("anthropic-beta").iter();
    let mut betas = betas
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','));
    betas.any(|name| name.trim() == beta)
}

/// Whether the provider stores the messages before this request.
pub(super) fn continues_thread(body: &Value) -> bool {
    body.get("thread")
        .is_some_and(|thread| text(thread, "type") == "continue")
}

/// Checks a request against these rules.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    let body = &request.body;
    for (member, beta) in BETA_MEMBERS {
        let given = body.get(member).is_some_and(|value| !value.is_null());
        if given && !has_beta(request, beta) {
            findings.add(
                Rule::Required,
                format!("{member}: Extra inputs are not permitted ({beta})"),
            );
        }
    }
    let given = |member: &str| body.get(member).is_some_and(|value| !value.is_null());
    // What Claude Code's automatic mode has checked: <https://github.com/vercel/ai/pull/21247>.
    let has_kind = |one: &Value| one["type"].is_string();
    let safeguards = body["safeguards"].as_array();
    if given("safeguards") && !safeguards.is_some_and(|all| all.iter().all(has_kind)) {
        findings.add(
            Rule::Required,
            "safeguards: Input should be a valid list of safeguards",
        );
    }
    if given("compaction") && given("context_management") {
        let message = "compaction: cannot be combined with `context_management`";
        findings.add(Rule::Conflict, message);
    }
    check_thread(request, findings);
    for (n, message) in list(body, "messages").iter().enumerate() {
        check_clear_at(n, message, request, findings);
    }
    check_summaries(body, findings);
    check_tool_changes(request, findings);
}

fn check_thread(request: &Received, findings: &mut Findings<'_>) {
    let Some(thread) = request.body.get("thread").filter(|thread| !thread.is_null()) else {
        return;
    };
    match text(thread, "type") {
        "create" => {}
        "continue" => {
            let id = text(thread, "previous_message_id");
            if !request.memory.has_thread(id) {
                let message = format!("thread_not_found: no thread ends with the response {id:?}");
                findings.add(Rule::UnknownResponse, message);
            }
        }
        _ => findings.add(
            Rule::Required,
            "thread.type: Input should be 'create' or 'continue'",
        ),
    }
}

fn check_clear_at(n: usize, message: &Value, request: &Received, findings: &mut Findings<'_>) {
    let Some(at) = message.get("clear_at").filter(|at| !at.is_null()) else {
        return;
    };
    let known = matches!(at.as_str(), Some("next_user_message" | "never"));
    if text(message, "role") != "system" || !known || !has_beta(request, CLEAR_AT) {
        let message = format!("messages.{n}.clear_at: Extra inputs are not permitted ({CLEAR_AT})");
        findings.add(Rule::Required, message);
    }
}

/// A requested summary is signed. It must come first, occur once, and be unchanged.
fn check_summaries(body: &Value, findings: &mut Findings<'_>) {
    let mut signed = 0;
    for (n, message) in list(body, "messages").iter().enumerate() {
        for (m, block) in list(message, "content").iter().enumerate() {
            if text(block, "type") != "compaction" || text(block, "signature").is_empty() {
                continue;
            }
            let place = format!("messages.{n}.content.{m}");
            signed += 1;
            if (n, m) != (0, 0) || text(message, "role") == "system" {
                let message = format!("{place}: compaction_block_misplaced");
                findings.add(Rule::CompactionPlace, message);
            }
            if text(block, "signature") != summary_signature(block) {
                let message = format!("{place}: compaction_signature_invalid");
                findings.add(Rule::CompactionPlace, message);
            }
        }
    }
    if signed > 1 {
        findings.add(Rule::CompactionPlace, "messages: compaction_block_ambiguous");
    }
}

/// Creates this provider's response to a request for a summary. Later requests begin with the block.
pub fn signed_summary(content: &str, tool_changes: Value) -> Value {
    let mut block = json!({"type": "compaction", "content": content, "tool_changes": tool_changes});
    block["signature"] = json!(summary_signature(&block));
    block
}

fn summary_signature(block: &Value) -> String {
    let of = |key: &str| canonical::text(block.get(key).unwrap_or(&Value::Null));
    let hash = Sha256::new()
        .chain_update(of("content"))
        .chain_update([0])
        .chain_update(of("tool_changes"));
    STANDARD.encode(&hash.finalize()[..12])
}

/// Tool changes must name tools that are declared, or that an earlier change defines.
fn check_tool_changes(request: &Received, findings: &mut Findings<'_>) {
    let body = &request.body;
    let mut known = declared(body);
    for (n, message) in list(body, "messages").iter().enumerate() {
        for (m, block) in as_blocks(message.get("content")).iter().enumerate() {
            if !list(block, "tool_changes").is_empty() {
                // The changes of a summary replace all earlier ones.
                known = declared(body);
            }
            for change in std::iter::once(block).chain(list(block, "tool_changes")) {
                if matches!(text(change, "type"), "tool_addition" | "tool_removal") {
                    let place = format!("messages.{n}.content.{m}");
                    check_tool_change(&place, change, request, &mut known, findings);
                }
            }
        }
    }
}

fn check_tool_change(
    place: &str,
    change: &Value,
    request: &Received,
    known: &mut HashSet<String>,
    findings: &mut Findings<'_>,
) {
    let tool = change.get("tool").unwrap_or(&Value::Null);
    let beta = match text(tool, "type") {
        "tool_definition" => {
            let name = text(&tool["definition"], "name");
            if name.is_empty() || !known.insert(name.to_owned()) {
                let message = format!("{place}.tool.definition: Tool names must be unique. ({name:?})");
                findings.add(Rule::RepeatedTool, message);
            }
            INLINE_TOOLS
        }
        "tool_reference" => {
            let name = text(tool, "name");
            if !known.contains(name) {
                let message = format!("{place}.tool: {name:?} is not declared before");
                findings.add(Rule::UnknownTool, message);
            }
            TOOL_CHANGES
        }
        _ => {
            findings.add(Rule::Required, format!("{place}.tool: Field required"));
            return;
        }
    };
    if !has_beta(request, beta) && !has_beta(request, INLINE_TOOLS) {
        let message = format!("{place}: Extra inputs are not permitted ({beta})");
        findings.add(Rule::Required, message);
    }
}

fn declared(body: &Value) -> HashSet<String> {
    let names = list(body, "tools").iter().map(|tool| text(tool, "name"));
    names.map(str::to_owned).collect()
}

/// Names of all tools that the request declares, including those in its messages.
pub(super) fn tool_names(body: &Value) -> HashSet<String> {
    let mut names = declared(body);
    for message in list(body, "messages") {
        for block in list(message, "content") {
            for change in std::iter::once(block).chain(list(block, "tool_changes")) {
                let name = change.pointer("/tool/definition/name").and_then(Value::as_str);
                names.extend(name.map(str::to_owned));
            }
        }
    }
    names
}
