//! What of this wire is a value.

use super::Gemini;
use super::text_only;
use crate::record::WireId;
use crate::wire::Wire;
use crate::wire::error::KeyHeader;
use crate::wire::facts::WireFacts;

static FACTS: WireFacts = WireFacts {
    header: KeyHeader::plain("x-goog-api-key"),
    key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    // How the Gemini API and Vertex refuse a signature. The prefix is not checked: what was signed for another model or by
    // another service is refused. A signature that is missing is another matter.
    thinking_refusals: &[
        &["Corrupted thought signature"],
        &["Thought signature is not valid"],
        &["Invalid thought signature"],
    ],
    ..WireFacts::of(WireId::Gemini, "gcp.gemini", text_only::RULES)
};

impl Wire for Gemini {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}
