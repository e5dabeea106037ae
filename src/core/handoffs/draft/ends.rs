//! Outcomes of a draft: the model's answer judged, and the text of an error.

use std::fmt;

use super::fill::BudgetTooSmall;
use crate::text::json;
use crate::text::prose::joined;
use crate::text::words::grouped;
use crate::wire::{StopReason, error_in};
use crate::work::words::WORDS;

/// Statuses by which a server refuses the form of a request.
const REFUSES: [u16; 2] = [400, 422];

/// Characters of a provider's message that are passed on.
const MESSAGE: usize = 300;

/// How a draft ended that became no handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftEnd {
    /// The model wrote nothing.
    Empty,
    /// The agent left, or the draft was cancelled.
    Cancelled,
    /// The draft is written and waits for acceptance.
    Review,
    /// There is not enough to hand off since the last handoff.
    NothingYet,
    /// The provider answered with an error: its status, where it had one, and its message.
    Provider(Option<u16>, String),
    /// The provider could not be reached, or broke off: why.
    Unreached(String),
    /// The history is larger than the model's window.
    Window,
    /// The model refused, or its answer was filtered.
    Refused,
    /// The answer was cut off at the bound of its output.
    Truncated,
    /// The provider paused the turn.
    Paused,
    /// It took longer than this many seconds.
    Timeout(u64),
    /// The required pieces do not fit.
    TooSmall(BudgetTooSmall),
    /// The document is longer than a carry-over prompt may be.
    TooLong,
    /// The handoff would make the request larger, in bytes.
    NotSmaller {
        /// What the request has now.
        before: u64,
        /// What it would have.
        after: u64,
    },
    /// The draft was made of another transcript: the agent has gone back, or has rewritten its history.
    OtherTranscript,
    /// The store could not be written.
    Store,
    /// A fault of this program.
    Internal,
}

impl DraftEnd {
    /// Its name in the API, the log and metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Cancelled => "cancelled",
            Self::Review => "review",
            Self::NothingYet => "nothing_to_hand_off",
            Self::Provider(..) => "provider_error",
            Self::Unreached(_) => "provider_unreached",
            Self::Window => "window_exceeded",
            Self::Refused => "refusal",
            Self::Truncated => "truncated",
            Self::Paused => "paused",
            Self::Timeout(_) => "timeout",
            Self::TooSmall(_) => "too_small",
            Self::TooLong => "too_long",
            Self::NotSmaller { .. } => "not_smaller",
            Self::OtherTranscript => "other_transcript",
            Self::Store => "store_unavailable",
            Self::Internal => "internal",
        }
    }

    /// Its name in the log: one for all failures.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Empty | Self::Cancelled | Self::Review => self.outcome(),
            _ => "failed",
        }
    }

    /// Status and reason of a refusal that may be of the request's form: some servers refuse to forbid calls.
    pub fn refused_form(&self) -> Option<(u16, &str)> {
        match self {
            Self::Provider(Some(status), why) if REFUSES.contains(status) => Some((*status, why)),
            _ => None,
        }
    }

    /// Reads an error answer.
    pub fn of_answer(status: u16, body: &[u8]) -> Self {
        Self::reported(Some(status), body)
    }

    /// Reads an error under a status of success.
    pub fn of_event(body: &[u8]) -> Self {
        Self::reported(None, body)
    }

    fn reported(status: Option<u16>, body: &[u8]) -> Self {
        let message = message(body);
        match exceeds(&message) || status == Some(413) {
            true => Self::Window,
            false => Self::Provider(status, message),
        }
    }
}

impl fmt::Display for DraftEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the model wrote nothing"),
            Self::Cancelled => write!(f, "cancelled"),
            Self::Review => write!(f, "it is written and waits for approval"),
            Self::NothingYet => write!(f, "nothing to hand off yet"),
            Self::Provider(Some(status), message) => write!(f, "the provider answered {status}: {message}"),
            Self::Provider(None, message) => write!(f, "the provider broke off with an error: {message}"),
            Self::Unreached(why) => write!(f, "the provider's answer is incomplete: {why}"),
            Self::Window => write!(f, "the history is larger than the model's window"),
            Self::Refused => write!(f, "the model refused to write it"),
            Self::Truncated => write!(f, "the model's answer was cut off (draft.max_tokens)"),
            Self::Paused => write!(f, "the provider paused the turn"),
            Self::Timeout(seconds) => write!(f, "it took longer than {seconds} s (draft.timeout_secs)"),
            Self::TooSmall(why) => write!(f, "{why}"),
            Self::TooLong => write!(f, "the document is longer than a carry-over prompt may be"),
            Self::NotSmaller { before, after } => write!(
                f,
                "the draft is larger than what it replaces ({} bytes before, {} after); hand over when there is more, or force it",
                grouped(*before),
                grouped(*after)
            ),
            Self::OtherTranscript => write!(
                f,
                "the conversation no longer begins with what the draft was made of; ask for another draft"
            ),
            Self::Store => write!(f, "the store of handoffs cannot be written"),
            Self::Internal => write!(f, "a fault of baton; its log has the details"),
        }
    }
}

/// Judges a model's answer: its joined texts, where its turn ended by itself. Calls are ignored.
pub(super) fn judged(stop: StopReason, text: &str) -> Result<String, DraftEnd> {
    match (stop, text.trim()) {
        (StopReason::Done | StopReason::Calls, "") => Err(DraftEnd::Empty),
        (StopReason::Done | StopReason::Calls, text) => Ok(text.to_owned()),
        (StopReason::Truncated, _) => Err(DraftEnd::Truncated),
        (StopReason::Refused, _) => Err(DraftEnd::Refused),
        (StopReason::Paused, _) => Err(DraftEnd::Paused),
        (StopReason::Error, _) => Err(DraftEnd::Provider(None, String::new())),
        (StopReason::Open, _) => Err(DraftEnd::Unreached("the answer has no end".to_owned())),
    }
}

/// The message of an error, in one line; the body itself where it has none.
fn message(body: &[u8]) -> String {
    let whole = json::whole(body).ok();
    let error = whole.and_then(|whole| error_in(body, whole));
    let reported = error.and_then(|error| match body.get(error.start) {
        Some(b'"') => json::string(body, error),
        _ => json::get_string(body, error, "message"),
    });
    let reported = reported.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(4 * MESSAGE)]));
    joined(&reported).chars().take(MESSAGE).collect()
}

fn exceeds(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    WORDS.window.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_text_and_an_end_of_its_own_is_complete() {
        assert_eq!(judged(StopReason::Done, " # Goal\n"), Ok("# Goal".to_owned()));
        assert_eq!(judged(StopReason::Calls, "It."), Ok("It.".to_owned()));
        assert_eq!(judged(StopReason::Calls, " \n"), Err(DraftEnd::Empty));
        for (stop, name) in [
            (StopReason::Truncated, "truncated"),
            (StopReason::Refused, "refusal"),
            (StopReason::Paused, "paused"),
            (StopReason::Error, "provider_error"),
            (StopReason::Open, "provider_unreached"),
        ] {
            let end = judged(stop, "It.").unwrap_err();
            assert_eq!((end.name(), end.outcome()), ("failed", name));
        }
    }

    #[test]
    fn a_window_that_is_too_small_is_distinguished_from_other_errors() {
        for (status, body) in [
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Your input exceeds the context window of this model."}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed."}}"#,
            ),
            (413, "too large"),
        ] {
            assert_eq!(
                DraftEnd::of_answer(status, body.as_bytes()),
                DraftEnd::Window,
                "{body}"
            );
        }
        let busy = br#"{"error":{"message":"Overloaded,\n try later"}}"#;
        assert_eq!(
            DraftEnd::of_answer(529, busy),
            DraftEnd::Provider(Some(529), "Overloaded, try later".to_owned())
        );
        assert_eq!(
            DraftEnd::of_event(br#"{"error":"no memory"}"#),
            DraftEnd::Provider(None, "no memory".to_owned())
        );
        assert_eq!(
            DraftEnd::of_answer(502, b"<html>bad gateway</html>").to_string(),
            "the provider answered 502: <html>bad gateway</html>"
        );
    }
}
