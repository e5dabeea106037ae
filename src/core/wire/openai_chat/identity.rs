//! Identity of a completion: the first leg's, whatever legs follow.

use bytes::Bytes;

use super::chunk::ChatChunk;
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::sse;

/// Top-level members by which a completion is known: leg 1's in every chunk. Others (`obfuscation`, filter
/// results) are a chunk's own.
pub(super) const IDENTITY: [&str; 7] = [
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
    /// Takes a chunk's identity, unless there is one.
    pub(super) fn take(&mut self, data: &[u8], chunk: &ChatChunk) {
        if !chunk.named || !self.0.is_empty() {
            return;
        }
        let all = chunk.members.iter().map(|(k, v)| (k.text(data), v.text(data)));
        self.0 = all.filter(|(key, _)| IDENTITY.contains(&key.as_str())).collect();
    }

    /// The edits that put a chunk under this name.
    pub(super) fn edits(&self, data: &[u8], chunk: &ChatChunk) -> Vec<Edit> {
        if !chunk.named {
            return Vec::new();
        }
        let first = |key: &[u8]| self.0.iter().find(|(name, _)| name.as_bytes() == key);
        let renamed = chunk.members.iter().filter_map(|(key, value)| {
            // Azure marks its late filter chunks with an empty `object`.
            let (_, raw) = first(key.of(data)).filter(|(name, _)| name != "object")?;
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
