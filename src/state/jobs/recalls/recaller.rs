//! Answers `session_recall`: keeps the indexes of the conversations that searched last.

use super::{AnswerOutcome, CallAnswerer, RecallCall};
use crate::state::jobs::last_used::LastUsed;
use baton_core::handoffs::recall::{Question, QuestionError, RecallIndex, RecallIndexSettings};
use baton_core::record::HiddenResult;

/// The indexes, within a bound of memory.
pub struct Recaller {
    settings: RecallIndexSettings,
    indexes: LastUsed<RecallIndex>,
}

impl Recaller {
    /// Keeps at most this many bytes of indexes.
    pub fn new(settings: RecallIndexSettings, most: usize) -> Self {
        Self {
            settings,
            indexes: LastUsed::within(most),
        }
    }
}

impl CallAnswerer for Recaller {
    fn answer(&self, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome) {
        let Ok(question) = Question::read(call.arguments) else {
            return (
                HiddenResult::error(QuestionError::ANSWER),
                AnswerOutcome::BadArguments,
            );
        };
        let mut index = self.indexes.take(call.conversation).unwrap_or_default();
        index.extend(&call.cut, &self.settings);
        let found = index.answer(&call.cut, &self.settings, &question);
        self.indexes
            .keep(call.conversation.to_owned(), index.bytes(), index);
        let outcome = match found.excerpts {
            0 => AnswerOutcome::Nothing,
            _ => AnswerOutcome::Found,
        };
        (HiddenResult::of(found.text), outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::handoffs::recall::CutPart;
    use baton_core::transcript::Transcript;
    use baton_core::wire::anthropic::Anthropic;
    use baton_core::wire::{Operation, Requests};

    fn bytes(recaller: &Recaller) -> usize {
        recaller.indexes.lock().iter().map(|one| one.bytes).sum()
    }

    #[test]
    fn the_indexes_that_were_searched_last_are_kept_within_a_bound() {
        let text = "The port is 8080. ".repeat(200);
        let body = serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string();
        let view = Anthropic.read(&body.into(), Operation::Generate).unwrap();
        let ask = |recaller: &Recaller, conversation: &str| {
            let (answer, outcome) = recaller.answer(&RecallCall {
                tool: "session_recall",
                arguments: r#"{"query":"port"}"#,
                principal: "local",
                conversation,
                cut: CutPart {
                    transcript: Transcript::of(&view),
                    end: view.list.end,
                },
            });
            assert_eq!(outcome, AnswerOutcome::Found, "{answer:?}");
            answer
        };
        let roomy = Recaller::new(RecallIndexSettings::default(), usize::MAX);
        let first = ask(&roomy, "a");
        let one = bytes(&roomy);
        assert_eq!((ask(&roomy, "a"), bytes(&roomy)), (first, one));
        let narrow = Recaller::new(RecallIndexSettings::default(), one * 5 / 2);
        for conversation in ["a", "b", "a", "c"] {
            ask(&narrow, conversation);
        }
        let kept: Vec<_> = narrow
            .indexes
            .lock()
            .iter()
            .map(|one| one.conversation.clone())
            .collect();
        assert_eq!(kept, ["a", "c"]);
        let none = Recaller::new(RecallIndexSettings::default(), 0);
        ask(&none, "a");
        assert_eq!(bytes(&none), 0);
    }
}
