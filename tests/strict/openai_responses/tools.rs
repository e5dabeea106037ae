//! The rules of tools.

use std::collections::HashSet;

use serde_json::Value;

use super::transcript::{self, kind};
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::{list, text};

/// The most tools that one list may hold.
const MAX_TOOLS: usize = 128;
/// The most characters of a tool's name.
const MAX_NAME: usize = 64;

const KINDS: [&str; 19] = [
    "function",
    "custom",
    "namespace",
    "tool_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "file_search",
    "computer",
    "computer_use_preview",
    "code_interpreter",
    "image_generation",
    "mcp",
    "local_shell",
    "shell",
    "apply_patch",
    "programmatic_tool_calling",
    "multi_agent",
];

/// Checks a request's tools, and those that its items add, against the rules.
pub(super) fn check(request: &Received, items: &[Value], findings: &mut Findings<'_>) {
    check_list("tools", list(&request.body, "tools"), findings);
    for (n, item) in items.iter().enumerate() {
        if kind(item) == "additional_tools" {
            check_list(&format!("input[{n}].tools"), list(item, "tools"), findings);
            if text(item, "role") != "developer" {
                let rule = "Supported values are: 'developer'";
                findings.add(Rule::Role, format!("Invalid value. {rule}. (input[{n}].role)"));
            }
        }
    }
    check_names(request, items, findings);
}

fn check_list(place: &str, tools: &[Value], findings: &mut Findings<'_>) {
    if tools.len() > MAX_TOOLS {
        let rule = format!("Expected an array with maximum length {MAX_TOOLS}");
        let given = tools.len();
        findings.add(
            Rule::TooManyTools,
            format!(
                "Invalid '{place}': array too long. {rule}, but got an array with length {given} instead."
            ),
        );
    }
    let mut names = HashSet::new();
    for (n, tool) in tools.iter().enumerate() {
        let place = format!("{place}[{n}]");
        let (kind, name) = (text(tool, "type"), text(tool, "name"));
        if !KINDS.contains(&kind) {
            let known = KINDS.join("', '");
            findings.add(
                Rule::BlockType,
                format!("Invalid value: '{kind}'. Supported values are: '{known}'. ({place}.type)"),
            );
        }
        if matches!(kind, "function" | "custom" | "namespace") {
            check_name(&place, name, findings);
            if !names.insert(name) {
                let rule = "Tool names must be unique";
                findings.add(
                    Rule::RepeatedTool,
                    format!("{rule}: {name:?} stands twice. ({place}.name)"),
                );
            }
        }
        match kind {
            "namespace" => check_list(&format!("{place}.tools"), list(tool, "tools"), findings),
            "function" if tool.get("strict").and_then(Value::as_bool) == Some(true) => {
                check_strict(name, tool.get("parameters"), findings);
            }
            _ => {}
        }
    }
}

fn check_name(place: &str, name: &str, findings: &mut Findings<'_>) {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() {
        findings.add(
            Rule::Required,
            format!("Missing required parameter: '{place}.name'."),
        );
    } else if name.len() > MAX_NAME || !name.chars().all(fits) {
        let rule =
            "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'";
        findings.add(Rule::Required, format!("Invalid '{place}.name': {rule}."));
    }
}

fn check_strict(name: &str, schema: Option<&Value>, findings: &mut Findings<'_>) {
    if let Some(why) = schema.map_or(Some("a schema is required".to_owned()), why_not_strict) {
        findings.add(
            Rule::StrictSchema,
            format!("Invalid schema for function '{name}': {why}."),
        );
    }
}

/// Why a schema cannot be strict; `None` where it can.
pub(super) fn why_not_strict(schema: &Value) -> Option<String> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Some("'additionalProperties' is required to be supplied and to be false".to_owned());
        }
        let required: HashSet<&str> = list(schema, "required")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        if let Some(optional) = properties.keys().find(|key| !required.contains(key.as_str())) {
            return Some(format!(
                "'required' is required to be supplied and to be an array including every key in properties. \
                 Missing '{optional}'"
            ));
        }
        return properties.values().find_map(why_not_strict);
    }
    let inner = schema.get("items").into_iter().chain(list(schema, "anyOf"));
    inner.into_iter().find_map(why_not_strict)
}

/// Calls in the history name tools on offer. A prompt template may add tools that are not in the request.
fn check_names(request: &Received, items: &[Value], findings: &mut Findings<'_>) {
    if request.body.get("prompt").is_some_and(|prompt| !prompt.is_null()) {
        return;
    }
    let tools = transcript::tools(request);
    let names: HashSet<&str> = tools.iter().map(|tool| text(&tool.tool, "name")).collect();
    for (n, item) in items.iter().enumerate() {
        let called = matches!(kind(item), "function_call" | "custom_tool_call");
        let name = text(item, "name");
        if called && !name.is_empty() && !names.contains(name) {
            findings.add(
                Rule::UnknownTool,
                format!("input[{n}]: call of {name:?}, which is not in 'tools'"),
            );
        }
    }
}
