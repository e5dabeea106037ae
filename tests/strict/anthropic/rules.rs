//! Rules of Anthropic Messages, for `messages.create` and `count_tokens`.

use std::collections::HashSet;

use serde_json::Value;

use super::binding::{self, BindingError, signature_of};
use super::{calls, context, version};
use crate::api::Endpoint;
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::{list, text};

/// Maximum number of explicit cache breakpoints in a request.
const MAX_CACHE_MARKS: usize = 4;

const USER_BLOCKS: [&str; 7] = [
    "text",
    "image",
    "document",
    "search_result",
    "tool_result",
    "container_upload",
    "compaction",
];

const ASSISTANT_BLOCKS: [&str; 19] = [
    "text",
    "document",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "container_upload",
    "mcp_tool_use",
    "mcp_tool_result",
    "mcp_tool_listing",
    "advisor_tool_result",
    "compaction",
    "fallback",
];

const SYSTEM_BLOCKS: [&str; 3] = ["text", "tool_addition", "tool_removal"];

/// Checks a request against all rules.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    let body = &request.body;
    check_head(request, findings);
    version::check(request, findings);
    check_tools(body, findings);
    check_cache_marks(body, findings);
    check_system(body, findings);
    let messages = list(body, "messages");
    if messages.is_empty() {
        findings.add(Rule::NoMessages, "messages: at least one message is required");
        return;
    }
    for (n, message) in messages.iter().enumerate() {
        check_message(n, message, findings);
    }
    context::check(request, findings);
    if context::continues_thread(body) {
        // Earlier messages are not part of the request.
        return;
    }
    check_ends(messages, findings);
    calls::check(messages, findings);
    check_names(body, messages, findings);
    check_binding(request, findings);
}

fn check_head(request: &Received, findings: &mut Findings<'_>) {
    let vertex = request.path.contains(":rawPredict") || request.path.contains(":streamRawPredict");
    let counted = request.endpoint == Endpoint::CountTokens;
    if vertex && text(&request.body, "anthropic_version") != "vertex-2023-10-16" {
        findings.add(Rule::Required, "anthropic_version: Field required");
    } else if !vertex && request.header("anthropic-version").is_none() {
        findings.add(Rule::Required, "anthropic-version: header is required");
    }
    // On Vertex the model is part of the path, except for token counts.
    let named = !text(&request.body, "model").is_empty();
    if !named && (!vertex || counted) {
        findings.add(Rule::Required, "model: Field required");
    } else if named && vertex && !counted {
        findings.add(Rule::Required, "model: Extra inputs are not permitted");
    }
    let max_tokens = request.body.get("max_tokens");
    if request.endpoint == Endpoint::Generate && max_tokens.and_then(Value::as_u64).is_none() {
        findings.add(Rule::Required, "max_tokens: Field required");
    }
    let choice = request
        .body
        .get("tool_choice")
        .map_or("", |choice| text(choice, "type"));
    let thinking = request
        .body
        .get("thinking")
        .map_or("", |thinking| text(thinking, "type"));
    if !choice.is_empty() && list(&request.body, "tools").is_empty() {
        let message = "tool_choice may only be specified while providing tools.";
        findings.add(Rule::ChoiceWithoutTools, message);
    }
    let budget = request
        .body
        .pointer("/thinking/budget_tokens")
        .and_then(Value::as_u64);
    if max_tokens
        .and_then(Value::as_u64)
        .is_some_and(|most| budget.is_some_and(|budget| most <= budget))
    {
        let message = "`max_tokens` must be greater than `thinking.budget_tokens`.";
        findings.add(Rule::ThinkingRoom, message);
    }
    let forced = matches!(choice, "any" | "tool");
    if forced && !matches!(thinking, "" | "disabled") {
        findings.add(
            Rule::ForcedChoice,
            "Thinking may not be enabled when tool_choice forces tool use.",
        );
    }
    if forced && version::refuses_forced_choice(text(&request.body, "model")) {
        let message = format!("tool_choice: type {choice:?} is not supported by this model");
        findings.add(Rule::ForcedChoice, message);
    }
}

fn check_tools(body: &Value, findings: &mut Findings<'_>) {
    let mut names = HashSet::new();
    for (n, tool) in list(body, "tools").iter().enumerate() {
        let (name, kind) = (text(tool, "name"), text(tool, "type"));
        if matches!(kind, "" | "custom") {
            if name.is_empty() {
                findings.add(Rule::Required, format!("tools.{n}.custom.name: Field required"));
            }
            if !tool.get("input_schema").is_some_and(Value::is_object) {
                findings.add(
                    Rule::Required,
                    format!("tools.{n}.custom.input_schema: Field required"),
                );
            }
        }
        if !name.is_empty() && !names.insert(name) {
            findings.add(
                Rule::RepeatedTool,
                format!("tools: Tool names must be unique. ({name:?})"),
            );
        }
    }
}

fn check_cache_marks(body: &Value, findings: &mut Findings<'_>) {
    let marked = |block: &&Value| block.get("cache_control").is_some_and(|mark| !mark.is_null());
    let mut blocks: Vec<&Value> = list(body, "tools").iter().chain(list(body, "system")).collect();
    for block in list(body, "messages")
        .iter()
        .flat_map(|message| list(message, "content"))
    {
        blocks.push(block);
        blocks.extend(list(block, "content"));
    }
    let marks = blocks.into_iter().filter(marked).count();
    if marks > MAX_CACHE_MARKS {
        findings.add(
            Rule::CacheMarks,
            format!(
                "A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {marks}."
            ),
        );
    }
}

fn check_system(body: &Value, findings: &mut Findings<'_>) {
    for (n, block) in list(body, "system").iter().enumerate() {
        check_text(&format!("system.{n}"), block, findings);
    }
}

fn check_text(place: &str, block: &Value, findings: &mut Findings<'_>) {
    let text_value = text(block, "text");
    if text_value.is_empty() {
        findings.add(
            Rule::BlankText,
            format!("{place}: text content blocks must be non-empty"),
        );
    } else if text_value.trim().is_empty() {
        findings.add(
            Rule::BlankText,
            format!("{place}: text content blocks must contain non-whitespace text"),
        );
    }
}

fn check_message(n: usize, message: &Value, findings: &mut Findings<'_>) {
    let role = text(message, "role");
    let known: &[&str] = match role {
        "user" => &USER_BLOCKS,
        "assistant" => &ASSISTANT_BLOCKS,
        "system" => &SYSTEM_BLOCKS,
        _ => {
            let place = format!("messages.{n}.role: Unexpected role {role:?}.");
            findings.add(
                Rule::Role,
                format!("{place} Allowed roles are \"user\", \"assistant\" or \"system\""),
            );
            return;
        }
    };
    match message.get("content") {
        Some(Value::String(text_value)) => {
            if text_value.is_empty() {
                let rule = "all messages must have non-empty content";
                findings.add(Rule::EmptyContent, format!("messages.{n}: {rule}"));
            } else if text_value.trim().is_empty() {
                let rule = "text content blocks must contain non-whitespace text";
                findings.add(Rule::BlankText, format!("messages.{n}: {rule}"));
            }
        }
        Some(Value::Array(blocks)) if blocks.is_empty() => {
            findings.add(
                Rule::EmptyContent,
                format!("messages.{n}: all messages must have non-empty content"),
            );
        }
        Some(Value::Array(blocks)) => {
            for (m, block) in blocks.iter().enumerate() {
                check_block(&format!("messages.{n}.content.{m}"), block, known, findings);
            }
        }
        _ => findings.add(Rule::Required, format!("messages.{n}.content: Field required")),
    }
}

fn check_block(place: &str, block: &Value, known: &[&str], findings: &mut Findings<'_>) {
    let kind = text(block, "type");
    if !known.contains(&kind) {
        let expected = known.join("', '");
        findings.add(
            Rule::BlockType,
            format!(
                "{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: '{expected}'"
            ),
        );
    }
    let required: &[&str] = match kind {
        "text" => {
            check_text(place, block, findings);
            &[]
        }
        "tool_use" => {
            if !block.get("input").is_some_and(Value::is_object) {
                let rule = "tool_use.input: Input should be a valid dictionary";
                findings.add(Rule::Required, format!("{place}.{rule}"));
            }
            &["id", "name"]
        }
        "tool_result" => &["tool_use_id"],
        _ => &[],
    };
    for field in required {
        if text(block, field).is_empty() {
            findings.add(Rule::Required, format!("{place}.{kind}.{field}: Field required"));
        }
    }
}

fn check_ends(messages: &[Value], findings: &mut Findings<'_>) {
    let summed = |first: &Value| {
        let block = list(first, "content").first();
        block.is_some_and(|block| text(block, "type") == "compaction")
    };
    if messages
        .first()
        .is_some_and(|first| text(first, "role") != "user" && !summed(first))
    {
        findings.add(
            Rule::FirstRole,
            "messages: first message must use the \"user\" role",
        );
    }
    for (n, message) in messages.iter().enumerate() {
        let continued = messages
            .get(n + 1)
            .is_some_and(|next| text(next, "role") == "assistant");
        let ends_so = list(message, "content")
            .last()
            .is_some_and(|block| signature_of(block).is_some());
        if text(message, "role") == "assistant" && ends_so && !continued {
            let rule = "The final block in an assistant message cannot be `thinking`.";
            findings.add(Rule::EndsInThinking, format!("messages.{n}: {rule}"));
        }
    }
    let Some(last) = messages.last().filter(|last| text(last, "role") == "assistant") else {
        return;
    };
    // A paused turn is returned unchanged. It ends in the call or result of a server tool.
    let paused = list(last, "content").last().is_some_and(|block| {
        let kind = text(block, "type");
        kind == "server_tool_use" || (kind != "tool_result" && kind.ends_with("_tool_result"))
    });
    if !paused {
        findings.add(
            Rule::Prefill,
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        );
    }
}

fn check_names(body: &Value, messages: &[Value], findings: &mut Findings<'_>) {
    let names = context::tool_names(body);
    for (n, message) in messages.iter().enumerate() {
        for (m, block) in list(message, "content").iter().enumerate() {
            let name = text(block, "name");
            if text(block, "type") == "tool_use" && !names.contains(name) {
                let place = format!("messages.{n}.content.{m}");
                findings.add(
                    Rule::UnknownTool,
                    format!("{place}: `tool_use` of {name:?}, which is not in `tools`"),
                );
            }
        }
    }
}

fn check_binding(request: &Received, findings: &mut Findings<'_>) {
    let reported = binding::has_controls(request);
    if request.body.pointer("/thinking/block_binding").is_some() && !reported {
        let message = "thinking.block_binding: Extra inputs are not permitted";
        findings.add(Rule::Required, message);
    }
    let hint = match reported {
        true => "",
        false => {
            " That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
        }
    };
    let drops = binding::drops_mismatches(request);
    for refused in binding::refused(&request.body) {
        let foreign = refused.why == BindingError::Foreign;
        if drops && !foreign {
            continue;
        }
        let binding::RefusedThinking { path, kind, why } = refused;
        findings.add(
            if foreign { Rule::ForeignThinking } else { Rule::Binding },
            format!(
                "{path}: Invalid `signature` in `{kind}` block. The block is bound to a different conversation. Remove \
                 the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".{hint} ({})",
                why.why()
            ),
        );
    }
}
