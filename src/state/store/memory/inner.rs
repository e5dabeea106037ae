//! The maps, and what is read and written in them.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::state::store::{DocumentFilter, HandoffFilter, StoreError, foreign_record, now_ms};
use baton_core::record::{
    Conversation, CutPoint, DocumentRecord, Handoff, HandoffId, HandoffStatus, HiddenPair, Insertion, Update,
    UpdateOutcome,
};

/// All records.
#[derive(Debug, Default)]
pub(super) struct MemoryRecords {
    pub(super) handoffs: HashMap<HandoffId, Handoff>,
    pub(super) pairs: HashMap<Uuid, Timestamped<HiddenPair>>,
    /// By principal, then sibling, so that a look-up allocates no key.
    pub(super) beside: HashMap<String, HashMap<String, Vec<Uuid>>>,
    pub(super) cut_points: HashMap<HandoffId, Timestamped<CutPoint>>,
    pub(super) insertions: HashMap<Uuid, Timestamped<Insertion>>,
    pub(super) conversations: HashMap<String, Conversation>,
    pub(super) response_ids: HashMap<(String, String), Timestamped<String>>,
    pub(super) documents: HashMap<HandoffId, DocumentRecord>,
}

#[derive(Debug)]
pub(super) struct Timestamped<T> {
    pub(super) value: T,
    pub(super) at_ms: u64,
}

impl MemoryRecords {
    pub(super) fn put_handoff(
        &mut self,
        handoff: &Handoff,
        point: Option<&CutPoint>,
        update: &Update,
    ) -> Result<UpdateOutcome, StoreError> {
        let written = self.changed(update)?;
        if let Some(point) = point {
            self.check_cut_point(point)?;
        }
        self.insert(handoff)?;
        if let Some(point) = point {
            self.put_cut_point(point)?;
        }
        self.put_conversation(&written);
        Ok(written)
    }

    pub(super) fn insert(&mut self, handoff: &Handoff) -> Result<(), StoreError> {
        let mut new = handoff.clone();
        if let Some(old) = self.handoffs.get(&handoff.id) {
            if old.principal != handoff.principal {
                return Err(foreign_record("write a handoff"));
            }
            new.archived = old.archived;
        }
        self.handoffs.insert(new.id, new);
        Ok(())
    }

    pub(super) fn put_document(&mut self, document: &DocumentRecord) -> Result<Vec<HandoffId>, StoreError> {
        let old = self.documents.get(&document.handoff);
        if old.is_some_and(|old| old.principal != document.principal) {
            return Err(foreign_record("write a document"));
        }
        let mut superseded = Vec::new();
        if document.status == HandoffStatus::Active {
            let others = self.documents.values_mut().filter(|other| {
                other.handoff != document.handoff
                    && other.status == HandoffStatus::Active
                    && other.is_about_the_same(document)
            });
            for other in others {
                other.status = HandoffStatus::Superseded;
                superseded.push(other.handoff);
            }
        }
        self.documents.insert(document.handoff, document.clone());
        Ok(superseded)
    }

    /// Writes a document of another store: a newer one that is active here supersedes it. Returns whether anything
    /// changed.
    pub(super) fn import_document(&mut self, document: &DocumentRecord) -> Result<bool, StoreError> {
        let newer = |other: &DocumentRecord| {
            other.status == HandoffStatus::Active
                && other.is_about_the_same(document)
                && (other.created_ms, other.handoff) > (document.created_ms, document.handoff)
        };
        let mut document = document.clone();
        if document.status == HandoffStatus::Active && self.documents.values().any(newer) {
            document.status = HandoffStatus::Superseded;
        }
        if self.documents.get(&document.handoff) == Some(&document) {
            return Ok(false);
        }
        self.put_document(&document).map(|_| true)
    }

    pub(super) fn documents(&self, filter: &DocumentFilter) -> Vec<DocumentRecord> {
        let mut found: Vec<&DocumentRecord> = self.documents.values().filter(|p| filter.matches(p)).collect();
        found.sort_unstable_by_key(|p| std::cmp::Reverse((p.created_ms, p.handoff)));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        let listed = |document: &DocumentRecord| match filter.without_documents {
            true => DocumentRecord {
                document: String::new(),
                ..document.clone()
            },
            false => document.clone(),
        };
        found.into_iter().map(listed).collect()
    }

    /// The record that an update makes, not written yet.
    pub(super) fn changed(&self, update: &Update) -> Result<UpdateOutcome, StoreError> {
        let stored = self.conversations.get(&update.known.key).cloned();
        update
            .on(stored, 1)
            .ok_or_else(|| foreign_record("write a conversation"))
    }

    pub(super) fn put_conversation(&mut self, written: &UpdateOutcome) {
        let record = written.record.clone();
        self.conversations.insert(record.key.clone(), record);
    }

    pub(super) fn handoffs(&self, filter: &HandoffFilter) -> Vec<Handoff> {
        let mut found: Vec<&Handoff> = self.handoffs.values().filter(|h| filter.fits(h)).collect();
        found.sort_unstable_by_key(|h| std::cmp::Reverse((h.created_ms, h.id)));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        let listed = |h: &Handoff| Handoff {
            head: String::new(),
            recall: false,
            ..h.clone()
        };
        found.into_iter().map(listed).collect()
    }

    /// In the order of `ids`. Reading a pair touches it, so that pairs in use are not swept.
    pub(super) fn take_pairs(&mut self, principal: &str, ids: &[Uuid]) -> Vec<HiddenPair> {
        let now = now_ms();
        let mut found = Vec::new();
        for id in ids {
            if let Some(pair) = self.pairs.get_mut(id)
                && pair.value.principal == principal
            {
                pair.at_ms = now;
                found.push(pair.value.clone());
            }
        }
        found
    }

    pub(super) fn pairs_beside(&mut self, principal: &str, siblings: &[String]) -> Vec<HiddenPair> {
        let Some(known) = self.beside.get(principal) else {
            return Vec::new();
        };
        let hits = siblings.iter().filter_map(|sibling| known.get(sibling));
        let ids: HashSet<Uuid> = hits.flatten().copied().collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let mut found = self.take_pairs(principal, &ids);
        found.sort_unstable_by_key(|pair| (pair.created_ms, pair.id));
        found
    }

    pub(super) fn put_pairs(
        &mut self,
        pairs: &[HiddenPair],
        update: &Update,
    ) -> Result<UpdateOutcome, StoreError> {
        let written = self.changed(update)?;
        let foreign_id = |pair: &HiddenPair| {
            let old = self.pairs.get(&pair.id);
            old.is_some_and(|old| old.value.principal != pair.principal)
        };
        if pairs.iter().any(foreign_id) {
            return Err(foreign_record("write a hidden pair"));
        }
        for pair in pairs {
            self.put_pair(pair);
        }
        self.put_conversation(&written);
        Ok(written)
    }

    /// Writes a pair. A pair that exists keeps its last use.
    pub(super) fn put_pair(&mut self, pair: &HiddenPair) {
        let used_ms = self.unlink(pair.id).map_or(0, |old| old.at_ms);
        if let Some(key) = pair.place.key() {
            let known = self.beside.entry(pair.principal.clone()).or_default();
            known.entry(key.to_owned()).or_default().push(pair.id);
        }
        let touched = Timestamped {
            value: pair.clone(),
            at_ms: pair.created_ms.max(used_ms),
        };
        self.pairs.insert(pair.id, touched);
    }

    pub(super) fn check_cut_point(&self, point: &CutPoint) -> Result<(), StoreError> {
        let old = self.cut_points.get(&point.handoff);
        match old.is_some_and(|old| old.value.principal != point.principal) {
            true => Err(foreign_record("write a cut point")),
            false => Ok(()),
        }
    }

    pub(super) fn put_cut_point(&mut self, point: &CutPoint) -> Result<(), StoreError> {
        self.check_cut_point(point)?;
        let old = self.cut_points.get(&point.handoff);
        let touched = Timestamped {
            value: point.clone(),
            at_ms: old.map_or(0, |old| old.at_ms).max(point.created_ms),
        };
        self.cut_points.insert(point.handoff, touched);
        Ok(())
    }

    /// In the order of `ids`; touches them like pairs.
    pub(super) fn take_cut_points(&mut self, principal: &str, ids: &[HandoffId]) -> Vec<CutPoint> {
        let now = now_ms();
        let mut found = Vec::new();
        for id in ids {
            if let Some(point) = self.cut_points.get_mut(id)
                && point.value.principal == principal
            {
                point.at_ms = now;
                found.push(point.value.clone());
            }
        }
        found
    }

    pub(super) fn cut_points_at(&mut self, principal: &str, digests: &[String]) -> Vec<CutPoint> {
        let wanted: HashSet<CountedDigest<'_>> = digests.iter().map(|digest| CountedDigest(digest)).collect();
        let known = self.cut_points.values().map(|point| &point.value);
        let mut ids: Vec<HandoffId> = known
            .filter(|point| {
                point.principal == principal && wanted.contains(&CountedDigest(&point.position.digest))
            })
            .map(|point| point.handoff)
            .collect();
        ids.sort_unstable();
        self.take_cut_points(principal, &ids)
    }

    pub(super) fn put_insertion(
        &mut self,
        insertion: &Insertion,
        update: &Update,
    ) -> Result<UpdateOutcome, StoreError> {
        let written = self.changed(update)?;
        let old = self.insertions.get(&insertion.id);
        if old.is_some_and(|old| old.value.principal != insertion.principal) {
            return Err(foreign_record("write an insertion"));
        }
        let touched = Timestamped {
            value: insertion.clone(),
            at_ms: old.map_or(0, |old| old.at_ms).max(insertion.created_ms),
        };
        self.insertions.insert(insertion.id, touched);
        self.put_conversation(&written);
        Ok(written)
    }

    /// In the order of `ids`; touches them like pairs.
    pub(super) fn take_insertions(&mut self, principal: &str, ids: &[Uuid]) -> Vec<Insertion> {
        let now = now_ms();
        let mut found = Vec::new();
        for id in ids {
            if let Some(insertion) = self.insertions.get_mut(id)
                && insertion.value.principal == principal
            {
                insertion.at_ms = now;
                found.push(insertion.value.clone());
            }
        }
        found
    }

    pub(super) fn insertions_at(&mut self, principal: &str, places: &[String]) -> Vec<Insertion> {
        let wanted: HashSet<&str> = places.iter().map(String::as_str).collect();
        let known = self.insertions.values().map(|known| &known.value);
        let here = known.filter(|known| {
            known.principal == principal && known.place.key().is_some_and(|key| wanted.contains(key))
        });
        let mut ids: Vec<Uuid> = here.map(|known| known.id).collect();
        ids.sort_unstable();
        self.take_insertions(principal, &ids)
    }

    /// Removes a pair and its entry beside its sibling.
    pub(super) fn unlink(&mut self, id: Uuid) -> Option<Timestamped<HiddenPair>> {
        let old = self.pairs.remove(&id)?;
        if let Some(key) = old.value.place.key()
            && let Some(known) = self.beside.get_mut(&old.value.principal)
            && let Some(ids) = known.get_mut(key)
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                known.remove(key);
            }
        }
        Some(old)
    }
}

/// A digest whose comparisons are counted in tests.
#[derive(Eq, Hash)]
struct CountedDigest<'a>(&'a str);

impl PartialEq for CountedDigest<'_> {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        tests::COMPARED.with(|count| count.set(count.get() + 1));
        self.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use baton_core::record::Position;

    thread_local! {
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn many_digests_and_cut_points_cost_as_many_comparisons() {
        for n in [100, 1_000, 10_000] {
            let mut inner = MemoryRecords::default();
            for i in 0..n {
                let point = CutPoint {
                    handoff: Uuid::from_u128(i as u128),
                    principal: "local".to_owned(),
                    conversation: "c".to_owned(),
                    position: Position {
                        turns: 1,
                        digest: i.to_string(),
                    },
                    texts: Vec::new(),
                    created_ms: 1,
                };
                inner.put_cut_point(&point).unwrap();
            }
            let digests: Vec<String> = (n / 2..n + n / 2).map(|i| i.to_string()).collect();
            COMPARED.with(|count| count.set(0));
            let found = inner.cut_points_at("local", &digests);
            assert_eq!(found.len(), n - n / 2);
            let compared = COMPARED.with(Cell::get);
            assert!(compared <= 4 * n, "{compared} for {n}");
        }
    }
}
