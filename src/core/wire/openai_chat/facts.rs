//! What of this wire is a value.

use super::OpenaiChat;
use super::{request, text_only};
use crate::record::WireId;
use crate::wire::Wire;
use crate::wire::facts::WireFacts;

static FACTS: WireFacts = WireFacts {
    drops_blank_text: false,
    absent_content: Some("null"),
    companions: request::companions,
    ..WireFacts::of(WireId::OpenaiChat, "openai", text_only::RULES)
};

impl Wire for OpenaiChat {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}
