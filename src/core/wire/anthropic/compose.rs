//! An answer of our own as an Anthropic message, whole or streamed. Events: <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use super::Anthropic;
use bytes::Bytes;

use crate::text::json;
use crate::wire::{AnswerShape, Compose, Framing, LocalAnswer, StreamOpening, View, sse};

impl Compose for Anthropic {
    fn compose(&self, _view: &View, said: &LocalAnswer<'_>, shape: AnswerShape) -> Bytes {
        let text = json::quote(said.text);
        match shape {
            AnswerShape::Whole => {
                let content = format!(r#"{{"type":"text","text":{text}}}"#);
                message(said, &content, r#""end_turn""#, said.output()).into()
            }
            AnswerShape::Stream(_) => stream(said, &text).concat().into(),
        }
    }

    fn stream_opening(&self, _view: &View, said: &LocalAnswer<'_>, _framing: Framing) -> StreamOpening {
        StreamOpening {
            frames: start(said, said.output()),
            is_shown: true,
        }
    }
}

fn message(said: &LocalAnswer<'_>, content: &str, stop: &str, output: u64) -> String {
    format!(
        r#"{{"id":"{}","type":"message","role":"assistant","model":{},"content":[{content}],"stop_reason":{stop},"stop_sequence":null,"usage":{}}}"#,
        said.id("msg_"),
        json::quote(said.model),
        usage(said, output)
    )
}

fn usage(said: &LocalAnswer<'_>, output: u64) -> String {
    format!(
        r#"{{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{output}}}"#,
        said.input()
    )
}

fn event(name: &str, members: &str) -> Bytes {
    sse::named(name, &format!(r#"{{"type":"{name}",{members}}}"#))
}

fn start(said: &LocalAnswer<'_>, output: u64) -> Bytes {
    let message = message(said, "", "null", output);
    event("message_start", &format!(r#""message":{message}"#))
}

fn stream(said: &LocalAnswer<'_>, text: &str) -> Vec<Bytes> {
    vec![
        start(said, 1),
        event(
            "content_block_start",
            r#""index":0,"content_block":{"type":"text","text":""}"#,
        ),
        event(
            "content_block_delta",
            &format!(r#""index":0,"delta":{{"type":"text_delta","text":{text}}}"#),
        ),
        event("content_block_stop", r#""index":0"#),
        event(
            "message_delta",
            &format!(
                r#""delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{}"#,
                usage(said, said.output())
            ),
        ),
        sse::named("message_stop", r#"{"type":"message_stop"}"#),
    ]
}
