//! An agent's request in planning.

use std::mem;

use super::Need;
use crate::record::HandoffId;
use crate::rewrite::untooled::{self, ToolOmission};
use crate::rewrite::{Candidate, RequestReading};
use crate::text::json;
use crate::tools::RECALL_NAME;
use crate::wire::{Operation, Role, TurnPartKind, View};

/// An agent's request in planning.
pub struct AgentCall {
    pub operation: Option<Operation>,
    pub principal: String,
    /// Key of the conversation.
    pub key: String,
    /// Whether the agent named its session, so that no other conversation has its key.
    pub named: bool,
    /// Whether a header declares a side call.
    pub declared_side: bool,
    /// Reason why the config or the request's header rules the tool out, if so.
    pub forbidden: Option<ToolOmission>,
    pub reading: RequestReading,
    /// Sentinels in the transcript, newest first.
    pub candidates: Vec<Candidate>,
    /// Number of times that baton has changed the transcript.
    pub edition: usize,
}

/// How a request was sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallFacts {
    pub operation: Option<Operation>,
    /// Whether the agent named its session, so that no other conversation has its key.
    pub named: bool,
    /// Whether the request is a summary or another side call. No handoff takes effect in its response.
    pub side_call: bool,
    /// Reason why the config or the request's header rules the tool out, if so.
    pub forbidden: Option<ToolOmission>,
}

impl AgentCall {
    /// Whether the agent's own loop sent the request.
    pub(super) fn is_agent_loop(&self) -> bool {
        is_agent_loop(&self.reading.view, self.operation)
    }

    /// Whether the request is a summary or another side call.
    pub fn is_side_call(&self) -> bool {
        self.declared_side || self.reading.view.facts.summary
    }

    /// Extracts the facts about how the request was sent.
    pub fn facts(&self) -> CallFacts {
        CallFacts {
            operation: self.operation,
            named: self.named,
            side_call: self.is_side_call(),
            forbidden: self.forbidden,
        }
    }

    /// Whether the request has room for the additional tools after a cut, including the search tool.
    pub(super) fn may_recall(&self) -> bool {
        let view = &self.reading.view;
        untooled::has_room_for_all(view) && !view.has_beside_transcript(RECALL_NAME)
    }

    /// Record of the pairs next to the calls after a cut.
    pub(super) fn pairs_after(&self, cut: Option<HandoffId>, from: usize) -> Need {
        Need::PairsAfter {
            cut,
            from,
            edition: self.edition,
        }
    }

    /// Replaces the transcript, and returns the previous one.
    pub(super) fn replace(&mut self, reading: RequestReading) -> RequestReading {
        // Records that were read for offsets of the earlier transcript must not be used for this one.
        self.edition += 1;
        mem::replace(&mut self.reading, reading)
    }
}

/// Text that a conversation opens with, for agents that name no session.
///
/// Cache breakpoints move from request to request and are left out.
pub fn opening(view: &View) -> String {
    let first_user = view.turns.iter().position(|t| t.role == Role::User);
    let first_user = first_user.unwrap_or_default();
    // Everything up to the first user message stays the same in all requests of a conversation.
    let parts = (0..=first_user).flat_map(|turn| view.content(turn).parts);
    let texts = parts.filter(|p| p.kind == TurnPartKind::Text);
    let texts = texts.filter_map(|p| Some(json::unescape(view.text(p.text?))));
    let all = texts.map(|t| t.into_owned()).collect::<Vec<_>>().join("\n");
    match &view.facts.previous {
        // Upstream stores the conversation's opening.
        Some(previous) if all.is_empty() => previous.id.clone(),
        _ => all,
    }
}

/// Whether a model answers the request.
pub fn is_model_call(operation: Option<Operation>) -> bool {
    operation == Some(Operation::Generate)
}

/// Whether the agent's own loop sent a request: a model call with the agent's tools and its whole history.
pub fn is_agent_loop(view: &View, operation: Option<Operation>) -> bool {
    is_model_call(operation) && view.tools.is_some_and(|tools| tools.client) && view.facts.previous.is_none()
}

/// Whether the agent sends its whole history with each request, and not just the id of the previous response.
pub fn resends(view: &View) -> bool {
    view.item_rules().is_none() || view.facts.unstored
}
