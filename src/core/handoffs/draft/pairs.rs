//! Which call a result answers.

use std::collections::{HashMap, HashSet};

use super::message::{IndexedItem, IndexedMessage, ItemPosition};

/// Calls by what results name them by.
#[derive(Debug, Default)]
pub(super) struct CallLookup {
    by_id: HashMap<String, ItemPosition>,
    /// All of a tool's, with or without an id: some results name the tool alone.
    by_name: HashMap<String, Vec<ItemPosition>>,
    /// Calls that have an answer.
    answered: HashSet<ItemPosition>,
    /// How many of a tool's first calls need not be examined again.
    passed: HashMap<String, usize>,
}

impl CallLookup {
    /// The calls of the message at `at`.
    pub(super) fn add(&mut self, at: usize, message: &IndexedMessage) {
        for (i, item) in message.items.iter().enumerate() {
            let IndexedItem::Call(call) = item else { continue };
            // The result of a person's command, which has no id, is next to it.
            if call.by_person && call.id.is_none() {
                continue;
            }
            if let Some(id) = &call.id {
                // A server may restart its ids, so the last call with an id counts.
                self.by_id.insert(id.clone(), (at, i));
            }
            self.by_name.entry(call.name.clone()).or_default().push((at, i));
        }
    }

    /// The call with this id; it has an answer now.
    pub(super) fn with_id(&mut self, id: &str) -> Option<ItemPosition> {
        let place = self.by_id.get(id).copied()?;
        self.answered.insert(place);
        Some(place)
    }

    /// The first call of this tool that has no answer; it has one now.
    pub(super) fn next_of(&mut self, name: &str) -> Option<ItemPosition> {
        let passed = self.passed.entry(name.to_owned()).or_default();
        let calls = self.by_name.get(name)?;
        while let Some(place) = calls.get(*passed) {
            *passed += 1;
            if self.answered.insert(*place) {
                return Some(*place);
            }
        }
        None
    }
}
