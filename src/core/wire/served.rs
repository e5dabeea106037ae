//! Which model served a leg, and how: what chooses the price of its tokens.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

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
}

impl ServedBy {
    /// What a response object says.
    pub(super) fn of(data: &[u8], response: Span) -> Self {
        let mut served = Self::default();
        served.take(data, response);
        served
    }

    /// Reads the members of a response object: `model` or `modelVersion`; `usage.speed` (Anthropic), `service_tier` (OpenAI).
    /// Members that are absent change nothing.
    pub(super) fn take(&mut self, data: &[u8], response: Span) {
        let [model, version, tier, usage] =
            json::pick(data, response, ["model", "modelVersion", "service_tier", "usage"]);
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
    }
}

fn own(data: &[u8], literal: Span) -> Option<String> {
    let name = json::string(data, literal)?;
    (!name.is_empty() && name.len() <= MAX_NAME).then(|| Cow::into_owned(name))
}
