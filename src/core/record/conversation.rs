//! Record of a conversation.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{HandoffId, Principal};
use super::insertion::ThinkingOmission;
use super::ledger::Ledger;

/// State of a conversation that its transcript does not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Hash of principal, wire and the agent's session id (or the opening), in hexadecimal.
    pub key: String,
    /// Owner.
    pub principal: Principal,
    /// Whether requests carry the tool, or `None` while undecided.
    pub tooled: Option<bool>,
    /// Handoff that cut the newest request.
    pub active: Option<HandoffId>,
    /// Hidden pairs since the last cut, which every request has to restore.
    pub pairs: Vec<Uuid>,
    /// Handoffs whose response the agent may have omitted from its transcript, oldest first. They are found
    /// by their cut points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<HandoffId>,
    /// Notices inserted after turns, oldest first. Kept after a handoff, because a rewind to before it needs
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insertions: Vec<Uuid>,
    /// Handoffs at whose cut point a request was cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relied_on: Vec<HandoffId>,
    /// Responses that may have been interrupted after their sentinel, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<RepeatedAnswer>,
    /// Thinking that upstream refused, oldest first. Later requests that are cut at the same handoff omit it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omissions: Vec<ThinkingOmission>,
    /// Statements pinned by the user, in order. Each later handoff carries them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// Carried rules that the user dropped, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_rules: Vec<String>,
    /// Topic of the handoffs, if the user named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<NamedTopic>,
    /// Amounts spent, in a record that is the ledger of a session, a day or a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Box<Ledger>>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub updated_ms: u64,
    /// Incremented by every write; 0 means never written.
    pub version: u64,
}

/// A topic that the user named in the chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedTopic {
    pub name: String,
    /// Topic that was declared by the request where the user named this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
}

/// Maximum length of a topic in bytes, because topics are part of base URLs.
const TOPIC_BYTES: usize = 64;

/// Whether a topic name is valid: letters, digits, `.`, `_` and `-`.
pub fn is_topic(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=TOPIC_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
}

impl Conversation {
    /// Topic of the handoffs for a request that declares the topic `declared`. The one that was named last
    /// wins; `None` means the configured one.
    pub fn topic<'t>(&'t self, declared: Option<&'t str>) -> Option<&'t str> {
        let named = self.topic.as_ref();
        // A declaration that has changed since then is newer than the name.
        let named = named.filter(|named| declared.is_none() || named.declared.as_deref() == declared);
        named.map(|named| named.name.as_str()).or(declared)
    }
}

/// A response with a handoff that was not delivered completely. If the agent repeats the request, it
/// continues after that handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedAnswer {
    /// Hash of the request's body.
    pub body_hash: u64,
    /// Last handoff that the response showed.
    pub handoff: HandoffId,
    /// Earlier handoffs that the response showed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<HandoffId>,
    /// Milliseconds since the Unix epoch, by the clock of the writing process.
    pub at_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topic_is_the_one_that_was_named_last() {
        let named = |name: &str, declared: Option<&str>| Conversation {
            topic: Some(NamedTopic {
                name: name.to_owned(),
                declared: declared.map(str::to_owned),
            }),
            ..Conversation::default()
        };
        for (conversation, declared, topic) in [
            (Conversation::default(), None, None),
            (Conversation::default(), Some("a"), Some("a")),
            (named("chat", None), None, Some("chat")),
            (named("chat", Some("a")), Some("a"), Some("chat")),
            // The session was resumed with a different topic, or without one.
            (named("chat", Some("a")), Some("b"), Some("b")),
            (named("chat", None), Some("b"), Some("b")),
            (named("chat", Some("a")), None, Some("chat")),
        ] {
            assert_eq!(
                conversation.topic(declared),
                topic,
                "{conversation:?} {declared:?}"
            );
        }
    }

    #[test]
    fn a_topic_is_a_plain_word() {
        for name in ["importer", "v1.2_x-y", &"x".repeat(TOPIC_BYTES)] {
            assert!(is_topic(name), "{name}");
        }
        for name in ["", "a b", "a/b", "ü", "a\n", &"x".repeat(TOPIC_BYTES + 1)] {
            assert!(!is_topic(name), "{name:?}");
        }
    }
}
