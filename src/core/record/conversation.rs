//! The record of a conversation, with the draft that was written ahead of its next handoff.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{HandoffId, Principal};
use super::insertion::{Position, ThinkingOmission};

/// State of a conversation besides its transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Hash of principal, wire and the agent's session id (or the opening), in hexadecimal.
    pub key: String,
    /// Owner.
    pub principal: Principal,
    /// Whether its requests carry the tool; `None` while undecided.
    pub tooled: Option<bool>,
    /// The handoff of the newest pinned request.
    pub active: Option<HandoffId>,
    /// Hidden pairs made since the last cut: looked for in each request.
    pub pairs: Vec<Uuid>,
    /// Handoffs whose answer the agent may have left out of its transcript, oldest first: found by their cut points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<HandoffId>,
    /// Texts that were put after turns, oldest first. A handoff does not remove them: a rewind to before it needs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insertions: Vec<Uuid>,
    /// The handoffs at whose cut point a request was cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relied_on: Vec<HandoffId>,
    /// Answers that may have broken off after their sentinel, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<RepeatedAnswer>,
    /// Thinking that upstream refused, oldest first: left out of later requests that are cut at the same handoff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omissions: Vec<ThinkingOmission>,
    /// Texts that a user pinned, in their order: each later handoff carries them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// Carried rules that the user dropped, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_rules: Vec<String>,
    /// The topic of its handoffs, where a user named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<NamedTopic>,
    /// The draft that was written ahead of a handoff. It belongs to the task before the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_draft: Option<Box<ReadyDraft>>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub updated_ms: u64,
    /// Grows with every write; 0: never written.
    pub version: u64,
}

/// A topic that a user named in the chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedTopic {
    pub name: String,
    /// The topic that the request declared in which it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
}

/// Longest topic, in bytes: it is a part of base URLs.
const TOPIC_BYTES: usize = 64;

/// Whether a topic may have this name: letters, digits, `.`, `_` and `-`.
pub fn is_topic(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=TOPIC_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
}

impl Conversation {
    /// The topic of its handoffs, for a request that declares this one: the one that was named last. `None`: the
    /// configured one.
    pub fn topic<'t>(&'t self, declared: Option<&'t str>) -> Option<&'t str> {
        let named = self.topic.as_ref();
        // Another declaration than then is a later word.
        let named = named.filter(|named| declared.is_none() || named.declared.as_deref() == declared);
        named.map(|named| named.name.as_str()).or(declared)
    }
}

/// An answer with a handoff that was not delivered to its end: a repetition of its request continues after that
/// handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedAnswer {
    /// Hash of the request's body.
    pub body_hash: u64,
    /// The last handoff that the answer showed.
    pub handoff: HandoffId,
    /// Those that it showed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<HandoffId>,
    /// Milliseconds since the Unix epoch, by the clock of the process that wrote it.
    pub at_ms: u64,
}

/// A document of a conversation's work, written while the provider's cache was warm. It is in no transcript and no request: the
/// next free cut makes a handoff of it, and what the transcript has after it goes with it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyDraft {
    /// A UUIDv7.
    pub id: Uuid,
    pub document: String,
    /// The end of the transcript that it describes.
    pub covers: Position,
    /// The handoff that this transcript was cut at.
    pub cut: Option<HandoffId>,
    /// The last request before it: when, to which model with which effort, and its tokens. The cache is warm or cold by it.
    pub last: CachedHistory,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// A history as a provider has cached it with its last request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedHistory {
    /// The start of the request, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The model that it was sent to.
    pub model: String,
    /// Its effort as the request states it; empty where it states none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub effort: String,
    /// Tokens of its input and output: what the next request begins with.
    pub tokens: u64,
    /// Tokens of the system prompt and the tools, of these.
    pub fixed: u64,
    /// Whether it was stored for the provider's long lifetime.
    pub long: bool,
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
            // The session was resumed with another one, or without.
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
