//! What of this wire is a value.

use super::Ollama;
use super::text_only;
use crate::record::WireId;
use crate::wire::Framing;
use crate::wire::Wire;
use crate::wire::facts::WireFacts;

static FACTS: WireFacts = WireFacts {
    framing: Framing::Lines,
    // It knows no keys.
    key_variables: &[],
    absent_content: Some(r#""""#),
    ..WireFacts::of(WireId::Ollama, "ollama", text_only::RULES)
};

impl Wire for Ollama {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}
