//! Gemini generateContent (`:generateContent`, `:streamGenerateContent`, `:countTokens`), also one level down
//! in the envelopes of Code Assist. API: <https://ai.google.dev/api/generate-content>.
//!
//! Model and streaming are in the path: the caller sets `facts.model` and `facts.stream`.

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

pub struct Gemini;

/// The parts in a list of them, or the single one in its place.
pub(super) fn parts(text: &[u8], parts: Span) -> Vec<TurnPart> {
    let pieces = part::pieces(text, parts).into_iter();
    pieces.map(|piece| piece.part).collect()
}
