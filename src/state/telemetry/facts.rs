//! What came of stating after a carry-over prompt what was seen of the work.

/// What came of it, for a handoff of which the config wants that. Of others there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactsOutcome {
    /// A block of facts stands after the prompt.
    Written,
    /// Nothing was seen that is worth stating: the prompt is as it was.
    Nothing,
}

impl FactsOutcome {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Written, Self::Nothing];

    /// The name used in logs, metrics and the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Nothing => "nothing",
        }
    }
}
