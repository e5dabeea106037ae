//! What comes of undoing a handoff.

/// Outcome of an undo, whatever its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UndoOutcome {
    /// The model sees what it saw before the handoff, and all that came after.
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
