//! Gemini's token counters, and the usage of a response with several legs.

use crate::text::{Span, json};
use crate::wire::leg::Usage;
use crate::wire::leg_state::ProviderUsage;

/// Counters that add up to the total.
const COUNTERS: [&str; 4] = [
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
];
const PROMPT: usize = 0;
const CANDIDATES: usize = 2;
const THOUGHTS: usize = 3;

const CACHED: &str = "cachedContentTokenCount";
const TOTAL: &str = "totalTokenCount";
/// Breakdowns by modality, which a sum over legs would falsify.
const SUMMED_DETAILS: [&str; 1] = ["candidatesTokensDetails"];

/// Usage of one leg. Each chunk carries a running total, so the last one counts.
#[derive(Debug, Clone, Default)]
pub(super) struct GeminiUsage {
    four: [Option<u64>; 4],
    cached: u64,
    /// Members as received.
    members: Vec<(String, String)>,
}

impl ProviderUsage for GeminiUsage {
    /// Replaces the usage by a `usageMetadata` object.
    fn take(&mut self, data: &[u8], usage: Span) {
        *self = Self::default();
        for (key, value) in json::members(data, usage) {
            let name = key.text(data);
            if let Some(i) = COUNTERS.iter().position(|c| *c == name) {
                self.four[i] = json::number(value.of(data));
            } else if name == CACHED {
                self.cached = json::number(value.of(data)).unwrap_or_default();
            }
            self.members.push((name, value.text(data)));
        }
    }

    fn usage(&self) -> Usage {
        let [prompt, tool_use, candidates, thoughts] = self.four.map(Option::unwrap_or_default);
        Usage {
            // The prompt count includes cached tokens.
            input: (prompt + tool_use).saturating_sub(self.cached),
            cache_read: self.cached,
            cache_write: 0,
            output: candidates + thoughts,
            reasoning: thoughts,
            ..Usage::default()
        }
    }

    fn is_reported(&self) -> bool {
        !self.members.is_empty()
    }

    /// Merges the input of the last leg with the output of all legs, and recomputes the total. `None` if no
    /// leg reported usage.
    fn merged(legs: &[Self]) -> Option<String> {
        let last = legs.iter().rev().find(|l| l.is_reported())?;
        let mut four = last.four;
        four[CANDIDATES] = summed(legs, CANDIDATES);
        four[THOUGHTS] = summed(legs, THOUGHTS);
        let total: u64 = four.iter().flatten().sum();
        let mut out: Vec<String> = Vec::new();
        for (name, raw) in &last.members {
            if SUMMED_DETAILS.contains(&name.as_str()) {
                continue;
            }
            let now = match COUNTERS.iter().position(|c| c == name) {
                Some(i) => four[i].take().map(|n| n.to_string()),
                None if name == TOTAL => Some(total.to_string()),
                None => None,
            };
            out.push(format!("{}:{}", json::quote(name), now.as_ref().unwrap_or(raw)));
        }
        // Counters that an earlier leg has and the last one lacks.
        let counters = four.iter().zip(COUNTERS);
        let rest = counters.filter_map(|(n, name)| Some((name, (*n)?)));
        out.extend(rest.map(|(name, n)| format!(r#""{name}":{n}"#)));
        Some(format!("{{{}}}", out.join(",")))
    }
}

fn summed(legs: &[GeminiUsage], i: usize) -> Option<u64> {
    legs.iter().filter_map(|l| l.four[i]).reduce(|a, b| a + b)
}

/// Usage of a response that baton ends at the sentinel: the real output, and as input the estimate for the
/// next request.
pub(super) fn stopped(legs: &[GeminiUsage], next_input: u64) -> String {
    let candidates = summed(legs, CANDIDATES).unwrap_or_default();
    counted(next_input, candidates, summed(legs, THOUGHTS))
}

/// Usage of a response with these token counts.
pub(super) fn counted(prompt: u64, candidates: u64, thoughts: Option<u64>) -> String {
    let thoughts_member = thoughts.map_or(String::new(), |n| format!(r#""{}":{n},"#, COUNTERS[THOUGHTS]));
    let total = prompt + candidates + thoughts.unwrap_or_default();
    format!(
        r#"{{"{}":{prompt},"{}":{candidates},{thoughts_member}"{TOTAL}":{total}}}"#,
        COUNTERS[PROMPT], COUNTERS[CANDIDATES]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(usage: &str) -> GeminiUsage {
        let mut counters = GeminiUsage::default();
        counters.take(usage.as_bytes(), Span::new(0, usage.len()));
        counters
    }

    #[test]
    fn input_is_the_last_legs_and_output_is_summed() {
        let one = counters(
            r#"{"promptTokenCount":100,"candidatesTokenCount":7,"thoughtsTokenCount":3,"totalTokenCount":110}"#,
        );
        let two = counters(
            r#"{"promptTokenCount":20,"toolUsePromptTokenCount":1,"cachedContentTokenCount":5,"candidatesTokenCount":2,"candidatesTokensDetails":[],"totalTokenCount":23,"trafficType":"X"}"#,
        );
        let reported: serde_json::Value =
            serde_json::from_str(&GeminiUsage::merged(&[one.clone(), two.clone()]).unwrap()).unwrap();
        let wanted = serde_json::json!({"promptTokenCount":20,"toolUsePromptTokenCount":1,
            "cachedContentTokenCount":5,"candidatesTokenCount":9,"totalTokenCount":33,"trafficType":"X",
            "thoughtsTokenCount":3});
        assert_eq!(reported, wanted);
        assert_eq!(two.usage().input, 16);
        assert_eq!(GeminiUsage::merged(&[GeminiUsage::default()]), None);
        let stopped: serde_json::Value = serde_json::from_str(&stopped(&[one], 50)).unwrap();
        assert_eq!(stopped["totalTokenCount"], 60);
    }
}
