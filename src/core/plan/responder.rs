//! What answers a request: the model, or baton in its place.

use super::moment::{ColdCacheCut, DueStep, ThreadState};
use super::{CutTarget, PlannedRequest, Unresolved};
use crate::bill::{DraftCost, FreeCut};
use crate::handoffs::draft::{DraftMethod, open_message};
use crate::record::HandoffId;

/// What answers a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Responder {
    /// The model.
    Model,
    /// A text: the handoff that a user resumes is not found.
    Unresolved(Unresolved),
    /// The outcome of this chat command.
    Command(String),
    /// The leg after this handoff: the request repeats one whose answer broke off behind it.
    AfterHandoff(HandoffId),
    /// The leg after a handoff that begins now. If it cannot, as if none were due.
    HandOff(DueHandoff),
    /// The leg after a handoff of the draft that waits for a request.
    WaitingDraft,
    /// A question to the user: whether to cut, which costs nothing.
    Offer(String),
}

/// A handoff that begins without a request for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DueHandoff {
    /// Why, as the sentinel shows it.
    pub reason: String,
    /// How its document is made; `None`: as the config says.
    pub method: Option<DraftMethod>,
    /// The document, where it is written already.
    pub ready: Option<String>,
    /// The cut that costs nothing, where that is the reason.
    pub cut: Option<FreeCut>,
}

/// What is decided on a request before it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub by: Responder,
    /// A notice to the model, after all that the request has.
    pub nudge: Option<String>,
}

/// A conversation's draft that is not done yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenDraft {
    /// It waits for a request of the conversation.
    Waits,
    /// It is being written, or waits for a user.
    Elsewhere,
}

named! {
    /// Whether a conversation is cut at a moment at which the provider's cache is lost anyway.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum FreeCutPolicy {
        /// No.
        #[default]
        Off = "off",
        /// A user is offered it in the chat first.
        Ask = "ask",
        /// Yes.
        On = "on",
    }
}

/// What is known when a request comes, besides its plan.
#[derive(Debug, Clone, Copy)]
pub struct RespondInput<'a> {
    /// The handoff behind which the answer to the same request broke off.
    pub repeated: Option<HandoffId>,
    /// The thread, where the request is new in it.
    pub thread: Option<&'a ThreadState<'a>>,
    pub draft: Option<OpenDraft>,
    pub free: FreeCutPolicy,
    pub now_ms: u64,
}

impl CutTarget {
    /// What answers a request that is for baton alone.
    pub fn answered_by(&self) -> Option<Responder> {
        let unresolved = self.unresolved.map(Responder::Unresolved);
        unresolved.or_else(|| self.command.clone().map(Responder::Command))
    }
}

impl PlannedRequest<'_> {
    /// What answers a request that is for the model. A request that repeats an earlier one continues after its handoff: what is
    /// sent again is sent as before.
    pub fn answered_by(&self, now: &RespondInput<'_>) -> Decision {
        let may_be_due = now.repeated.is_none() && !self.waits_for_turn_end();
        let thread = now.thread.filter(|_| may_be_due);
        let due = thread.and_then(|thread| self.due(thread, now.now_ms));
        let (nudge, instead) = match (due, thread) {
            (Some(DueStep::Nudge(text)), _) => (Some(text), None),
            (Some(DueStep::HandOff { reason }), _) => {
                let due = DueHandoff {
                    reason,
                    ..DueHandoff::default()
                };
                (None, self.begins(now).then_some(Responder::HandOff(due)))
            }
            (None, Some(thread)) => (None, self.free_cut(thread, now)),
            (None, None) => (None, None),
        };
        let instead = instead.or(now.repeated.map(Responder::AfterHandoff));
        let by = instead.unwrap_or_else(|| self.without_due(now));
        Decision { by, nudge }
    }

    /// What answers where nothing is due: the draft that waits, else the model.
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

    /// The handoff at a moment at which it costs nothing, or the question whether to make it.
    fn free_cut(&self, thread: &ThreadState<'_>, now: &RespondInput<'_>) -> Option<Responder> {
        if now.free == FreeCutPolicy::Off {
            return None;
        }
        let ColdCacheCut { cut, ready } = self.free_moment(thread)?;
        if now.free == FreeCutPolicy::Ask {
            let offer = self.offer_of(&cut).filter(|_| !thread.costs.offered);
            return offer.map(Responder::Offer);
        }
        self.begins(now).then(|| {
            Responder::HandOff(DueHandoff {
                reason: cut.reason.text(),
                // A selection where the history would have to be read anew.
                method: matches!(cut.draft, DraftCost::Selection(_)).then_some(DraftMethod::Bundle),
                ready,
                cut: Some(cut),
            })
        })
    }

    /// The question to a user before a cut; `None`: no user is there to answer.
    fn offer_of(&self, cut: &FreeCut) -> Option<String> {
        let look = self.policy.look;
        if open_message(&self.reading.view, look.tags).is_empty() {
            return None;
        }
        let yes = match look.prefix {
            "" => "begin a new session with a handoff".to_owned(),
            prefix => format!("`{prefix}handoff`"),
        };
        Some(format!(
            "{}. A handoff now would save about ${:.2}: {yes}. Any other message goes on with the whole history.",
            cut.reason.text(),
            cut.saved.max(0.01),
        ))
    }
}
