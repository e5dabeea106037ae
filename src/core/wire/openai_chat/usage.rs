//! Chat's token counters, and what the agent receives for a response of several legs.

use bytes::Bytes;

use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::leg::Usage;

/// One leg's usage: the last that upstream reported.
#[derive(Debug, Clone, Default)]
pub(super) struct ChatUsage {
    prompt: u64,
    cached: u64,
    written: u64,
    completion: u64,
    reasoning: u64,
    total: u64,
    raw: Bytes,
}

impl ChatUsage {
    /// Takes a usage object.
    pub(super) fn take(&mut self, data: &[u8], usage: Span) {
        let at = |path: &[&str]| json::at_path(data, usage, path).and_then(|v| json::number(v.of(data)));
        let detail = |name| at(&["prompt_tokens_details", name]);
        self.prompt = at(&["prompt_tokens"]).unwrap_or_default();
        // DeepSeek counts its cache in a member of its own.
        let cached = detail("cached_tokens").or(at(&["prompt_cache_hit_tokens"]));
        self.cached = cached.unwrap_or_default();
        self.written = detail("cache_write_tokens").unwrap_or_default();
        self.completion = at(&["completion_tokens"]).unwrap_or_default();
        self.reasoning = at(&["completion_tokens_details", "reasoning_tokens"]).unwrap_or_default();
        self.total = at(&["total_tokens"]).unwrap_or(self.prompt + self.completion);
        self.raw = Bytes::copy_from_slice(usage.of(data));
    }

    /// Whether upstream reported any.
    pub(super) fn is_reported(&self) -> bool {
        !self.raw.is_empty()
    }

    /// `prompt_tokens` counts all of the input; the parts are distinguished here.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input: self.prompt.saturating_sub(self.cached + self.written),
            cache_read: self.cached,
            cache_write: self.written,
            output: self.completion,
            reasoning: self.reasoning,
            ..Usage::default()
        }
    }
}

fn output(legs: &[ChatUsage]) -> u64 {
    legs.iter().map(|l| l.completion).sum()
}

/// The last leg's usage with the output of all: `None` where that leg reported none.
pub(super) fn merged(legs: &[ChatUsage]) -> Option<Bytes> {
    let last = legs.last().filter(|l| l.is_reported())?;
    let text: &[u8] = &last.raw;
    let whole = Span::new(0, text.len());
    let earlier = output(legs).saturating_sub(last.completion);
    let reasoning: u64 = legs.iter().map(|l| l.reasoning).sum();
    let now: [(&[&str], u64); 3] = [
        (&["completion_tokens"], last.completion + earlier),
        (&["total_tokens"], last.total + earlier),
        (&["completion_tokens_details", "reasoning_tokens"], reasoning),
    ];
    let edits = now
        .iter()
        .filter_map(|(path, n)| Some(Edit::replace(json::at_path(text, whole, path)?, n.to_string())))
        .collect();
    Some(splice::flat(splice::splice(&last.raw, edits)))
}

/// A response that ends with its sentinel: what was put out, and what the next request will send.
pub(super) fn stopped(legs: &[ChatUsage], next_input: u64) -> String {
    let output = output(legs);
    let total = next_input + output;
    format!(r#"{{"prompt_tokens":{next_input},"completion_tokens":{output},"total_tokens":{total}}}"#)
}
