//! Outcomes of an undo.

named! {
    /// Outcome of an undo, whatever its origin.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum UndoOutcome {
        /// The model sees its view before the handoff again, and all later messages.
        Undone = "undone",
        /// The undo was undone.
        TakenBack = "taken_back",
        /// Nothing was changed.
        Refused = "refused",
    }
}
