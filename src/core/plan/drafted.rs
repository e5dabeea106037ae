//! Turns a drafted or given document into a handoff.

use super::{NewHandoff, PlannedRequest};
use crate::handoffs::document::HandoffSize;
use crate::handoffs::draft::{self, AcceptedDraft, DraftEnd, DraftRequest};
use crate::limits;
use crate::marker::sentinel;
use crate::record::{HandoffOrigin, KeptTurns, Position};
use crate::rewrite::positions;

impl PlannedRequest<'_> {
    /// Creates the handoff of a document that awaits the user's approval.
    ///
    /// # Errors
    /// The document is too long.
    pub fn drafted_for_review(
        &self,
        request: &DraftRequest,
        document: &AcceptedDraft,
    ) -> Result<NewHandoff, DraftEnd> {
        let (prompt, origin) = document.carried(request);
        Ok(NewHandoff {
            prompt: normalised(&prompt)?,
            reason: None,
            parent: self.pin.active_id(),
            origin,
            to: None,
            // Only the position of the draft: the number of turns that stay follows from the user's approval.
            kept: Some(KeptTurns {
                from: positions::of(&self.reading.view),
                turns: 0,
            }),
        })
    }

    /// Creates the handoff of a document.
    ///
    /// # Errors
    /// The document is too long, or belongs to another transcript.
    pub fn drafted(&self, request: &DraftRequest, document: &AcceptedDraft) -> Result<NewHandoff, DraftEnd> {
        let (prompt, origin) = document.carried(request);
        let kept = self.since(document.made_at.as_ref())?;
        // The open message is looked up in the turns that the draft covers.
        let made_of = self.before_kept(kept.as_ref());
        let open = draft::open_message(&made_of, self.policy.look.tags);
        let reason = request.reason.as_deref().map(sentinel::normalised);
        Ok(NewHandoff {
            prompt: normalised(&draft::with_open_message(&prompt, &open))?,
            reason: reason.filter(|reason| !reason.is_empty()),
            parent: self.pin.active_id(),
            origin,
            to: request.to.clone(),
            kept,
        })
    }

    /// Turns since a draft was made, if there are any.
    ///
    /// # Errors
    /// The transcript does not continue the one that the draft was made from.
    fn since(&self, made_at: Option<&Position>) -> Result<Option<KeptTurns>, DraftEnd> {
        let Some(from) = made_at else { return Ok(None) };
        let view = &self.reading.view;
        // The agent went back or compacted since: the draft describes work that is no longer in the transcript.
        if !positions::is_in(view, from) {
            return Err(DraftEnd::OtherTranscript);
        }
        let turns = view.turns.len() - view.leading() - from.turns;
        let from = from.clone();
        Ok((turns > 0).then_some(KeptTurns { from, turns }))
    }

    /// Checks whether a handoff of these sizes is worth making.
    ///
    /// # Errors
    /// A draft would make the request larger.
    ///
    /// These may make the request larger:
    ///
    /// * a document or a focus that the user gave, because that is the user's decision
    /// * a handoff at a threshold, because only a large context reaches one, and a context that is still above a
    ///   threshold after the cut is not handed over again
    /// * a transcript that the provider stores, because its size is unknown
    pub fn check_size(
        &self,
        request: &DraftRequest,
        document: &AcceptedDraft,
        size: HandoffSize,
    ) -> Result<(), DraftEnd> {
        let HandoffSize { before, after } = size;
        let decided = request.force || document.method.is_none() || !request.focus.trim().is_empty();
        let may_grow =
            decided || request.origin == HandoffOrigin::Auto || self.reading.view.facts.previous.is_some();
        match after > before && !may_grow {
            true => Err(DraftEnd::NotSmaller { before, after }),
            false => Ok(()),
        }
    }
}

/// Normalizes the prompt, because a document may quote a transcript that contains baton's markers.
fn normalised(prompt: &str) -> Result<String, DraftEnd> {
    let prompt = sentinel::normalised(prompt);
    match prompt.len() > limits::PROMPT {
        true => Err(DraftEnd::TooLong),
        false => Ok(prompt),
    }
}
