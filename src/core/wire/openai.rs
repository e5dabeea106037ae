//! What both of OpenAI's wires have in common.

use bytes::Bytes;

use super::error::OwnError;
use super::leg::Usage;
use super::leg_usage::ProviderUsage;
use super::view::ToolShape;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};

/// An error of our own in OpenAI's shape.
pub(super) fn error_body(error: OwnError<'_>) -> String {
    serde_json::json!({
        "error": {"message": error.message, "type": kind(error.status), "param": null, "code": error.code},
    })
    .to_string()
}

fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// A tool, as chat servers take it.
pub(super) const TOOL: ToolShape = ToolShape {
    around: [
        r#"{"type":"function","function":{"name":""#,
        r#"","description":"#,
        r#","parameters":"#,
        "}}",
    ],
    openapi: false,
};

/// One leg's usage: the last that upstream reported. Chat and Responses name its members differently.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenaiUsage {
    input: u64,
    cached: u64,
    written: u64,
    output: u64,
    reasoning: u64,
    total: u64,
    raw: Bytes,
}

impl ProviderUsage for OpenaiUsage {
    fn take(&mut self, data: &[u8], usage: Span) {
        *self = Self {
            raw: Bytes::copy_from_slice(usage.of(data)),
            ..Self::default()
        };
        let (mut total, mut cached, mut hits) = (None, None, None);
        for (key, value) in json::members(data, usage) {
            let number = json::number(value.of(data));
            match key.of(data) {
                b"prompt_tokens" | b"input_tokens" => self.input = number.unwrap_or_default(),
                b"completion_tokens" | b"output_tokens" => self.output = number.unwrap_or_default(),
                b"total_tokens" => total = number,
                // DeepSeek counts its cache in a member of its own.
                b"prompt_cache_hit_tokens" => hits = number,
                b"prompt_tokens_details" | b"input_tokens_details" => {
                    cached = json::get_u64(data, value, "cached_tokens");
                    self.written = json::get_u64(data, value, "cache_write_tokens").unwrap_or_default();
                }
                b"completion_tokens_details" | b"output_tokens_details" => {
                    self.reasoning = json::get_u64(data, value, "reasoning_tokens").unwrap_or_default();
                }
                _ => {}
            }
        }
        self.cached = cached.or(hits).unwrap_or_default();
        self.total = total.unwrap_or(self.input + self.output);
    }

    /// The input counts all of it; the parts are distinguished here.
    fn usage(&self) -> Usage {
        Usage {
            input: self.input.saturating_sub(self.cached + self.written),
            cache_read: self.cached,
            cache_write: self.written,
            output: self.output,
            reasoning: self.reasoning,
            ..Usage::default()
        }
    }

    fn is_reported(&self) -> bool {
        !self.raw.is_empty()
    }

    /// The last leg's object; `None` where that leg reported none.
    fn merged(legs: &[Self]) -> Option<String> {
        let last = legs.last().filter(|leg| leg.is_reported())?;
        let (output, reasoning) = Self::spent(legs);
        let text: &[u8] = &last.raw;
        let mut edits = Vec::new();
        let mut set = |value: Span, now: u64| edits.push(Edit::replace(value, now.to_string()));
        for (key, value) in json::members(text, json::root(text)) {
            match key.of(text) {
                b"completion_tokens" | b"output_tokens" => set(value, output),
                b"total_tokens" => set(value, last.total + output.saturating_sub(last.output)),
                b"completion_tokens_details" | b"output_tokens_details" => {
                    if let Some(value) = json::get(text, value, "reasoning_tokens") {
                        set(value, reasoning);
                    }
                }
                _ => {}
            }
        }
        let merged = splice::edited(&last.raw, edits);
        Some(String::from_utf8_lossy(&merged).into_owned())
    }
}

impl OpenaiUsage {
    /// Output and reasoning of all legs.
    pub(super) fn spent(legs: &[Self]) -> (u64, u64) {
        let sum = |of: fn(&Self) -> u64| legs.iter().map(of).sum();
        (sum(|leg| leg.output), sum(|leg| leg.reasoning))
    }
}
