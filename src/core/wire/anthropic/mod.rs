//! Anthropic Messages (`/v1/messages`, `/v1/messages/count_tokens`). API: <https://docs.anthropic.com/en/api/messages>.

mod answer;
mod ask_again;
mod compose;
mod error;
mod event;
mod facts;
mod pairs;
mod request;
mod text_only;
mod turns;
mod usage;

pub struct Anthropic;
