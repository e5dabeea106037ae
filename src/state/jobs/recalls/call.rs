//! A call to answer, and its answerer.

use baton_core::handoffs::recall::CutPart;
use baton_core::record::HiddenResult;

/// A call that is to be answered with a text.
#[derive(Clone, Copy)]
pub struct RecallCall<'a> {
    /// The tool's name.
    pub tool: &'static str,
    /// The arguments' JSON text.
    pub arguments: &'a str,
    /// Whose conversation it is.
    pub principal: &'a str,
    /// The conversation's key.
    pub conversation: &'a str,
    /// The part of the request that was cut from the model's view.
    pub cut: CutPart<'a>,
}

/// The outcome of a tool call that is answered with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerOutcome {
    /// Something was found.
    Found,
    /// Nothing was.
    Nothing,
    /// The arguments ask for nothing.
    BadArguments,
    /// The limit of calls was exceeded.
    TooOften,
}

impl AnswerOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Found, Self::Nothing, Self::BadArguments, Self::TooOften];

    /// The name used in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Nothing => "nothing",
            Self::BadArguments => "bad_arguments",
            Self::TooOften => "too_often",
        }
    }
}

/// Answers calls. A long history may take some time, so it runs on a blocking thread.
pub trait CallAnswerer: Send + Sync {
    /// The answer to one call, and its outcome. It is stored, and the model sees it again in every later request.
    fn answer(&self, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome);
}
