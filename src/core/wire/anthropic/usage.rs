//! Anthropic's token counters, and what the agent receives for a response of several legs.

use crate::text::{Span, json};
use crate::wire::leg::Usage;
use crate::wire::leg_state::ProviderUsage;

/// The four counters that make up a context.
const FOUR: [&str; 4] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
];

/// One leg's usage: `message_start` first, then what `message_delta` says over it.
#[derive(Debug, Clone, Default)]
pub(super) struct AnthropicUsage {
    four: [u64; 4],
    reasoning: u64,
    written_long: u64,
    /// Other members, raw, the last one of a name.
    others: Vec<(String, String)>,
    iterations: Vec<String>,
}

impl ProviderUsage for AnthropicUsage {
    /// Takes what a usage object says; null leaves what was there.
    fn take(&mut self, data: &[u8], usage: Span) {
        for (key, value) in json::members(data, usage) {
            let raw = value.of(data);
            if raw == b"null" {
                continue;
            }
            if let Some(i) = FOUR.iter().position(|f| f.as_bytes() == key.of(data)) {
                self.four[i] = json::number(raw).unwrap_or_default();
                continue;
            }
            let name = key.text(data);
            let count = |key: &str| json::get_u64(data, value, key).unwrap_or_default();
            match &*name {
                "iterations" => {
                    let all = json::elements(data, value).into_iter();
                    self.iterations = all.map(|s| s.text(data)).collect();
                    continue;
                }
                "output_tokens_details" => self.reasoning = count("thinking_tokens"),
                "cache_creation" => self.written_long = count("ephemeral_1h_input_tokens"),
                _ => {}
            }
            self.others.retain(|(n, _)| *n != name);
            self.others.push((name, value.text(data)));
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            input: self.four[0],
            cache_write: self.four[1],
            cache_read: self.four[2],
            output: self.four[3],
            reasoning: self.reasoning,
            // Never more than the sum that it is a part of.
            cache_write_long: self.written_long.min(self.four[1]),
        }
    }

    fn is_reported(&self) -> bool {
        true
    }

    /// Input side of the last leg, output summed. All four counters are spelled out, zeros included, since
    /// accumulators keep `message_start`'s where one is absent. The legs are not listed as `iterations`: the AI SDK
    /// adds those up, and an agent on it would take all legs' input for its context. Only what upstream itself
    /// lists of the last leg stays.
    fn merged(legs: &[Self]) -> Option<String> {
        let last = legs.last()?;
        let mut values = last.four;
        values[3] = legs.iter().map(|l| l.four[3]).sum();
        // What stays message_start's in every accumulator is not repeated.
        let fixed = ["cache_creation", "service_tier", "inference_geo", "speed"];
        let others: String = last
            .others
            .iter()
            .filter(|(name, _)| !fixed.contains(&name.as_str()) && name != "output_tokens_details")
            .map(|(name, raw)| format!(",{}:{raw}", json::quote(name)))
            .collect();
        let iterations = match last.iterations.join(",") {
            none if none.is_empty() => none,
            all => format!(r#","iterations":[{all}]"#),
        };
        Some(format!("{{{}{others}{iterations}}}", four(&values)))
    }
}

fn four(values: &[u64; 4]) -> String {
    let members = FOUR.iter().zip(values);
    let members: Vec<_> = members.map(|(name, n)| format!(r#""{name}":{n}"#)).collect();
    members.join(",")
}

/// A response that ends with its sentinel: the output, and the input of the next request.
pub(super) fn stopped(legs: &[AnthropicUsage], next_input: u64) -> String {
    counted(next_input, legs.iter().map(|l| l.four[3]).sum())
}

/// The usage of an answer that no cache has a part in.
pub(super) fn counted(input: u64, output: u64) -> String {
    format!("{{{}}}", four(&[input, 0, 0, output]))
}
