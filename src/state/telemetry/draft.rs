//! An attempt at a draft, as the log and the metrics report it.

/// One attempt. An automatic trigger may try several methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftEvent {
    /// Who requested it, by [`HandoffOrigin`](baton_core::record::HandoffOrigin)'s names: `person`, `auto`, `api`.
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

    /// Whether there is a document.
    pub fn is_complete(&self) -> bool {
        self.outcome == "complete"
    }
}
