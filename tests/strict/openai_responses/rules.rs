//! The rules of a request and of each item in it.

use std::collections::HashSet;

use serde_json::Value;

use super::binding::{ItemPrefix, Validity, encrypted};
use super::transcript::{self, is_agents_own, kind};
use super::{pairing, tools};
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::{list, text};
use crate::signature::Signature;

/// Characters of an item's id and of a call's id.
const MAX_ID: usize = 64;

const INCLUDES: [&str; 8] = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];

/// How the ids of items begin; items of other types may have any id.
const PREFIXES: [(&str, &str); 5] = [
    ("message", "msg"),
    ("reasoning", "rs"),
    ("function_call", "fc"),
    ("custom_tool_call", "ctc"),
    ("compaction", "cmp"),
];

/// Checks a request against all rules.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    check_head(request, findings);
    let items = transcript::all(request);
    if items.is_empty() {
        findings.add(
            Rule::NoMessages,
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
        );
    }
    tools::check(request, &items, findings);
    for (n, item) in items.iter().enumerate() {
        check_item(n, item, findings);
        if kind(item) == "compaction_trigger" && n + 1 != items.len() {
            let rule = "must be the last item";
            findings.add(
                Rule::BlockType,
                format!("Invalid 'input[{n}]': 'compaction_trigger' {rule}."),
            );
        }
    }
    check_ids(&items, findings);
    pairing::check(request, &items, findings);
    check_encrypted(request, &items, findings);
}

fn check_head(request: &Received, findings: &mut Findings<'_>) {
    let body = &request.body;
    let given = |key: &str| body.get(key).is_some_and(|value| !value.is_null());
    if text(body, "model").is_empty() && !given("prompt") {
        findings.add(Rule::Required, "Missing required parameter: 'model'.");
    }
    if given("input") && !matches!(body["input"], Value::String(_) | Value::Array(_)) {
        let rule = "expected one of an array of objects or string";
        findings.add(Rule::Required, format!("Invalid type for 'input': {rule}."));
    }
    if given("previous_response_id") && given("conversation") {
        findings.add(
            Rule::Conflict,
            "Mutually exclusive parameters: Ensure you are only providing one of: 'previous_response_id' or \
             'conversation'.",
        );
    }
    let stored = body.get("store").and_then(Value::as_bool) != Some(false);
    if body.get("background").and_then(Value::as_bool) == Some(true) && !stored {
        findings.add(Rule::Conflict, "Background mode requires 'store' to be true.");
    }
    let previous = text(body, "previous_response_id");
    if !previous.is_empty() && request.memory.response(previous).is_none() {
        findings.add(
            Rule::UnknownResponse,
            format!("Previous response with id '{previous}' not found."),
        );
    }
    if let Some(id) = transcript::conversation(body).filter(|id| request.memory.conversation(id).is_none()) {
        findings.add(
            Rule::UnknownResponse,
            format!("Conversation with id '{id}' not found."),
        );
    }
    for (n, included) in list(body, "include").iter().enumerate() {
        let included = included.as_str().unwrap_or("");
        if !INCLUDES.contains(&included) {
            let known = INCLUDES.join("', '");
            findings.add(
                Rule::Include,
                format!("Invalid value: '{included}'. Supported values are: '{known}'. (include[{n}])"),
            );
        }
    }
}

fn check_item(n: usize, item: &Value, findings: &mut Findings<'_>) {
    let place = format!("input[{n}]");
    let needed: &[&str] = match kind(item) {
        "message" => {
            check_message(&place, item, findings);
            &[]
        }
        "function_call" => &["call_id", "name", "arguments"],
        "custom_tool_call" => &["call_id", "name", "input"],
        "function_call_output" | "custom_tool_call_output" => {
            if !matches!(item.get("output"), Some(Value::String(_) | Value::Array(_))) {
                findings.add(
                    Rule::Required,
                    format!("Missing required parameter: '{place}.output'."),
                );
            }
            if is_agents_own(item) { &[] } else { &["call_id"] }
        }
        "reasoning" if !item.get("summary").is_some_and(Value::is_array) => {
            findings.add(
                Rule::Required,
                format!("Missing required parameter: '{place}.summary'."),
            );
            &[]
        }
        "compaction" => &["encrypted_content"],
        "item_reference" => {
            let id = text(item, "id");
            findings.add(Rule::UnknownItem, missing(id));
            &[]
        }
        known if transcript::is_known(known) => &[],
        unknown => {
            findings.add(
                Rule::BlockType,
                format!("Invalid value: '{unknown}'. Supported values are: 'message', … ({place}.type)"),
            );
            &[]
        }
    };
    for key in needed {
        if !item.get(key).is_some_and(Value::is_string) {
            findings.add(
                Rule::Required,
                format!("Missing required parameter: '{place}.{key}'."),
            );
        }
    }
}

fn check_message(place: &str, item: &Value, findings: &mut Findings<'_>) {
    let role = text(item, "role");
    let known: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        _ => &["input_text", "input_image", "input_file"],
    };
    if !matches!(role, "user" | "assistant" | "system" | "developer") {
        let roles = "'assistant', 'system', 'developer', and 'user'";
        findings.add(
            Rule::Role,
            format!("Invalid value: '{role}'. Supported values are: {roles}. ({place}.role)"),
        );
    }
    match item.get("content") {
        Some(Value::String(string)) if string.is_empty() && role == "assistant" => {
            findings.add(
                Rule::EmptyContent,
                format!("Invalid '{place}.content': empty string."),
            );
        }
        Some(Value::String(_)) => {}
        Some(Value::Array(parts)) if parts.is_empty() => {
            findings.add(
                Rule::EmptyContent,
                format!("Invalid '{place}.content': empty array."),
            );
        }
        Some(Value::Array(parts)) => {
            for (m, part) in parts.iter().enumerate() {
                let kind = text(part, "type");
                if !known.contains(&kind) {
                    let known = known.join("', '");
                    findings.add(
                        Rule::BlockType,
                        format!(
                            "Invalid value: '{kind}'. Supported values are: '{known}'. ({place}.content[{m}].type)"
                        ),
                    );
                }
            }
        }
        _ => findings.add(
            Rule::Required,
            format!("Missing required parameter: '{place}.content'."),
        ),
    }
}

fn check_ids(items: &[Value], findings: &mut Findings<'_>) {
    let mut ids = HashSet::new();
    for (n, item) in items.iter().enumerate() {
        let id = text(item, "id");
        if !id.is_empty() && !ids.insert(id) {
            findings.add(
                Rule::RepeatedItem,
                format!(
                    "Duplicate item found with id {id}. Remove duplicate items from your input and try again. \
                     (input[{n}])"
                ),
            );
        }
        for key in ["id", "call_id"] {
            check_id_format(n, key, text(item, key), findings);
        }
        let prefix = PREFIXES.iter().find(|(name, _)| *name == kind(item));
        if let Some((_, prefix)) = prefix.filter(|(_, prefix)| !id.is_empty() && !id.starts_with(prefix)) {
            findings.add(
                Rule::ItemId,
                format!("Invalid 'input[{n}].id': '{id}'. Expected an ID that begins with '{prefix}'."),
            );
        }
    }
}

fn check_id_format(n: usize, key: &str, id: &str, findings: &mut Findings<'_>) {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.len() > MAX_ID {
        findings.add(
            Rule::ItemId,
            format!(
                "Invalid 'input[{n}].{key}': string too long. Expected a string with maximum length {MAX_ID}, but got \
                 a string with length {} instead.",
                id.len()
            ),
        );
    } else if key == "id" && !id.chars().all(fits) {
        let rule = "Expected an ID that contains letters, numbers, underscores, or dashes";
        findings.add(Rule::ItemId, format!("Invalid 'input[{n}].id': '{id}'. {rule}."));
    }
}

fn check_encrypted(request: &Received, items: &[Value], findings: &mut Findings<'_>) {
    let mut prefix = ItemPrefix::new(&request.body);
    for (n, item) in items.iter().enumerate() {
        let id = text(item, "id");
        match kind(item) {
            "reasoning" => match encrypted(request, item).as_str() {
                "" => findings.add(Rule::UnknownItem, missing(id)),
                content => match prefix.verify(content) {
                    Validity::Valid => {}
                    Validity::Foreign => findings.add(Rule::ForeignThinking, unverified(n, id)),
                    Validity::PrefixMismatch => findings.add(
                        Rule::ReasoningPrefix,
                        format!(
                            "Reasoning item '{id}' (input[{n}]) stands behind another prefix than it was made for: \
                             system, tools or earlier items differ. It would be removed (prefix_mismatch)."
                        ),
                    ),
                },
            },
            "compaction" if Signature::read(text(item, "encrypted_content")).is_none() => {
                findings.add(Rule::ForeignThinking, unverified(n, id));
            }
            _ => {}
        }
        prefix.push(item);
    }
}

fn unverified(n: usize, id: &str) -> String {
    format!("The encrypted content for item {id} (input[{n}]) could not be verified. Reason: not made here.")
}

fn missing(id: &str) -> String {
    format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` \
         set to true, or remove this item from your input."
    )
}
