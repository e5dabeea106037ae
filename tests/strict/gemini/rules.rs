//! Rules of `generateContent`.

use std::collections::HashSet;

use serde_json::Value;

use super::signatures;
use super::transcript::{MergedContent, declarations, field, inner, many, merged, role};
use crate::api::Endpoint;
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::text;

/// Maximum number of function declarations in a request.
const MAX_TOOLS: usize = 512;
/// Maximum length of a function name, in characters.
const MAX_NAME: usize = 128;

/// Data fields. A part has exactly one of them…
const DATA: [&str; 9] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];
/// …and may have any of these fields in addition.
const METADATA: [&str; 5] = [
    "thought",
    "thoughtSignature",
    "videoMetadata",
    "partMetadata",
    "mediaResolution",
];

/// Checks a request against all rules.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    let body = inner(&request.body);
    let contents = many(body, "contents");
    if contents.is_empty() {
        findings.add(
            Rule::NoMessages,
            "* GenerateContentRequest.contents: contents is not specified",
        );
    }
    check_head(body, findings);
    // The SDKs count only contents. Without system and tools, calls and signatures cannot be checked.
    let bare = request.endpoint == Endpoint::CountTokens && declarations(body).next().is_none();
    let names = check_tools(body, findings);
    let names = (!bare).then_some(names);
    for (n, content) in contents.iter().enumerate() {
        check_content(n, content, findings);
    }
    let turns = merged(body);
    for (at, turn) in turns.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &turns[at]);
        match turn.role {
            "model" => check_calls(turn, before, turns.get(at + 1), names.as_ref(), findings),
            _ => check_responses(turn, before, findings),
        }
    }
    if !bare {
        signatures::check(request, findings);
    }
}

fn check_head(body: &Value, findings: &mut Findings<'_>) {
    let cached = field(body, "cachedContent").is_some();
    if cached
        && ["systemInstruction", "tools", "toolConfig"]
            .iter()
            .any(|key| field(body, key).is_some())
    {
        findings.add(
            Rule::Conflict,
            "CachedContent can not be used with GenerateContent request setting system_instruction, tools or \
             tool_config.",
        );
    }
    let Some(fields) = body.as_object() else { return };
    for key in fields.keys().filter(|key| key.contains('_')) {
        let camel = camel(key);
        if fields.contains_key(&camel) {
            findings.add(
                Rule::Conflict,
                format!("Invalid JSON payload received. {key} and {camel} are one field, and both are set."),
            );
        }
    }
}

fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let mut out = words.next().unwrap_or("").to_owned();
    for word in words {
        let (head, tail) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        out.push_str(&head.to_uppercase());
        out.push_str(tail);
    }
    out
}

fn check_tools<'a>(body: &'a Value, findings: &mut Findings<'_>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (n, declaration) in declarations(body).enumerate() {
        let place = format!("tools.function_declarations[{n}]");
        let name = text(declaration, "name");
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        if !name.starts_with(first) || !name.chars().all(fits) || name.len() > MAX_NAME {
            let rule = "Must start with a letter or an underscore";
            findings.add(
                Rule::Required,
                format!("* GenerateContentRequest.{place}.name: Invalid function name. {rule}."),
            );
        } else if !names.insert(name) {
            findings.add(
                Rule::RepeatedTool,
                format!("Duplicate function declaration found: {name}"),
            );
        }
        if field(declaration, "parameters").is_some() && field(declaration, "parametersJsonSchema").is_some()
        {
            findings.add(
                Rule::Conflict,
                format!("{place}: parameters and parameters_json_schema must not both be set."),
            );
        }
    }
    let count = declarations(body).count();
    if count > MAX_TOOLS {
        let rule = format!("at most {MAX_TOOLS} function declarations are allowed");
        findings.add(
            Rule::TooManyTools,
            format!("tools: {rule}, and {count} were given."),
        );
    }
    names
}

fn check_content(n: usize, content: &Value, findings: &mut Findings<'_>) {
    if !matches!(role(content), "user" | "model") {
        findings.add(
            Rule::Role,
            format!("Please use a valid role: user, model. (contents[{n}])"),
        );
    }
    let parts = many(content, "parts");
    if parts.is_empty() {
        findings.add(
            Rule::EmptyContent,
            format!("* GenerateContentRequest.contents[{n}].parts: contents.parts must not be empty."),
        );
    }
    for (m, part) in parts.iter().enumerate() {
        check_part(&format!("contents[{n}].parts[{m}]"), part, findings);
    }
}

fn check_part(place: &str, part: &Value, findings: &mut Findings<'_>) {
    let data = DATA.iter().filter(|key| field(part, key).is_some()).count();
    if data != 1 {
        findings.add(
            Rule::EmptyContent,
            format!(
                "* GenerateContentRequest.{place}.data: required oneof field 'data' must have one initialized field"
            ),
        );
    }
    for key in part.as_object().into_iter().flatten().map(|(key, _)| key) {
        let camel = camel(key);
        if !DATA.contains(&camel.as_str()) && !METADATA.contains(&camel.as_str()) {
            findings.add(
                Rule::BlockType,
                format!(
                    "Invalid JSON payload received. Unknown name \"{key}\" at '{place}': Cannot find field."
                ),
            );
        }
    }
    for (kind, inner, needed) in [
        ("functionCall", "args", false),
        ("functionResponse", "response", true),
    ] {
        let Some(value) = field(part, kind) else { continue };
        let fits = field(value, inner).map_or(!needed, Value::is_object);
        if text(value, "name").is_empty() || !fits {
            findings.add(
                Rule::Required,
                format!("* GenerateContentRequest.{place}.{kind}: name and {inner} (an object) are required"),
            );
        }
    }
}

fn check_calls(
    turn: &MergedContent<'_>,
    before: Option<&MergedContent<'_>>,
    after: Option<&MergedContent<'_>>,
    names: Option<&HashSet<&str>>,
    findings: &mut Findings<'_>,
) {
    let calls = turn.all("functionCall");
    let Some(((n, ..), _)) = calls.first() else { return };
    if before.is_none_or(|before| before.role != "user") {
        findings.add(
            Rule::CallPlace,
            format!(
                "Please ensure that function call turn comes immediately after a user turn or after a function \
                 response turn. (contents[{n}])"
            ),
        );
    }
    let answers = after.map_or(0, |after| after.all("functionResponse").len());
    if answers != calls.len() {
        let rule = if answers < calls.len() {
            Rule::Unanswered
        } else {
            Rule::OrphanResult
        };
        findings.add(
            rule,
            format!(
                "Please ensure that the number of function response parts is equal to the number of function call \
                 parts of the function call turn. ({answers} and {}, behind contents[{n}])",
                calls.len()
            ),
        );
    }
    let mut ids = HashSet::new();
    for ((n, m, _), call) in calls {
        let (name, id) = (text(call, "name"), text(call, "id"));
        if names.is_some_and(|names| !names.contains(name)) {
            findings.add(
                Rule::UnknownTool,
                format!("contents[{n}].parts[{m}]: call of {name:?}, which is not declared"),
            );
        }
        if !id.is_empty() && !ids.insert(id) {
            findings.add(
                Rule::RepeatedCall,
                format!("contents[{n}].parts[{m}]: the call id {id} stands twice"),
            );
        }
    }
}

/// Responses must follow right after the calls that they answer. They match by id if both have one, otherwise
/// by name.
fn check_responses(
    turn: &MergedContent<'_>,
    before: Option<&MergedContent<'_>>,
    findings: &mut Findings<'_>,
) {
    let mut open = match before {
        Some(before) if before.role == "model" => before.all("functionCall"),
        _ => Vec::new(),
    };
    let (calls, responses) = (open.len(), turn.all("functionResponse"));
    if let (0, Some(((n, ..), _))) = (calls, responses.first()) {
        findings.add(
            Rule::OrphanResult,
            format!(
                "Please ensure that function response turn comes immediately after a function call turn. \
                 (contents[{n}])"
            ),
        );
        return;
    }
    for ((n, m, _), response) in responses {
        let (id, name) = (text(response, "id"), text(response, "name"));
        let fits = |call: &Value| {
            let by_id = !id.is_empty() && !text(call, "id").is_empty();
            text(call, "name") == name && (!by_id || text(call, "id") == id)
        };
        match open.iter().position(|(_, call)| fits(call)) {
            Some(at) => drop(open.remove(at)),
            None if open.is_empty() => {} // One too many: the count was found wrong already.
            None => findings.add(
                Rule::OrphanResult,
                format!("contents[{n}].parts[{m}]: no function call {name:?} with id {id:?} stands before"),
            ),
        }
    }
}
