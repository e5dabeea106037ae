//! Token counters of the legs of a response.

use super::leg::{Ending, LegReport, Usage};
use crate::text::Span;

/// What a provider counts of one leg.
pub(super) trait ProviderUsage: Clone + Default {
    /// Takes what a usage object says.
    fn take(&mut self, data: &[u8], usage: Span);

    /// The counters in baton's terms.
    fn usage(&self) -> Usage;

    /// Whether upstream reported any.
    fn is_reported(&self) -> bool;

    /// The usage of the whole response: input side of the last leg, output of all. `None` where nothing was counted.
    fn merged(legs: &[Self]) -> Option<String>;
}

/// The counters of an answer's legs.
#[derive(Default)]
pub(super) struct LegUsage<U> {
    earlier: Vec<U>,
    now: U,
}

impl<U: ProviderUsage> LegUsage<U> {
    /// Takes a usage object of the present leg.
    pub(super) fn take(&mut self, data: &[u8], usage: Span, report: &mut LegReport) {
        self.now.take(data, usage);
        report.usage = self.now.usage();
    }

    /// The present leg is over. Where it does not count, what it cost is forgotten.
    pub(super) fn end_leg(&mut self, counts: bool) {
        let leg = std::mem::take(&mut self.now);
        self.earlier.extend(Some(leg).filter(|_| counts));
    }

    /// Whether the present leg was counted.
    pub(super) fn is_reported(&self) -> bool {
        self.now.is_reported()
    }

    /// What a joined reply has in place of its last leg's usage; `stopped` makes that of a response which ends with its
    /// sentinel.
    pub(super) fn joined(&self, ending: Ending, stopped: fn(&[U], u64) -> String) -> Option<String> {
        match ending.next_input() {
            Some(next_input) => Some(stopped(&self.all(), next_input)),
            None if self.earlier.is_empty() => None,
            None => U::merged(&self.all()),
        }
    }

    /// The usage of each leg that was counted.
    pub(super) fn all(&self) -> Vec<U> {
        let all = self.earlier.iter().chain([&self.now]);
        all.filter(|leg| leg.is_reported()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::tools::ToolNames;
    use crate::wire::{Leg, ResponseWatch, View, WIRES};

    const REPLIES: [&str; 5] = [
        r#"{"id":"a","type":"message","content":[],"usage":{"input_tokens":N,"output_tokens":N}}"#,
        r#"{"id":"a","choices":[{"index":0,"message":{"content":""}}],"usage":{"prompt_tokens":N,"completion_tokens":N}}"#,
        r#"{"id":"a","object":"response","status":"completed","output":[],"usage":{"input_tokens":N,"output_tokens":N}}"#,
        r#"{"candidates":[{"content":{"parts":[]}}],"usageMetadata":{"promptTokenCount":N,"candidatesTokenCount":N}}"#,
        r#"{"message":{"role":"assistant","content":""},"done":true,"prompt_eval_count":N,"eval_count":N}"#,
    ];

    #[test]
    fn counters_of_any_size_are_summed() {
        let watch = ResponseWatch {
            hide: ToolNames::HANDOFF,
            buffered_bytes: 4096,
        };
        for (wire, reply) in WIRES.iter().zip(REPLIES) {
            let body = Bytes::from(reply.replace('N', &u64::MAX.to_string()));
            let report = wire.reply(&View::default(), &body, watch).unwrap();
            assert!(report.usage.output > 0, "{reply}");
            let leg = Leg {
                body,
                report,
                then: None,
            };
            for ending in [Ending::Own, Ending::Stopped { next_input: 7 }] {
                let joined = wire.join(&[leg.clone(), leg.clone(), leg.clone()], None, ending);
                let joined = String::from_utf8_lossy(&joined);
                assert!(joined.contains("3000000000000"), "{joined}");
            }
        }
    }
}
