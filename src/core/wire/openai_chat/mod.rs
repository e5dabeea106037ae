//! OpenAI Chat Completions (`/v1/chat/completions`) and its many compatible servers. API:
//! <https://platform.openai.com/docs/api-reference/chat>.

mod ask_again;
mod calls;
mod chunk;
mod compose;
mod error;
mod identity;
mod pairs;
mod reply;
mod request;
mod stream;
mod turns;
mod usage;

#[cfg(test)]
mod tests;
mod text_only;

use crate::record::WireId;
use crate::wire::Wire;

pub struct OpenaiChat;

impl Wire for OpenaiChat {
    fn id(&self) -> WireId {
        WireId::OpenaiChat
    }

    fn provider(&self) -> &'static str {
        "openai"
    }
}
