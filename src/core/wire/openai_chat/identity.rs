//! Identity of a completion: the first leg's, whatever legs follow.

use bytes::Bytes;

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::sse;

/// Top-level members by which a completion is known: leg 1's in every chunk. Others (`obfuscation`, filter
/// results) are a chunk's own.
const IDENTITY: [&str; 7] = [
    "id",
    "object",
    "created",
    "model",
    "service_tier",
    "system_fingerprint",
    "provider",
];

/// The members of the first chunk that every chunk repeats, raw.
#[derive(Default)]
pub(super) struct ChatIdentity(Vec<(String, String)>);

impl ChatIdentity {
    /// Takes the identity among these members, unless there is one.
    pub(super) fn take(&mut self, data: &[u8], members: &[(Span, Span)]) {
        if !self.0.is_empty() {
            return;
        }
        let all = members.iter().map(|(k, v)| (k.text(data), v.text(data)));
        self.0 = all.filter(|(key, _)| IDENTITY.contains(&key.as_str())).collect();
    }

    /// The edits that put an object with these members under this name; the one named `but` stays.
    pub(super) fn edits(&self, data: &[u8], members: &[(Span, Span)], but: &str) -> Vec<Edit> {
        let first = |key: &[u8]| self.0.iter().find(|(name, _)| name.as_bytes() == key);
        let renamed = members.iter().filter_map(|(key, value)| {
            let (_, raw) = first(key.of(data)).filter(|(name, _)| name != but)?;
            (value.of(data) != raw.as_bytes()).then(|| Edit::replace(*value, raw.clone()))
        });
        renamed.collect()
    }

    /// A frame of this name with these choices, and usage where the agent requested it.
    pub(super) fn chunk(&self, choices: &str, usage: Option<&str>) -> Bytes {
        let members = self.0.iter();
        let mut all: Vec<String> = members
            .map(|(key, raw)| format!("{}:{raw}", json::quote(key)))
            .collect();
        if all.is_empty() {
            // No identity arrived: the minimum that SDKs require.
            all.push(r#""id":"","object":"chat.completion.chunk","created":0,"model":"""#.to_owned());
        }
        all.push(format!(r#""choices":{choices}"#));
        all.extend(usage.map(|u| format!(r#""usage":{u}"#)));
        sse::unnamed(&format!("{{{}}}", all.join(",")))
    }
}
