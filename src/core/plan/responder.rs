//! Chooses the responder to a request: the model, or baton in its place.

use super::moment::{BranchState, DueStep};
use super::{CutTarget, PlannedRequest, Unresolved};
use crate::bill::{DraftCost, FreeCut};
use crate::handoffs::draft::{DraftMethod, open_message};
use crate::record::HandoffId;

/// Responder to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Responder {
    /// The model.
    Model,
    /// A fixed reply, because the handoff that the user resumes was not found.
    Unresolved(Unresolved),
    /// The reply to this chat command.
    Command(String),
    /// The leg after this handoff. The request repeats one whose response broke off after it.
    AfterHandoff(HandoffId),
    /// Hand off now and continue with the next leg; falls back to the usual responder if the handoff fails.
    HandOff(DueHandoff),
    /// The leg after a handoff of the pending draft.
    WaitingDraft,
    /// A question to the user about a cut that costs nothing.
    Offer(String),
}

/// A handoff that begins without a request for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DueHandoff {
    /// Reason, as the sentinel shows it.
    pub reason: String,
    /// Method of the draft; `None` means the configured one.
    pub method: Option<DraftMethod>,
    /// The cut that costs nothing, if that is the reason.
    pub cut: Option<FreeCut>,
}

/// Decision on a request before it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub by: Responder,
    /// Notice to the model, appended to the request.
    pub nudge: Option<String>,
}

/// An unfinished draft of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenDraft {
    /// The draft awaits a request of the conversation.
    Waits,
    /// The draft is being written or awaits the user's approval.
    Elsewhere,
}

named! {
    /// Whether to cut a conversation when the provider's cache is lost anyway.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum FreeCutPolicy {
        /// Never.
        #[default]
        Off = "off",
        /// After asking the user in the chat.
        Ask = "ask",
        /// Always.
        On = "on",
    }
}

/// State of the conversation when a request arrives, in addition to its plan.
#[derive(Debug, Clone, Copy)]
pub struct RespondInput<'a> {
    /// Handoff in the response to an identical request, which was interrupted afterwards.
    pub repeated: Option<HandoffId>,
    /// Branch of the request, if the request is new in it.
    pub branch: Option<&'a BranchState<'a>>,
    pub draft: Option<OpenDraft>,
    pub free: FreeCutPolicy,
    pub now_ms: u64,
}

impl CutTarget {
    /// Returns the responder to a request that only baton handles.
    pub fn answered_by(&self) -> Option<Responder> {
        let unresolved = self.unresolved.map(Responder::Unresolved);
        unresolved.or_else(|| self.command.clone().map(Responder::Command))
    }
}

impl PlannedRequest<'_> {
    /// Chooses the responder to a request for the model.
    ///
    /// If the response to an identical request broke off after its handoff, the leg after that handoff responds.
    /// Otherwise a due handoff or question comes first, then the pending draft, then the model.
    pub fn answered_by(&self, now: &RespondInput<'_>) -> Decision {
        // A repetition must be sent as it was before, and a handoff that the model has called comes first.
        let may_be_due = now.repeated.is_none() && !self.waits_for_turn_end();
        let branch = now.branch.filter(|_| may_be_due);
        let due = branch.and_then(|branch| self.due(branch, now.now_ms));
        let (nudge, instead) = match (due, branch) {
            (Some(DueStep::Nudge(text)), _) => (Some(text), None),
            (Some(DueStep::HandOff { reason }), _) => {
                let due = DueHandoff {
                    reason,
                    ..DueHandoff::default()
                };
                (None, self.begins(now).then_some(Responder::HandOff(due)))
            }
            (None, Some(branch)) => (None, self.free_cut(branch, now)),
            (None, None) => (None, None),
        };
        // The agent retries a request whose response broke off after its handoff: that handoff is not written again.
        let instead = instead.or(now.repeated.map(Responder::AfterHandoff));
        let by = instead.unwrap_or_else(|| self.without_due(now));
        Decision { by, nudge }
    }

    /// Returns the responder if no handoff is due: the pending draft if there is one, otherwise the model.
    fn without_due(&self, now: &RespondInput<'_>) -> Responder {
        match now.draft == Some(OpenDraft::Waits) && self.is_safe_point() {
            true => Responder::WaitingDraft,
            false => Responder::Model,
        }
    }

    /// Whether a handoff can begin with this request.
    fn begins(&self, now: &RespondInput<'_>) -> bool {
        now.draft.is_none() && self.is_safe_point()
    }

    /// Returns the handoff of a cut that costs nothing, or the question whether to make it.
    fn free_cut(&self, branch: &BranchState<'_>, now: &RespondInput<'_>) -> Option<Responder> {
        if now.free == FreeCutPolicy::Off {
            return None;
        }
        let cut = self.free_moment(branch)?;
        if now.free == FreeCutPolicy::Ask {
            // Offered once until the model speaks again.
            let offer = self.offer_of(&cut).filter(|_| !branch.costs.offered);
            return offer.map(Responder::Offer);
        }
        self.begins(now).then(|| {
            Responder::HandOff(DueHandoff {
                reason: cut.reason.text(),
                // A selection of the history, because the model would have to read all of it again at full
                // price.
                method: matches!(cut.draft, DraftCost::Selection(_)).then_some(DraftMethod::Bundle),
                cut: Some(cut),
            })
        })
    }

    /// Composes the question to the user before a cut; `None` if no user is there to answer.
    fn offer_of(&self, cut: &FreeCut) -> Option<String> {
        let look = self.policy.look;
        // The request continues the agent's own work.
        if open_message(&self.reading.view, look.tags).is_empty() {
            return None;
        }
        let yes = match look.prefix {
            "" => "begin a new session with a handoff".to_owned(),
            prefix => format!("`{prefix}handoff`"),
        };
        Some(format!(
            "{}. A handoff now would save about ${:.2}: {yes}. Any other message continues with the whole history.",
            cut.reason.text(),
            cut.saved.max(0.01),
        ))
    }
}
