//! The cut target of a request: the handoff that it is cut at, and the commands in its transcript.

use super::active::ContinuedOrigin;
use super::{
    Active, AgentCall, CutPosition, CutTargetLookup, Known, Policy, Records, RemovedCommands, Unresolved,
    commands, is_model_call,
};
use crate::record::{CutPoint, HandoffId, OpenResponse, ResponseOrigin, ThinkingOmission};
use crate::rewrite::notes::{InterjectedCommand, UndoneHandoffs};
use crate::rewrite::{Candidate, Cut};
use crate::wire::{LocatedBody, Role, Wire};

/// Cut target of a request.
#[derive(Debug, Clone, Default)]
pub struct CutTarget {
    /// Handoff that the request is cut at.
    pub active: Option<Active>,
    /// Origin of the response that the request continues, if upstream knows it by another id than the agent.
    pub previous: Option<ResponseOrigin>,
    /// Results (JSON elements) still owed to baton's tool calls in that response.
    pub owed: Vec<String>,
    /// Handoffs that were undone in the chat.
    pub undone: UndoneHandoffs,
    /// Commands and their replies, which are not passed on.
    pub taken_out: RemovedCommands,
    /// The user's last message, if it is a command.
    pub command: Option<String>,
    /// Commands typed while the agent worked, in the results that this request adds.
    pub interjected: Vec<InterjectedCommand>,
    /// Reason why the handoff that the user's last message resumes was not found.
    pub unresolved: Option<Unresolved>,
    /// Whether the conversation was cut before and this transcript has no sentinel, or none that can be read.
    pub lost_sentinel: bool,
    /// Id in the newest sentinel, if the store lacks its handoff and no seal proves its prompt.
    pub lost: Option<HandoffId>,
    /// Whether this is the first request after the user pasted a sentinel to resume its handoff.
    pub resumed: bool,
}

impl CutTarget {
    /// Id of the handoff that the request is cut at.
    pub fn active_id(&self) -> Option<HandoffId> {
        self.active.as_ref().map(|active| active.id)
    }

    /// The turn containing the cut, or the first turn after it.
    pub(super) fn turn(&self) -> Option<usize> {
        self.active.as_ref().and_then(Active::turn)
    }

    /// Carry-over prompt at the beginning of the cut transcript.
    pub fn carry_over(&self) -> Option<String> {
        self.active.as_ref().map(|active| active.prompt.clone())
    }

    /// Model override of the active handoff.
    pub fn routed(&self) -> Option<&str> {
        self.active.as_ref()?.routed.as_deref()
    }

    /// First turn that the model sees.
    pub fn kept_from(&self) -> usize {
        let Some(active) = &self.active else {
            return 0;
        };
        // The turn with a sentinel ends with it; any other cut is before its turn.
        let after = usize::from(active.candidate().is_some());
        active.turn().map_or(0, |turn| turn + after)
    }

    /// The cut as input of a rewrite.
    pub fn cut(&self) -> Cut<'_> {
        let Some(active) = &self.active else {
            return Cut::None;
        };
        let head = &active.head;
        match &active.place {
            CutPosition::Sentinel(candidate) => Cut::At {
                candidate,
                prompt: Some(&*active.prompt).filter(|_| active.spelled_out),
                head,
            },
            CutPosition::BeforeTurn(turn) => Cut::BeforeTurn { turn: *turn, head },
            CutPosition::Upstream => Cut::Before { head },
            CutPosition::Text(edits) => Cut::Text { edits },
        }
    }

    /// The turn that this request continues, if upstream stores its beginning. A handoff may be pending until
    /// its end.
    pub fn stored_turn(&self) -> Option<&OpenResponse> {
        let open = self.previous.as_ref()?.open()?;
        self.active.is_none().then_some(open)
    }

    /// Handoff that the request's stretch begins with. A stretch is the part of a conversation between two cuts.
    pub fn stretch(&self) -> HandoffId {
        self.active_id().unwrap_or(ThinkingOmission::UNCUT)
    }

    /// Sets everything but the transcript's commands.
    pub(super) fn set(&mut self, found: Self) {
        let before = std::mem::take(self);
        *self = Self {
            undone: before.undone,
            taken_out: before.taken_out,
            interjected: before.interjected,
            ..found
        };
    }

    /// Transcript as the agent sent it, if any handoff was ever undone in it.
    pub(super) fn original_with_undos(&self) -> Option<&LocatedBody> {
        let is_undone = !self.undone.ever().is_empty();
        self.taken_out.original.as_ref().filter(|_| is_undone)
    }
}

/// The outcome of [`find`].
pub(super) struct FoundTarget {
    /// The target, without the transcript's commands.
    pub(super) pin: CutTarget,
    /// Cut points of the conversation that this one was forked from.
    pub(super) taken_over: Vec<CutPoint>,
    /// Handoff whose cut point the cut relies on.
    pub(super) relies_on: Option<HandoffId>,
}

/// Finds the cut target of a request.
///
/// The first of these that exists counts:
///
/// * a later handoff whose response the agent left out
/// * the handoff of the last valid sentinel
/// * the handoff of the response that the request continues
/// * a handoff in a flattened transcript
///
/// `pin` has what is known of the transcript's commands.
pub(super) fn find(
    call: &AgentCall,
    pin: &CutTarget,
    records: &Records,
    policy: &Policy<'_>,
) -> Known<FoundTarget> {
    let (view, undone) = (&call.reading.view, &pin.undone);
    let (is_model_call, of_the_loop) = (is_model_call(call.operation), call.is_agent_loop());
    let lookup = CutTargetLookup {
        reading: &call.reading,
        principal: &call.principal,
        records,
        policy,
    };
    let marked = lookup.active(&call.candidates)?;
    let ContinuedOrigin { active, origin } = lookup.previous()?;
    let sentinel = marked.as_ref().and_then(Active::candidate);
    let (at, turn) = sentinel.map(|found| (found.sentinel.at, found.turn)).unzip();
    let (left_out, taken_over) = lookup.left_out(turn, undone, pin.taken_out.unanswered)?;
    let relies_on = left_out.as_ref().map(|active| active.id);
    // A left-out response is later than the last sentinel, so it comes first.
    let active = match left_out.or(marked).or(active) {
        None => lookup.flattened(call.named.then_some(call.key.as_str()), undone)?,
        found => found,
    };
    // The newest sentinel, if it names no known handoff.
    let missed = call.candidates.first();
    let missed = missed.filter(|newest| at != Some(newest.sentinel.at));
    let is_last = |missed: &Candidate| {
        let mut later = view.turns[missed.turn + 1..].iter();
        // Some agents append a system message or a list of tools after the user's.
        later.all(|turn| matches!(turn.role, Role::System | Role::Tools))
    };
    let asked = missed.filter(|missed| is_model_call && missed.by_user && is_last(missed));
    let unresolved = asked.map(|line| lookup.why_unresolved(line)).transpose()?;
    let known = records.conversation.as_ref().and_then(|live| live.active);
    // Without a session name, another conversation with the same opening may be the one that had a handoff.
    let is_gone = known.is_some() && of_the_loop && call.named && undone.last.is_none();
    let lost = missed.filter(|missed| !missed.by_user);
    let lost = lost.map(|missed| missed.sentinel.id);
    // The line stays in the transcript, so only the first request after it begins the resumption.
    let by_user = active.as_ref().filter(|active| active.is_by_user());
    let resumed = of_the_loop && by_user.is_some_and(|active| known != Some(active.id));
    let pin = CutTarget {
        resumed,
        lost_sentinel: active.is_none() && (is_gone || lost.is_some() && is_model_call),
        owed: owed(view.wire(), origin.as_ref()),
        // A token count executes no command.
        command: commands::command(view, policy).filter(|_| is_model_call),
        active,
        previous: origin,
        unresolved,
        lost,
        ..CutTarget::default()
    };
    Ok(FoundTarget {
        pin,
        taken_over,
        relies_on,
    })
}

/// Results still owed to baton's tool calls in the response that the request continues.
fn owed(wire: &Wire, origin: Option<&ResponseOrigin>) -> Vec<String> {
    let (Some(items), Some(open)) = (wire.items, origin.and_then(ResponseOrigin::open)) else {
        return Vec::new();
    };
    let owed = open.owed.iter();
    owed.map(|owed| (items.lone_result)(&owed.call_id, &owed.answer))
        .collect()
}
