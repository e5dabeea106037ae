//! What of this wire is a value.

use super::Anthropic;
use super::text_only;
use crate::record::WireId;
use crate::wire::Wire;
use crate::wire::error::KeyHeader;
use crate::wire::facts::{WireFacts, Wordings};

/// The error's wording for signed thinking.
const UNBOUND_THINKING: Wordings = &[&["thinking", "signature", "bound to a different conversation"]];

static FACTS: WireFacts = WireFacts {
    header: KeyHeader::plain("x-api-key"),
    key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
    prefix_mismatches: UNBOUND_THINKING,
    thinking_refusals: UNBOUND_THINKING,
    holding_members: &["thread"],
    // How much the agent could clear (beta `context-hint-2026-04-09`): the provider may refuse a request for that, and
    // the agent clears and asks again. No agent could clear for a later leg.
    first_leg_members: &["context_hint"],
    ..WireFacts::of(WireId::Anthropic, "anthropic", text_only::RULES)
};

impl Wire for Anthropic {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}
