//! Specification of a draft: size, goal and preset, and the weighted sections of a local draft.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DraftSection {
    Task,
    Context,
    Operational,
    Files,
    Notes,
    Read,
}

impl DraftSection {
    pub(super) const ALL: [Self; 6] = [
        Self::Task,
        Self::Context,
        Self::Operational,
        Self::Files,
        Self::Notes,
        Self::Read,
    ];

    /// Lines above and below the section.
    pub(super) fn marks(self) -> (&'static str, &'static str) {
        match self {
            Self::Task => ("## Task", ""),
            Self::Context => ("## Context", ""),
            Self::Operational => ("## Operational context", ""),
            Self::Files => ("## Files", ""),
            Self::Notes => ("## Notes", ""),
            Self::Read => ("<read-files>", "</read-files>\n"),
        }
    }
}

named! {
    /// Purpose of the next session, which decides the order of sections if not all fit.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Preset {
        /// Writes code: files and steps.
        #[default]
        Implement = "implement",
        /// Writes documentation: decisions and finished work.
        Docs = "docs",
        /// Debugs: runs, failures, attempts.
        Debug = "debug",
    }
}

impl Preset {
    pub(super) fn weight(self, section: DraftSection) -> f32 {
        let [implement, docs, debug] = match section {
            DraftSection::Context => [0.9, 1.4, 0.8],
            DraftSection::Operational => [1.0, 0.6, 1.6],
            DraftSection::Files => [1.2, 1.0, 0.8],
            DraftSection::Task => [1.3, 1.0, 1.2],
            DraftSection::Notes => [0.8, 1.2, 1.4],
            DraftSection::Read => [0.6, 0.7, 0.6],
        };
        match self {
            Self::Implement => implement,
            Self::Docs => docs,
            Self::Debug => debug,
        }
    }
}

/// Specification of a draft.
#[derive(Debug, Clone, Copy)]
pub struct DraftSpec<'r> {
    /// The user's goal for the next session; may be empty.
    pub focus: &'r str,
    /// Purpose of the next session.
    pub preset: Preset,
    /// Token budget, excluding the goal.
    pub tokens: usize,
    /// The state of the repository as text; may be empty.
    pub repository: &'r str,
    /// Whether the draft describes the state of the repository.
    pub git: bool,
    /// Whether the draft describes commands.
    pub commands: bool,
    /// Whether the draft states why files were changed.
    pub why: bool,
}

impl DraftSpec<'_> {
    /// Whether the user gives a goal.
    pub(super) fn has_goal(&self) -> bool {
        !self.focus.trim().is_empty()
    }
}

impl Default for DraftSpec<'_> {
    fn default() -> Self {
        Self {
            focus: "",
            preset: Preset::default(),
            tokens: 0,
            repository: "",
            git: true,
            commands: true,
            why: true,
        }
    }
}
