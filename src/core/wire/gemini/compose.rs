//! An answer of our own as a generated content, whole or as the one chunk of a stream.

use super::Gemini;
use bytes::Bytes;

use super::request::{in_envelope, text_part};
use crate::text::json;
use crate::wire::{AnswerShape, Compose, Framing, LocalAnswer, StreamOpening, View};

impl Compose for Gemini {
    fn compose(&self, view: &View, answer: &LocalAnswer<'_>, shape: AnswerShape) -> Bytes {
        let (input, output) = (answer.input(), answer.output());
        let usage = format!(
            r#","usageMetadata":{{"promptTokenCount":{input},"candidatesTokenCount":{output},"totalTokenCount":{}}}"#,
            input + output
        );
        let parts = format!("[{}]", text_part(answer.text));
        let json = chunk(view, answer, (&parts, r#","finishReason":"STOP""#, &usage));
        match shape {
            AnswerShape::Whole => json.into(),
            AnswerShape::Stream(Framing::JsonArray) => format!("[{json}]").into(),
            AnswerShape::Stream(_) => sse(&json),
        }
    }

    /// Agents take a chunk without text for a broken one.
    fn stream_opening(&self, view: &View, answer: &LocalAnswer<'_>, framing: Framing) -> StreamOpening {
        let json = chunk(view, answer, ("[]", "", ""));
        StreamOpening {
            frames: match framing {
                Framing::JsonArray => format!("[{json}").into(),
                _ => sse(&json),
            },
            is_shown: false,
        }
    }
}

/// A chunk: its parts, what else the candidate has, and its usage.
fn chunk(view: &View, answer: &LocalAnswer<'_>, (parts, finish, usage): (&str, &str, &str)) -> String {
    let json = format!(
        r#"{{"candidates":[{{"content":{{"parts":{parts},"role":"model"}}{finish},"index":0}}]{usage},"modelVersion":{},"responseId":"{}"}}"#,
        json::quote(answer.model),
        answer.id("")
    );
    match in_envelope(view) {
        true => format!(r#"{{"response":{json}}}"#),
        false => json,
    }
}

fn sse(json: &str) -> Bytes {
    format!("data: {json}\r\n\r\n").into()
}
