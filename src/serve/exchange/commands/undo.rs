//! Undoes a handoff, or reverts its undo.

use super::reply::CommandReply;
use crate::serve::exchange::app::App;
use crate::serve::exchange::context::window_query;
use crate::serve::exchange::read::AgentRequest;
use crate::serve::exchange::reader::Reader;
use crate::serve::proxy::RequestContext;
use crate::state::store::StoreError;
use baton_core::commands::UndoOutcome;
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::plan::{Active, Pin, PinLookup};
use baton_core::record::HandoffId;
use baton_core::rewrite::Candidate;

/// A request in which a handoff is undone.
#[derive(Clone, Copy)]
pub(super) struct UndoSubject<'a> {
    pub(super) app: &'a App,
    pub(super) ctx: &'a RequestContext,
    pub(super) agent: &'a AgentRequest,
    pub(super) pin: &'a Pin,
}

impl UndoSubject<'_> {
    /// Undoes a handoff, or its undo.
    pub(super) async fn undo(&self, id: Option<&str>) -> Result<CommandReply, StoreError> {
        let reply = self.undone_or_not(id).await?;
        let outcome = reply.undo.unwrap_or(UndoOutcome::Refused);
        self.ctx.recorder.note(|e| e.undo = Some(outcome));
        Ok(reply)
    }

    async fn undone_or_not(&self, id: Option<&str>) -> Result<CommandReply, StoreError> {
        let reading = self.agent.request.reading();
        if reading.view.facts.previous.is_some() {
            return Ok(CommandReply::new(
                "nothing was undone: the provider holds this transcript, and baton sees only what is new in it.",
            ));
        }
        let candidates = reading.candidates(self.agent.wire);
        let active = self.pin.active_id();
        let target = match id {
            Some(id) => {
                let known = candidates.iter().map(|c| c.sentinel.id).chain(active);
                let undone = self.pin.undone.ever().iter().copied();
                let named = |known: &HandoffId| known.to_string().starts_with(id) && !id.is_empty();
                known.chain(undone).find(named)
            }
            None => self.pin.undone.last.or(active),
        };
        let Some(target) = target else {
            return Ok(CommandReply::new(match id {
                Some(_) => "nothing was undone: no handoff of this transcript has that id.",
                None => "there is nothing to undo: the model sees the whole history.",
            }));
        };
        match self.pin.undone.is_undone(target) {
            true => Ok(CommandReply {
                note: target,
                undo: Some(UndoOutcome::TakenBack),
                ..CommandReply::new(format!(
                    "the undo was reverted. The model sees the handoff {target} again, and what came after it."
                ))
            }),
            false => self.undone(target, candidates).await,
        }
    }

    /// The handoff of the last of these sentinels that counts.
    async fn active(&self, candidates: &[Candidate]) -> Result<Option<Active>, StoreError> {
        let policy = self.app.policy();
        let mut reader = Reader::new(self.app, self.ctx);
        loop {
            let lookup = PinLookup {
                wire: self.agent.wire,
                reading: self.agent.request.reading(),
                principal: &self.ctx.principal,
                records: &reader.records,
                policy: &policy,
            };
            match lookup.active(candidates) {
                Ok(active) => return Ok(active),
                Err(needs) => reader.read(needs).await?,
            }
        }
    }

    /// The undo of this handoff, with what the model sees without it.
    async fn undone(
        &self,
        target: HandoffId,
        mut candidates: Vec<Candidate>,
    ) -> Result<CommandReply, StoreError> {
        let reading = self.agent.request.reading();
        candidates.retain(|c| c.sentinel.id != target);
        let before = self.active(&candidates).await?;
        let from = before.as_ref().and_then(Active::turn);
        let view = &reading.view;
        let start = from.map_or(view.list.start, |turn| view.turns[turn].span.start);
        let head = before.as_ref().map_or(0, |active| active.head.len());
        // System prompt and tools are part of it.
        let cut = start.saturating_sub(view.list.start);
        let tokens = (self.agent.request.len().saturating_sub(cut) + head) as u64 / BYTES_PER_TOKEN;
        let query = window_query(self.ctx, view.facts.model.as_deref().unwrap_or_default());
        let window = self.app.config.handoff.windows.of(&query);
        let over = window.and_then(|window| tokens.checked_sub(window));
        if let Some(over) = over.filter(|over| *over > 0) {
            return Ok(CommandReply::new(format!(
                "nothing was undone: the model would see about {tokens} tokens, {over} more than its window holds."
            )));
        }
        Ok(CommandReply {
            note: target,
            undo: Some(UndoOutcome::Undone),
            ..CommandReply::new(match before {
                Some(before) => format!(
                    "the handoff {target} was undone. The model sees the handoff before it, {}, and all that came after, about \
                 {tokens} tokens. The same command reverts this.",
                    before.id
                ),
                None => format!(
                    "the handoff {target} was undone. The model sees the whole history again, about {tokens} tokens. The same \
                 command reverts this."
                ),
            })
        })
    }
}
