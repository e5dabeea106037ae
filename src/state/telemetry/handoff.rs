//! The event of a handoff that fired.

use std::collections::BTreeMap;

use serde::Serialize;

use baton_core::handoffs::document::HandoffSize;
use baton_core::record::{CarriedState, Handoff};
use baton_core::redact::Redactor;

/// A handoff that fired. The field names are part of the API.
///
/// It is logged and sent to live viewers when it is stored, and counted when its exchange ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandoffEvent {
    pub id: String,
    /// Exchange that contains the handoff.
    pub exchange: String,
    /// Key of the conversation.
    pub conversation: String,
    /// Origin of the handoff, by the names of `HandoffOrigin`.
    pub origin: &'static str,
    /// Reason, if one was given. Redacted.
    pub reason: Option<String>,
    pub wire: &'static str,
    /// Requested model.
    pub model: Option<String>,
    /// Time of the handoff in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Bytes of the carry-over prompt.
    pub prompt_bytes: u64,
    /// Bytes of the upstream request in whose response the handoff fired.
    pub before_bytes: u64,
    /// Bytes of the first upstream request after the handoff.
    pub after_bytes: u64,
    /// Number of rules, to-dos and contradicted claims that the prompt lacked, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_items: BTreeMap<&'static str, u32>,
    /// Number of lookups repeated after the previous handoff, as `carry::looked_up_again` defines them.
    /// `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relookups: Option<u64>,
}

/// Counts by kind the items that a prompt lacked.
fn missing_items(handoff: &Handoff) -> BTreeMap<&'static str, u32> {
    let mut kinds = BTreeMap::new();
    let lacking = handoff
        .carried
        .iter()
        .filter(|item| item.state != CarriedState::InPrompt);
    for item in lacking {
        *kinds.entry(item.kind.name()).or_default() += 1;
    }
    kinds
}

impl HandoffEvent {
    /// Builds the event of a handoff stored in `exchange`. The request sizes are in bytes.
    ///
    /// Strings from the model and the agent are redacted, since the event goes to the log and to viewers.
    pub fn from_handoff(handoff: &Handoff, exchange: &str, bytes: HandoffSize, redactor: &Redactor) -> Self {
        let clean = |text: &Option<String>| text.as_deref().map(|text| redactor.text(text).into_owned());
        Self {
            id: handoff.id.to_string(),
            exchange: exchange.to_owned(),
            conversation: handoff.conversation.clone(),
            origin: handoff.origin.name(),
            reason: clean(&handoff.reason),
            wire: handoff.wire.name(),
            model: clean(&handoff.model),
            at_ms: handoff.created_ms,
            prompt_bytes: handoff.prompt.len() as u64,
            before_bytes: bytes.before,
            after_bytes: bytes.after,
            missing_items: missing_items(handoff),
            // Set by the caller, which has the transcript to count them in.
            relookups: None,
        }
    }

    /// Logs the handoff with all its fields.
    pub fn log(&self) {
        tracing::info!(
            target: "baton",
            {
            baton.handoff = self.id,
            baton.exchange = self.exchange,
            gen_ai.conversation.id = self.conversation,
            baton.origin = self.origin,
            baton.reason = self.reason.as_deref().map(super::shortened),
            baton.wire = self.wire,
            baton.prompt_bytes = self.prompt_bytes,
            baton.before_bytes = self.before_bytes,
            baton.after_bytes = self.after_bytes,
            },
            "handoff"
        );
    }
}
