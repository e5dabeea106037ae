//! Gemini `generateContent`: how to read a request, and the shapes around a reply.

mod contents;
mod partial;
mod render;
mod rules;
mod signatures;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Value, json};

use super::canonical;
use super::complaint::Findings;
use super::dialect::{Dialect, Offered, Rendered, Turn};
use super::fields::text;
use super::model::Seen;
use super::reply::Reply;
use super::usage::{Segment, Usage};
use contents::{field, inner, many};

/// The dialect. It has no state.
pub(crate) struct Gemini;

/// Error words and their codes.
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
    fn transcript(&self) -> &'static str {
        "contents"
    }

    fn turns(&self, seen: &Seen) -> Vec<Turn> {
        contents::turns(&seen.body)
    }

    fn tools(&self, seen: &Seen) -> Vec<Offered> {
        contents::declarations(&seen.body)
            .filter_map(contents::offered)
            .collect()
    }

    fn streams(&self, seen: &Seen) -> bool {
        seen.path.contains(":streamGenerateContent")
    }

    fn thinks(&self, body: &Value) -> bool {
        let config = field(body, "generationConfig").and_then(|config| field(config, "thinkingConfig"));
        let budget = config.and_then(|config| field(config, "thinkingBudget"));
        budget.and_then(Value::as_i64) != Some(0)
    }

    fn check(&self, seen: &Seen, findings: &mut Findings<'_>) {
        rules::check(seen, findings);
    }

    fn segments(&self, seen: &Seen) -> Vec<Segment> {
        let body = inner(&seen.body);
        let system = field(body, "systemInstruction").into_iter();
        let parts = many(body, "tools")
            .iter()
            .chain(system)
            .chain(many(body, "contents"));
        parts
            .map(|part| Segment {
                text: canonical::text(part),
                mark: false,
            })
            .collect()
    }

    fn counted(&self, usage: &Usage) -> Value {
        let tokens = usage.prompt();
        json!({"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]})
    }

    fn render(&self, seen: &Seen, reply: &Reply, usage: &Usage) -> Rendered {
        render::render(seen, reply, usage)
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

    fn error_event(&self, seen: &Seen, at: usize, kind: &str, message: &str) -> Bytes {
        let code = STATUSES
            .iter()
            .find(|(word, _)| *word == kind)
            .map(|(_, code)| *code);
        let error = self.error(code.unwrap_or(503), message);
        render::Framing::of(seen).event(&error, at, true)
    }

    fn padding_event(&self, seen: &Seen, at: usize, size: usize) -> Bytes {
        let part = json!({"text": "", "partMetadata": {"padding": "x".repeat(size)}});
        let candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
        render::Framing::of(seen).event(&json!({"candidates": [candidate]}), at, false)
    }

    fn models(&self) -> Value {
        let model = json!({
            "name": "models/gemini-strict-1", "version": "1", "displayName": "Gemini Strict",
            "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        });
        json!({"models": [model]})
    }

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }
}

/// Whether the request came in an envelope, as Code Assist has it; its answers do, too.
fn in_envelope(seen: &Seen) -> bool {
    seen.path.starts_with("/v1internal:")
}

/// The model's name, which stands in the path, or in the envelope.
fn model(seen: &Seen) -> &str {
    if in_envelope(seen) {
        return text(&seen.body, "model");
    }
    let path = seen.path.split('?').next().unwrap_or("");
    let name = path.rsplit('/').next().unwrap_or("");
    name.split(':').next().unwrap_or("")
}
