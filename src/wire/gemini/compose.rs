//! An answer of our own as a generated content, whole or as the one chunk of a stream.

use super::Gemini;
use bytes::Bytes;

use super::request::{in_envelope, text_part};
use crate::text::json;
use crate::wire::{AnswerShape, Compose, Framing, LocalAnswer, View};

impl Compose for Gemini {
    fn compose(&self, view: &View, said: &LocalAnswer<'_>, shape: AnswerShape) -> Bytes {
        let (input, output) = (said.input(), said.output());
        let mut json = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{}],"role":"model"}},"finishReason":"STOP","index":0}}],"usageMetadata":{{"promptTokenCount":{input},"candidatesTokenCount":{output},"totalTokenCount":{}}},"modelVersion":{},"responseId":"{}"}}"#,
            text_part(said.text),
            input + output,
            json::quote(said.model),
            said.id("")
        );
        if in_envelope(view) {
            json = format!(r#"{{"response":{json}}}"#);
        }
        match shape {
            AnswerShape::Whole => json.into(),
            AnswerShape::Stream(Framing::JsonArray) => format!("[{json}]").into(),
            AnswerShape::Stream(_) => format!("data: {json}\r\n\r\n").into(),
        }
    }
}
