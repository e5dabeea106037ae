//! Ollama's native chat (`/api/chat`): one JSON value per line, arguments as objects, and ids that may be
//! missing.
//!
//! API: <https://github.com/ollama/ollama/blob/main/docs/api.md>. Ollama's other chat paths implement the
//! APIs of other providers.

mod answer;
mod ask_again;
mod compose;
mod facts;
mod pairs;
mod request;
mod turns;

#[cfg(test)]
mod tests;

pub use facts::WIRE;
