//! A handoff that fired, as an event of its own.

use serde::Serialize;

use crate::record::Handoff;
use crate::redact::Redactor;

/// What is told of a handoff when it is written: to the log at once, to viewers, and to the counters with its exchange.
/// The names are API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandoffEvent {
    /// Its id.
    pub id: String,
    /// The exchange in which it fired.
    pub exchange: String,
    /// Key of the conversation.
    pub conversation: String,
    /// Who began it.
    pub origin: &'static str,
    /// Why, where that was said; without credentials.
    pub reason: Option<String>,
    /// The wire.
    pub wire: &'static str,
    /// Model as requested.
    pub model: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Bytes of the carry-over prompt.
    pub prompt_bytes: u64,
    /// Bytes of the request in which it fired, as it went upstream.
    pub before_bytes: u64,
    /// Bytes of the request that goes on behind it.
    pub after_bytes: u64,
}

impl HandoffEvent {
    /// Of a handoff that was written in `exchange`, with the sizes of the request before and after it in bytes. The model's
    /// and the agent's texts in it are redacted: it goes to the log and to viewers.
    pub fn of(
        handoff: &Handoff,
        exchange: &str,
        (before_bytes, after_bytes): (u64, u64),
        redactor: &Redactor,
    ) -> Self {
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
            before_bytes,
            after_bytes,
        }
    }

    /// Writes its log line.
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
