//! All records of a kind at once: what is swept, listed and taken over from another store.

use std::collections::HashSet;

use uuid::Uuid;

use super::inner::{MemoryRecords, Timestamped};
use crate::state::store::StoreError;
use crate::state::store::records::{RecordKind, ResponseId, Retention, StoredRecord};
use baton_core::record::{CutPoint, HandoffId, HiddenPair, Insertion};

impl MemoryRecords {
    pub(super) fn sweep(&mut self, retention: &Retention) -> u64 {
        let count = |inner: &Self| {
            inner.conversations.len()
                + inner.pairs.len()
                + inner.cut_points.len()
                + inner.insertions.len()
                + inner.response_ids.len()
                + inner.handoffs.len()
        };
        let before = count(self);
        self.conversations
            .retain(|_, c| c.updated_ms >= retention.conversations);
        self.response_ids
            .retain(|_, id| id.at_ms >= retention.response_ids);
        let conversations = &self.conversations;
        self.cut_points
            .retain(|_, p| p.at_ms >= retention.places || conversations.contains_key(&p.value.conversation));
        self.insertions
            .retain(|_, i| i.at_ms >= retention.places || conversations.contains_key(&i.value.conversation));
        let stale = |pair: &Timestamped<HiddenPair>| {
            pair.at_ms < retention.pairs && !self.conversations.contains_key(&pair.value.conversation)
        };
        let gone: Vec<Uuid> = self
            .pairs
            .iter()
            .filter(|(_, pair)| stale(pair))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.unlink(id);
        }
        if let Some(before_ms) = retention.handoffs {
            let conversations = &self.conversations;
            let at = conversations
                .values()
                .flat_map(|c| c.active.iter().chain(&c.left_out));
            let used: HashSet<HandoffId> = at.copied().collect();
            self.handoffs.retain(|id, handoff| {
                handoff.created_ms >= before_ms
                    || used.contains(id)
                    || conversations.contains_key(&handoff.conversation)
            });
        }
        u64::try_from(before - count(self)).unwrap_or(u64::MAX)
    }

    pub(super) fn records(&self, kind: RecordKind) -> Vec<StoredRecord> {
        match kind {
            RecordKind::Handoff => {
                let all = self.handoffs.values();
                all.map(|record| StoredRecord::Handoff(Box::new(record.clone())))
                    .collect()
            }
            RecordKind::Pair => {
                let of = |pair: &Timestamped<HiddenPair>| StoredRecord::Pair {
                    record: Box::new(pair.value.clone()),
                    used_ms: pair.at_ms,
                };
                self.pairs.values().map(of).collect()
            }
            RecordKind::CutPoint => {
                let of = |point: &Timestamped<CutPoint>| StoredRecord::CutPoint {
                    record: point.value.clone(),
                    used_ms: point.at_ms,
                };
                self.cut_points.values().map(of).collect()
            }
            RecordKind::Insertion => {
                let of = |insertion: &Timestamped<Insertion>| StoredRecord::Insertion {
                    record: insertion.value.clone(),
                    used_ms: insertion.at_ms,
                };
                self.insertions.values().map(of).collect()
            }
            RecordKind::ResponseId => {
                let of =
                    |(key, upstream): (&(String, String), &Timestamped<String>)| StoredRecord::ResponseId {
                        record: ResponseId {
                            principal: key.0.clone(),
                            shown: key.1.clone(),
                            upstream: upstream.value.clone(),
                        },
                        used_ms: upstream.at_ms,
                    };
                self.response_ids.iter().map(of).collect()
            }
            RecordKind::Conversation => {
                let all = self.conversations.values();
                all.map(|record| StoredRecord::Conversation(Box::new(record.clone())))
                    .collect()
            }
            RecordKind::Document => {
                let all = self.documents.values();
                all.map(|record| StoredRecord::Document(Box::new(record.clone())))
                    .collect()
            }
        }
    }

    pub(super) fn import(&mut self, record: &StoredRecord) -> Result<bool, StoreError> {
        if self.stored(record).is_some_and(|stored| stored.covers(record)) {
            return Ok(false);
        }
        match record {
            StoredRecord::Handoff(handoff) => {
                self.insert(handoff)?;
                self.handoffs.insert(handoff.id, (**handoff).clone());
            }
            StoredRecord::Pair { record, used_ms } => {
                self.put_pair(record);
                if let Some(pair) = self.pairs.get_mut(&record.id) {
                    pair.at_ms = pair.at_ms.max(*used_ms);
                }
            }
            StoredRecord::CutPoint { record, used_ms } => {
                self.put_cut_point(record)?;
                if let Some(point) = self.cut_points.get_mut(&record.handoff) {
                    point.at_ms = point.at_ms.max(*used_ms);
                }
            }
            StoredRecord::Insertion { record, used_ms } => {
                let value = record.clone();
                let at_ms = *used_ms;
                self.insertions.insert(record.id, Timestamped { value, at_ms });
            }
            StoredRecord::ResponseId { record, used_ms } => {
                let key = (record.principal.clone(), record.shown.clone());
                let (value, at_ms) = (record.upstream.clone(), *used_ms);
                self.response_ids.insert(key, Timestamped { value, at_ms });
            }
            StoredRecord::Conversation(record) => {
                self.conversations.insert(record.key.clone(), (**record).clone());
            }
            StoredRecord::Document(document) => return self.import_document(document),
        }
        Ok(true)
    }

    /// The stored record of an id.
    pub(super) fn stored(&self, record: &StoredRecord) -> Option<StoredRecord> {
        Some(match record {
            StoredRecord::Handoff(handoff) => {
                StoredRecord::Handoff(Box::new(self.handoffs.get(&handoff.id)?.clone()))
            }
            StoredRecord::Pair { record, .. } => {
                let pair = self.pairs.get(&record.id)?;
                StoredRecord::Pair {
                    record: Box::new(pair.value.clone()),
                    used_ms: pair.at_ms,
                }
            }
            StoredRecord::CutPoint { record, .. } => {
                let point = self.cut_points.get(&record.handoff)?;
                StoredRecord::CutPoint {
                    record: point.value.clone(),
                    used_ms: point.at_ms,
                }
            }
            StoredRecord::Insertion { record, .. } => {
                let insertion = self.insertions.get(&record.id)?;
                StoredRecord::Insertion {
                    record: insertion.value.clone(),
                    used_ms: insertion.at_ms,
                }
            }
            StoredRecord::ResponseId { record, .. } => {
                let key = (record.principal.clone(), record.shown.clone());
                let upstream = self.response_ids.get(&key)?;
                StoredRecord::ResponseId {
                    record: ResponseId {
                        upstream: upstream.value.clone(),
                        ..record.clone()
                    },
                    used_ms: upstream.at_ms,
                }
            }
            StoredRecord::Conversation(record) => {
                StoredRecord::Conversation(Box::new(self.conversations.get(&record.key)?.clone()))
            }
            StoredRecord::Document(document) => {
                StoredRecord::Document(Box::new(self.documents.get(&document.handoff)?.clone()))
            }
        })
    }

    pub(super) fn has(&self, record: &StoredRecord) -> bool {
        self.stored(record).is_some()
    }
}
