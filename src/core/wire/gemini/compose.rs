//! Synthetic responses, complete or as the single chunk of a stream.

use bytes::Bytes;

use super::chunk::GeminiIdentity;
use super::request::text_part;
use super::usage::counted;
use crate::wire::{AnswerShape, Framing, StreamOpening, SyntheticResponse, View};

pub(super) fn compose(view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
    let usage = counted(answer.input(), answer.output(), None);
    let usage = format!(r#","usageMetadata":{usage}"#);
    let parts = format!("[{}]", text_part(answer.text));
    let json = GeminiIdentity::from_view(view, answer).chunk(&parts, r#","finishReason":"STOP""#, &usage);
    match shape {
        AnswerShape::Whole => json.into(),
        AnswerShape::Stream(Framing::JsonArray) => format!("[{json}]").into(),
        AnswerShape::Stream(_) => sse(&json),
    }
}

/// The opening chunk is never shown, because agents treat a chunk without text as broken.
pub(super) fn stream_opening(view: &View, answer: &SyntheticResponse<'_>, framing: Framing) -> StreamOpening {
    let json = GeminiIdentity::from_view(view, answer).chunk("[]", "", "");
    StreamOpening {
        frames: match framing {
            Framing::JsonArray => format!("[{json}").into(),
            _ => sse(&json),
        },
        is_shown: false,
    }
}

fn sse(json: &str) -> Bytes {
    format!("data: {json}\r\n\r\n").into()
}
