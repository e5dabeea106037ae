//! Answers calls of baton's tools whose result is text.
//!
//! Depends on the part of the current request that the model no longer sees. Must not depend on the caller
//! (`exchange`), or on how a result gets back to the model.

use serde::{Deserialize, Serialize};

use baton_core::handoffs::recall::{CutPart, Question, RecallIndex, RecallIndexSettings};
use baton_core::record::HiddenResult;
use baton_core::tools::RECALL_NAME;

/// A tool call to answer with text.
#[derive(Clone, Copy)]
pub struct RecallCall<'a> {
    /// Name of the tool.
    pub tool: &'static str,
    /// Arguments as JSON.
    pub arguments: &'a str,
    /// Part of the request that was cut from the model's view.
    pub cut: CutPart<'a>,
}

baton_core::named! {
    /// Outcome of a tool call that is answered with text. The names occur in logs and metrics.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum AnswerOutcome {
        /// Something was found.
        Found = "found",
        /// Nothing was found.
        Nothing = "nothing",
        /// The arguments do not contain a question.
        BadArguments = "bad_arguments",
        /// The call exceeded the limit.
        TooOften = "too_often",
    }
}

/// Answers tool calls. Searching a long history takes time, so callers must not block the runtime on it.
pub trait CallAnswerer: Send + Sync {
    /// Returns the result of one call, and its outcome. The result is stored and sent to the model in every
    /// later request.
    fn answer(&self, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome);
}

/// Answers the calls of all tools whose result is text.
pub struct Recaller {
    pub settings: RecallIndexSettings,
}

impl CallAnswerer for Recaller {
    fn answer(&self, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome) {
        match call.tool {
            RECALL_NAME => recall(&self.settings, call),
            // Unreachable: the table has no other tool that is answered with text, as a test checks.
            _ => (HiddenResult::NOT_WHOLE, AnswerOutcome::BadArguments),
        }
    }
}

/// Searches the history. Calls are rare, so each one indexes the history anew.
fn recall(settings: &RecallIndexSettings, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome) {
    let Some(question) = Question::read(call.arguments) else {
        let refused = HiddenResult::error(Question::REFUSED);
        return (refused, AnswerOutcome::BadArguments);
    };
    let found = RecallIndex::new(&call.cut, settings).answer(&question);
    let outcome = match found.excerpts {
        0 => AnswerOutcome::Nothing,
        _ => AnswerOutcome::Found,
    };
    (HiddenResult::from_text(found.text), outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::tools::{OnCall, ToolSettings, ToolTable};

    #[test]
    fn every_tool_with_a_text_is_answered() {
        let table = ToolTable::from_settings(&ToolSettings::default(), true, true);
        let with_text = table.iter().filter(|tool| tool.on_call == OnCall::Answer);
        let names: Vec<_> = with_text.map(|tool| tool.name).collect();
        assert_eq!(names, [RECALL_NAME]);
    }
}
