//! Implementation of Gemini `generateContent`.

mod render;
mod rules;
mod signatures;
#[cfg(test)]
mod tests;
mod transcript;

use bytes::Bytes;
use serde_json::{Value, json};

use super::complaint::Findings;
use super::dialect::{Dialect, Received, RenderedBody};
use super::reply::Reply;
use super::transcript::{ToolDefinition, Turn};
use super::usage::{Segment, Usage, unmarked};
use transcript::{field, inner, many};

/// Implementation of the wire, without state.
#[derive(Debug)]
pub(crate) struct Gemini;

/// Error statuses and their HTTP codes.
const STATUSES: [(&str, u16); 9] = [
    ("INVALID_ARGUMENT", 400),
    ("UNAUTHENTICATED", 401),
    ("PERMISSION_DENIED", 403),
    ("NOT_FOUND", 404),
    ("RESOURCE_EXHAUSTED", 429),
    ("CANCELLED", 499),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DEADLINE_EXCEEDED", 504),
];

impl Dialect for Gemini {
    fn transcript_field(&self) -> &'static str {
        "contents"
    }

    fn turns(&self, request: &Received) -> Vec<Turn> {
        transcript::turns(&request.body)
    }

    fn tools(&self, request: &Received) -> Vec<ToolDefinition> {
        transcript::declarations(&request.body)
            .filter_map(transcript::tool_definition)
            .collect()
    }

    fn streams(&self, request: &Received) -> bool {
        request.path.contains(":streamGenerateContent")
    }

    fn thinks(&self, body: &Value) -> bool {
        let config = field(body, "generationConfig").and_then(|config| field(config, "thinkingConfig"));
        let budget = config.and_then(|config| field(config, "thinkingBudget"));
        budget.and_then(Value::as_i64) != Some(0)
    }

    fn check(&self, request: &Received, findings: &mut Findings<'_>) {
        rules::check(request, findings);
    }

    fn segments(&self, request: &Received) -> Vec<Segment> {
        let body = inner(&request.body);
        let system = field(body, "systemInstruction").into_iter();
        let tools = many(body, "tools").iter();
        unmarked(tools.chain(system).chain(many(body, "contents")))
    }

    fn token_count(&self, usage: &Usage) -> Value {
        let tokens = usage.prompt();
        json!({"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]})
    }

    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
        render::render(request, reply, usage)
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let word = STATUSES
            .iter()
            .find(|(_, code)| *code == status)
            .map(|(word, _)| *word);
        let otherwise = if status < 500 {
            "INVALID_ARGUMENT"
        } else {
            "INTERNAL"
        };
        json!({"error": {"code": status, "message": message, "status": word.unwrap_or(otherwise)}})
    }

    fn error_event(&self, request: &Received, at: usize, kind: &str, message: &str) -> Bytes {
        let code = STATUSES
            .iter()
            .find(|(word, _)| *word == kind)
            .map(|(_, code)| *code);
        let error = self.error(code.unwrap_or(503), message);
        render::GeminiFraming::from_request(request).event(&error, at, true)
    }

    fn padding_event(&self, request: &Received, at: usize, size: usize) -> Bytes {
        let part = json!({"text": "", "partMetadata": {"padding": "x".repeat(size)}});
        let candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
        render::GeminiFraming::from_request(request).event(&json!({"candidates": [candidate]}), at, false)
    }

    fn models(&self) -> Value {
        let model = json!({
            "name": "models/gemini-strict-1", "version": "1", "displayName": "Gemini Strict",
            "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        });
        json!({"models": [model]})
    }
}
