//! The rules of Chat Completions.

use std::collections::HashSet;

use serde_json::Value;

use super::transcript::name;
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::{list, text};

/// Tools that one request may offer.
const MAX_TOOLS: usize = 128;

const ROLES: [&str; 6] = ["system", "assistant", "user", "function", "tool", "developer"];

/// Checks a request against all rules.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    let body = &request.body;
    // Azure has the model in the path.
    if text(body, "model").is_empty() && !request.path.contains("/deployments/") {
        findings.add(Rule::Required, "you must provide a model parameter");
    }
    let names = check_tools(body, findings);
    if body.get("tool_choice").is_some_and(|choice| !choice.is_null()) && list(body, "tools").is_empty() {
        let message =
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.";
        findings.add(Rule::ChoiceWithoutTools, message);
    }
    let messages = list(body, "messages");
    if messages.is_empty() {
        findings.add(
            Rule::NoMessages,
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        );
    }
    for (n, message) in messages.iter().enumerate() {
        check_role(n, message, findings);
        check_content(n, message, findings);
        check_call_shapes(n, message, &names, findings);
    }
    check_order(messages, findings);
}

fn check_tools<'a>(body: &'a Value, findings: &mut Findings<'_>) -> HashSet<&'a str> {
    let tools = list(body, "tools");
    let mut names = HashSet::new();
    if tools.len() > MAX_TOOLS {
        findings.add(
            Rule::TooManyTools,
            format!(
                "Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}, but got an \
                 array with length {} instead.",
                tools.len()
            ),
        );
    }
    if body
        .get("tools")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
    {
        findings.add(
            Rule::Required,
            "Invalid 'tools': empty array. Expected an array with minimum length 1.",
        );
    }
    for (n, tool) in tools.iter().enumerate() {
        let name = name(tool);
        if name.is_empty() {
            findings.add(
                Rule::Required,
                format!("Missing required parameter: 'tools[{n}].function.name'."),
            );
        } else if !names.insert(name) {
            findings.add(
                Rule::RepeatedTool,
                format!("Invalid 'tools[{n}]': tool name {name:?} is not unique."),
            );
        }
    }
    names
}

fn check_role(n: usize, message: &Value, findings: &mut Findings<'_>) {
    let role = text(message, "role");
    if !ROLES.contains(&role) {
        findings.add(
            Rule::Role,
            format!(
                "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', \
                 and 'developer'. (messages[{n}].role)"
            ),
        );
    }
}

fn check_content(n: usize, message: &Value, findings: &mut Findings<'_>) {
    let assistant = text(message, "role") == "assistant";
    let calls = assistant
        && (!list(message, "tool_calls").is_empty()
            || ["function_call", "audio", "refusal"]
                .iter()
                .any(|key| message.get(key).is_some_and(|v| !v.is_null())));
    match message.get("content") {
        None | Some(Value::Null) if calls => {}
        None | Some(Value::Null) => findings.add(
            Rule::EmptyContent,
            format!("Invalid value for 'content': expected a string, got null. (messages[{n}].content)"),
        ),
        Some(Value::String(string)) => {
            if string.is_empty() && assistant && !calls {
                let rule = "an assistant message needs content or tool_calls";
                findings.add(Rule::EmptyContent, format!("Invalid 'messages[{n}]': {rule}."));
            }
        }
        Some(Value::Array(parts)) => {
            if parts.is_empty() {
                findings.add(
                    Rule::EmptyContent,
                    format!("Invalid 'messages[{n}].content': empty array."),
                );
            }
            for (m, part) in parts.iter().enumerate() {
                check_part(
                    &format!("messages[{n}].content[{m}]"),
                    text(message, "role"),
                    part,
                    findings,
                );
            }
        }
        Some(_) => {
            findings.add(
                Rule::Required,
                format!("Invalid type for 'messages[{n}].content': expected a string."),
            );
        }
    }
}

fn check_part(place: &str, role: &str, part: &Value, findings: &mut Findings<'_>) {
    let known: &[&str] = match role {
        "user" => &["text", "image_url", "input_audio", "file"],
        "assistant" => &["text", "refusal"],
        _ => &["text"],
    };
    let kind = text(part, "type");
    if !known.contains(&kind) {
        let known = known.join("', '");
        findings.add(
            Rule::BlockType,
            format!("Invalid value: '{kind}'. Supported values are: '{known}'. ({place}.type)"),
        );
    }
}

fn check_call_shapes(n: usize, message: &Value, names: &HashSet<&str>, findings: &mut Findings<'_>) {
    let mut ids = HashSet::new();
    if message
        .get("tool_calls")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
    {
        let rule = "empty array. Expected an array with minimum length 1";
        findings.add(
            Rule::Required,
            format!("Invalid 'messages[{n}].tool_calls': {rule}."),
        );
    }
    for (m, call) in list(message, "tool_calls").iter().enumerate() {
        let place = format!("messages[{n}].tool_calls[{m}]");
        let (id, name) = (text(call, "id"), name(call));
        if id.is_empty() {
            findings.add(
                Rule::Required,
                format!("Missing required parameter: '{place}.id'."),
            );
        } else if !ids.insert(id) {
            findings.add(
                Rule::RepeatedCall,
                format!("Invalid '{place}.id': {id} stands twice."),
            );
        }
        let function = call.get("function");
        if function.is_some_and(|function| !function.get("arguments").is_some_and(Value::is_string)) {
            let rule = "expected a string";
            findings.add(
                Rule::Required,
                format!("Invalid type for '{place}.function.arguments': {rule}."),
            );
        }
        if name.is_empty() {
            findings.add(
                Rule::Required,
                format!("Missing required parameter: '{place}.function.name'."),
            );
        } else if !names.contains(name) {
            findings.add(
                Rule::UnknownTool,
                format!("{place}: call of {name:?}, which is not in 'tools'"),
            );
        }
    }
}

/// Every call is answered right after its message, and every answer belongs to such a call.
fn check_order(messages: &[Value], findings: &mut Findings<'_>) {
    let mut open: Vec<&str> = Vec::new();
    let mut called: HashSet<&str> = HashSet::new();
    for (n, message) in messages.iter().enumerate() {
        if text(message, "role") == "tool" {
            let id = text(message, "tool_call_id");
            if let Some(at) = open.iter().position(|call| *call == id) {
                open.remove(at);
            } else if called.contains(id) {
                findings.add(
                    Rule::RepeatedResult,
                    format!("Invalid 'messages[{n}]': {id} is answered twice."),
                );
            } else {
                findings.add(
                    Rule::OrphanResult,
                    format!(
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                         'tool_calls'. (messages[{n}], {id:?})"
                    ),
                );
            }
            continue;
        }
        report_unanswered(&open, n, findings);
        open = list(message, "tool_calls")
            .iter()
            .map(|call| text(call, "id"))
            .collect();
        called = open.iter().copied().collect();
    }
    report_unanswered(&open, messages.len(), findings);
}

fn report_unanswered(open: &[&str], n: usize, findings: &mut Findings<'_>) {
    if !open.is_empty() {
        findings.add(
            Rule::Unanswered,
            format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {} (before messages[{n}])",
                open.join(", ")
            ),
        );
    }
}
