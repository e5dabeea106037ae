//! Parsing of requests: fields in camelCase or snake_case, lists that may be single objects, contents as
//! turns.

use serde_json::Value;

use crate::canonical;
use crate::dialect::Received;
use crate::fields::text;
use crate::transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};

/// A field in camelCase or in snake_case, or `None` if it is null.
pub(super) fn field<'a>(value: &'a Value, camel: &str) -> Option<&'a Value> {
    let found = value.get(camel).or_else(|| value.get(snake(camel)));
    found.filter(|found| !found.is_null())
}

fn snake(camel: &str) -> String {
    let mut out = String::new();
    for c in camel.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A list. A single object counts as a list of one.
pub(super) fn many<'a>(value: &'a Value, camel: &str) -> &'a [Value] {
    match field(value, camel) {
        Some(Value::Array(list)) => list,
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => &[],
    }
}

/// The actual request. Token counts may wrap it, and Code Assist always does.
pub(super) fn inner(body: &Value) -> &Value {
    let wrapped = field(body, "generateContentRequest").or_else(|| field(body, "request"));
    wrapped.unwrap_or(body)
}

/// Whether the request is wrapped in an envelope, as by Code Assist. Its response is wrapped as well.
pub(super) fn in_envelope(request: &Received) -> bool {
    request.path.starts_with("/v1internal:")
}

/// Name of the model, from the path or from the envelope.
pub(super) fn model(request: &Received) -> &str {
    if in_envelope(request) {
        return text(&request.body, "model");
    }
    let path = request.path.split('?').next().unwrap_or("");
    let name = path.rsplit('/').next().unwrap_or("");
    name.split(':').next().unwrap_or("")
}

/// Function declarations of a request.
pub(super) fn declarations(body: &Value) -> impl Iterator<Item = &Value> {
    many(inner(body), "tools")
        .iter()
        .flat_map(|tool| many(tool, "functionDeclarations"))
}

/// A function that the client runs, or `None` if it has no name.
pub(super) fn tool_definition(declaration: &Value) -> Option<ToolDefinition> {
    let schema = field(declaration, "parametersJsonSchema").or_else(|| field(declaration, "parameters"));
    let name = text(declaration, "name");
    (!name.is_empty()).then(|| ToolDefinition {
        name: name.to_owned(),
        schema: schema.map_or_else(|| serde_json::json!({"type": "object"}), lower_types),
    })
}

/// Converts the types of a schema to lower case, because the API's own dialect writes `STRING`.
fn lower_types(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match value {
                Value::String(kind) if key == "type" => (key.clone(), kind.to_lowercase().into()),
                _ => (key.clone(), lower_types(value)),
            })
            .collect(),
        Value::Array(list) => list.iter().map(lower_types).collect(),
        other => other.clone(),
    }
}

/// Role of a content. Without one it is the user's, as are results under their old role `function`.
pub(super) fn role(content: &Value) -> &str {
    match text(content, "role") {
        "" | "function" => "user",
        role => role,
    }
}

/// Index of a content, index of a part in it, and the part.
pub(super) type IndexedPart<'a> = (usize, usize, &'a Value);

/// Consecutive contents of one role.
pub(super) struct MergedContent<'a> {
    pub(super) role: &'a str,
    pub(super) parts: Vec<IndexedPart<'a>>,
}

impl<'a> MergedContent<'a> {
    /// Calls (or responses) in the content, by the name of their field.
    pub(super) fn all(&self, camel: &str) -> Vec<(IndexedPart<'a>, &'a Value)> {
        let found = self.parts.iter().map(|placed| (*placed, field(placed.2, camel)));
        found
            .filter_map(|(placed, found)| Some((placed, found?)))
            .collect()
    }
}

/// Contents as the API reads them: consecutive ones with the same role are merged.
pub(super) fn merged(body: &Value) -> Vec<MergedContent<'_>> {
    let mut out: Vec<MergedContent<'_>> = Vec::new();
    for (n, content) in many(inner(body), "contents").iter().enumerate() {
        let role = role(content);
        if out.last().is_none_or(|last| last.role != role) {
            out.push(MergedContent {
                role,
                parts: Vec::new(),
            });
        }
        if let Some(last) = out.last_mut() {
            let parts = many(content, "parts").iter().enumerate();
            last.parts.extend(parts.map(|(m, part)| (n, m, part)));
        }
    }
    out
}

/// Canonical form of a part, without ids and signatures. `None` for thoughts and empty text.
pub(super) fn canonical_form(part: &Value) -> Option<String> {
    let thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
    if thought {
        return None;
    }
    if let Some(call) = field(part, "functionCall") {
        return Some(format!("call {}", canonical_call(call)));
    }
    if let Some(response) = field(part, "functionResponse") {
        let value = canonical::text(response.get("response").unwrap_or(&Value::Null));
        return Some(format!("response {} {value}", text(response, "name")));
    }
    match part.get("text").and_then(Value::as_str) {
        Some(words) => (!words.is_empty()).then(|| words.to_owned()),
        None => {
            let mut rest = part.clone();
            if let Value::Object(fields) = &mut rest {
                fields.retain(|key, _| !matches!(key.as_str(), "thoughtSignature" | "thought_signature"));
            }
            Some(canonical::text(&rest))
        }
    }
}

/// Canonical form of a call: name and arguments.
pub(super) fn canonical_call(call: &Value) -> String {
    let empty = Value::Object(serde_json::Map::new());
    let arguments = field(call, "args").unwrap_or(&empty);
    format!("{} {}", text(call, "name"), canonical::text(arguments))
}

/// Converts contents to turns.
///
/// A call without an id gets one from its position. A response without an id answers the first unanswered
/// call of that name.
pub(super) fn turns(body: &Value) -> Vec<Turn> {
    let mut open: Vec<(String, String)> = Vec::new();
    let mut out = Vec::new();
    for (n, content) in many(inner(body), "contents").iter().enumerate() {
        let mut turn = Turn::new(match role(content) {
            "model" => Role::Assistant,
            _ => Role::User,
        });
        for (m, part) in many(content, "parts").iter().enumerate() {
            if let Some(call) = field(part, "functionCall") {
                let id = match text(call, "id") {
                    "" => format!("call {n}.{m}"),
                    id => id.to_owned(),
                };
                let name = text(call, "name").to_owned();
                open.push((id.clone(), name.clone()));
                let arguments = field(call, "args").cloned().unwrap_or(Value::Null);
                turn.calls.push(ToolCall { id, name, arguments });
            } else if let Some(response) = field(part, "functionResponse") {
                turn.results.push(tool_result(response, &mut open));
            } else if part.get("thought").and_then(Value::as_bool) != Some(true)
                && let Some(words) = part.get("text").and_then(Value::as_str)
            {
                turn.texts.push(words.to_owned());
            }
        }
        out.push(turn);
    }
    out
}

fn tool_result(response: &Value, open: &mut Vec<(String, String)>) -> ToolResult {
    let (id, name) = (text(response, "id"), text(response, "name"));
    let fits = |(call, called): &(String, String)| if id.is_empty() { called == name } else { call == id };
    let call = open.iter().position(fits).map(|at| open.remove(at).0);
    let output = response.get("response").unwrap_or(&Value::Null);
    let output = output
        .get("output")
        .or_else(|| output.get("result"))
        .unwrap_or(output);
    ToolResult {
        id: call.unwrap_or_else(|| id.to_owned()),
        text: output
            .as_str()
            .map_or_else(|| output.to_string(), ToOwned::to_owned),
    }
}
