//! An export as plain values, and the work since a handoff, read from a request's transcript and its
//! response.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use baton_core::agents::tools;
use baton_core::marker::{self, MarkerKind};
use baton_core::record::Handoff;
use baton_core::rewrite::preamble;
use baton_core::text::json;
use baton_core::tools::TOOL_NAME;
use baton_core::transcript::{
    AgentKind, AnswerContent, AnswerPartKind, ToolUse, Transcript, TranscriptPart, TranscriptPartKind,
};
use baton_core::wire::{Role, View};

/// An export. Its member names are public API.
#[derive(Serialize)]
pub(super) struct ConversationExport {
    #[serde(flatten)]
    pub(super) head: ExportHead,
    pub(super) work: Vec<ExportedTurn>,
}

/// Everything but the work. It is the first line of JSON Lines.
#[derive(Default, Serialize)]
pub(super) struct ExportHead {
    pub(super) conversation: String,
    pub(super) title: Option<String>,
    pub(super) wire: Option<String>,
    pub(super) model: Option<String>,
    /// Exchange with the work.
    pub(super) exchange: Option<String>,
    /// Start of that exchange.
    pub(super) at_ms: Option<u64>,
    pub(super) handoff: Option<ExportedHandoff>,
    /// Missing parts, with reasons.
    pub(super) notes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct ExportedHandoff {
    pub(super) id: Uuid,
    pub(super) resume: String,
    pub(super) reason: Option<String>,
    /// `None` for the journal's copy of the prompt.
    pub(super) created_ms: Option<u64>,
    pub(super) prompt: String,
}

/// An uninterrupted turn of one speaker. The member names are public API.
#[derive(Debug, Serialize)]
pub(super) struct ExportedTurn {
    /// `user`, `assistant` or `tool`.
    pub(super) role: &'static str,
    pub(super) parts: Vec<ExportedPart>,
}

/// A part of a turn. The member names are public API.
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
        /// Whether the call failed; `None` if that is unknown.
        failed: Option<bool>,
        /// Exit code of a command, if the result has one.
        exit: Option<i32>,
    },
    Image,
    Error {
        text: String,
    },
}

/// Finds the turn with the carry-over prompt, in a request that was cut at its handoff.
///
/// This is the last turn of the head that is stored with the handoff. If the handoff is unknown, or was made
/// on another wire, it is the first user turn after the preamble.
pub(super) fn carry_over_turn(view: &View, handoff: Option<&Handoff>, tags: &[String]) -> Option<usize> {
    // A head consists of elements of its wire, so its length means nothing on another one.
    if let Some(handoff) = handoff.filter(|handoff| handoff.wire == view.wire) {
        let head = format!("[{}]", handoff.head);
        let all = json::whole(head.as_bytes()).ok()?;
        let count = json::elements(head.as_bytes(), all).len();
        return (view.leading() + count).checked_sub(1);
    }
    let turns = view.turns.iter().enumerate().skip(view.leading());
    let mut users = turns.filter(|(_, turn)| turn.role == Role::User);
    let preamble = preamble::whole_turns(view, tags);
    users.nth(preamble).map(|(at, _)| at)
}

/// Finds the turn that shows this handoff in the agent's transcript, in a request that was not cut.
pub(super) fn sentinel_turn(view: &View, handoff: &Handoff) -> Option<usize> {
    let list = view.text(view.list);
    // The last one counts, as in a request: agents may repeat earlier text.
    let mut marks = marker::marks(list).into_iter().rev();
    let mark = marks.find(|mark| matches!(mark.kind, MarkerKind::Open(id) if id == handoff.id))?;
    view.turn_at(mark.span.start + view.list.start)
}

/// Last text block of a turn.
pub(super) fn last_text(view: &View, at: usize) -> Option<String> {
    let parts = Transcript::from_view(view).turn(at)?.parts();
    let mut texts = parts.iter().rev().filter_map(|part| match part.kind {
        TranscriptPartKind::Text(text) => Some(text.get().into_owned()),
        _ => None,
    });
    texts.next()
}

/// Exports the turns from `from` on, without system messages and without calls of baton's tool.
pub(super) fn turns(view: &View, from: usize) -> Vec<ExportedTurn> {
    let transcript = Transcript::from_view(view);
    let agent = transcript.agent();
    // Keyed by the positions of both the call and its result.
    let mut uses = HashMap::new();
    for tool in transcript.tool_uses() {
        uses.insert((tool.turn, tool.part.span.start), tool);
        if let Some((turn, part)) = tool.answer {
            uses.insert((turn, part.span.start), tool);
        }
    }
    let turns = transcript.turns().enumerate().skip(from);
    let exported = turns.filter_map(|(at, turn)| {
        let role = match turn.role {
            Role::System | Role::Tools | Role::Other => return None,
            role => role.name(),
        };
        let mut parts: Vec<ExportedPart> = Vec::new();
        for part in turn.parts() {
            let Some(part) = ExportedPart::new(&part, uses.get(&(at, part.span.start)), agent) else {
                continue;
            };
            match (parts.last_mut(), part) {
                // Agents keep streamed text in pieces, as it arrived.
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

/// Exports the model's response; `None` if it is empty.
pub(super) fn answer(body: &[u8]) -> Option<ExportedTurn> {
    let answered = AnswerContent::from_body(body);
    let parts = answered.parts.iter().map(|part| {
        let text = part.text();
        match part.kind {
            AnswerPartKind::Call => ExportedPart::Call {
                tool: part.name.map(|name| name.get().into_owned()).unwrap_or_default(),
                arguments: tools::arguments(&text),
            },
            AnswerPartKind::Text | AnswerPartKind::Refusal => ExportedPart::Text { text },
            AnswerPartKind::Thinking => ExportedPart::Thinking { text },
            AnswerPartKind::Error => ExportedPart::Error { text },
        }
    });
    let parts: Vec<_> = parts.filter(ExportedPart::is_shown).collect();
    (!parts.is_empty()).then_some(ExportedTurn {
        role: "assistant",
        parts,
    })
}

impl ExportedPart {
    /// Converts a part of a turn. `tool_use` is the tool use that it belongs to.
    fn new(
        part: &TranscriptPart<'_>,
        tool_use: Option<&ToolUse<'_>>,
        agent: Option<AgentKind>,
    ) -> Option<Self> {
        if tool_use.is_some_and(|tool| tool.call.named() == TOOL_NAME) {
            return None;
        }
        let exported = match part.kind {
            TranscriptPartKind::Text(text) => Self::Text {
                text: text.get().into_owned(),
            },
            TranscriptPartKind::Thinking => Self::Thinking { text: part.text() },
            TranscriptPartKind::Call(call) => Self::Call {
                tool: call.named(),
                arguments: call
                    .arguments
                    .map_or(Value::Null, |given| tools::arguments(&given.get())),
            },
            TranscriptPartKind::Result(result) => {
                let end = tool_use.map(|tool| tool.end(agent));
                let name = tool_use.and_then(|tool| tool.call.name).or(result.name);
                Self::Result {
                    tool: name.map(|name| name.get().into_owned()),
                    text: part.text(),
                    // A result whose call was cut has only its own flag.
                    failed: end.as_ref().map_or(result.error, |end| end.failed),
                    exit: end.map_or_else(|| part.exit(), |end| end.code),
                }
            }
            TranscriptPartKind::Image => Self::Image,
            TranscriptPartKind::ToolChange | TranscriptPartKind::Other(_) => return None,
        };
        Some(exported).filter(Self::is_shown)
    }

    /// Whether the part has content, and is not a call of baton's tool.
    fn is_shown(&self) -> bool {
        match self {
            Self::Text { text } | Self::Thinking { text } | Self::Error { text } => !text.trim().is_empty(),
            Self::Call { tool, .. } => tool != TOOL_NAME,
            Self::Result { .. } | Self::Image => true,
        }
    }
}
