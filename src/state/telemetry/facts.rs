//! The outcome of adding observed facts of the work to a carry-over prompt.

/// The outcome for a handoff, where the config asks for facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactsOutcome {
    /// A block of facts is after the prompt.
    Written,
    /// No fact is worth stating: the prompt is unchanged.
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
