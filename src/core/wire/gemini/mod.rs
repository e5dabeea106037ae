//! Gemini generateContent (`:generateContent`, `:streamGenerateContent`, `:countTokens`), also one level down
//! in the envelopes of Code Assist. API: <https://ai.google.dev/api/generate-content>.
//!
//! Model and streaming are in the path: the caller sets `facts.model` and `facts.stream`.

mod answer;
mod ask_again;
mod chunk;
mod compose;
mod error;
mod facts;
mod identity;
mod pairs;
mod part;
mod request;
mod streamed_call;
mod turns;
mod usage;

#[cfg(test)]
mod tests;
mod text_only;

pub(super) use part::parts;

pub struct Gemini;
