//! Answers `session_recall`: keeps the indexes of the conversations that searched last.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{AnswerOutcome, CallAnswerer, RecallCall};
use baton_core::handoffs::recall::{Question, QuestionError, RecallIndex, RecallIndexSettings};
use baton_core::record::HiddenResult;

/// The indexes, within a bound of memory. One that is in use is not in here: who asks at the same time makes another.
pub struct Recaller {
    settings: RecallIndexSettings,
    most: usize,
    kept: Mutex<Vec<CachedRecallIndex>>,
}

/// An index that waits for the next question. The list is in the order of the last ones.
struct CachedRecallIndex {
    conversation: String,
    bytes: usize,
    index: RecallIndex,
}

impl Recaller {
    /// Keeps at most this many bytes of indexes.
    pub fn new(settings: RecallIndexSettings, most: usize) -> Self {
        Self {
            settings,
            most,
            kept: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CachedRecallIndex>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, conversation: &str) -> RecallIndex {
        let mut kept = self.lock();
        let at = kept.iter().position(|one| one.conversation == conversation);
        at.map_or_else(RecallIndex::default, |at| kept.remove(at).index)
    }

    fn keep(&self, conversation: &str, index: RecallIndex) {
        let bytes = index.bytes();
        let gone: Vec<CachedRecallIndex> = {
            let mut kept = self.lock();
            kept.push(CachedRecallIndex {
                conversation: conversation.to_owned(),
                bytes,
                index,
            });
            let mut sum: usize = kept.iter().map(|one| one.bytes).sum();
            let over = kept.iter().take_while(|one| {
                let over = sum > self.most;
                sum -= one.bytes.min(sum);
                over
            });
            let over = over.count();
            kept.drain(..over).collect()
        };
        // Outside of the lock: an index is many small allocations.
        drop(gone);
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
        let mut index = self.take(call.conversation);
        index.extend(&call.cut, &self.settings);
        let found = index.answer(&call.cut, &self.settings, &question);
        self.keep(call.conversation, index);
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
        recaller.lock().iter().map(|one| one.bytes).sum()
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
        let kept: Vec<_> = narrow.lock().iter().map(|one| one.conversation.clone()).collect();
        assert_eq!(kept, ["a", "c"]);
        let none = Recaller::new(RecallIndexSettings::default(), 0);
        ask(&none, "a");
        assert_eq!(bytes(&none), 0);
    }
}
