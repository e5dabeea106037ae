//! Second stage: finds the handoff that a request is pinned to, and the commands in its transcript.

mod taken_out;
mod verdict;

use super::active_handoff::{Active, PinLookup, Unresolved, why_unresolved};

use super::is_model_call;
use super::read::{AgentRequest, Received, is_side_call};
use super::read_ahead::Ahead;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::serve::proxy::fault::{Code, Fault};
use crate::state::store::StoreError;
use baton_core::record::{HandoffId, ResponseOrigin};
use baton_core::rewrite::notes::UndoneHandoffs;
use baton_core::rewrite::{Candidate, untooled};
use baton_core::tools::RECALL_NAME;
use baton_core::wire::{Role, Wire};

pub(super) use self::taken_out::{OriginalTranscript, TakenOut};
use self::verdict::{MissedSentinel, PinEvidence};

/// What a request is pinned to.
#[derive(Clone, Default)]
pub(super) struct Pin {
    /// The handoff that the request is cut at.
    pub(super) active: Option<Active>,
    /// The origin of the response that the request continues, where upstream knows it by another id than the agent.
    pub(super) previous: Option<ResponseOrigin>,
    /// The results, as elements, that calls of ours in that response wait for.
    pub(super) owed: Vec<String>,
    /// What was undone in the chat.
    pub(super) undone: UndoneHandoffs,
    /// Commands and their answers, which are not passed on.
    pub(super) taken_out: TakenOut,
    /// The user's last text, where it is a command.
    pub(super) command: Option<String>,
    /// Why the handoff that the agent's last message names is not found.
    pub(super) unresolved: Option<Unresolved>,
    /// The conversation was pinned before and this transcript holds no sentinel, or none that can be read.
    pub(super) unpinned: bool,
    /// A sentinel whose handoff is neither in the store nor under its seal.
    pub(super) lost: Option<HandoffId>,
    /// A person's line makes this request the first after its handoff.
    pub(super) resumed: bool,
}

impl Pin {
    /// The handoff that the request is cut at.
    pub(super) fn active_id(&self) -> Option<HandoffId> {
        self.active.as_ref().map(|active| active.id)
    }

    /// The transcript as the agent sent it, if any handoff was ever undone in it.
    pub(super) fn original_with_undos(&self) -> Option<&OriginalTranscript> {
        let is_undone = !self.undone.ever().is_empty();
        self.taken_out.original.as_ref().filter(|_| is_undone)
    }
}

/// Which rules hold for a request.
#[derive(Clone, Copy)]
pub(super) struct RequestScope {
    /// Whether the request is of the agent's loop. Side calls (titles, probes) share a session's id and not its
    /// transcript; a transcript that upstream stores is not seen whole.
    pub(super) of_the_loop: bool,
    /// Whether the request has room for the tool that searches the cut transcript.
    pub(super) may_recall: bool,
}

impl RequestScope {
    /// Whether the request gets the tool that searches the cut transcript.
    pub(super) fn has_recall(self, pin: &Pin) -> bool {
        self.may_recall && pin.active.as_ref().is_some_and(|active| active.recall)
    }
}

/// A request with its pin.
pub(super) struct Pinned {
    pub(super) agent: AgentRequest,
    pub(super) pin: Pin,
    pub(super) scope: RequestScope,
    pub(super) ahead: Ahead,
}

/// Takes chat commands out of the request, which is then another transcript, with other offsets and maybe another last text.
fn take_commands_out(app: &App, ctx: &RequestContext, received: &mut Received) -> taken_out::CommandsTaken {
    let agent = &mut received.agent;
    let taken = taken_out::take_out(app, agent);
    if taken.taken_out.removed.is_some() {
        agent.side_call = is_side_call(ctx, agent.request.view());
        received.candidates = agent.request.reading().candidates(agent.wire);
    }
    taken
}

/// Finds what a request is pinned to.
///
/// # Errors
/// The store cannot be read, and the request cannot be served without it.
pub(super) async fn pin(app: &App, ctx: &RequestContext, mut received: Received) -> Result<Pinned, Fault> {
    let taken = take_commands_out(app, ctx, &mut received);
    let Received {
        mut agent,
        key,
        candidates,
        mut ahead,
    } = received;
    let newest = candidates.first().cloned();
    let command = taken_out::command(app, agent.wire, agent.request.reading());
    let command = command.filter(|_| is_model_call(ctx.operation));
    let lookup = PinLookup {
        app,
        ctx,
        wire: agent.wire,
        reading: agent.request.reading(),
    };
    let session = agent.named.then_some(key.as_str());
    let previous = ahead.previous.take();
    let found = lookup.pinned_to(candidates, previous, agent.live.as_ref(), &taken.undone, session);
    let found = found.await.map_err(store_down)?;
    let (active, previous) = (found.active, found.previous);
    if agent.live.is_none() && active.is_some() {
        // Cut without its hidden pairs and the tool, it would be another prefix than the model's.
        return Err(Fault::from(Code::STORE));
    }
    let missed = newest.filter(|c| found.by_sentinel != Some(c.sentinel.at));
    let scope = RequestScope {
        of_the_loop: agent.is_of_the_loop(ctx.operation),
        may_recall: may_recall(app, &mut agent, active.as_ref()),
    };
    let verdict = PinEvidence {
        is_model_call: is_model_call(ctx.operation),
        of_the_loop: scope.of_the_loop,
        is_named: agent.named,
        known: agent.live.as_ref().and_then(|live| live.active()),
        active: active.as_ref().map(|active| active.id),
        by_user: active.as_ref().is_some_and(Active::is_by_user),
        was_undone: taken.undone.last.is_some(),
        missed: missed
            .as_ref()
            .map(|candidate| missed_sentinel(&agent, candidate)),
    }
    .verdict();
    let unresolved = why_unresolved(app, ctx, missed.filter(|_| verdict.names_unknown));
    let unresolved = unresolved.await.map_err(store_down)?;
    let pin = Pin {
        owed: owed(agent.wire, previous.as_ref()),
        active,
        previous,
        undone: taken.undone,
        taken_out: taken.taken_out,
        command,
        unresolved,
        unpinned: verdict.unpinned,
        lost: verdict.lost,
        resumed: verdict.resumed,
    };
    Ok(Pinned {
        agent,
        pin,
        scope,
        ahead,
    })
}

/// Fault of a request that the store is needed for.
pub(super) fn store_down(error: StoreError) -> Fault {
    tracing::error!(%error, "a pinned request cannot be served");
    Fault::from(Code::STORE)
}

/// The newest sentinel, which names no known handoff.
fn missed_sentinel(agent: &AgentRequest, candidate: &Candidate) -> MissedSentinel {
    let mut later = agent.request.view().turns[candidate.turn + 1..].iter();
    MissedSentinel {
        id: candidate.sentinel.id,
        by_user: candidate.by_user,
        is_last: later.all(|turn| matches!(turn.role, Role::System | Role::Tools)),
    }
}

/// Whether the request, or one after a cut that is made now, may have the tool that searches the cut transcript. Where it
/// may, the tool's calls are known as ours.
fn may_recall(app: &App, agent: &mut AgentRequest, active: Option<&Active>) -> bool {
    if !app.config.recall.enabled && !active.is_some_and(|active| active.recall) {
        return false;
    }
    let view = agent.request.view();
    let may = untooled::has_room_for_two(view) && !view.has_beside_transcript(RECALL_NAME);
    if may {
        agent.request.set_own_tools(app.recall_tools.names());
    }
    may
}

/// The results that calls of ours wait for in the response which the request continues.
fn owed(wire: &dyn Wire, origin: Option<&ResponseOrigin>) -> Vec<String> {
    let (Some(items), Some(open)) = (wire.facts().items, origin.and_then(ResponseOrigin::open)) else {
        return Vec::new();
    };
    let owed = open.owed.iter();
    owed.map(|owed| (items.lone_result)(&owed.call_id, &owed.answer))
        .collect()
}
