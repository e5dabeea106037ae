//! Outcomes of a draft: checks the model's response, and reads errors.

use super::fill::BudgetTooSmall;
use crate::text::json;
use crate::text::prose::{joined, list_item, lower, sentences};
use crate::text::words::grouped;
use crate::tools::TOOL_NAME;
use crate::transcript::{AnswerContent, AnswerPart, AnswerPartKind};
use crate::wire::{LegReport, StopReason, error_in};
use crate::work::requests::is_reply;
use crate::work::words::WORDS;

/// Statuses that reject the form of a request.
const REFUSES: [u16; 2] = [400, 422];

/// Maximum number of characters of a provider's message that are passed on.
const MESSAGE: usize = 300;

/// Maximum size of a refusal in bytes.
const MAX_REFUSAL_BYTES: usize = 600;

/// Why a draft did not become a handoff.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftEnd {
    /// The model wrote nothing, or only a reply such as "OK.".
    #[error("the model wrote nothing")]
    Empty,
    /// The agent left, or the draft was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The draft is finished and waits for approval.
    #[error("it is written and waits for approval")]
    Review,
    /// There is not enough to hand off since the last handoff.
    #[error("nothing to hand off yet")]
    NothingYet,
    /// The provider responded with an error: its status, if any, and its message.
    #[error("the provider {}: {}", answered(*.0), .1)]
    Provider(Option<u16>, String),
    /// The provider could not be reached, or the response broke off: the reason.
    #[error("the provider's answer is incomplete: {0}")]
    Unreached(String),
    /// The history is larger than the model's window.
    #[error("the history is larger than the model's window")]
    Window,
    /// The model refused, or its output was filtered.
    #[error("the model refused to write it")]
    Refused,
    /// The output was cut off at its limit.
    #[error("the model's answer was cut off (draft.max_tokens)")]
    Truncated,
    /// The provider paused the turn.
    #[error("the provider paused the turn")]
    Paused,
    /// The draft took longer than this many seconds.
    #[error("it took longer than {0} s (draft.timeout_secs)")]
    Timeout(u64),
    /// The required pieces do not fit.
    #[error(transparent)]
    TooSmall(BudgetTooSmall),
    /// The document is longer than a carry-over prompt may be.
    #[error("the document is longer than a carry-over prompt may be")]
    TooLong,
    /// The handoff would make the request larger, in bytes.
    #[error("the draft is larger than what it replaces ({} bytes before, {} after); hand over when there is more, or force it", grouped(*.before), grouped(*.after))]
    NotSmaller {
        /// Size of the current request.
        before: u64,
        /// Size of the request after the handoff.
        after: u64,
    },
    /// The draft belongs to another transcript: the agent has gone back, or has rewritten its history.
    #[error(
        "the conversation no longer begins with the messages that the draft was made of; ask for another draft"
    )]
    OtherTranscript,
    /// Writing to the store failed, for this reason.
    #[error("the store of handoffs cannot be written ({0})")]
    Store(&'static str),
    /// A fault of this program.
    #[error("an error in baton; its log has the details")]
    Internal,
}

impl DraftEnd {
    /// The name in the API, the log and metrics.
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
            Self::Store(_) => "store_unavailable",
            Self::Internal => "internal",
        }
    }

    /// The name in the log, which is the same for all failures.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Empty | Self::Cancelled | Self::Review => self.outcome(),
            _ => "failed",
        }
    }

    /// Status and message, if upstream may have refused the form of the request.
    ///
    /// Some servers reject a request that forbids calls, so the caller may try again without that.
    pub fn refused_form(&self) -> Option<(u16, &str)> {
        match self {
            Self::Provider(Some(status), why) if REFUSES.contains(status) => Some((*status, why)),
            _ => None,
        }
    }

    /// Reads an error with its status; `None` if it came with a success status.
    pub fn from_error(status: Option<u16>, body: &[u8]) -> Self {
        let message = message(body);
        // Providers report a full window as an ordinary error; only the wording or status 413 reveals it.
        match WORDS.window.occur_in(&message) || status == Some(413) {
            true => Self::Window,
            false => Self::Provider(status, message),
        }
    }
}

fn answered(status: Option<u16>) -> String {
    let broke_off = || "broke off with an error".to_owned();
    status.map_or_else(broke_off, |status| format!("answered {status}"))
}

/// Checks a model's response: its text counts if its turn ended on its own.
pub(super) fn judged(stop: StopReason, text: &str) -> Result<String, DraftEnd> {
    match (stop, text.trim()) {
        (StopReason::Done | StopReason::Calls, text) if text.is_empty() || is_reply(text) => {
            Err(DraftEnd::Empty)
        }
        (StopReason::Done | StopReason::Calls, text) if refuses(text) => Err(DraftEnd::Refused),
        // A model that calls a tool in addition has still written the document.
        (StopReason::Done | StopReason::Calls, text) => Ok(text.to_owned()),
        (StopReason::Truncated, _) => Err(DraftEnd::Truncated),
        (StopReason::Refused, _) => Err(DraftEnd::Refused),
        (StopReason::Paused, _) => Err(DraftEnd::Paused),
        (StopReason::Error, _) => Err(DraftEnd::Provider(None, String::new())),
        (StopReason::Open, _) => Err(DraftEnd::Unreached("the answer has no end".to_owned())),
    }
}

/// Whether a model says in place of a document that it cannot write one.
///
/// Documents have headings or lists, and are longer. A mere apology would otherwise replace the whole history.
fn refuses(text: &str) -> bool {
    let is_structured = |line: &str| line.starts_with('#') || list_item(line).is_some();
    // A label or a quotation before the words makes them somebody else's.
    let is_apology =
        |first: &str| !first.contains([':', '"', '“', '«', '「']) && WORDS.refuses.occur_in(&lower(first));
    text.len() <= MAX_REFUSAL_BYTES
        && !text.lines().any(is_structured)
        && sentences(text).next().is_some_and(is_apology)
}

/// The message of an error on one line, or the body itself if it has none.
fn message(body: &[u8]) -> String {
    let whole = json::whole(body).ok();
    let error = whole.and_then(|whole| error_in(body, whole));
    let reported = error.and_then(|error| match body.get(error.start) {
        Some(b'"') => json::string(body, error),
        _ => json::get_string(body, error, "message"),
    });
    // A character has at most four bytes in UTF-8.
    let reported = reported.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(4 * MESSAGE)]));
    joined(&reported).chars().take(MESSAGE).collect()
}

/// The draft in a response: the prompt of a call of `session_handoff`, else its text parts, joined by newlines.
///
/// # Errors
/// Why the response is not a draft.
pub fn draft_of(raw: &[u8], report: &LegReport) -> Result<String, DraftEnd> {
    let parts = AnswerContent::from_body(raw).parts;
    let first = |kind| parts.iter().find(|part| part.kind == kind);
    if report.stop == StopReason::Error {
        let error = first(AnswerPartKind::Error).and_then(|part| part.pieces.first());
        let error = error.map_or(&b"null"[..], |piece| piece.of(raw));
        // In the form of an error body, so that one function reads both.
        let event = [&br#"{"error":"#[..], error, b"}"].concat();
        return Err(DraftEnd::from_error(None, &event));
    }
    // A refusal may end like a complete response, so its part decides.
    if first(AnswerPartKind::Refusal).is_some() {
        return Err(DraftEnd::Refused);
    }
    // Upstreams that do not forbid calls let the model answer with the tool that it knows for this.
    if let Some(prompt) = parts.iter().filter_map(called_prompt).next_back() {
        return judged(report.stop, &prompt);
    }
    let texts = parts.iter().filter(|part| part.kind == AnswerPartKind::Text);
    let texts: Vec<String> = texts
        .map(|part| part.text().trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    judged(report.stop, &texts.join("\n"))
}

/// The carry-over prompt in a call of `session_handoff`, if it is one and has a prompt.
fn called_prompt(part: &AnswerPart<'_>) -> Option<String> {
    if part.kind != AnswerPartKind::Call || part.name.is_none_or(|name| name.raw() != TOOL_NAME.as_bytes()) {
        return None;
    }
    let arguments = part.text();
    let json = arguments.as_bytes();
    let prompt = json::get_string(json, json::whole(json).ok()?, "prompt")?;
    (!prompt.trim().is_empty()).then(|| prompt.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_text_and_an_end_of_its_own_is_complete() {
        assert_eq!(judged(StopReason::Done, " # Goal\n"), Ok("# Goal".to_owned()));
        assert_eq!(judged(StopReason::Calls, "Mend it."), Ok("Mend it.".to_owned()));
        assert_eq!(judged(StopReason::Done, "OK."), Err(DraftEnd::Empty));
        assert_eq!(judged(StopReason::Calls, " \n"), Err(DraftEnd::Empty));
        for (stop, name) in [
            (StopReason::Truncated, "truncated"),
            (StopReason::Refused, "refusal"),
            (StopReason::Paused, "paused"),
            (StopReason::Error, "provider_error"),
            (StopReason::Open, "provider_unreached"),
        ] {
            let end = judged(stop, "Mend it.").unwrap_err();
            assert_eq!((end.name(), end.outcome()), ("failed", name));
        }
    }

    #[test]
    fn an_apology_is_a_refusal_in_every_language_and_a_document_that_quotes_one_is_not() {
        for text in [
            "I'm sorry, I can’t.",
            "I'm sorry, but I can't help with that.\n\nIs there something else?",
            "I cannot write this handoff.",
            "Tut mir leid, das kann ich nicht schreiben.",
            "Je suis désolé, je ne peux pas faire cela.",
            "Lo siento, no puedo ayudarte con eso.",
            "Desculpe, não posso ajudar com isso.",
            "Mi dispiace, non posso aiutarti.",
            "Het spijt me, dat kan ik niet.",
            "Beklager, det kan jeg ikke hjelpe med.",
            "Tyvärr kan jag inte hjälpa till.",
            "Przepraszam, nie mogę tego zrobić.",
            "Извините, я не могу с этим помочь.",
            "На жаль, я не можу допомогти.",
            "Üzgünüm, bu konuda yardımcı olamam.",
            "Xin lỗi, tôi không thể giúp việc này.",
            "Maaf, saya tidak dapat membantu.",
            "抱歉，我无法协助。",
            "申し訳ありませんが、お手伝いできません。",
            "죄송합니다. 도와드릴 수 없습니다.",
        ] {
            assert_eq!(judged(StopReason::Done, text), Err(DraftEnd::Refused), "{text}");
        }
        for text in [
            "Goal: the lexer. The parser is done.",
            "The page says \"I'm sorry\" twice.",
            "# Goal\nMend the login.\n\nThe page says: I'm sorry, I can't.",
            "I cannot reach the database:\n- the port is closed\n- ask the user",
        ] {
            assert_eq!(judged(StopReason::Done, text), Ok(text.to_owned()));
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
                DraftEnd::from_error(Some(status), body.as_bytes()),
                DraftEnd::Window,
                "{body}"
            );
        }
        let busy = br#"{"error":{"message":"Overloaded,\n try later"}}"#;
        assert_eq!(
            DraftEnd::from_error(Some(529), busy),
            DraftEnd::Provider(Some(529), "Overloaded, try later".to_owned())
        );
        assert_eq!(
            DraftEnd::from_error(None, br#"{"error":"no memory"}"#),
            DraftEnd::Provider(None, "no memory".to_owned())
        );
        assert_eq!(
            DraftEnd::from_error(Some(502), b"<html>bad gateway</html>").to_string(),
            "the provider answered 502: <html>bad gateway</html>"
        );
    }
}

#[cfg(test)]
mod model_answer_tests {
    use super::*;
    use crate::tools::ToolNames;
    use crate::wire::{Operation, ResponseWatch, wire};
    use serde_json::{Value, json};

    /// Reads a whole Anthropic response, as the wire reports it.
    fn read(answer: &Value) -> Result<String, DraftEnd> {
        let wire = wire(crate::record::WireId::Anthropic);
        let request = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
        let view = wire
            .read(&request.to_string().into(), Operation::Generate)
            .unwrap();
        let watch = ResponseWatch {
            hide: ToolNames::NONE,
            buffered_bytes: 1 << 20,
        };
        let raw = answer.to_string().into();
        let report = wire.reply(&view, &raw, watch).unwrap();
        draft_of(&raw, &report)
    }

    fn answer(stop: &str, content: Value) -> Value {
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        })
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn texts_are_joined_and_thinking_is_none_of_them() {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let content = json!([thinking, text(" # Goal\n"), text(" "), text("Mend it.")]);
        let end = read(&answer("end_turn", content));
        assert_eq!(end, Ok("# Goal\nMend it.".to_owned()));
    }

    #[test]
    fn a_call_of_the_handoff_tool_is_the_draft_and_other_calls_are_ignored() {
        let call = |name: &str, input: Value| json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": input});
        let hands_over = call(
            TOOL_NAME,
            json!({"prompt": "Goal: the \"lexer\".", "reason": "done"}),
        );
        let content = json!([text("I hand over now."), hands_over]);
        let end = read(&answer("tool_use", content));
        assert_eq!(end, Ok("Goal: the \"lexer\".".to_owned()));
        for other in [
            call("Bash", json!({"prompt": "ls"})),
            call(TOOL_NAME, json!({"prompt": " "})),
        ] {
            let end = read(&answer("tool_use", json!([other])));
            assert_eq!(end, Err(DraftEnd::Empty));
        }
    }

    #[test]
    fn an_answer_without_text_is_empty_and_one_that_was_cut_short_is_no_draft() {
        assert_eq!(read(&answer("end_turn", json!([]))), Err(DraftEnd::Empty));
        let cut = read(&answer("max_tokens", json!([text("# Go")])));
        assert!(!matches!(cut, Ok(_) | Err(DraftEnd::Empty)), "{cut:?}");
    }
}
