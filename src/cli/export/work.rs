//! The work since a handoff as plain values: from a request's transcript and its response.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use baton_core::mark::{self, MarkKind};
use baton_core::record::{Handoff, WireId};
use baton_core::text::json;
use baton_core::tools::TOOL_NAME;
use baton_core::transcript::{AnswerContent, AnswerPartKind, Transcript, TranscriptPart, TranscriptPartKind};
use baton_core::wire::{Role, View};

/// The uninterrupted turn of one speaker. The names are API.
#[derive(Debug, Serialize)]
pub(super) struct ExportedTurn {
    /// `user`, `assistant`, `tool`.
    pub(super) role: &'static str,
    pub(super) parts: Vec<ExportedPart>,
}

/// A part of a turn. The names are API.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ExportedPart {
    Text {
        text: String,
    },
    Thinking {
        text: String,
    },
    Call {
        tool: String,
        arguments: Value,
    },
    Result {
        tool: Option<String>,
        text: String,
        /// Whether it failed; none where that is unknown.
        failed: Option<bool>,
        /// The exit code of a command, where the result has one.
        exit: Option<i32>,
    },
    Image,
    Error {
        text: String,
    },
}

/// The turn that the carry-over prompt is in, in a request that was cut at its handoff: the last one of the head
/// that the handoff is stored with. Where the handoff is unknown, or was made on another wire, the first turn of the
/// user's after the preamble.
pub(super) fn carry_over_turn(
    view: &View,
    wire: WireId,
    handoff: Option<&Handoff>,
    tags: &[String],
) -> Option<usize> {
    if let Some(handoff) = handoff.filter(|handoff| handoff.wire == wire) {
        let head = format!("[{}]", handoff.head);
        let all = json::whole(head.as_bytes()).ok()?;
        let count = json::elements(head.as_bytes(), all).len();
        return (view.leading() + count).checked_sub(1);
    }
    let preamble = Transcript::of(view).preamble(tags).turns;
    let mut users = view.turns.iter().enumerate();
    users
        .find(|(at, turn)| turn.role == Role::User && !preamble.contains(at))
        .map(|(at, _)| at)
}

/// The turn in which the agent's transcript shows this handoff, in a request that was not cut.
pub(super) fn sentinel_turn(view: &View, handoff: &Handoff) -> Option<usize> {
    let list = view.text(view.list);
    let mut marks = mark::marks(list).into_iter().rev();
    let mark = marks.find(|mark| matches!(mark.kind, MarkKind::Open(id) if id == handoff.id))?;
    view.turn_at(mark.span.start + view.list.start)
}

/// The last text of a turn.
pub(super) fn last_text(view: &View, at: usize) -> Option<String> {
    let parts = Transcript::of(view).turn(at)?.parts();
    let mut texts = parts.iter().rev().filter_map(|part| match part.kind {
        TranscriptPartKind::Text(text) => Some(text.get().into_owned()),
        _ => None,
    });
    texts.next()
}

/// The turns from this one on. What the system says is left out, and so are calls of our own tool.
pub(super) fn turns(view: &View, from: usize) -> Vec<ExportedTurn> {
    let transcript = Transcript::of(view);
    let reader = WorkReader::of(&transcript);
    let turns = transcript.turns().enumerate().skip(from);
    let exported = turns.filter_map(|(at, turn)| {
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System | Role::Tools | Role::Other => return None,
        };
        let mut parts: Vec<ExportedPart> = Vec::new();
        for part in turn
            .parts()
            .iter()
            .filter_map(|part| reader.export_part(at, part))
        {
            match (parts.last_mut(), part) {
                // Agents keep a streamed text in the pieces in which it came.
                (Some(ExportedPart::Text { text }), ExportedPart::Text { text: more })
                    if turn.role == Role::Assistant =>
                {
                    text.push_str(&more);
                }
                (_, part) => parts.push(part),
            }
        }
        (!parts.is_empty()).then_some(ExportedTurn { role, parts })
    });
    exported.collect()
}

/// The model's answer; `None` for an empty one.
pub(super) fn answer(body: &[u8]) -> Option<ExportedTurn> {
    let answered = AnswerContent::of(body);
    let parts = answered.parts.iter().filter_map(|part| {
        let text = part.text();
        Some(match part.kind {
            AnswerPartKind::Call => {
                let tool = part.name.map(|name| name.get().into_owned()).unwrap_or_default();
                if tool == TOOL_NAME {
                    return None;
                }
                ExportedPart::Call {
                    tool,
                    arguments: arguments(&text),
                }
            }
            _ if text.trim().is_empty() => return None,
            AnswerPartKind::Text | AnswerPartKind::Refusal => ExportedPart::Text { text },
            AnswerPartKind::Thinking => ExportedPart::Thinking { text },
            AnswerPartKind::Error => ExportedPart::Error { text },
        })
    });
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then_some(ExportedTurn {
        role: "assistant",
        parts,
    })
}

/// An index of a transcript's calls by the position of their parts.
struct WorkReader {
    /// The tool and the outcome after a result, by its turn and its offset.
    results: HashMap<(usize, usize), CallResult>,
    /// Calls of our own tool, and their results.
    ours: HashSet<(usize, usize)>,
}

struct CallResult {
    tool: Option<String>,
    failed: Option<bool>,
    exit: Option<i32>,
}

impl WorkReader {
    fn of(transcript: &Transcript<'_>) -> Self {
        let agent = transcript.agent();
        let mut reader = Self {
            results: HashMap::new(),
            ours: HashSet::new(),
        };
        for tool in transcript.tool_uses() {
            let name = tool.call.name.map(|name| name.get().into_owned());
            let ours = name.as_deref() == Some(TOOL_NAME);
            if ours {
                reader.ours.insert((tool.turn, tool.part.span.start));
            }
            let Some((turn, part)) = tool.answer else { continue };
            let place = (turn, part.span.start);
            if ours {
                reader.ours.insert(place);
            }
            let end = tool.end(agent);
            let outcome = CallResult {
                tool: name,
                failed: end.failed,
                exit: end.code,
            };
            reader.results.insert(place, outcome);
        }
        reader
    }

    fn export_part(&self, turn: usize, part: &TranscriptPart<'_>) -> Option<ExportedPart> {
        let place = (turn, part.span.start);
        if self.ours.contains(&place) {
            return None;
        }
        let texts = || {
            let texts: Vec<_> = part.texts().iter().map(|text| text.get().into_owned()).collect();
            texts.join("\n")
        };
        match part.kind {
            TranscriptPartKind::Text(text) => {
                let text = text.get().into_owned();
                (!text.trim().is_empty()).then_some(ExportedPart::Text { text })
            }
            TranscriptPartKind::Call(call) => Some(ExportedPart::Call {
                tool: call.name.map(|name| name.get().into_owned()).unwrap_or_default(),
                arguments: call
                    .arguments
                    .map_or(Value::Null, |given| arguments(&given.get())),
            }),
            TranscriptPartKind::Result(result) => {
                let known = self.results.get(&place);
                let named = || result.name.map(|name| name.get().into_owned());
                Some(ExportedPart::Result {
                    tool: known.and_then(|known| known.tool.clone()).or_else(named),
                    text: texts(),
                    failed: known.map_or(result.error, |known| known.failed),
                    exit: known.map_or(result.exit, |known| known.exit),
                })
            }
            TranscriptPartKind::Thinking => {
                let text = texts();
                (!text.trim().is_empty()).then_some(ExportedPart::Thinking { text })
            }
            TranscriptPartKind::Image => Some(ExportedPart::Image),
            TranscriptPartKind::ToolChange | TranscriptPartKind::Other(_) => None,
        }
    }
}

/// Arguments as JSON, or as the text that they are.
fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
