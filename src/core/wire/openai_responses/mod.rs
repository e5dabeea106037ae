//! OpenAI Responses (`/v1/responses`, `…/compact`, `…/input_tokens`). API:
//! <https://platform.openai.com/docs/api-reference/responses>.
//!
//! Every item is a turn of its own, calls and results included, and the sentinel is an item, too.

mod ask_again;
mod compose;
mod error;
mod event;
mod item;
mod own_message;
mod pairs;
mod repair;
mod reply;
mod request;
mod response_object;
mod stream;
mod turns;
mod usage;

use crate::record::WireId;
use crate::wire::Wire;

pub struct OpenaiResponses;

impl Wire for OpenaiResponses {
    fn id(&self) -> WireId {
        WireId::OpenaiResponses
    }

    fn provider(&self) -> &'static str {
        "openai"
    }
}

#[cfg(test)]
mod tests;
mod text_only;
