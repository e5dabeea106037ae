//! Anthropic Messages (`/v1/messages`, `/v1/messages/count_tokens`). Facts: WIRE.md, section 2.

mod ask_again;
mod compose;
mod error;
mod pairs;
mod reply;
mod request;
mod stream;
mod turns;
mod usage;

use crate::record::WireId;
use crate::wire::Wire;

/// The wire.
pub struct Anthropic;

impl Wire for Anthropic {
    fn id(&self) -> WireId {
        WireId::Anthropic
    }

    fn provider(&self) -> &'static str {
        "anthropic"
    }
}
