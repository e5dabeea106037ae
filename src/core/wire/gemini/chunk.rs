//! A `GenerateContentResponse` as spans: a chunk of a stream or a complete reply, and its edits.

use super::part::{self, PartMembers};
use super::request::in_envelope;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::SyntheticResponse;
use crate::wire::leg::StopReason;
use crate::wire::view::{self, View};

/// A list with one empty part. Clients drop a turn that contains a chunk without parts.
pub(super) const NO_PARTS: &str = r#"[{"text":""}]"#;

/// Members of a response and its candidate that carry no content of their own.
const PLAIN: [&str; 10] = [
    "candidates",
    "usageMetadata",
    "modelVersion",
    "responseId",
    "createTime",
    "content",
    "index",
    "safetyRatings",
    "finishReason",
    "avgLogprobs",
];

/// Spans of a response.
#[derive(Debug, Clone, Default)]
pub(super) struct GeminiChunk {
    /// Members of the response: keys and values.
    pub(super) members: Vec<(Span, Span)>,
    /// Span of the response.
    pub(super) root: Span,
    /// Envelope of Code Assist, if there is one, with its trace id.
    pub(super) envelope: Option<Option<Span>>,
    /// First candidate.
    pub(super) candidate: Option<Span>,
    pub(super) content: Option<Span>,
    /// List of parts, or a single part in its place.
    pub(super) parts: Option<Span>,
    /// Finish reason, as a literal.
    pub(super) finish: Option<Span>,
}

impl GeminiChunk {
    /// Parses a response, or returns `None` if it is not a JSON object.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let mut root = json::whole(data).ok()?;
        let mut envelope = None;
        // Code Assist wraps each response and puts the trace id next to it.
        if let Some(inside) = json::get(data, root, "response").filter(|s| data[s.start] == b'{') {
            envelope = Some(json::get(data, root, "traceId"));
            root = inside;
        }
        let mut chunk = Self {
            members: json::members(data, root),
            root,
            envelope,
            ..Self::default()
        };
        if data.get(root.start) != Some(&b'{') {
            return None;
        }
        chunk.candidate = chunk
            .get(data, "candidates")
            .and_then(|c| part::list(data, c).into_iter().next())
            .filter(|c| data[c.start] == b'{');
        if let Some(candidate) = chunk.candidate {
            chunk.content = json::get(data, candidate, "content").filter(|c| data[c.start] == b'{');
            chunk.parts = chunk.content.and_then(|c| json::get(data, c, "parts"));
            chunk.finish = json::get(data, candidate, "finishReason")
                .filter(|f| !matches!(f.of(data), b"null" | b"\"\"" | b"\"FINISH_REASON_UNSPECIFIED\""));
        }
        Some(chunk)
    }

    /// A member of the response.
    pub(super) fn get(&self, data: &[u8], key: &str) -> Option<Span> {
        let mut last_first = self.members.iter().rev();
        let found = last_first.find(|(k, _)| k.of(data) == key.as_bytes());
        found.map(|(_, value)| *value)
    }

    pub(super) fn pieces(&self, data: &[u8]) -> Vec<PartMembers> {
        self.parts.map_or(Vec::new(), |p| part::pieces(data, p))
    }

    /// Meaning of the finish reason, or of the refusal of a prompt.
    pub(super) fn stop(&self, data: &[u8], calls: bool) -> StopReason {
        let feedback = self.get(data, "promptFeedback");
        let blocked = feedback.and_then(|f| json::get(data, f, "blockReason"));
        match self.finish.and_then(|f| json::string(data, f)).as_deref() {
            Some("STOP") if calls => StopReason::Calls,
            Some("STOP") => StopReason::Done,
            Some("MAX_TOKENS") => StopReason::Truncated,
            Some("CONTINUATION") => StopReason::Paused,
            // Safety reasons, and unknown ones.
            Some(_) => StopReason::Refused,
            None if blocked.is_some() => StopReason::Refused,
            None => StopReason::Open,
        }
    }

    /// Whether the response contains anything except parts, token counts and identity.
    pub(super) fn says_more(&self, data: &[u8]) -> bool {
        let other = |(key, _): &(Span, Span)| !PLAIN.iter().any(|p| p.as_bytes() == key.of(data));
        let inside = self.candidate.map_or(Vec::new(), |c| json::members(data, c));
        self.members.iter().chain(&inside).any(other)
    }

    /// Returns the edit that sets a member of the response, or `None` if it already has this value.
    pub(super) fn with(&self, data: &[u8], key: &str, value: String) -> Option<Edit> {
        let now = self.get(data, key);
        let is_same = now.is_some_and(|span| span.of(data) == value.as_bytes());
        // Without an edit the frame stays unchanged.
        (!is_same).then(|| view::set_member(data, self.root, key, value))
    }

    /// Returns the edit that replaces the parts by `list`, at whatever level they are missing.
    pub(super) fn with_parts(&self, data: &[u8], list: &str) -> Edit {
        if let Some(parts) = self.parts {
            return Edit::replace(parts, list.to_owned());
        }
        if let Some(content) = self.content {
            return view::set_member(data, content, "parts", list.to_owned());
        }
        let content = format!(r#"{{"parts":{list},"role":"model"}}"#);
        if let Some(candidate) = self.candidate {
            return view::set_member(data, candidate, "content", content);
        }
        // The response to a refused prompt has no candidate. A client that has already received one in this
        // response waits for its end.
        let candidates = format!(r#"[{{"content":{content},"finishReason":"OTHER","index":0}}]"#);
        view::set_member(data, self.root, "candidates", candidates)
    }
}

/// Members that every chunk of a response repeats.
#[derive(Default)]
pub(super) struct GeminiIdentity {
    known: bool,
    id: Option<String>,
    version: Option<String>,
    envelope: bool,
    trace: Option<String>,
}

impl GeminiIdentity {
    /// Identity of a synthetic response.
    pub(super) fn from_view(view: &View, answer: &SyntheticResponse<'_>) -> Self {
        Self {
            known: true,
            id: Some(json::quote(&answer.id(""))),
            version: Some(json::quote(answer.model)),
            envelope: in_envelope(view),
            trace: None,
        }
    }

    /// Records the identity of the first candidate. A chunk before it, for a refused prompt, may be
    /// incomplete.
    pub(super) fn learn(&mut self, data: &[u8], chunk: &GeminiChunk) {
        if self.known {
            return;
        }
        *self = Self {
            known: chunk.candidate.is_some(),
            id: chunk.get(data, "responseId").map(|i| i.text(data)),
            version: chunk.get(data, "modelVersion").map(|v| v.text(data)),
            envelope: chunk.envelope.is_some(),
            trace: chunk.envelope.flatten().map(|t| t.text(data)),
        };
    }

    /// Returns the edits that give a chunk of another leg this identity.
    pub(super) fn edits(&self, data: &[u8], chunk: &GeminiChunk) -> Vec<Edit> {
        let members = [("responseId", &self.id), ("modelVersion", &self.version)];
        let members = members.into_iter();
        members
            .filter_map(|(key, value)| chunk.with(data, key, value.clone()?))
            .collect()
    }

    /// Creates a chunk from a list of parts.
    ///
    /// `finish` is an additional member of the candidate and `usage` one of the response. Both begin with a
    /// comma or are empty.
    pub(super) fn chunk(&self, parts: &str, finish: &str, usage: &str) -> String {
        let member = |name: &str, value: &Option<String>| {
            let value = value.as_deref();
            value.map_or(String::new(), |v| format!(r#","{name}":{v}"#))
        };
        let json = format!(
            r#"{{"candidates":[{{"content":{{"parts":{parts},"role":"model"}}{finish},"index":0}}]{usage}{}{}}}"#,
            member("modelVersion", &self.version),
            member("responseId", &self.id),
        );
        if self.envelope {
            format!(r#"{{"response":{json}{}}}"#, member("traceId", &self.trace))
        } else {
            json
        }
    }
}

/// Parts of a chunk, with the calls to hide.
#[derive(Default)]
pub(super) struct ChunkParts {
    pub(super) parts: Vec<Span>,
    /// For each part, whether it is hidden.
    pub(super) hidden: Vec<bool>,
    /// Edits that escape text in the parts.
    pub(super) breaks: Vec<Edit>,
}

impl ChunkParts {
    /// Whether any part is visible.
    pub(super) fn visible(&self) -> bool {
        self.hidden.contains(&false)
    }

    /// Returns the edits that leave only visible parts, with escaped text. `None` if no part is visible.
    pub(super) fn edits(&self) -> Option<Vec<Edit>> {
        let mut edits = view::kept(&self.parts, &self.hidden)?;
        edits.extend(self.breaks.iter().cloned());
        Some(edits)
    }

    /// Visible parts with escaped text, one by one.
    pub(super) fn texts(&self, data: &[u8]) -> Vec<String> {
        let all = self.parts.iter().zip(&self.hidden);
        let visible = all.filter(|(_, hidden)| !**hidden);
        let visible = visible.map(|(span, _)| view::edited_part(data, *span, &self.breaks));
        visible.collect()
    }
}
