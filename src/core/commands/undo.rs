//! Outcomes of an undo.

/// Outcome of an undo, whatever its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UndoOutcome {
    /// The model sees its view before the handoff again, and all later messages.
    Undone,
    /// The undo was undone.
    TakenBack,
    /// Nothing was changed.
    Refused,
}

impl UndoOutcome {
    pub const ALL: [Self; 3] = [Self::Undone, Self::TakenBack, Self::Refused];

    /// The name used in logs, metrics and the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Undone => "undone",
            Self::TakenBack => "taken_back",
            Self::Refused => "refused",
        }
    }
}
