//! Parts of an exchange's event: attempts at drafts, the ends of legs, retries without thinking, exceeded
//! limits.

use serde::{Deserialize, Serialize};

use baton_core::handoffs::draft::{AcceptedDraft, DraftEnd};
use baton_core::record::HandoffOrigin;
use baton_core::wire::StopReason;

/// An attempt at a draft. An automatic trigger may try several methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftEvent {
    /// Origin of the request, by [`HandoffOrigin`]'s names: `person`, `auto`, `api`.
    pub origin: &'static str,
    /// `oneshot`, `bundle`, `local`. `given` if the caller supplied the document, `none` if nothing was
    /// tried.
    pub method: &'static str,
    /// Outcome: `complete`, `empty`, `cancelled`, or the reason for the failure.
    pub outcome: &'static str,
}

impl DraftEvent {
    /// Method of a document that the caller supplied.
    pub const GIVEN: &str = "given";
    /// Method if nothing was tried.
    pub const NONE: &str = "none";

    /// Returns the event of a document without an attempt: supplied by the caller, or missing because there
    /// was nothing to try.
    ///
    /// `drafted` tells whether a document was requested from a draft method.
    pub fn untried(
        origin: HandoffOrigin,
        made: &Result<AcceptedDraft, DraftEnd>,
        drafted: bool,
    ) -> Option<Self> {
        let (method, outcome) = match made {
            Ok(AcceptedDraft { method: None, .. }) => (Self::GIVEN, "complete"),
            Err(end @ (DraftEnd::NothingYet | DraftEnd::Internal)) if drafted => (Self::NONE, end.outcome()),
            // Anything else was an attempt, which has its own event.
            _ => return None,
        };
        Some(Self {
            origin: origin.name(),
            method,
            outcome,
        })
    }

    /// Returns the note for the log line, if there is no document.
    pub(super) fn note(&self) -> Option<String> {
        let outcome = self.outcome.replace('_', " ");
        (self.outcome != "complete").then(|| match self.method {
            Self::NONE => format!("no draft: {outcome}"),
            method => format!("draft ({method}) {outcome}"),
        })
    }
}

/// How a leg ended, as upstream reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegEnd {
    /// Upstream's id of the response. Empty if it gave none.
    pub id: String,
    /// Reason why the model stopped.
    pub stop: StopReason,
}

/// Host and port of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Host name or address.
    pub host: String,
    /// Port, even if it is the default of the scheme.
    pub port: u16,
}

baton_core::named! {
    /// Key of the section `limits` that a refused request exceeded.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ExceededLimit {
        MaxConcurrentRequests = "max_concurrent_requests",
        BodiesBytes = "bodies_bytes",
        BodyBytes = "body_bytes",
    }
}

baton_core::named! {
    /// Outcome of repeating a cut request without the thinking that upstream rejected.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ThinkingRetry {
        /// Upstream accepted the request. Later requests omit the same thinking.
        Accepted = "accepted",
        /// The repeated request failed as well.
        Refused = "refused",
    }
}
