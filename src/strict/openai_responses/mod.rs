//! OpenAI Responses: how to read a request, and the shapes around a reply.

mod binding;
mod items;
mod memory;
mod output;
mod pairing;
mod render;
mod rules;
mod stored;
mod stream;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::canonical;
use super::complaint::{Findings, Rule};
use super::dialect::{Dialect, Offered, Rendered, Turn};
use super::fields::{list, text};
use super::model::Seen;
use super::reply::Reply;
use super::usage::{Segment, Usage};

pub(crate) use items::whole;
pub(crate) use memory::Memory;

/// The dialect. What it keeps between requests is in [`Seen::memory`].
pub(crate) struct OpenAiResponses;

impl Dialect for OpenAiResponses {
    fn transcript(&self) -> &'static str {
        "input"
    }

    fn turns(&self, seen: &Seen) -> Vec<Turn> {
        items::whole(seen).iter().filter_map(items::turn).collect()
    }

    fn tools(&self, seen: &Seen) -> Vec<Offered> {
        let mut names = HashSet::new();
        let offered = items::tools(seen).into_iter().filter_map(|tool| tool.offered());
        offered.filter(|tool| names.insert(tool.name.clone())).collect()
    }

    fn thinks(&self, body: &Value) -> bool {
        body.pointer("/reasoning/effort").and_then(Value::as_str) != Some("none")
    }

    fn check(&self, seen: &Seen, findings: &mut Findings<'_>) {
        rules::check(seen, findings);
    }

    fn segments(&self, seen: &Seen) -> Vec<Segment> {
        let instructions = json!(text(&seen.body, "instructions"));
        let head = list(&seen.body, "tools")
            .iter()
            .chain(std::iter::once(&instructions));
        let items = items::whole(seen);
        head.chain(&items)
            .map(|part| Segment {
                text: canonical::text(part),
                mark: false,
            })
            .collect()
    }

    fn counted(&self, usage: &Usage) -> Value {
        json!({"object": "response.input_tokens", "input_tokens": usage.prompt()})
    }

    fn render(&self, seen: &Seen, reply: &Reply, usage: &Usage) -> Rendered {
        render::render(seen, reply, usage)
    }

    fn answer(&self, seen: &Seen, usage: &Usage) -> (u16, Value) {
        stored::answer(seen, usage)
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let (kind, code) = error_kind(status);
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
    }

    fn refusal(&self, rule: Rule, message: &str) -> Value {
        let (param, code) = match rule {
            Rule::UnknownResponse => (Some("previous_response_id"), Some("previous_response_not_found")),
            Rule::Conflict => (None, Some("mutually_exclusive_parameters")),
            Rule::Required => (None, Some("missing_required_parameter")),
            Rule::ForeignThinking => (None, Some("invalid_encrypted_content")),
            Rule::StrictSchema => (Some("tools"), Some("invalid_function_parameters")),
            Rule::BlockType | Rule::Include | Rule::Role => (None, Some("invalid_value")),
            _ => (Some("input"), None),
        };
        json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}})
    }

    fn error_event(&self, seen: &Seen, at: usize, kind: &str, message: &str) -> Bytes {
        stream::error(seen, at, kind, message)
    }

    fn padding_event(&self, _: &Seen, at: usize, size: usize) -> Bytes {
        stream::event("keepalive", at, json!({"padding": "x".repeat(size)}))
    }

    fn models(&self) -> Value {
        json!({"object": "list", "data": []})
    }

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }
}

fn error_kind(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("authentication_error", Some("invalid_api_key")),
        403 => ("permission_error", None),
        429 => ("rate_limit_error", Some("rate_limit_exceeded")),
        400..500 => ("invalid_request_error", None),
        _ => ("server_error", None),
    }
}
