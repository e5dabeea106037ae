//! What the provider stores between requests: responses, their items, and conversations (Responses).
//!
//! It grows for as long as the provider lives. Beyond what the API stores, it records the neighbours of *every* item
//! that it produced: the reasoning before and the item after it. It does so even under `store: false`, where the real
//! API reads them from the items.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::fields::text;

/// The memory of one provider.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<MemoryState>);

#[derive(Debug, Default)]
struct MemoryState {
    responses: HashMap<String, StoredResponse>,
    items: HashMap<String, Value>,
    conversations: HashMap<String, Vec<Value>>,
    produced: HashMap<String, ProducedItem>,
    threads: HashSet<String>,
    requests: HashMap<String, Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredResponse {
    /// The response object.
    pub(crate) body: Value,
    /// The items of its request, each with an id.
    pub(crate) input: Vec<Value>,
    /// The transcript up to its end: earlier history, its input, its output.
    pub(crate) transcript: Vec<Value>,
}

/// What is known of an item that this provider produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProducedItem {
    /// The id of the last reasoning item before it in its response.
    pub(crate) reasoning: Option<String>,
    /// The id of the item right after it.
    pub(crate) next: Option<String>,
    /// Its encrypted content, whether the client was shown it or not.
    pub(crate) encrypted: Option<String>,
}

impl Memory {
    pub(crate) fn response(&self, id: &str) -> Option<StoredResponse> {
        self.state().responses.get(id).cloned()
    }

    pub(crate) fn item(&self, id: &str) -> Option<Value> {
        self.state().items.get(id).cloned()
    }

    pub(crate) fn produced(&self, id: &str) -> Option<ProducedItem> {
        self.state().produced.get(id).cloned()
    }

    pub(crate) fn conversation(&self, id: &str) -> Option<Vec<Value>> {
        self.state().conversations.get(id).cloned()
    }

    /// Holds a conversation (Anthropic) under the id of its last response.
    pub(crate) fn hold_thread(&self, id: String) {
        self.state().threads.insert(id);
    }

    /// Whether a stored conversation ends with this response.
    pub(crate) fn has_thread(&self, id: &str) -> bool {
        self.state().threads.contains(id)
    }

    /// Holds a request (Anthropic) under the id of its response.
    pub(crate) fn hold_request(&self, id: String, request: Value) {
        self.state().requests.insert(id, request);
    }

    pub(crate) fn request(&self, id: &str) -> Option<Value> {
        self.state().requests.get(id).cloned()
    }

    /// Appends to a conversation; opens it where it is new.
    pub(crate) fn append_to_conversation(&self, id: &str, items: Vec<Value>) {
        let mut state = self.state();
        state
            .conversations
            .entry(id.to_owned())
            .or_default()
            .extend(items);
    }

    /// Records what is known of the items of one response, by their ids.
    pub(crate) fn record_produced(&self, items: Vec<(String, ProducedItem)>) {
        self.state().produced.extend(items);
    }

    pub(crate) fn store(&self, id: String, stored: StoredResponse) {
        let mut state = self.state();
        for item in &stored.transcript {
            if !text(item, "id").is_empty() {
                state.items.insert(text(item, "id").to_owned(), item.clone());
            }
        }
        state.responses.insert(id, stored);
    }

    /// Deletes a response; false where there was none. Its items stay, since later responses may hold them.
    pub(crate) fn delete(&self, id: &str) -> bool {
        self.state().responses.remove(id).is_some()
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
