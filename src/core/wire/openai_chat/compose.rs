//! Synthetic responses as chat completions, complete or streamed.
//!
//! Events: <https://platform.openai.com/docs/api-reference/chat-streaming>.

use bytes::Bytes;

use crate::text::json;
use crate::wire::openai::chat_usage;
use crate::wire::{AnswerShape, Framing, StreamOpening, SyntheticResponse, View, sse};

pub(super) fn compose(view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
    let text = json::quote(answer.text);
    match shape {
        AnswerShape::Whole => {
            let message = format!(r#"{{"role":"assistant","content":{text},"refusal":null}}"#);
            let choice =
                format!(r#"{{"index":0,"message":{message},"logprobs":null,"finish_reason":"stop"}}"#);
            let usage = format!(r#","usage":{}"#, chat_usage(answer.input(), answer.output()));
            object(answer, "chat.completion", &choice, &usage).into()
        }
        AnswerShape::Stream(_) => stream(view.facts.wants_usage, answer, &text).concat().into(),
    }
}

pub(super) fn stream_opening(
    view: &View,
    answer: &SyntheticResponse<'_>,
    _framing: Framing,
) -> StreamOpening {
    StreamOpening::shown(chunk(view.facts.wants_usage, answer, ROLE, "null"))
}

fn object(answer: &SyntheticResponse<'_>, kind: &str, choice: &str, usage: &str) -> String {
    format!(
        r#"{{"id":"{}","object":"{kind}","created":{},"model":{},"choices":[{choice}]{usage}}}"#,
        answer.id("chatcmpl-"),
        answer.seconds(),
        json::quote(answer.model)
    )
}

/// Delta of the first chunk.
const ROLE: &str = r#""role":"assistant","content":"","refusal":null"#;

/// If the agent requests usage, every chunk has the member, and an additional chunk has the numbers.
fn chunk(wants_usage: bool, answer: &SyntheticResponse<'_>, delta: &str, finish: &str) -> Bytes {
    let none = if wants_usage { r#","usage":null"# } else { "" };
    let choice = format!(r#"{{"index":0,"delta":{{{delta}}},"logprobs":null,"finish_reason":{finish}}}"#);
    sse::unnamed(&object(answer, "chat.completion.chunk", &choice, none))
}

fn stream(wants_usage: bool, answer: &SyntheticResponse<'_>, text: &str) -> Vec<Bytes> {
    let chunk = |delta: &str, finish: &str| chunk(wants_usage, answer, delta, finish);
    let mut all = vec![
        chunk(ROLE, "null"),
        chunk(&format!(r#""content":{text}"#), "null"),
        chunk("", r#""stop""#),
    ];
    if wants_usage {
        let usage = format!(r#","usage":{}"#, chat_usage(answer.input(), answer.output()));
        all.push(sse::unnamed(&object(answer, "chat.completion.chunk", "", &usage)));
    }
    all.push(sse::unnamed("[DONE]"));
    all
}
