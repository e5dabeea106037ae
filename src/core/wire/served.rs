//! Which model served a leg, and how: what chooses the price of its tokens.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::bill::CacheMiss;
use crate::text::{Span, json};

/// Longest name that is kept, in bytes.
const MAX_NAME: usize = 200;

/// The model that answered a leg. Providers may answer with another one than was requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedBy {
    /// Its name; empty where upstream gave none.
    pub model: String,
    /// The speed or the service tier, where upstream names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Why the provider's prompt cache did not serve it, where upstream says so (Anthropic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_miss: Option<CacheMiss>,
}

impl ServedBy {
    /// Reads the members of a response object: `model` or `modelVersion`; `usage.speed`, `diagnostics.cache_miss_reason`
    /// (Anthropic); `service_tier` (OpenAI). Members that are absent change nothing.
    pub(super) fn take(&mut self, data: &[u8], response: Span) {
        let [model, version, tier, usage, diagnostics] = json::pick(
            data,
            response,
            ["model", "modelVersion", "service_tier", "usage", "diagnostics"],
        );
        if let Some(model) = model.or(version).and_then(|name| own(data, name)) {
            self.model = model;
        }
        let usage = usage.filter(|usage| data[usage.start] == b'{');
        let speed = usage.and_then(|usage| json::get(data, usage, "speed"));
        let usage_tier = usage.and_then(|usage| json::get(data, usage, "service_tier"));
        let mut named = [speed, tier, usage_tier].into_iter().flatten();
        if let Some(service) = named.find_map(|name| own(data, name)) {
            self.service = Some(service);
        }
        let diagnostics = diagnostics.filter(|diagnostics| data[diagnostics.start] == b'{');
        let miss = diagnostics.and_then(|diagnostics| json::get(data, diagnostics, "cache_miss_reason"));
        self.cache_miss = miss
            .and_then(|miss| serde_json::from_slice(miss.of(data)).ok())
            .or(self.cache_miss);
    }
}

fn own(data: &[u8], literal: Span) -> Option<String> {
    let name = json::string(data, literal)?;
    (!name.is_empty() && name.len() <= MAX_NAME).then(|| Cow::into_owned(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::CacheMissReason;

    /// `null`: the diagnosis was still pending.
    #[test]
    fn the_providers_diagnosis_of_its_cache_is_read() {
        let found = |diagnostics: &str| {
            let message = format!(r#"{{"model":"m","diagnostics":{diagnostics}}}"#);
            let mut served = ServedBy::default();
            served.take(message.as_bytes(), Span::new(0, message.len()));
            served.cache_miss
        };
        let miss = |reason, tokens| Some(CacheMiss { reason, tokens });
        for (diagnostics, expected) in [
            (
                r#"{"cache_miss_reason":{"type":"tools_changed","cache_missed_input_tokens":41000}}"#,
                miss(CacheMissReason::ToolsChanged, 41_000),
            ),
            (
                r#"{"cache_miss_reason":{"type":"previous_message_not_found"}}"#,
                miss(CacheMissReason::PreviousMessageNotFound, 0),
            ),
            (
                r#"{"cache_miss_reason":{"type":"something_newer"}}"#,
                miss(CacheMissReason::Unavailable, 0),
            ),
            (r#"{"cache_miss_reason":null}"#, None),
            ("null", None),
        ] {
            assert_eq!(found(diagnostics), expected, "{diagnostics}");
        }
    }
}
