//! An undo in the chat, or its reversal: the affected handoff, and the model's view afterwards.

use super::{Active, CutTargetLookup, Known, PlannedRequest, Records};
use crate::commands::{CommandReply, UndoOutcome};
use crate::limits::BYTES_PER_TOKEN;
use crate::record::HandoffId;
use crate::text::units::{brief, short};

/// Input of an undo, in addition to the request.
#[derive(Clone, Copy)]
pub struct UndoQuery<'a> {
    /// Beginning of a handoff's id; `None` for the last one.
    pub id: Option<&'a str>,
    pub principal: &'a str,
    pub records: &'a Records,
    /// Context window of the model; `None` if unknown, which any history fits into.
    pub window: Option<u64>,
}

impl PlannedRequest<'_> {
    /// Composes the reply to an undo. The reply's note undoes the handoff that it names.
    ///
    /// # Errors
    /// Returns the records to read first.
    pub fn undo(&self, query: &UndoQuery<'_>) -> Known<CommandReply> {
        // The history before the handoff is not in the request, so it cannot be shown to the model again.
        if self.reading.view.facts.previous.is_some() {
            return Ok(refused(
                "nothing was undone: the provider holds this transcript, and baton sees only what is new in it.",
            ));
        }
        let Some(target) = self.undo_target(query.id) else {
            return Ok(refused(match query.id {
                Some(_) => "nothing was undone: no handoff of this transcript has that id.",
                None => "there is nothing to undo: the model sees the whole history.",
            }));
        };
        if self.pin.undone.is_undone(target) {
            let text = format!(
                "the undo was reverted. The model sees the handoff {} again, and what came after it.",
                brief(target)
            );
            return Ok(done(target, UndoOutcome::TakenBack, text, Some(target)));
        }
        let lookup = self.lookup(query);
        let mut named = self.reading.candidates();
        named.retain(|c| c.sentinel.id == target);
        // The transcript may be a copy: the handoff belongs to another client, or is not in this store.
        if self.pin.active_id() != Some(target) && !named.is_empty() && lookup.active(&named)?.is_none() {
            return Ok(refused(
                "nothing was undone: no handoff with that id is active here.",
            ));
        }
        self.undone(target, query)
    }

    /// Lookup of handoffs in this request.
    fn lookup<'a>(&'a self, query: &UndoQuery<'a>) -> CutTargetLookup<'a> {
        CutTargetLookup {
            reading: self.reading,
            principal: query.principal,
            records: query.records,
            policy: &self.policy,
        }
    }

    /// Handoff to undo, or whose undo to revert: the last undone one, else the active one.
    pub fn undo_target(&self, id: Option<&str>) -> Option<HandoffId> {
        let (undone, active) = (&self.pin.undone, self.pin.active_id());
        let Some(id) = id else {
            // A second `undo` without an id reverts the first one.
            return undone.last.or(active);
        };
        let candidates = self.reading.candidates();
        let known = candidates.iter().map(|c| c.sentinel.id).chain(active);
        let named = |known: &HandoffId| known.to_string().starts_with(id) && !id.is_empty();
        known.chain(undone.ever().iter().copied()).find(named)
    }

    /// Undoes this handoff, and describes the model's view without it.
    fn undone(&self, target: HandoffId, query: &UndoQuery<'_>) -> Known<CommandReply> {
        let mut candidates = self.reading.candidates();
        // The view is computed as if this handoff had never been made.
        candidates.retain(|c| c.sentinel.id != target);
        let before = self.lookup(query).active(&candidates)?;
        let view = &self.reading.view;
        // The undo may reveal an earlier handoff, and the text after that one.
        let from = before.as_ref().and_then(Active::turn);
        let start = from.map_or(view.list.start, |turn| view.turns[turn].span.start);
        let head = before.as_ref().map_or(0, |active| active.head.len());
        // The request includes the system prompt and the tools, so their size counts as well.
        let cut = start.saturating_sub(view.list.start);
        let tokens = (view.body.len().saturating_sub(cut) + head) as u64 / BYTES_PER_TOKEN;
        let over = query.window.and_then(|window| tokens.checked_sub(window));
        if let Some(over) = over.filter(|over| *over > 0) {
            let (tokens, over) = (short(tokens), short(over));
            return Ok(refused(format!(
                "nothing was undone: the model would see about {tokens} tokens, {over} more than its window holds. If its \
                 window is larger, set it in the config (`handoff.windows`)."
            )));
        }
        let in_force = before.as_ref().map(|before| before.id);
        let sees = match in_force {
            Some(before) => format!(
                "the handoff before it, {}, and all that came after",
                brief(before)
            ),
            None => "the whole history again".to_owned(),
        };
        let (id, tokens) = (brief(target), short(tokens));
        let text = format!(
            "the handoff {id} was undone. The model sees {sees}, about {tokens} tokens. The same command reverts this."
        );
        Ok(done(target, UndoOutcome::Undone, text, in_force))
    }
}

/// Refuses the undo and changes nothing.
fn refused(why: impl Into<String>) -> CommandReply {
    CommandReply {
        undo: Some(UndoOutcome::Refused),
        ..CommandReply::new(why)
    }
}

fn done(target: HandoffId, outcome: UndoOutcome, text: String, in_force: Option<HandoffId>) -> CommandReply {
    CommandReply {
        note: Some(target),
        undo: Some(outcome),
        in_force,
        ..CommandReply::new(text)
    }
}
