//! Which call a result answers.

use std::collections::HashMap;

use super::message::{Item, Message, Place};

/// Calls by what results name them by.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    by_id: HashMap<String, Place>,
    by_name: HashMap<String, Vec<Place>>,
    /// How many calls of a tool were answered by its name.
    answered: HashMap<String, usize>,
}

impl Pairs {
    /// Those of these messages.
    pub(super) fn of(messages: &[Message]) -> Self {
        let mut pairs = Self::default();
        for (at, message) in messages.iter().enumerate() {
            pairs.add(at, message);
            for item in &message.items {
                if let Item::Result(outcome) = item
                    && let Some(name) = &outcome.by_name
                {
                    *pairs.answered.entry(name.clone()).or_default() += 1;
                }
            }
        }
        pairs
    }

    /// The calls of the message at `at`.
    pub(super) fn add(&mut self, at: usize, message: &Message) {
        for (i, item) in message.items.iter().enumerate() {
            let Item::Call(call) = item else { continue };
            match &call.id {
                // A server that counts ids up may begin again: the last one is meant.
                Some(id) => _ = self.by_id.insert(id.clone(), (at, i)),
                None => self.by_name.entry(call.name.clone()).or_default().push((at, i)),
            }
        }
    }

    /// The call with this id.
    pub(super) fn with_id(&self, id: &str) -> Option<Place> {
        self.by_id.get(id).copied()
    }

    /// The first call of this tool that has no id and no answer; it has one now.
    pub(super) fn next_of(&mut self, name: &str) -> Option<Place> {
        let answered = self.answered.entry(name.to_owned()).or_default();
        let place = self.by_name.get(name)?.get(*answered).copied()?;
        *answered += 1;
        Some(place)
    }
}
