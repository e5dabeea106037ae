//! What was looked for in a carry-over prompt, and where it is since.

use serde::{Deserialize, Serialize};

named! {
    /// What is carried over a cut.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CarriedKind {
        /// A rule of the person.
        Rule = "rule",
        /// An open item of the to-do list.
        Todo = "todo",
        /// A claim of the prompt that the evidence contradicts.
        Claim = "claim",
    }
}

named! {
    /// Where it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CarriedState {
        /// The prompt has it.
        InPrompt = "in_prompt",
        /// It was put behind the prompt.
        Added = "added",
        /// It did not fit.
        LeftOut = "left_out",
    }
}

/// A text that is carried over a cut, or should have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedItem {
    pub kind: CarriedKind,
    pub state: CarriedState,
    /// Word for word, redacted.
    pub text: String,
}
