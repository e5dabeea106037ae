//! Answers calls of baton's tools whose result is a text.
//!
//! Knows the current request, as far as the model does not see it any more. Must not know: who asks (`exchange`), how an
//! answer gets back to the model.

use serde::{Deserialize, Serialize};

use baton_core::handoffs::recall::{CutPart, Question, RecallIndex, RecallIndexSettings};
use baton_core::record::HiddenResult;
use baton_core::tools::RECALL_NAME;

/// A call that is to be answered with a text.
#[derive(Clone, Copy)]
pub struct RecallCall<'a> {
    /// The tool's name.
    pub tool: &'static str,
    /// The arguments' JSON text.
    pub arguments: &'a str,
    /// The part of the request that was cut from the model's view.
    pub cut: CutPart<'a>,
}

baton_core::named! {
    /// The outcome of a tool call that is answered with a text; the names are those of logs and metrics.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum AnswerOutcome {
        /// Something was found.
        Found = "found",
        /// Nothing was.
        Nothing = "nothing",
        /// The arguments ask for nothing.
        BadArguments = "bad_arguments",
        /// The limit of calls was exceeded.
        TooOften = "too_often",
    }
}

/// Answers calls. A long history may take some time, so it runs on a blocking thread.
pub trait CallAnswerer: Send + Sync {
    /// The answer to one call, and its outcome. It is stored, and the model sees it again in every later request.
    fn answer(&self, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome);
}

/// Answers the tools of the table that are answered with a text.
pub struct Recaller {
    pub settings: RecallIndexSettings,
}

impl CallAnswerer for Recaller {
    fn answer(&self, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome) {
        match call.tool {
            RECALL_NAME => recall(&self.settings, call),
            _ => (HiddenResult::NOT_WHOLE, AnswerOutcome::BadArguments),
        }
    }
}

/// A question is rare, so each one reads what was cut anew.
fn recall(settings: &RecallIndexSettings, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome) {
    let Some(question) = Question::read(call.arguments) else {
        return (
            HiddenResult::error(Question::REFUSED),
            AnswerOutcome::BadArguments,
        );
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
