//! Gemini generateContent (`:generateContent`, `:streamGenerateContent`, `:countTokens`), also one level down
//! in the envelopes of Code Assist. API: <https://ai.google.dev/api/generate-content>.
//!
//! Model and streaming are in the path: the caller sets `facts.model` and `facts.stream`.

mod ask_again;
mod chunk;
mod compose;
mod error;
mod identity;
mod pairs;
mod part;
mod reply;
mod request;
mod stream;
mod streamed_call;
mod turns;
mod usage;

#[cfg(test)]
mod tests;
mod text_only;

use crate::record::WireId;
use crate::wire::Wire;

pub struct Gemini;

impl Wire for Gemini {
    fn id(&self) -> WireId {
        WireId::Gemini
    }

    fn provider(&self) -> &'static str {
        "gcp.gemini"
    }
}
