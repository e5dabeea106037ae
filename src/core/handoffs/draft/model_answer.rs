//! Reads a model's response as a draft.

use super::DraftEnd;
use super::ends::judged;
use crate::transcript::{AnswerContent, AnswerPartKind};
use crate::wire::{LegReport, StopReason};

/// The draft in a response: its text parts, joined by newlines.
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
    let texts = parts.iter().filter(|part| part.kind == AnswerPartKind::Text);
    let texts: Vec<String> = texts
        .map(|part| part.text().trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    judged(report.stop, &texts.join("\n"))
}

#[cfg(test)]
mod tests {
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
    fn an_answer_without_text_is_empty_and_one_that_was_cut_short_is_no_draft() {
        assert_eq!(read(&answer("end_turn", json!([]))), Err(DraftEnd::Empty));
        let cut = read(&answer("max_tokens", json!([text("# Go")])));
        assert!(!matches!(cut, Ok(_) | Err(DraftEnd::Empty)), "{cut:?}");
    }
}
