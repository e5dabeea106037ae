//! OpenAI Chat Completions (`/v1/chat/completions`) and its many compatible servers.
//!
//! API: <https://platform.openai.com/docs/api-reference/chat>.

mod answer;
mod ask_again;
mod calls;
mod chunk;
mod compose;
mod facts;
mod message;
mod pairs;
mod request;
mod turns;

#[cfg(test)]
mod tests;

pub use facts::WIRE;
