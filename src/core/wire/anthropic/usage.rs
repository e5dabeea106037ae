//! Anthropic's token counters, and the usage of a response with several legs.

use crate::text::{Span, json};
use crate::wire::leg::Usage;
use crate::wire::leg_state::ProviderUsage;

/// The four counters whose sum is the context.
const FOUR: [&str; 4] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
];

/// Usage of one leg: `message_start`, overridden by `message_delta`.
#[derive(Debug, Clone, Default)]
pub(super) struct AnthropicUsage {
    four: [u64; 4],
    reasoning: u64,
    written_long: u64,
    /// Other members, raw. A later value replaces an earlier one.
    others: Vec<(String, String)>,
    iterations: Vec<String>,
}

impl ProviderUsage for AnthropicUsage {
    /// Merges a usage object. A null member keeps the earlier value.
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
            // Clamped: a part must not exceed the total that it belongs to.
            cache_write_long: self.written_long.min(self.four[1]),
        }
    }

    fn is_reported(&self) -> bool {
        true
    }

    /// Merges the input of the last leg with the output of all legs.
    ///
    /// All four counters are written even if zero, because accumulators otherwise keep the values of
    /// `message_start`. The legs are not listed as `iterations`. The AI SDK adds those up, so that an agent
    /// would take the input of all legs for its context. Only iterations that upstream lists for the last leg
    /// remain.
    fn merged(legs: &[Self]) -> Option<String> {
        let last = legs.last()?;
        let mut values = last.four;
        values[3] = legs.iter().map(|l| l.four[3]).sum();
        // Every accumulator keeps these from `message_start`, so they are not repeated.
        let fixed = ["cache_creation", "service_tier", "inference_geo", "speed"];
        let is_other = |name: &String| !fixed.contains(&name.as_str()) && name != "output_tokens_details";
        let others = last.others.iter().filter(|(name, _)| is_other(name));
        let others: String = others
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

/// Usage of a response that baton ends at the sentinel: the real output, and as input the estimate for the
/// next request.
pub(super) fn stopped(legs: &[AnthropicUsage], next_input: u64) -> String {
    counted(next_input, legs.iter().map(|l| l.four[3]).sum())
}

/// Usage of a response without cached tokens.
pub(super) fn counted(input: u64, output: u64) -> String {
    format!("{{{}}}", four(&[input, 0, 0, output]))
}
