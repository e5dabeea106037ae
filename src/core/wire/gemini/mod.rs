//! Gemini generateContent (`:generateContent`, `:streamGenerateContent`, `:countTokens`), including requests
//! inside the envelopes of Code Assist.
//!
//! API: <https://ai.google.dev/api/generate-content>.
//!
//! Model and streaming are part of the path, so the caller sets `facts.model` and `facts.stream`.

use super::view::TurnPart;
use crate::text::Span;

mod answer;
mod ask_again;
mod chunk;
mod compose;
mod facts;
mod pairs;
mod part;
mod request;
mod streamed_call;
mod turns;
mod usage;

#[cfg(test)]
mod tests;

pub use facts::WIRE;

/// Parses a list of parts, or a single part in its place.
pub(super) fn parts(text: &[u8], parts: Span) -> Vec<TurnPart> {
    let pieces = part::pieces(text, parts).into_iter();
    pieces.map(|piece| piece.part).collect()
}
