//! A chunk of a chat stream as spans.

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::leg::{Ending, StopReason};
use crate::wire::sse;
use bytes::Bytes;

/// Relevant spans of a chunk.
#[derive(Default)]
pub(super) struct ChatChunk {
    /// Span of the chunk.
    pub(super) root: Span,
    /// Members: keys and values.
    pub(super) members: Vec<(Span, Span)>,
    /// First choice.
    pub(super) choice: Option<ChunkChoice>,
    /// Usage, if it is an object.
    pub(super) usage: Option<Span>,
    /// Whether the chunk is an error.
    pub(super) error: bool,
    /// Whether the chunk has an id. Azure's filter chunks have an empty one.
    pub(super) named: bool,
}

/// Spans of a choice.
#[derive(Default)]
pub(super) struct ChunkChoice {
    pub(super) delta: Option<Span>,
    /// Finish reason, unless it is null or empty.
    pub(super) finish: Option<Span>,
}

impl ChatChunk {
    /// Parses a chunk, or returns `None` if it is not an object.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let mut chunk = Self {
            root: json::root(data),
            ..Self::default()
        };
        let mut choices = Span::default();
        json::object(data, json::blank(data, 0), |key, at| {
            let value = Span::new(at, json::value_end(data, at)?);
            match key.of(data) {
                b"id" => chunk.named = value.len() > 2 && data[at] == b'"',
                b"choices" => choices = value,
                // Servers may send `null` in all chunks except the last.
                b"usage" if data[at] == b'{' => chunk.usage = Some(value),
                b"error" => chunk.error = !matches!(value.of(data), b"null" | b"false" | b"\"\"" | b"{}"),
                _ => {}
            }
            chunk.members.push((key, value));
            Ok(value.end)
        })
        .ok()?;
        let first = json::elements(data, choices).into_iter().next();
        chunk.choice = first.map(|c| ChunkChoice::read(data, c));
        Some(chunk)
    }
}

impl ChunkChoice {
    fn read(data: &[u8], whole: Span) -> Self {
        let [delta, finish] = json::pick(data, whole, ["delta", "finish_reason"]);
        Self {
            delta: delta.filter(|delta| data[delta.start] == b'{'),
            finish: finish.filter(|finish| data[finish.start] == b'"' && finish.len() > 2),
        }
    }
}

/// Whether a member of a delta has content.
pub(super) fn says_something(literal: &[u8]) -> bool {
    !matches!(literal, b"null" | b"\"\"" | b"[]" | b"{}")
}

/// Insides of a content's text literals: of a single string, or of the blocks of a list (Mistral).
pub(super) fn texts(data: &[u8], content: Span) -> Vec<Span> {
    if data.get(content.start) == Some(&b'"') {
        return vec![content.inner()];
    }
    let blocks = json::elements(data, content).into_iter();
    let texts = blocks.filter_map(|block| json::get_inner(data, block, "text"));
    texts.collect()
}

/// Meaning of a finish reason.
pub(super) fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("stop") => StopReason::Done,
        Some("tool_calls" | "function_call") => StopReason::Calls,
        Some("content_filter") => StopReason::Refused,
        Some("error") => StopReason::Error,
        Some("") | None => StopReason::Open,
        // `length`, and unknown reasons, so that no handoff follows from them.
        Some(_) => StopReason::Truncated,
    }
}

/// Returns the edit that adapts a leg's finish reason to the end of the response.
pub(super) fn reason_edit(data: &[u8], reason: Span, ending: Ending) -> Option<Edit> {
    let asks = reason.of(data) == b"\"tool_calls\"";
    match ending {
        Ending::Own => None,
        Ending::WithoutCall if !asks => None,
        _ => Some(Edit::replace(reason, r#""stop""#)),
    }
}

/// Top-level members that identify a completion, repeated from leg 1 in every chunk. Others, such as
/// `obfuscation` and filter results, belong to a single chunk.
const IDENTITY: [&str; 7] = [
    "id",
    "object",
    "created",
    "model",
    "service_tier",
    "system_fingerprint",
    "provider",
];

/// Members of the first chunk that every chunk repeats, raw.
#[derive(Default)]
pub(super) struct ChatIdentity(Vec<(String, String)>);

impl ChatIdentity {
    /// Records the identity from these members, unless there already is one.
    pub(super) fn take(&mut self, data: &[u8], members: &[(Span, Span)]) {
        if !self.0.is_empty() {
            return;
        }
        let all = members.iter().map(|(k, v)| (k.text(data), v.text(data)));
        self.0 = all.filter(|(key, _)| IDENTITY.contains(&key.as_str())).collect();
    }

    /// Returns the edits that give an object with these members this identity, except for the member `but`.
    pub(super) fn edits(&self, data: &[u8], members: &[(Span, Span)], but: &str) -> Vec<Edit> {
        let first = |key: &[u8]| self.0.iter().find(|(name, _)| name.as_bytes() == key);
        let renamed = members.iter().filter_map(|(key, value)| {
            let (_, raw) = first(key.of(data)).filter(|(name, _)| name != but)?;
            (value.of(data) != raw.as_bytes()).then(|| Edit::replace(*value, raw.clone()))
        });
        renamed.collect()
    }

    /// Creates a frame with these choices, and with usage if the agent requested it.
    pub(super) fn chunk(&self, choices: &str, usage: Option<&str>) -> Bytes {
        let members = self
            .0
            .iter()
            .map(|(key, raw)| format!("{}:{raw}", json::quote(key)));
        let mut all: Vec<String> = members.collect();
        if all.is_empty() {
            // No identity arrived, so this is the minimum that SDKs require.
            all.push(r#""id":"","object":"chat.completion.chunk","created":0,"model":"""#.to_owned());
        }
        all.push(format!(r#""choices":{choices}"#));
        all.extend(usage.map(|u| format!(r#""usage":{u}"#)));
        sse::unnamed(&format!("{{{}}}", all.join(",")))
    }
}
