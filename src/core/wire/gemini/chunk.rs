//! One `GenerateContentResponse`, a stream's chunk or a whole reply, as spans; and the edits made in it.

use super::part::{self, PartMembers};
use super::request::in_envelope;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::SyntheticResponse;
use crate::wire::leg::StopReason;
use crate::wire::view::{self, View};

/// A list with one empty part: clients drop a turn that has a chunk without parts.
pub(super) const NO_PARTS: &str = r#"[{"text":""}]"#;

/// Members of a response and its candidate that say nothing where there are no parts.
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

/// Where things are in a response.
#[derive(Debug, Clone, Default)]
pub(super) struct GeminiChunk {
    /// Members of the response: keys and values.
    pub(super) members: Vec<(Span, Span)>,
    /// The response itself.
    pub(super) root: Span,
    /// Whether it is in an envelope (Code Assist), and the envelope's trace id.
    pub(super) envelope: Option<Option<Span>>,
    /// The first candidate.
    pub(super) candidate: Option<Span>,
    pub(super) content: Option<Span>,
    /// Its list of parts, or the single part in that place.
    pub(super) parts: Option<Span>,
    /// Why it finished, a literal.
    pub(super) finish: Option<Span>,
}

impl GeminiChunk {
    /// Reads a response; `None` where it is no JSON object.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let mut root = json::whole(data).ok()?;
        let mut envelope = None;
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
        let found = self
            .members
            .iter()
            .rev()
            .find(|(k, _)| k.of(data) == key.as_bytes());
        found.map(|(_, value)| *value)
    }

    pub(super) fn pieces(&self, data: &[u8]) -> Vec<PartMembers> {
        self.parts.map_or(Vec::new(), |p| part::pieces(data, p))
    }

    /// What the reason to finish means, the prompt's refusal included.
    pub(super) fn stop(&self, data: &[u8], calls: bool) -> StopReason {
        let blocked = self
            .get(data, "promptFeedback")
            .and_then(|f| json::get(data, f, "blockReason"));
        match self.finish.and_then(|f| json::string(data, f)).as_deref() {
            Some("STOP") if calls => StopReason::Calls,
            Some("STOP") => StopReason::Done,
            Some("MAX_TOKENS") => StopReason::Truncated,
            Some("CONTINUATION") => StopReason::Paused,
            Some(_) => StopReason::Refused,
            None if blocked.is_some() => StopReason::Refused,
            None => StopReason::Open,
        }
    }

    /// Whether it says anything besides parts, tokens and names.
    pub(super) fn says_more(&self, data: &[u8]) -> bool {
        let other = |(key, _): &(Span, Span)| !PLAIN.iter().any(|p| p.as_bytes() == key.of(data));
        let inside = self.candidate.map_or(Vec::new(), |c| json::members(data, c));
        self.members.iter().chain(&inside).any(other)
    }

    /// The edit that gives a member of the response this value.
    pub(super) fn with(&self, data: &[u8], key: &str, value: String) -> Option<Edit> {
        let is_same = self
            .get(data, key)
            .is_some_and(|span| span.of(data) == value.as_bytes());
        (!is_same).then(|| view::set_member(data, self.root, key, value))
    }

    /// The edit that puts this list in the place of the parts, wherever that is.
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
        // A refused prompt has no candidate; a client that has seen one in this response waits for its end.
        let candidates = format!(r#"[{{"content":{content},"finishReason":"OTHER","index":0}}]"#);
        view::set_member(data, self.root, "candidates", candidates)
    }
}

/// The members that every chunk of a response repeats.
#[derive(Default)]
pub(super) struct GeminiIdentity {
    known: bool,
    id: Option<String>,
    version: Option<String>,
    envelope: bool,
    trace: Option<String>,
}

impl GeminiIdentity {
    /// That of an answer of our own.
    pub(super) fn from_view(view: &View, answer: &SyntheticResponse<'_>) -> Self {
        Self {
            known: true,
            id: Some(json::quote(&answer.id(""))),
            version: Some(json::quote(answer.model)),
            envelope: in_envelope(view),
            trace: None,
        }
    }

    /// Takes the first candidate's; a chunk before it (a refused prompt) may have none.
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

    /// Edits that give another leg's chunk this identity.
    pub(super) fn edits(&self, data: &[u8], chunk: &GeminiChunk) -> Vec<Edit> {
        let members = [("responseId", &self.id), ("modelVersion", &self.version)];
        let edits = members
            .into_iter()
            .filter_map(|(key, value)| chunk.with(data, key, value.clone()?));
        edits.collect()
    }

    /// A chunk of our own: `parts` is a list, `finish` a further member of the candidate, `usage` one of the
    /// response, each with its leading comma or empty.
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

/// What was found in a chunk's parts.
#[derive(Default)]
pub(super) struct ChunkParts {
    pub(super) parts: Vec<Span>,
    /// Of each, whether it is hidden.
    pub(super) hidden: Vec<bool>,
    /// Edits that break up text in them.
    pub(super) breaks: Vec<Edit>,
}

impl ChunkParts {
    /// Whether the agent may see any of them.
    pub(super) fn visible(&self) -> bool {
        self.hidden.contains(&false)
    }

    /// Edits that leave the visible parts, text escaped; `None` where there are none.
    pub(super) fn edits(&self) -> Option<Vec<Edit>> {
        let mut edits = view::kept(&self.parts, &self.hidden)?;
        edits.extend(self.breaks.iter().cloned());
        Some(edits)
    }

    /// The visible parts, text escaped, each on its own.
    pub(super) fn texts(&self, data: &[u8]) -> Vec<String> {
        let all = self.parts.iter().zip(&self.hidden);
        let visible = all.filter(|(_, hidden)| !**hidden);
        visible
            .map(|(span, _)| view::edited_part(data, *span, &self.breaks))
            .collect()
    }
}
