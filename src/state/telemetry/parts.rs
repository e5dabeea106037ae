//! Parts of an exchange's event: attempts at drafts, the ends of legs, retries without thinking.

use serde::{Deserialize, Serialize};

use baton_core::handoffs::draft::{AcceptedDraft, DraftEnd};
use baton_core::record::HandoffOrigin;
use baton_core::wire::StopReason;

/// One attempt. An automatic trigger may try several methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftEvent {
    /// Who requested it, by [`HandoffOrigin`]'s names: `user`, `auto`, `api`.
    pub origin: &'static str,
    /// `oneshot`, `bundle`, `local`; `given` where the document was brought, `none` where none was tried.
    pub method: &'static str,
    /// How it ended: `complete`, `empty`, `cancelled`, or why it failed.
    pub outcome: &'static str,
}

impl DraftEvent {
    /// The method of a document that was given.
    pub const GIVEN: &str = "given";
    /// The method where none was tried.
    pub const NONE: &str = "none";

    /// What was made without an attempt: a document that was given, or none where there was nothing to try. `drafted`: a
    /// document was to be drafted.
    pub fn untried(
        origin: HandoffOrigin,
        made: &Result<AcceptedDraft, DraftEnd>,
        drafted: bool,
    ) -> Option<Self> {
        let (method, outcome) = match made {
            Ok(AcceptedDraft { method: None, .. }) => (Self::GIVEN, "complete"),
            Err(end @ (DraftEnd::NothingYet | DraftEnd::Internal)) if drafted => (Self::NONE, end.outcome()),
            _ => return None,
        };
        Some(Self {
            origin: origin.name(),
            method,
            outcome,
        })
    }

    /// Its note in the log line, where there is no document.
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
    /// Upstream's id of the response; empty where it gave none.
    pub id: String,
    /// Why the model stopped.
    pub stop: StopReason,
}

/// Host and port of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Host name or address.
    pub host: String,
    /// Port, also where it is the scheme's own.
    pub port: u16,
}

baton_core::named! {
    /// The outcome of sending a pinned request again without the thinking that upstream had refused.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ThinkingRetry {
        /// Upstream answered it; later requests leave the same thinking out.
        Accepted = "accepted",
        /// It failed, too.
        Refused = "refused",
    }
}
