//! OpenAI Responses (`/v1/responses`, `…/compact`, `…/input_tokens`).
//!
//! API: <https://platform.openai.com/docs/api-reference/responses>.
//!
//! Every item is a turn, including calls, results and the sentinel.

mod answer;
mod ask_again;
mod compose;
mod event;
mod facts;
mod item;
mod own_message;
mod pairs;
mod repair;
mod request;
mod response_object;
mod turns;

pub use facts::WIRE;

#[cfg(test)]
mod tests;
