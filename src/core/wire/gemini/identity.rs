//! State of a stream's chunks: which parts are ours, and the members that every chunk repeats.

use super::chunk::GeminiChunk;
use crate::text::Span;
use crate::text::splice::Edit;
use crate::wire::view;

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
