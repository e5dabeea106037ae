//! Indexes of the conversations with the newest drafts, so that a later draft reads only what is new.

use std::ops::Deref;

use crate::state::jobs::last_used::LastUsed;
use baton_core::handoffs::draft::{DraftIndex, DraftIndexSettings};
use baton_core::transcript::Transcript;

/// Memory of all indexes together, in bytes: about a hundred histories of a megabyte. An index takes a fraction of its history.
const MOST_BYTES: usize = 64 << 20;

/// The indexes, within a bound of memory.
#[derive(Debug)]
pub struct IndexPool(LastUsed<PooledIndex>);

#[derive(Debug)]
struct PooledIndex {
    /// The carry-over prompts that it was given: with others its messages read otherwise.
    carry_overs: Vec<String>,
    index: DraftIndex,
}

impl Default for IndexPool {
    fn default() -> Self {
        Self::within(MOST_BYTES)
    }
}

impl IndexPool {
    /// Keeps at most this many bytes.
    pub fn within(most: usize) -> Self {
        Self(LastUsed::within(most))
    }

    /// The index of a conversation whose transcript is this one now. Only those messages are read that no earlier draft has
    /// read at the same place.
    pub fn lend(
        &self,
        conversation: &str,
        settings: DraftIndexSettings,
        transcript: &Transcript<'_>,
    ) -> LentIndex<'_> {
        let carry_overs = settings.carry_overs.clone();
        let known = self
            .0
            .take(conversation)
            .filter(|known| known.carry_overs == carry_overs);
        let mut index = known.map_or_else(|| DraftIndex::new(settings), |known| known.index);
        let read = index.extend(transcript);
        LentIndex {
            indexes: self,
            conversation: conversation.to_owned(),
            carry_overs,
            index,
            read,
        }
    }

    fn keep(&self, conversation: String, carry_overs: Vec<String>, index: DraftIndex) {
        let own: usize = carry_overs.iter().map(String::len).sum();
        let bytes = index.bytes() + own;
        self.0
            .keep(conversation, bytes, PooledIndex { carry_overs, index });
    }
}

/// An index in use; it is kept when this is dropped.
#[derive(Debug)]
pub struct LentIndex<'a> {
    indexes: &'a IndexPool,
    conversation: String,
    carry_overs: Vec<String>,
    index: DraftIndex,
    /// How many messages were read for it.
    pub read: usize,
}

impl Deref for LentIndex<'_> {
    type Target = DraftIndex;

    fn deref(&self) -> &DraftIndex {
        &self.index
    }
}

impl Drop for LentIndex<'_> {
    fn drop(&mut self) {
        let (conversation, carry_overs) = (&mut self.conversation, &mut self.carry_overs);
        self.indexes.keep(
            std::mem::take(conversation),
            std::mem::take(carry_overs),
            std::mem::take(&mut self.index),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use baton_core::wire::anthropic::Anthropic;
    use baton_core::wire::{Operation, Requests, View};

    fn view(messages: &[Value]) -> View {
        let body = json!({"model": "m", "messages": messages}).to_string();
        Anthropic.read(&body.into(), Operation::Generate).unwrap()
    }

    /// A history of a megabyte: commands with much output.
    fn history() -> Vec<Value> {
        let output = "cargo test: a line of output that says nothing of use\n".repeat(200);
        let turn = |n: usize| {
            let id = format!("call-{n}");
            [
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": format!("make step-{n}")}}]}),
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]}),
            ]
        };
        let first = json!({"role": "user", "content": "Mend it. It must stay small."});
        std::iter::once(first).chain((0..100).flat_map(turn)).collect()
    }

    fn lent(
        indexes: &IndexPool,
        conversation: &str,
        messages: &[Value],
        carry_over: Option<&str>,
    ) -> (usize, String) {
        let view = view(messages);
        let settings = DraftIndexSettings {
            carry_overs: carry_over.map(str::to_owned).into_iter().collect(),
            ..DraftIndexSettings::default()
        };
        let index = indexes.lend(conversation, settings, &Transcript::of(&view));
        (index.read, format!("{:?}", index.rows()))
    }

    #[test]
    fn a_draft_at_a_megabyte_of_history_reads_only_what_is_new() {
        let indexes = IndexPool::default();
        let mut messages = history();
        assert!(json!(messages).to_string().len() > 1 << 20);
        assert_eq!(lent(&indexes, "a", &messages, None).0, messages.len());
        messages.push(json!({"role": "assistant", "content": "Done."}));
        messages.push(json!({"role": "user", "content": "Now the rest."}));
        let (read, rows) = lent(&indexes, "a", &messages, None);
        assert_eq!(read, 2);
        assert_eq!(
            rows,
            lent(&IndexPool::default(), "a", &messages, None).1,
            "as a fresh one"
        );
        // With another prefix, conversation or carry-over prompt, everything is read.
        messages[0]["content"] = json!("Mend the other one.");
        assert_eq!(lent(&indexes, "a", &messages, None).0, messages.len());
        assert_eq!(lent(&indexes, "b", &messages, None).0, messages.len());
        assert_eq!(lent(&indexes, "b", &messages, Some("Mend")).0, messages.len());
        assert_eq!(lent(&indexes, "a", &messages, None).0, 0);
    }

    #[test]
    fn the_indexes_of_the_last_drafts_are_kept_within_a_bound() {
        let messages = history();
        let one = {
            let indexes = IndexPool::default();
            lent(&indexes, "a", &messages, None);
            indexes.0.lock().iter().map(|one| one.bytes).sum::<usize>()
        };
        let size = json!(messages).to_string().len();
        assert!(one < size / 4, "{one} of {size}");
        let narrow = IndexPool::within(one * 5 / 2);
        for conversation in ["a", "b", "a", "c"] {
            lent(&narrow, conversation, &messages, None);
        }
        let kept: Vec<_> = narrow
            .0
            .lock()
            .iter()
            .map(|one| one.conversation.clone())
            .collect();
        assert_eq!(kept, ["a", "c"]);
        let none = IndexPool::within(0);
        lent(&none, "a", &messages, None);
        assert!(none.0.lock().is_empty());
    }
}
