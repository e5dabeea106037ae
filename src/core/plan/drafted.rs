//! The handoff that a drafted or given document becomes.

use super::{NewHandoff, Planned};
use crate::handoffs::document::HandoffSize;
use crate::handoffs::draft::{self, DraftFailure, DraftMethod, DraftRequest};
use crate::limits;
use crate::mark::sentinel;
use crate::record::{HandoffId, HandoffOrigin};

/// A document of a handoff.
#[derive(Debug, Clone, Copy)]
pub struct Drafted<'a> {
    pub request: &'a DraftRequest,
    pub document: &'a str,
    /// How it was made; `None`: it was given.
    pub method: Option<DraftMethod>,
}

impl Drafted<'_> {
    /// Its carry-over prompt before anything is put behind it, and the origin of the handoff.
    fn carried(&self) -> (String, HandoffOrigin) {
        match self.method {
            Some(method) => (draft::carried(self.document), self.request.origin_of(method)),
            // A given document is the carry-over prompt unchanged.
            None => (self.document.trim().to_owned(), HandoffOrigin::Person),
        }
    }

    /// The handoff that waits for a person's approval.
    ///
    /// # Errors
    /// It is too long.
    pub fn for_review(&self, parent: Option<HandoffId>) -> Result<NewHandoff, DraftFailure> {
        let (prompt, origin) = self.carried();
        Ok(NewHandoff {
            prompt: normalised(&prompt)?,
            reason: None,
            parent,
            origin,
            to: None,
        })
    }
}

impl Planned<'_> {
    /// The handoff of a document.
    ///
    /// # Errors
    /// It is too long.
    pub fn drafted(&self, drafted: &Drafted<'_>) -> Result<NewHandoff, DraftFailure> {
        let (prompt, origin) = drafted.carried();
        let open = draft::open_message(&self.reading.view, self.policy.look.tags);
        let reason = drafted.request.reason.as_deref().map(sentinel::normalised);
        Ok(NewHandoff {
            prompt: normalised(&draft::with_open_message(&prompt, &open))?,
            reason: reason.filter(|reason| !reason.is_empty()),
            parent: self.pin.active_id(),
            origin,
            to: drafted.request.to.clone(),
        })
    }

    /// Whether a handoff of these sizes is made.
    ///
    /// # Errors
    /// A draft would make the request larger. A given text or goal is somebody's decision. A threshold is reached by a large
    /// context, and one that a draft did not make smaller is not handed over again. The size of a transcript that the provider
    /// holds is unknown.
    pub fn check_size(&self, drafted: &Drafted<'_>, size: HandoffSize) -> Result<(), DraftFailure> {
        let HandoffSize { before, after } = size;
        let request = drafted.request;
        let decided = request.force || drafted.method.is_none() || !request.focus.trim().is_empty();
        let may_grow =
            decided || request.origin == HandoffOrigin::Auto || self.reading.view.facts.previous.is_some();
        match after > before && !may_grow {
            true => Err(DraftFailure::NotSmaller { before, after }),
            false => Ok(()),
        }
    }
}

/// A document may quote a transcript with marks of ours in it.
fn normalised(prompt: &str) -> Result<String, DraftFailure> {
    let prompt = sentinel::normalised(prompt);
    match prompt.len() > limits::PROMPT {
        true => Err(DraftFailure::TooLong),
        false => Ok(prompt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_document_is_the_prompt_of_a_person_and_a_drafted_one_has_its_method_or_threshold() {
        let document = "\n Go on. \n";
        let request = DraftRequest {
            origin: HandoffOrigin::Auto,
            ..DraftRequest::default()
        };
        let drafted = |method| Drafted {
            request: &request,
            document,
            method,
        };
        let given = ("Go on.".to_owned(), HandoffOrigin::Person);
        assert_eq!(drafted(None).carried(), given);
        let (prompt, origin) = drafted(Some(DraftMethod::Local)).carried();
        assert_eq!(origin, HandoffOrigin::Auto);
        assert!(prompt.contains("Go on."));
    }
}
