//! Synthetic responses as Anthropic messages, complete or streamed.
//!
//! Events: <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use super::answer::said;
use super::usage::counted;
use bytes::Bytes;

use crate::text::json;
use crate::wire::{AnswerShape, Framing, StreamOpening, SyntheticResponse, View, own_text, sse};

pub(super) fn compose(_view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
    match shape {
        AnswerShape::Whole => {
            let content = own_text::block(answer.text);
            message(answer, &content, r#""end_turn""#, answer.output()).into()
        }
        AnswerShape::Stream(_) => {
            let usage = counted(answer.input(), answer.output());
            let end = format!(r#""delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{usage}"#);
            // A real `message_start` states a small output count, and the last event the whole one.
            let mut frames = vec![start(answer, 1)];
            frames.extend(said(0, answer.text));
            frames.push(event("message_delta", &end));
            frames.push(sse::named("message_stop", r#"{"type":"message_stop"}"#));
            frames.concat().into()
        }
    }
}

pub(super) fn stream_opening(
    _view: &View,
    answer: &SyntheticResponse<'_>,
    _framing: Framing,
) -> StreamOpening {
    StreamOpening::shown(start(answer, answer.output()))
}

fn message(answer: &SyntheticResponse<'_>, content: &str, stop: &str, output: u64) -> String {
    format!(
        r#"{{"id":"{}","type":"message","role":"assistant","model":{},"content":[{content}],"stop_reason":{stop},"stop_sequence":null,"usage":{}}}"#,
        answer.id("msg_"),
        json::quote(answer.model),
        counted(answer.input(), output)
    )
}

fn event(name: &str, members: &str) -> Bytes {
    sse::named(name, &format!(r#"{{"type":"{name}",{members}}}"#))
}

fn start(answer: &SyntheticResponse<'_>, output: u64) -> Bytes {
    let message = message(answer, "", "null", output);
    event("message_start", &format!(r#""message":{message}"#))
}
