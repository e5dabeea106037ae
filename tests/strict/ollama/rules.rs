//! The rules of `/api/chat`.

use serde_json::Value;

use super::transcript::{answers, name};
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::{list, text};

/// Checks a request against all rules.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    let body = &request.body;
    if text(body, "model").is_empty() {
        findings.add(Rule::Required, "model is required");
    }
    let messages = list(body, "messages");
    if messages.is_empty() {
        findings.add(
            Rule::NoMessages,
            "messages is empty: that would only load the model",
        );
    }
    check_tools(body, findings);
    let tools: Vec<&str> = list(body, "tools").iter().map(name).collect();
    for (n, message) in messages.iter().enumerate() {
        check_message(n, message, findings);
        for (m, call) in list(message, "tool_calls").iter().enumerate() {
            check_call(&format!("messages[{n}].tool_calls[{m}]"), call, &tools, findings);
        }
    }
    check_order(messages, findings);
}

fn check_tools(body: &Value, findings: &mut Findings<'_>) {
    let tools = list(body, "tools");
    for (n, tool) in tools.iter().enumerate() {
        if name(tool).is_empty() {
            findings.add(Rule::Required, format!("tools[{n}].function.name is required"));
        } else if tools[..n].iter().any(|other| name(other) == name(tool)) {
            findings.add(
                Rule::RepeatedTool,
                format!("tools[{n}]: {:?} stands twice", name(tool)),
            );
        }
    }
}

fn check_message(n: usize, message: &Value, findings: &mut Findings<'_>) {
    let role = text(message, "role");
    if !matches!(role, "system" | "user" | "assistant" | "tool") {
        let rule = "invalid role, must be one of [\"system\", \"user\", \"assistant\", \"tool\"]";
        findings.add(Rule::Role, format!("{rule} (messages[{n}]: {role:?})"));
    }
    let content = message.get("content").filter(|content| !content.is_null());
    if content.is_some_and(|content| !content.is_string()) {
        let field = "ChatRequest.messages.content of type string";
        findings.add(
            Rule::Required,
            format!("json: cannot unmarshal into Go struct field {field} (messages[{n}])"),
        );
    }
    let something = ["tool_calls", "images"]
        .iter()
        .any(|key| !list(message, key).is_empty())
        || !text(message, "thinking").is_empty();
    if role == "assistant" && text(message, "content").is_empty() && !something {
        findings.add(
            Rule::EmptyContent,
            format!("messages[{n}]: the assistant says nothing"),
        );
    }
}

fn check_call(place: &str, call: &Value, tools: &[&str], findings: &mut Findings<'_>) {
    let arguments = call.pointer("/function/arguments");
    if !arguments.is_some_and(Value::is_object) {
        let field =
            "ToolCallFunction.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments";
        findings.add(
            Rule::Required,
            format!("json: cannot unmarshal into Go struct field {field} ({place})"),
        );
    }
    if !tools.contains(&name(call)) {
        findings.add(
            Rule::UnknownTool,
            format!("{place}: call of {:?}, which is not in tools", name(call)),
        );
    }
}

/// Tool messages follow the calls that they answer, one for each call. The real server is less strict: it accepts
/// them in any order.
fn check_order(messages: &[Value], findings: &mut Findings<'_>) {
    let mut open: Vec<(String, &str)> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        if text(message, "role") == "tool" {
            let at = open.iter().position(|(id, called)| answers(message, id, called));
            match at {
                Some(at) => drop(open.remove(at)),
                None => findings.add(
                    Rule::OrphanResult,
                    format!("messages[{n}]: a tool message that answers no call before it"),
                ),
            }
            continue;
        }
        report_unanswered(&open, n, findings);
        let calls = list(message, "tool_calls").iter().enumerate();
        open = calls
            .map(|(m, call)| match text(call, "id") {
                "" => (format!("call {n}.{m}"), name(call)),
                id => (id.to_owned(), name(call)),
            })
            .collect();
    }
    report_unanswered(&open, messages.len(), findings);
}

fn report_unanswered(open: &[(String, &str)], n: usize, findings: &mut Findings<'_>) {
    if !open.is_empty() {
        let names: Vec<&str> = open.iter().map(|(_, name)| *name).collect();
        let names = names.join(", ");
        findings.add(
            Rule::Unanswered,
            format!("messages[{n}]: calls before it have no tool message: {names}"),
        );
    }
}
