//! Selects and deletes every record of a client, a conversation or a handoff.

use std::collections::{BTreeMap, HashSet};

use super::records::{PlacedRecord, RecordKind, StoredRecord};
use super::{Store, StoreResult};
use baton_core::record::{Conversation, Handoff, HandoffId, Principal};

/// Selects the records to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForgetScope {
    Client(Principal),
    /// Key of the conversation.
    Conversation(String),
    Handoff(HandoffId),
}

/// Records to delete.
#[derive(Debug, Default)]
pub struct ForgottenRecords {
    pub records: BTreeMap<RecordKind, Vec<StoredRecord>>,
    /// Selected handoffs.
    pub handoffs: HashSet<HandoffId>,
    /// The handoff of [`ForgetScope::Handoff`].
    pub handoff: Option<Box<Handoff>>,
    /// Conversations that stay, without their references to the handoff.
    conversations: Vec<StoredRecord>,
}

/// Selects records, and changes nothing.
///
/// Reads the whole store: an index by client would serve no other operation.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn select(store: &dyn Store, scope: &ForgetScope) -> StoreResult<ForgottenRecords> {
    let mut selected = ForgottenRecords::default();
    // Handoffs come first, and the other kinds refer to them.
    for kind in RecordKind::ALL {
        let mut next = Some(String::new());
        while let Some(after) = next {
            let page = store.page(kind, &after).await?;
            let records = page.records.into_iter();
            records.for_each(|record| selected.add(record, scope));
            next = page.next;
        }
    }
    Ok(selected)
}

/// Deletes selected records.
///
/// # Errors
/// Returns an error if the store cannot be written. The deletion can then be repeated.
pub async fn delete(store: &dyn Store, selected: &ForgottenRecords) -> StoreResult<()> {
    store.import(&selected.conversations).await?;
    // Referring records before those that they refer to, so that an interruption leaves no dangling
    // reference.
    for records in selected.records.values().rev() {
        store.delete(records).await?;
    }
    Ok(())
}

impl ForgottenRecords {
    fn add(&mut self, record: StoredRecord, scope: &ForgetScope) {
        let is_selected = match scope {
            ForgetScope::Client(name) => record.principal() == name,
            ForgetScope::Conversation(key) => self.is_of_conversation(&record, key),
            ForgetScope::Handoff(id) => self.is_of_handoff(&record, *id),
        };
        match record {
            StoredRecord::Conversation(conversation) if !is_selected => {
                if let ForgetScope::Handoff(id) = scope {
                    self.conversations.extend(without_handoff(*conversation, *id));
                }
            }
            record if is_selected => {
                if let StoredRecord::Handoff(handoff) = &record {
                    self.handoffs.insert(handoff.id);
                    self.handoff = matches!(scope, ForgetScope::Handoff(_)).then(|| handoff.clone());
                }
                self.records.entry(record.kind()).or_default().push(record);
            }
            _ => {}
        }
    }

    fn is_of_conversation(&self, record: &StoredRecord, key: &str) -> bool {
        match record {
            StoredRecord::Handoff(handoff) => handoff.conversation == key,
            StoredRecord::Placed { record, .. } => record.columns().conversation == key,
            StoredRecord::Conversation(conversation) => conversation.key == key,
            StoredRecord::Document(document) => self.handoffs.contains(&document.handoff),
            StoredRecord::ResponseId { record, .. } => {
                let chain = record.chain.as_ref();
                chain.is_some_and(|chain| chain.conversation == key) || self.is_origin(&record.upstream)
            }
        }
    }

    fn is_of_handoff(&self, record: &StoredRecord, id: HandoffId) -> bool {
        match record {
            StoredRecord::Handoff(handoff) => handoff.id == id,
            StoredRecord::Placed { record, .. } => match record {
                PlacedRecord::CutPoint(point) => point.handoff == id,
                // A handoff call with parallel calls is stored as a pair that holds the handoff's prompt.
                PlacedRecord::Pair(pair) => self.handoff.as_ref().is_some_and(|handoff| {
                    let (Some((prompt, _)), true) =
                        (&pair.pending, pair.conversation == handoff.conversation)
                    else {
                        return false;
                    };
                    handoff.prompt.starts_with(prompt.as_str())
                }),
                PlacedRecord::Insertion(_) => false,
            },
            StoredRecord::Conversation(_) => false,
            StoredRecord::Document(document) => document.handoff == id,
            StoredRecord::ResponseId { record, .. } => self.is_origin(&record.upstream),
        }
    }

    /// Whether a response id stands for the end of a selected handoff.
    fn is_origin(&self, upstream: &str) -> bool {
        let handoff = upstream.strip_prefix("handoff:").and_then(|id| id.parse().ok());
        handoff.is_some_and(|id| self.handoffs.contains(&id))
    }
}

/// Removes the references to a handoff from a conversation. Returns `None` if it has none.
fn without_handoff(conversation: Conversation, id: HandoffId) -> Option<StoredRecord> {
    let mut changed = conversation.clone();
    changed.active = changed.active.filter(|active| *active != id);
    changed.left_out.retain(|left_out| *left_out != id);
    changed.relied_on.retain(|relied_on| *relied_on != id);
    changed.repeats.retain(|repeat| repeat.handoff != id);
    (changed != conversation).then(|| {
        changed.version += 1;
        StoredRecord::Conversation(Box::new(changed))
    })
}
