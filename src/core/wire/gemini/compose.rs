//! Synthetic responses, complete or as the single chunk of a stream; messages that ask the model again.

use bytes::Bytes;

use super::chunk::{GeminiChunk, GeminiIdentity};
use super::request::text_part;
use super::usage::counted;
use super::{pairs, streamed_call};
use crate::record::HiddenPair;
use crate::tools::ToolNames;
use crate::wire::{AnswerShape, Framing, LegOutput, StreamOpening, SyntheticResponse, View};

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

/// Builds the model's message, unchanged, followed by the results of its calls.
pub(super) fn ask_again(spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Option<String> {
    let parts = parts_of(spoken, pairs, ours);
    let results: Vec<_> = pairs.iter().map(pairs::result).collect();
    Some(format!(
        r#"{{"role":"model","parts":[{}]}},{{"role":"user","parts":[{}]}}"#,
        parts.join(","),
        results.join(",")
    ))
}

/// Collects the parts of all chunks, with baton's calls at the end. Every later request restores them in that
/// position.
fn parts_of(spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Vec<String> {
    let mut parts = Vec::new();
    // Whether arguments of a hidden call follow, in parts without a name.
    let mut open = false;
    for data in spoken.pieces() {
        let data = &data[..];
        let Some(chunk) = GeminiChunk::read(data) else {
            continue;
        };
        for piece in chunk.pieces(data) {
            // Without calls the signature may be in an empty part of the last chunk, and the API wants it back.
            if piece.is_empty_text() && piece.part.signature.is_none() {
                continue;
            }
            let more = open && piece.call.is_some() && piece.part.name.is_none();
            let hidden = piece.called(data).is_some_and(|name| ours.has(&name));
            open = (more || hidden) && streamed_call::goes_on(data, &piece);
            if !hidden && !more {
                parts.push(piece.part.span.text(data));
            }
        }
    }
    parts.extend(pairs.iter().map(|p| p.call.clone()));
    parts
}
