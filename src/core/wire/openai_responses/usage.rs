//! The Responses API's token counters, and what the agent receives for a response of several legs. They come once, in a
//! leg's last event.

use bytes::Bytes;

use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::leg::Usage;

/// The usage object under `usage` of a response object, raw.
pub(super) fn of(data: &[u8], response: Span) -> Option<String> {
    let usage = json::get(data, response, "usage").filter(|u| data[u.start] == b'{')?;
    Some(String::from_utf8_lossy(usage.of(data)).into_owned())
}

/// A usage object's numbers. Its input counts what caches served and took, too.
pub(super) fn read(raw: &str) -> Usage {
    let text = raw.as_bytes();
    let number = |path: &[&str]| {
        let found = json::at_path(text, Span::new(0, text.len()), path);
        found.and_then(|s| json::number(s.of(text))).unwrap_or_default()
    };
    let cache_read = number(&["input_tokens_details", "cached_tokens"]);
    let cache_write = number(&["input_tokens_details", "cache_write_tokens"]);
    Usage {
        input: number(&["input_tokens"]).saturating_sub(cache_read + cache_write),
        cache_read,
        cache_write,
        output: number(&["output_tokens"]),
        reasoning: number(&["output_tokens_details", "reasoning_tokens"]),
        ..Usage::default()
    }
}

/// Output and reasoning of all legs.
fn spent(legs: &[String]) -> (u64, u64) {
    let all = legs.iter().map(|l| read(l));
    all.fold((0, 0), |(output, reasoning), u| {
        (output + u.output, reasoning + u.reasoning)
    })
}

/// Input side of the last leg, output summed, the total made of both.
pub(super) fn merged(legs: &[String]) -> Option<String> {
    let last = legs.last()?;
    let (output, reasoning) = spent(legs);
    let text = last.as_bytes();
    let whole = Span::new(0, text.len());
    let input = json::get_u64(text, whole, "input_tokens").unwrap_or_default();
    let now = |path: &[&str], value: u64| {
        json::at_path(text, whole, path).map(|span| Edit::replace(span, value.to_string()))
    };
    let edits = [
        now(&["output_tokens"], output),
        now(&["output_tokens_details", "reasoning_tokens"], reasoning),
        now(&["total_tokens"], input + output),
    ];
    let edits = edits.into_iter().flatten().collect();
    let flat = splice::flat(splice::splice(&Bytes::copy_from_slice(text), edits));
    Some(String::from_utf8_lossy(&flat).into_owned())
}

/// A response that ends with its sentinel: what was put out, and what the next request will send.
pub(super) fn stopped(legs: &[String], next_input: u64) -> String {
    let (output, reasoning) = spent(legs);
    let total = next_input + output;
    format!(
        r#"{{"input_tokens":{next_input},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":{reasoning}}},"total_tokens":{total}}}"#
    )
}
