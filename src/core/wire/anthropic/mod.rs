//! Anthropic Messages (`/v1/messages`, `/v1/messages/count_tokens`). API: <https://docs.anthropic.com/en/api/messages>.

mod answer;
mod ask_again;
mod compose;
mod facts;
mod pairs;
mod request;
mod turns;
mod usage;

pub use facts::WIRE;
