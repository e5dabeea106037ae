//! Anthropic Messages (`/v1/messages`, `/v1/messages/count_tokens`). API: <https://docs.anthropic.com/en/api/messages>.

mod ask_again;
mod compose;
mod error;
mod pairs;
mod reply;
mod request;
mod stream;
mod text_only;
mod turns;
mod usage;

use crate::record::WireId;
use crate::wire::Wire;

pub struct Anthropic;

impl Wire for Anthropic {
    fn id(&self) -> WireId {
        WireId::Anthropic
    }

    fn provider(&self) -> &'static str {
        "anthropic"
    }
}
