//! What of this wire is a value.

use super::OpenaiResponses;
use super::{answer, pairs, repair, request, text_only, turns};
use crate::record::WireId;
use crate::wire::Wire;
use crate::wire::facts::{ItemRules, WireFacts};

static FACTS: WireFacts = WireFacts {
    // Reasoning with another prefix is dropped without an error. What cannot be decrypted, since it was made for another
    // account or by another server, is refused.
    thinking_refusals: &[
        &["invalid_encrypted_content"],
        &["encrypted content", "could not be verified"],
    ],
    items: Some(ItemRules {
        around_string: [r#"{"type":"message","role":"user","content":"#, "}"],
        repair: repair::after_cut,
        previous: request::previous,
        bound: pairs::bound,
        refers: turns::refers,
        filler: turns::filler,
        own_items: turns::own_items,
        lone_result: pairs::output,
        put_by_results: pairs::put_by_results,
        shaped_for: answer::shaped_for,
    }),
    ..WireFacts::of(WireId::OpenaiResponses, "openai", text_only::RULES)
};

impl Wire for OpenaiResponses {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}
