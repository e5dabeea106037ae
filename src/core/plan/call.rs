//! An agent's request as it is planned.

use std::mem;

use super::Need;
use crate::record::HandoffId;
use crate::rewrite::untooled::{self, ToolOmission};
use crate::rewrite::{Candidate, RequestReading};
use crate::text::json;
use crate::tools::RECALL_NAME;
use crate::wire::{Operation, Role, TurnPartKind, View};

/// An agent's request as it is planned.
pub struct AgentCall {
    pub operation: Option<Operation>,
    pub principal: String,
    /// Key of the conversation.
    pub key: String,
    /// Whether the agent named its session: no other conversation has its key.
    pub named: bool,
    /// A header says that it is a side call.
    pub declared_side: bool,
    /// Why the tool is ruled out, by the config or by the request's header.
    pub forbidden: Option<ToolOmission>,
    pub reading: RequestReading,
    /// Sentinels in the transcript, newest first.
    pub candidates: Vec<Candidate>,
    /// How often the transcript was changed here.
    pub edition: usize,
}

/// How a request was sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallFacts {
    pub operation: Option<Operation>,
    /// Whether the agent named its session: no other conversation has its key.
    pub named: bool,
    /// A summary, or another side call: no handoff fires in its answer.
    pub side_call: bool,
    /// Why the tool is ruled out, by the config or by the request's header.
    pub forbidden: Option<ToolOmission>,
}

impl AgentCall {
    /// Whether the agent's own loop sent it.
    pub(super) fn is_agent_loop(&self) -> bool {
        is_agent_loop(&self.reading.view, self.operation)
    }

    /// Whether it is a summary, or another side call.
    pub fn is_side_call(&self) -> bool {
        self.declared_side || self.reading.view.facts.summary
    }

    /// How it was sent.
    pub fn facts(&self) -> CallFacts {
        CallFacts {
            operation: self.operation,
            named: self.named,
            side_call: self.is_side_call(),
            forbidden: self.forbidden,
        }
    }

    /// Whether it has room for the tools that only requests after a cut have, the one that searches among them.
    pub(super) fn may_recall(&self) -> bool {
        let view = &self.reading.view;
        untooled::has_room_for_all(view) && !view.has_beside_transcript(RECALL_NAME)
    }

    /// What its calls after a cut need.
    pub(super) fn pairs_after(&self, cut: Option<HandoffId>, from: usize) -> Need {
        Need::PairsAfter {
            cut,
            from,
            edition: self.edition,
        }
    }

    /// Takes another transcript in place of its own, which is returned.
    pub(super) fn replace(&mut self, reading: RequestReading) -> RequestReading {
        self.edition += 1;
        mem::replace(&mut self.reading, reading)
    }
}

/// The texts that a conversation opens with, for agents that name no session. Cache breakpoints move from
/// request to request and are no part of it.
pub fn opening(view: &View) -> String {
    let first_user = view
        .turns
        .iter()
        .position(|t| t.role == Role::User)
        .unwrap_or_default();
    let parts = (0..=first_user).flat_map(|turn| view.content(turn).parts);
    let texts = parts
        .filter(|p| p.kind == TurnPartKind::Text)
        .filter_map(|p| Some(json::unescape(view.text(p.text?))));
    let all = texts.map(|t| t.into_owned()).collect::<Vec<_>>().join("\n");
    match &view.facts.previous {
        // The conversation's opening is stored upstream.
        Some(previous) if all.is_empty() => previous.id.clone(),
        _ => all,
    }
}

/// Whether a model answers the request.
pub fn is_model_call(operation: Option<Operation>) -> bool {
    operation == Some(Operation::Generate)
}

/// Whether the agent's own loop sent a request: a model call with the agent's tools that brings its history along.
pub fn is_agent_loop(view: &View, operation: Option<Operation>) -> bool {
    is_model_call(operation) && view.tools.is_some_and(|tools| tools.client) && view.facts.previous.is_none()
}

/// Whether the agent sends its whole history with each request, and does not continue by an id alone.
pub fn resends(view: &View) -> bool {
    view.item_rules().is_none() || view.facts.unstored
}
