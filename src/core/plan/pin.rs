//! What a request is pinned to: the handoff that it is cut at, and the commands in its transcript.

use super::active::PinnedTo;
use super::verdict::{MissedSentinel, PinEvidence, PinVerdict};
use super::{
    Active, AgentCall, CutPlace, Needs, PinLookup, Policy, Records, TakenOut, Unresolved, commands,
    is_model_call,
};
use crate::record::{HandoffId, OpenResponse, ResponseOrigin, ThinkingOmission};
use crate::rewrite::notes::UndoneHandoffs;
use crate::rewrite::{Candidate, Cut};
use crate::wire::{LocatedBody, Role, View, Wire};

/// What a request is pinned to.
#[derive(Debug, Clone, Default)]
pub struct Pin {
    /// The handoff that the request is cut at.
    pub active: Option<Active>,
    /// The origin of the response that the request continues, where upstream knows it by another id than the agent.
    pub previous: Option<ResponseOrigin>,
    /// The results, as elements, that calls of ours in that response wait for.
    pub owed: Vec<String>,
    /// What was undone in the chat.
    pub undone: UndoneHandoffs,
    /// Commands and their answers, which are not passed on.
    pub taken_out: TakenOut,
    /// The user's last text, where it is a command.
    pub command: Option<String>,
    /// Why the handoff that the agent's last message names is not found.
    pub unresolved: Option<Unresolved>,
    /// The conversation was pinned before and this transcript holds no sentinel, or none that can be read.
    pub unpinned: bool,
    /// A sentinel whose handoff is neither in the store nor under its seal.
    pub lost: Option<HandoffId>,
    /// A person's line makes this request the first after its handoff.
    pub resumed: bool,
}

impl Pin {
    /// The handoff that the request is cut at.
    pub fn active_id(&self) -> Option<HandoffId> {
        self.active.as_ref().map(|active| active.id)
    }

    /// The turn that the cut is in, or in front of which.
    pub(super) fn turn(&self) -> Option<usize> {
        self.active.as_ref().and_then(Active::turn)
    }

    /// The carry-over prompt that the transcript begins with.
    pub fn carry_over(&self) -> Option<String> {
        self.active.as_ref().map(|active| active.prompt.clone())
    }

    /// The model that the active handoff names in place of the requested one.
    pub fn routed(&self) -> Option<&str> {
        self.active.as_ref()?.routed.as_deref()
    }

    /// The first turn that the model sees.
    pub fn kept_from(&self) -> usize {
        let Some(active) = &self.active else {
            return 0;
        };
        let after = usize::from(active.candidate().is_some());
        active.turn().map_or(0, |turn| turn + after)
    }

    /// Where the transcript is cut.
    pub fn cut(&self) -> Cut<'_> {
        let Some(active) = &self.active else {
            return Cut::None;
        };
        let head = &active.head;
        match &active.place {
            CutPlace::Sentinel(candidate) => Cut::At {
                candidate,
                prompt: Some(&*active.prompt).filter(|_| active.spelled_out),
                head,
            },
            CutPlace::BeforeTurn(turn) => Cut::BeforeTurn { turn: *turn, head },
            CutPlace::Upstream => Cut::Before { head },
            CutPlace::Text(edits) => Cut::Text { edits },
        }
    }

    /// The turn that began in a response which upstream stores, and that this request continues with. A handoff may be pending
    /// until its end.
    pub fn stored_turn(&self) -> Option<&OpenResponse> {
        let open = self.previous.as_ref()?.open()?;
        self.active.is_none().then_some(open)
    }

    /// The handoff that the stretch of a request begins with.
    pub fn stretch(&self) -> HandoffId {
        self.active_id().unwrap_or(ThinkingOmission::UNCUT)
    }

    /// The transcript as the agent sent it, if any handoff was ever undone in it.
    pub(super) fn original_with_undos(&self) -> Option<&LocatedBody> {
        let is_undone = !self.undone.ever().is_empty();
        self.taken_out.original.as_ref().filter(|_| is_undone)
    }
}

/// What a request is found to be pinned to.
pub(super) struct FoundPin {
    pub(super) found: PinnedTo,
    pub(super) unresolved: Option<Unresolved>,
    pub(super) verdict: PinVerdict,
    pub(super) command: Option<String>,
}

/// Finds what a request is pinned to, with these handoffs undone.
pub(super) fn find(
    call: &AgentCall,
    undone: &UndoneHandoffs,
    records: &Records,
    policy: &Policy<'_>,
) -> Result<FoundPin, Needs> {
    let view = &call.reading.view;
    let lookup = PinLookup {
        reading: &call.reading,
        principal: &call.principal,
        records,
        policy,
    };
    let session = call.named.then_some(call.key.as_str());
    let found = lookup.pinned_to(&call.candidates, undone, session)?;
    let missed = call.candidates.first();
    let missed = missed.filter(|c| found.by_sentinel != Some(c.sentinel.at));
    let verdict = PinEvidence {
        is_model_call: is_model_call(call.operation),
        of_the_loop: call.is_of_the_loop(),
        is_named: call.named,
        known: records.conversation.as_ref().and_then(|live| live.active),
        active: found.active.as_ref().map(|active| active.id),
        by_user: found.active.as_ref().is_some_and(Active::is_by_user),
        was_undone: undone.last.is_some(),
        missed: missed.map(|candidate| missed_sentinel(view, candidate)),
    }
    .verdict();
    let unresolved = match missed.filter(|_| verdict.names_unknown) {
        Some(line) => Some(lookup.why_unresolved(line)?),
        None => None,
    };
    let command = commands::command(view, policy);
    Ok(FoundPin {
        found,
        unresolved,
        verdict,
        command: command.filter(|_| is_model_call(call.operation)),
    })
}

/// The newest sentinel, which names no known handoff.
fn missed_sentinel(view: &View, candidate: &Candidate) -> MissedSentinel {
    let mut later = view.turns[candidate.turn + 1..].iter();
    MissedSentinel {
        id: candidate.sentinel.id,
        by_user: candidate.by_user,
        is_last: later.all(|turn| matches!(turn.role, Role::System | Role::Tools)),
    }
}

/// The results that calls of ours wait for in the response which the request continues.
pub(super) fn owed(wire: &dyn Wire, origin: Option<&ResponseOrigin>) -> Vec<String> {
    let (Some(items), Some(open)) = (wire.facts().items, origin.and_then(ResponseOrigin::open)) else {
        return Vec::new();
    };
    let owed = open.owed.iter();
    owed.map(|owed| (items.lone_result)(&owed.call_id, &owed.answer))
        .collect()
}
