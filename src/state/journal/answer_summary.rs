//! Summarizes a response for lists: its calls with their main argument, its first words, or the provider's
//! error message. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::summary;
use baton_core::agents::tools::{self, ToolKind};
use baton_core::text::json;
use baton_core::text::units::is_zero;
use baton_core::transcript::{AnswerContent, AnswerPartKind};

/// Maximum number of calls listed.
const MAX_CALLS: usize = 8;

/// Maximum number of characters examined in one string.
const LOOKED_AT: usize = 4096;

/// Members that may hold an error message, in order of preference.
const ERROR_WORDS: [&str; 5] = ["message", "detail", "error", "error_description", "title"];

/// Summary of a response. The field names are part of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerSummary {
    /// First line of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// First calls, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallSummary>,
    /// Number of further calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_calls: usize,
    /// Error message, in the words of the server that responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Summary of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallSummary {
    pub name: String,
    /// Argument that distinguishes this call, such as a command, a path or a query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
}

impl AnswerSummary {
    /// Summarizes a body. Returns `None` if there is nothing to show.
    ///
    /// Strings are redacted before they are truncated, because half a secret would no longer be recognized.
    pub(super) fn from_body(body: &[u8], failed: bool, redact: impl Fn(&str) -> String) -> Option<Self> {
        let content = AnswerContent::from_body(body);
        let first = |kind| content.parts.iter().find(|part| part.kind == kind);
        let line = |text: &str| {
            let end = text.char_indices().nth(LOOKED_AT);
            let end = end.map_or(text.len(), |(end, _)| end);
            let begun = &text[..end];
            let line = begun.lines().map(str::trim).find(|line| !line.is_empty())?;
            Some(summary::cut(&redact(line)))
        };
        let words = first(AnswerPartKind::Text).or_else(|| first(AnswerPartKind::Refusal));
        let error = first(AnswerPartKind::Error).map(|part| error_words(&part.text()));
        // A failed response without an error in a known form, such as an HTML page, is an error as a whole.
        let error = error.or_else(|| failed.then(|| error_words(&String::from_utf8_lossy(body))));
        let parts = content.parts.iter();
        let calls = parts.filter(|part| part.kind == AnswerPartKind::Call);
        let count = calls.clone().count();
        let summary = Self {
            text: words.and_then(|part| line(&part.text())),
            calls: calls
                .take(MAX_CALLS)
                .map(|part| {
                    let name = part.name.map_or(String::new(), |name| name.get().into_owned());
                    CallSummary::new(name, &part.text(), line)
                })
                .collect(),
            more_calls: count.saturating_sub(MAX_CALLS),
            error: error.and_then(|words| line(&words)),
        };
        (summary != Self::default()).then_some(summary)
    }
}

impl CallSummary {
    /// Summarizes a call. `line` picks and cleans the line of a string to show.
    fn new(name: String, arguments: &str, line: impl Fn(&str) -> Option<String>) -> Self {
        let (name, arguments) = tools::called(name, arguments);
        Self {
            argument: main_argument(&name, &arguments).and_then(|text| line(&text)),
            name: line(&name).unwrap_or_default(),
        }
    }
}

/// Returns the argument that best distinguishes calls of the same tool.
fn main_argument(name: &str, arguments: &Value) -> Option<String> {
    if let Some(text) = arguments.as_str() {
        return Some(text.to_owned());
    }
    let path = || {
        let paths = tools::paths(ToolKind::from_call(name, arguments), arguments);
        paths.into_iter().next()
    };
    let query = || tools::query(arguments).map(str::to_owned);
    let any = || {
        let mut values = arguments.as_object()?.values();
        values.find_map(Value::as_str).map(str::to_owned)
    };
    // A command says most about a call, then a path, then a query. Any other string is better than nothing.
    let command = tools::command(arguments);
    command.or_else(path).or_else(query).or_else(any)
}

/// Extracts the message of an error from nested JSON, or returns the string itself.
fn error_words(text: &str) -> String {
    /// Maximum depth of the message. No known provider nests it deeper.
    const DEEPEST: usize = 4;
    fn dig(value: &Value, depth: usize) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Value::Array(all) if depth > 0 => all.iter().find_map(|value| dig(value, depth - 1)),
            Value::Object(members) if depth > 0 => ERROR_WORDS
                .iter()
                .find_map(|key| dig(members.get(*key)?, depth - 1)),
            _ => None,
        }
    }
    let whole = json::whole(text.as_bytes()).ok();
    let parsed = whole.and_then(|_| serde_json::from_str(text).ok());
    let dug = parsed.and_then(|value| dig(&value, DEEPEST));
    dug.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str, failed: bool) -> AnswerSummary {
        AnswerSummary::from_body(body.as_bytes(), failed, str::to_owned).unwrap_or_default()
    }

    fn call(name: &str, argument: &str) -> CallSummary {
        CallSummary {
            name: name.to_owned(),
            argument: Some(argument.to_owned()),
        }
    }

    #[test]
    fn an_answer_is_its_first_words_and_its_calls() {
        let whole = r#"{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"\n I run it.\nThen more."},
            {"type":"tool_use","id":"a","name":"Bash","input":{"description":"tests","command":"cargo test"}},
            {"type":"tool_use","id":"b","name":"Read","input":{"file_path":"/src/a.rs","limit":3}}]}"#;
        let summary = of(whole, false);
        assert_eq!(summary.text.as_deref(), Some("I run it."));
        assert_eq!(
            summary.calls,
            [call("Bash", "cargo test"), call("Read", "/src/a.rs")]
        );
        let stream = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"comm\"}}]}}]}\n\n\
                      data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"and\\\":[\\\"bash\\\",\\\"-lc\\\",\\\"ls -l\\\"]}\"}}]}}]}\n\n";
        assert_eq!(of(stream, false).calls, [call("shell", "ls -l")]);
    }

    #[test]
    fn many_calls_are_counted() {
        let call = r#"{"type":"tool_use","id":"a","name":"Read","input":{}}"#;
        let whole = format!(r#"{{"type":"message","content":[{}]}}"#, [call; 11].join(","));
        let summary = of(&whole, false);
        assert_eq!((summary.calls.len(), summary.more_calls), (8, 3));
    }

    #[test]
    fn an_error_is_in_the_providers_own_words() {
        let anthropic = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let google = r#"[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]"#;
        let detail = r#"{"detail":[{"loc":["body"],"message":"field required"}]}"#;
        let ollama = r#"{"error":"model not found"}"#;
        let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"Broke off\"}}\n\n";
        for (body, words) in [
            (anthropic, "Overloaded"),
            (google, "API key not valid"),
            (detail, "field required"),
            (ollama, "model not found"),
            ("<html>\n<h1>502</h1>", "<html>"),
        ] {
            assert_eq!(of(body, true).error.as_deref(), Some(words));
        }
        assert_eq!(of(event, false).error.as_deref(), Some("Broke off"));
        assert_eq!(of("not json", false), AnswerSummary::default());
    }

    #[test]
    fn texts_are_redacted_before_they_are_cut() {
        let long = format!(r#"{{"error":{{"message":"{}SECRET"}}}}"#, "x".repeat(156));
        let summary =
            AnswerSummary::from_body(long.as_bytes(), true, |text| text.replace("SECRET", "")).unwrap();
        assert_eq!(summary.error, Some("x".repeat(156)));
    }
}
