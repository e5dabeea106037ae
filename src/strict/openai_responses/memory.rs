//! What the provider keeps between requests: stored responses, their items, and conversations.
//!
//! It grows as long as the provider lives. Beside what the API stores it remembers of *every* item that it
//! produced which reasoning stood before it and what came next, also under `store: false`: the real API
//! reads that from the items themselves.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::items;
use crate::strict::fields::text;

/// The memory of one provider.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    responses: HashMap<String, Stored>,
    items: HashMap<String, Value>,
    conversations: HashMap<String, Vec<Value>>,
    made: HashMap<String, Made>,
}

/// A stored response.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The response object.
    pub(super) body: Value,
    /// The items of its request, each with an id.
    pub(super) input: Vec<Value>,
    /// Everything up to its end: what came before, its input, its output.
    pub(super) transcript: Vec<Value>,
}

/// What is known of an item that this provider produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// The reasoning item that stood last before it in its response.
    pub(super) reasoning: Option<String>,
    /// The item right behind it.
    pub(super) next: Option<String>,
    /// Its encrypted content, whether that was shown or not.
    pub(super) stamp: Option<String>,
}

impl Memory {
    /// The items that stand before a request's own.
    pub(crate) fn recall(&self, body: &Value) -> Vec<Value> {
        let kept = self.kept();
        if let Some(stored) = kept.responses.get(text(body, "previous_response_id")) {
            return stored.transcript.clone();
        }
        let conversation = items::conversation(body).and_then(|id| kept.conversations.get(id));
        conversation.cloned().unwrap_or_default()
    }

    pub(super) fn response(&self, id: &str) -> Option<Stored> {
        self.kept().responses.get(id).cloned()
    }

    pub(super) fn item(&self, id: &str) -> Option<Value> {
        self.kept().items.get(id).cloned()
    }

    pub(super) fn made(&self, id: &str) -> Option<Made> {
        self.kept().made.get(id).cloned()
    }

    pub(super) fn knows_conversation(&self, id: &str) -> bool {
        self.kept().conversations.contains_key(id)
    }

    /// Opens a conversation, or adds to it.
    pub(super) fn converse(&self, id: &str, items: Vec<Value>) {
        let mut kept = self.kept();
        kept.conversations.entry(id.to_owned()).or_default().extend(items);
    }

    /// Remembers what is known of the items of one response.
    pub(super) fn note(&self, made: Vec<(String, Made)>) {
        self.kept().made.extend(made);
    }

    /// Stores a response.
    pub(super) fn store(&self, id: String, stored: Stored) {
        let mut kept = self.kept();
        for item in &stored.transcript {
            if !text(item, "id").is_empty() {
                kept.items.insert(text(item, "id").to_owned(), item.clone());
            }
        }
        kept.responses.insert(id, stored);
    }

    /// Forgets a response; its items stay, since later responses may hold them.
    pub(super) fn delete(&self, id: &str) -> bool {
        self.kept().responses.remove(id).is_some()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
