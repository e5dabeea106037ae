//! The handoff that a drafted or given document becomes.

use super::{NewHandoff, Planned};
use crate::handoffs::document::HandoffSize;
use crate::handoffs::draft::{self, AcceptedDraft, DraftEnd, DraftRequest};
use crate::limits;
use crate::mark::sentinel;
use crate::record::HandoffOrigin;

impl Planned<'_> {
    /// The handoff of a document that waits for a person's approval.
    ///
    /// # Errors
    /// It is too long.
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
        })
    }

    /// The handoff of a document.
    ///
    /// # Errors
    /// It is too long.
    pub fn drafted(&self, request: &DraftRequest, document: &AcceptedDraft) -> Result<NewHandoff, DraftEnd> {
        let (prompt, origin) = document.carried(request);
        let open = draft::open_message(&self.reading.view, self.policy.look.tags);
        let reason = request.reason.as_deref().map(sentinel::normalised);
        Ok(NewHandoff {
            prompt: normalised(&draft::with_open_message(&prompt, &open))?,
            reason: reason.filter(|reason| !reason.is_empty()),
            parent: self.pin.active_id(),
            origin,
            to: request.to.clone(),
        })
    }

    /// Whether a handoff of these sizes is made.
    ///
    /// # Errors
    /// A draft would make the request larger. A given text or goal is somebody's decision. A threshold is reached by a large
    /// context, and one that a draft did not make smaller is not handed over again. The size of a transcript that the provider
    /// holds is unknown.
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

/// A document may quote a transcript with marks of ours in it.
fn normalised(prompt: &str) -> Result<String, DraftEnd> {
    let prompt = sentinel::normalised(prompt);
    match prompt.len() > limits::PROMPT {
        true => Err(DraftEnd::TooLong),
        false => Ok(prompt),
    }
}
