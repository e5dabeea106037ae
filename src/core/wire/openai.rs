//! Code shared by both OpenAI wires.

use super::leg_state::ProviderUsage;
use bytes::Bytes;

use super::error::ProxyError;
use super::leg::{LegReport, Usage};
use super::view::ToolShape;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};

/// Formats an error from baton in OpenAI's shape.
pub(super) fn error_body(error: ProxyError<'_>) -> String {
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

/// Declaration of a tool for Chat Completions.
pub(super) const TOOL: ToolShape = ToolShape {
    around: [
        r#"{"type":"function","function":{"name":""#,
        r#"","description":"#,
        r#","parameters":"#,
        "}}",
    ],
    openapi: false,
};

/// Usage of one leg: the last object that upstream reported. Chat and Responses name the members differently.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenaiUsage {
    input: u64,
    cached: u64,
    written: u64,
    written_long: u64,
    output: u64,
    reasoning: u64,
    total: u64,
    raw: Bytes,
}

impl ProviderUsage for OpenaiUsage {
    fn take(&mut self, data: &[u8], usage: Span) {
        // Streams send running totals, so each object replaces the previous one.
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
                // DeepSeek reports cache hits in a member of its own.
                b"prompt_cache_hit_tokens" => hits = number,
                b"prompt_tokens_details" | b"input_tokens_details" => {
                    cached = json::get_u64(data, value, "cached_tokens");
                    self.take_written(data, value);
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

    /// Splits the input, because OpenAI's total includes the cached tokens.
    fn usage(&self) -> Usage {
        Usage {
            input: self.input.saturating_sub(self.cached + self.written),
            cache_read: self.cached,
            cache_write: self.written,
            // Clamped: a part must not exceed the total that it belongs to.
            cache_write_long: self.written_long.min(self.written),
            output: self.output,
            reasoning: self.reasoning,
        }
    }

    fn is_reported(&self) -> bool {
        !self.raw.is_empty()
    }

    /// Returns the last leg's usage object with the output of all legs, or `None` if that leg reported none.
    fn merged(legs: &[Self]) -> Option<String> {
        let last = legs.last().filter(|leg| leg.is_reported())?;
        let (output, reasoning) = Self::spent(legs);
        let text: &[u8] = &last.raw;
        let mut edits = Vec::new();
        let mut set = |value: Span, now: u64| edits.push(Edit::replace(value, now.to_string()));
        for (key, value) in json::members(text, json::root(text)) {
            match key.of(text) {
                b"completion_tokens" | b"output_tokens" => set(value, output),
                // The total includes the input of the last leg, so only the output is adjusted.
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

/// Reads the usage that a response without a transcript states, such as that of embeddings.
pub fn stated_usage(body: &[u8]) -> Option<LegReport> {
    let root = json::whole(body).ok()?;
    let stated = json::get(body, root, "usage").filter(|usage| body[usage.start] == b'{')?;
    let (mut usage, mut report) = (OpenaiUsage::default(), LegReport::default());
    usage.take(body, stated);
    report.usage = usage.usage();
    report.served.take(body, root);
    Some(report)
}

impl OpenaiUsage {
    /// Reads the tokens written to the cache: `cache_write_tokens`, and by lifetime
    /// `cache_write_tokens_details` with `ttl_30m_tokens` and `ttl_12h_tokens`.
    ///
    /// Source: openai 3.57.0, `types/responses/response_usage.py`.
    fn take_written(&mut self, data: &[u8], details: Span) {
        let by_lifetime = json::get(data, details, "cache_write_tokens_details");
        let [short, long] = ["ttl_30m_tokens", "ttl_12h_tokens"].map(|key| {
            let tokens = by_lifetime.and_then(|by_lifetime| json::get_u64(data, by_lifetime, key));
            tokens.unwrap_or_default()
        });
        let all = json::get_u64(data, details, "cache_write_tokens");
        self.written = all.unwrap_or_else(|| short.saturating_add(long));
        self.written_long = long;
    }

    /// Output and reasoning tokens of all legs.
    pub(super) fn spent(legs: &[Self]) -> (u64, u64) {
        let sum = |of: fn(&Self) -> u64| legs.iter().map(of).sum();
        (sum(|leg| leg.output), sum(|leg| leg.reasoning))
    }
}

/// Chat usage of a response that baton ends at the sentinel: the real output, and as input the estimate for
/// the next request.
pub(super) fn stopped_chat(legs: &[OpenaiUsage], next_input: u64) -> String {
    chat_usage(next_input, OpenaiUsage::spent(legs).0)
}

pub(super) fn chat_usage(input: u64, output: u64) -> String {
    let total = input + output;
    format!(r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}}}"#)
}

/// Responses usage of a response that baton ends at the sentinel: the real output, and as input the estimate
/// for the next request.
pub(super) fn stopped_response(legs: &[OpenaiUsage], next_input: u64) -> String {
    response_usage(next_input, OpenaiUsage::spent(legs))
}

pub(super) fn response_usage(input: u64, (output, reasoning): (u64, u64)) -> String {
    let total = input + output;
    format!(
        r#"{{"input_tokens":{input},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":{reasoning}}},"total_tokens":{total}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(object: &str) -> Usage {
        let mut usage = OpenaiUsage::default();
        usage.take(object.as_bytes(), Span::new(0, object.len()));
        usage.usage()
    }

    /// Four shapes: Responses, Chat, a server that reports only the parts, and one without details.
    #[test]
    fn tokens_written_to_the_cache_are_counted_by_their_lifetime() {
        let written = |new, all, long| Usage {
            input: new,
            cache_read: 40,
            cache_write: all,
            cache_write_long: long,
            output: 5,
            reasoning: 0,
        };
        for (object, expected) in [
            (
                r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":50,
                    "cache_write_tokens_details":{"ttl_30m_tokens":30,"ttl_12h_tokens":20}},"output_tokens":5}"#,
                written(10, 50, 20),
            ),
            (
                r#"{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":50},"completion_tokens":5}"#,
                written(10, 50, 0),
            ),
            (
                r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":40,
                    "cache_write_tokens_details":{"ttl_30m_tokens":30,"ttl_12h_tokens":20}},"output_tokens":5}"#,
                written(10, 50, 20),
            ),
            (
                r#"{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens_details":null},"completion_tokens":5}"#,
                written(60, 0, 0),
            ),
        ] {
            assert_eq!(usage(object), expected, "{object}");
        }
    }
}
