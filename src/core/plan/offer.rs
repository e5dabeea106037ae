//! Decides whether a request gets baton's tools.

use super::{
    AgentCall, CutTarget, CutTargetLookup, InsertionPoints, Known, Policy, Records, is_model_call, resends,
};
use crate::agents::tools::{context_resets, resets_context};
use crate::rewrite::RequestReading;
use crate::rewrite::untooled::{self, ToolOmission};
use crate::transcript::Transcript;
use crate::wire::{Operation, View};

/// Tools that baton adds to the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolOffer {
    /// Whether the request gets the handoff tool.
    pub tooled: bool,
    /// Reason why it does not.
    pub untooled: Option<ToolOmission>,
    /// Whether the request also gets the tool that searches the cut transcript.
    pub recall: bool,
    /// Whether requests after a cut made now get the search tool.
    pub recall_next: bool,
    /// Whether the handoff tool's description mentions the search.
    ///
    /// After a cut the description stays as it was there, because the prefix contains it.
    pub searchable: bool,
}

/// Decision on the tool, made once per conversation and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolDecision {
    pub(super) untooled: Option<ToolOmission>,
    /// Whether a sentinel, hidden calls or insertions prove that the tool was offered.
    is_proven: bool,
    /// Whether to store the decision in the conversation's record.
    pub(super) is_kept: bool,
}

impl ToolDecision {
    /// Creates a decision for this request only.
    fn once(untooled: Option<ToolOmission>) -> Self {
        Self {
            untooled,
            ..Self::default()
        }
    }

    /// Whether the request gets the tool.
    pub fn tooled(self) -> bool {
        self.untooled.is_none()
    }

    /// Reason why the request does not get the tool, if the record holds `stands` after the write.
    pub fn written(self, stands: bool) -> Option<ToolOmission> {
        match stands == self.tooled() || self.is_proven {
            true => self.untooled,
            // Another process has decided otherwise meanwhile.
            false => (!stands).then_some(ToolOmission::BoundHistory),
        }
    }

    /// Fallback if the write fails: omit the tool.
    ///
    /// Without a record the next request might decide differently, and a tool that comes and goes is worse
    /// than none.
    pub fn unwritten(self) -> Option<ToolOmission> {
        (!self.is_proven).then_some(ToolOmission::StoreDown)
    }
}

impl ToolOffer {
    /// Offers the handoff tool, or omits it for this reason.
    pub fn set(&mut self, untooled: Option<ToolOmission>) {
        self.tooled = untooled.is_none();
        self.untooled = untooled;
    }
}

/// Decides on the tools in addition to the handoff tool. `may_recall` tells whether there is room for the
/// search tool.
pub(super) fn offer(call: &AgentCall, pin: &CutTarget, policy: &Policy<'_>, may_recall: bool) -> ToolOffer {
    let view = &call.reading.view;
    // A request that names only an earlier response does not show the tools of that one. A token count does
    // not show whether its request would be stored, unless it continues a stored one.
    let is_count = call.operation == Some(Operation::Count) && view.facts.previous.is_none();
    let recall_next = may_recall && policy.recall && (resends(view) || is_count);
    let active = pin.active.as_ref();
    ToolOffer {
        recall: may_recall && active.is_some_and(|active| active.recall),
        recall_next,
        searchable: active.map_or(recall_next, |active| active.recall),
        ..ToolOffer::default()
    }
}

/// Decides whether to offer the tool, and whether to persist the decision.
pub(super) fn decide(
    call: &AgentCall,
    pin: &CutTarget,
    places: &InsertionPoints,
    records: &Records,
    policy: &Policy<'_>,
) -> Known<ToolDecision> {
    let view = &call.reading.view;
    // Not stored: the next request of the conversation may have room.
    if let Some(why) = call.forbidden.or(untooled::no_room(view)) {
        return Ok(ToolDecision::once(Some(why)));
    }
    if call.operation == Some(Operation::Compact) {
        return Ok(ToolDecision::once(Some(ToolOmission::Summary)));
    }
    let is_pinned = pin.active.is_some();
    // Claude Code sizes its tools this way, one by one, and adds the sizes up. Each number would include
    // baton's tool.
    if call.operation == Some(Operation::Count) && !is_pinned && view.is_lone_message() {
        return Ok(ToolDecision::once(Some(ToolOmission::CountProbe)));
    }
    let Some(live) = &records.conversation else {
        return Ok(ToolDecision::once(Some(ToolOmission::StoreDown)));
    };
    let unfit = untooled::unfit(view);
    // A summary or a side call has no later request that a handoff could help.
    let unfit = unfit.or(call.is_side_call().then_some(ToolOmission::Summary));
    let bound = || (view.wire().functions.bound)(view).then_some(ToolOmission::BoundHistory);
    // Asked only of a conversation without the tool: one with it keeps it, because its history is bound to the list
    // of tools.
    let resets = || (policy.agents_reset && has_reset(view)).then_some(ToolOmission::AgentResets);
    let ours = places.are_any();
    let untooled = match live.tooled {
        _ if is_pinned => None,
        // Under way the tool stays even if a request does not suit it, because the prefix contains it.
        Some(true) => return Ok(ToolDecision::once(unfit.filter(|_| !view.under_way()))),
        Some(false) if !ours => unfit.or_else(resets).or_else(bound),
        _ if unfit.is_some() => return Ok(ToolDecision::once(unfit)),
        _ if ours => None,
        _ if !view.under_way() => resets(),
        _ => match resets().or_else(bound) {
            Some(_) if had_handoff(call, pin, records, policy)? => None,
            why => why,
        },
    };
    Ok(ToolDecision {
        untooled,
        is_proven: ours || is_pinned,
        // A token count must not decide for the conversation.
        is_kept: is_model_call(call.operation),
    })
}

/// Whether the agent itself offers the model a tool that starts a new context.
fn has_reset(view: &View) -> bool {
    // Bytes are searched first: the list of tools is long, and most requests have none of these names.
    context_resets().any(|name| view.has_beside_transcript(name))
        && Transcript::from_view(view)
            .tool_names()
            .iter()
            .any(|name| resets_context(&name.get()))
}

/// Whether the seal of an undone handoff proves that the conversation has the tool, although the store has
/// lost the record.
fn had_handoff(call: &AgentCall, pin: &CutTarget, records: &Records, policy: &Policy<'_>) -> Known<bool> {
    let Some(received) = pin.original_with_undos() else {
        return Ok(false);
    };
    let Ok(reading) = RequestReading::new(call.reading.view.wire(), &received.text, Operation::Generate)
    else {
        return Ok(false);
    };
    let mut candidates = reading.candidates();
    candidates.retain(|candidate| pin.undone.ever().contains(&candidate.sentinel.id));
    let lookup = CutTargetLookup {
        reading: &reading,
        principal: &call.principal,
        records,
        policy,
    };
    Ok(lookup.active(&candidates)?.is_some())
}
