//! The store in memory, lost at exit: for tests, demos, and setups that write nothing to disk.

use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::records::{Page, RecordKind, ResponseId, Retention, StoredRecord};
use super::{HandoffFilter, PacketFilter, Store, StoreError, StoreFuture, foreign, now_ms};
use crate::record::{
    Conversation, CutPoint, Handoff, HandoffId, HiddenPair, Insertion, PacketRecord, PacketStatus, Principal,
    Update, Written,
};

/// All records in maps behind one lock, which is never held across an await.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
    shared: bool,
}

#[derive(Debug, Default)]
struct Inner {
    handoffs: HashMap<HandoffId, Handoff>,
    pairs: HashMap<Uuid, Touched<HiddenPair>>,
    /// By principal, then sibling, so that a look-up allocates no key.
    beside: HashMap<String, HashMap<String, Vec<Uuid>>>,
    cut_points: HashMap<HandoffId, Touched<CutPoint>>,
    insertions: HashMap<Uuid, Touched<Insertion>>,
    conversations: HashMap<String, Conversation>,
    response_ids: HashMap<(String, String), Touched<String>>,
    packets: HashMap<HandoffId, PacketRecord>,
}

#[derive(Debug)]
struct Touched<T> {
    value: T,
    at_ms: u64,
}

impl MemoryStore {
    /// A store that several proxies of this process use at the same time.
    pub fn shared() -> Self {
        Self {
            shared: true,
            ..Self::default()
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn done<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(ready(result))
}

impl Store for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn shared(&self) -> bool {
        self.shared
    }

    fn handoff<'a>(&'a self, principal: &'a str, id: HandoffId) -> StoreFuture<'a, Option<Handoff>> {
        let inner = self.inner();
        let found = inner.handoffs.get(&id).filter(|h| h.principal == principal);
        done(Ok(found.cloned()))
    }

    fn put_handoff<'a>(
        &'a self,
        handoff: &'a Handoff,
        point: Option<&'a CutPoint>,
        update: &'a Update,
    ) -> StoreFuture<'a, Written> {
        done(self.inner().put_handoff(handoff, point, update))
    }

    fn put_draft<'a>(&'a self, handoff: &'a Handoff) -> StoreFuture<'a, ()> {
        done(self.inner().insert(handoff))
    }

    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> StoreFuture<'a, Vec<Handoff>> {
        done(Ok(self.inner().handoffs(filter)))
    }

    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> StoreFuture<'a, bool> {
        let mut inner = self.inner();
        let found = inner.handoffs.get_mut(&id).filter(|h| h.principal == principal);
        done(Ok(found.map(|h| h.archived = archived).is_some()))
    }

    fn pairs<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<HiddenPair>> {
        done(Ok(self.inner().take_pairs(principal, ids)))
    }

    fn pairs_beside<'a>(
        &'a self,
        principal: &'a str,
        siblings: &'a [String],
    ) -> StoreFuture<'a, Vec<HiddenPair>> {
        done(Ok(self.inner().pairs_beside(principal, siblings)))
    }

    fn put_pairs<'a>(&'a self, pairs: &'a [HiddenPair], update: &'a Update) -> StoreFuture<'a, Written> {
        done(self.inner().put_pairs(pairs, update))
    }

    fn put_cut_point<'a>(&'a self, point: &'a CutPoint) -> StoreFuture<'a, ()> {
        done(self.inner().put_cut_point(point))
    }

    fn cut_points<'a>(
        &'a self,
        principal: &'a str,
        handoffs: &'a [HandoffId],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        done(Ok(self.inner().take_cut_points(principal, handoffs)))
    }

    fn cut_points_at<'a>(
        &'a self,
        principal: &'a str,
        digests: &'a [String],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        done(Ok(self.inner().cut_points_at(principal, digests)))
    }

    fn put_insertion<'a>(&'a self, insertion: &'a Insertion, update: &'a Update) -> StoreFuture<'a, Written> {
        done(self.inner().put_insertion(insertion, update))
    }

    fn insertions<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<Insertion>> {
        done(Ok(self.inner().take_insertions(principal, ids)))
    }

    fn insertions_at<'a>(
        &'a self,
        principal: &'a str,
        places: &'a [String],
    ) -> StoreFuture<'a, Vec<Insertion>> {
        done(Ok(self.inner().insertions_at(principal, places)))
    }

    fn may_have_insertions(&self) -> bool {
        !self.inner().insertions.is_empty()
    }

    fn conversation<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Conversation>> {
        done(Ok(self.inner().conversations.get(key).cloned()))
    }

    fn change<'a>(&'a self, update: &'a Update) -> StoreFuture<'a, Written> {
        let mut inner = self.inner();
        let changed = inner.changed(update);
        done(changed.inspect(|written| inner.put_conversation(written)))
    }

    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> StoreFuture<'a, Option<String>> {
        let inner = self.inner();
        let found = inner.response_ids.get(&(principal.to_owned(), shown.to_owned()));
        done(Ok(found.map(|id| id.value.clone())))
    }

    fn put_response_id<'a>(
        &'a self,
        principal: &'a str,
        shown: &'a str,
        upstream: &'a str,
    ) -> StoreFuture<'a, ()> {
        let id = Touched {
            value: upstream.to_owned(),
            at_ms: now_ms(),
        };
        let key = (principal.to_owned(), shown.to_owned());
        self.inner().response_ids.insert(key, id);
        done(Ok(()))
    }

    fn put_packet<'a>(&'a self, packet: &'a PacketRecord) -> StoreFuture<'a, Vec<HandoffId>> {
        done(self.inner().put_packet(packet))
    }

    fn packets<'a>(&'a self, filter: &'a PacketFilter) -> StoreFuture<'a, Vec<PacketRecord>> {
        done(Ok(self.inner().packets(filter)))
    }

    fn set_packet_status<'a>(
        &'a self,
        principal: &'a str,
        id: HandoffId,
        status: PacketStatus,
    ) -> StoreFuture<'a, Option<Vec<HandoffId>>> {
        let mut inner = self.inner();
        let found = inner
            .packets
            .get(&id)
            .filter(|p| p.principal == principal)
            .cloned();
        let Some(packet) = found else {
            return done(Ok(None));
        };
        done(inner.put_packet(&PacketRecord { status, ..packet }).map(Some))
    }

    fn archive_packets(&self, before_ms: u64) -> StoreFuture<'_, Vec<(Principal, HandoffId)>> {
        let mut inner = self.inner();
        let old = inner
            .packets
            .values_mut()
            .filter(|packet| packet.status == PacketStatus::Superseded && packet.created_ms < before_ms);
        let archived = old.map(|packet| {
            packet.status = PacketStatus::Archived;
            (packet.principal.clone(), packet.handoff)
        });
        done(Ok(archived.collect()))
    }

    fn sweep<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, u64> {
        done(Ok(self.inner().sweep(retention)))
    }

    fn page<'a>(&'a self, kind: RecordKind, _: &'a str) -> StoreFuture<'a, Page> {
        let records = self.inner().records(kind);
        done(Ok(Page {
            records,
            ..Page::default()
        }))
    }

    fn import<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        let mut inner = self.inner();
        let mut changed = 0;
        for record in records {
            match inner.import(record) {
                Ok(was_changed) => changed += u64::from(was_changed),
                Err(error) => return done(Err(error)),
            }
        }
        done(Ok(changed))
    }

    fn has<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        let inner = self.inner();
        done(Ok(
            records.iter().filter(|record| inner.has(record)).count() as u64
        ))
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        done(Ok(()))
    }
}

impl Inner {
    fn put_handoff(
        &mut self,
        handoff: &Handoff,
        point: Option<&CutPoint>,
        update: &Update,
    ) -> Result<Written, StoreError> {
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

    fn insert(&mut self, handoff: &Handoff) -> Result<(), StoreError> {
        let mut new = handoff.clone();
        if let Some(old) = self.handoffs.get(&handoff.id) {
            if old.principal != handoff.principal {
                return Err(foreign("write a handoff"));
            }
            new.archived = old.archived;
        }
        self.handoffs.insert(new.id, new);
        Ok(())
    }

    fn put_packet(&mut self, packet: &PacketRecord) -> Result<Vec<HandoffId>, StoreError> {
        let old = self.packets.get(&packet.handoff);
        if old.is_some_and(|old| old.principal != packet.principal) {
            return Err(foreign("write a packet"));
        }
        let mut superseded = Vec::new();
        if packet.status == PacketStatus::Active {
            let others = self.packets.values_mut().filter(|other| {
                other.handoff != packet.handoff
                    && other.status == PacketStatus::Active
                    && other.is_about_the_same(packet)
            });
            for other in others {
                other.status = PacketStatus::Superseded;
                superseded.push(other.handoff);
            }
        }
        self.packets.insert(packet.handoff, packet.clone());
        Ok(superseded)
    }

    /// Writes a packet of another store: a newer one that is active here supersedes it. Returns whether anything changed.
    fn import_packet(&mut self, packet: &PacketRecord) -> Result<bool, StoreError> {
        let newer = |other: &PacketRecord| {
            other.status == PacketStatus::Active
                && other.is_about_the_same(packet)
                && (other.created_ms, other.handoff) > (packet.created_ms, packet.handoff)
        };
        let mut packet = packet.clone();
        if packet.status == PacketStatus::Active && self.packets.values().any(newer) {
            packet.status = PacketStatus::Superseded;
        }
        if self.packets.get(&packet.handoff) == Some(&packet) {
            return Ok(false);
        }
        self.put_packet(&packet).map(|_| true)
    }

    fn packets(&self, filter: &PacketFilter) -> Vec<PacketRecord> {
        let mut found: Vec<&PacketRecord> = self.packets.values().filter(|p| filter.wants(p)).collect();
        found.sort_unstable_by_key(|p| std::cmp::Reverse((p.created_ms, p.handoff)));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        let listed = |packet: &PacketRecord| match filter.without_documents {
            true => PacketRecord {
                document: String::new(),
                ..packet.clone()
            },
            false => packet.clone(),
        };
        found.into_iter().map(listed).collect()
    }

    /// The record that an update makes, not written yet.
    fn changed(&self, update: &Update) -> Result<Written, StoreError> {
        let stored = self.conversations.get(&update.known.key).cloned();
        update
            .on(stored, 1)
            .ok_or_else(|| foreign("write a conversation"))
    }

    fn put_conversation(&mut self, written: &Written) {
        let record = written.record.clone();
        self.conversations.insert(record.key.clone(), record);
    }

    fn handoffs(&self, filter: &HandoffFilter) -> Vec<Handoff> {
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
    fn take_pairs(&mut self, principal: &str, ids: &[Uuid]) -> Vec<HiddenPair> {
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

    fn pairs_beside(&mut self, principal: &str, siblings: &[String]) -> Vec<HiddenPair> {
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

    fn put_pairs(&mut self, pairs: &[HiddenPair], update: &Update) -> Result<Written, StoreError> {
        let written = self.changed(update)?;
        let foreign_id = |pair: &HiddenPair| {
            let old = self.pairs.get(&pair.id);
            old.is_some_and(|old| old.value.principal != pair.principal)
        };
        if pairs.iter().any(foreign_id) {
            return Err(foreign("write a hidden pair"));
        }
        for pair in pairs {
            self.put_pair(pair);
        }
        self.put_conversation(&written);
        Ok(written)
    }

    /// Writes a pair. A pair that exists keeps its last use.
    fn put_pair(&mut self, pair: &HiddenPair) {
        let used_ms = self.unlink(pair.id).map_or(0, |old| old.at_ms);
        if let Some(key) = pair.place.key() {
            let known = self.beside.entry(pair.principal.clone()).or_default();
            known.entry(key.to_owned()).or_default().push(pair.id);
        }
        let touched = Touched {
            value: pair.clone(),
            at_ms: pair.created_ms.max(used_ms),
        };
        self.pairs.insert(pair.id, touched);
    }

    fn check_cut_point(&self, point: &CutPoint) -> Result<(), StoreError> {
        let old = self.cut_points.get(&point.handoff);
        match old.is_some_and(|old| old.value.principal != point.principal) {
            true => Err(foreign("write a cut point")),
            false => Ok(()),
        }
    }

    fn put_cut_point(&mut self, point: &CutPoint) -> Result<(), StoreError> {
        self.check_cut_point(point)?;
        let old = self.cut_points.get(&point.handoff);
        let touched = Touched {
            value: point.clone(),
            at_ms: old.map_or(0, |old| old.at_ms).max(point.created_ms),
        };
        self.cut_points.insert(point.handoff, touched);
        Ok(())
    }

    /// In the order of `ids`; touches them like pairs.
    fn take_cut_points(&mut self, principal: &str, ids: &[HandoffId]) -> Vec<CutPoint> {
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

    fn cut_points_at(&mut self, principal: &str, digests: &[String]) -> Vec<CutPoint> {
        let wanted: HashSet<Compared<'_>> = digests.iter().map(|digest| Compared(digest)).collect();
        let known = self.cut_points.values().map(|point| &point.value);
        let mut ids: Vec<HandoffId> = known
            .filter(|point| {
                point.principal == principal && wanted.contains(&Compared(&point.position.digest))
            })
            .map(|point| point.handoff)
            .collect();
        ids.sort_unstable();
        self.take_cut_points(principal, &ids)
    }

    fn put_insertion(&mut self, insertion: &Insertion, update: &Update) -> Result<Written, StoreError> {
        let written = self.changed(update)?;
        let old = self.insertions.get(&insertion.id);
        if old.is_some_and(|old| old.value.principal != insertion.principal) {
            return Err(foreign("write an insertion"));
        }
        let touched = Touched {
            value: insertion.clone(),
            at_ms: old.map_or(0, |old| old.at_ms).max(insertion.created_ms),
        };
        self.insertions.insert(insertion.id, touched);
        self.put_conversation(&written);
        Ok(written)
    }

    /// In the order of `ids`; touches them like pairs.
    fn take_insertions(&mut self, principal: &str, ids: &[Uuid]) -> Vec<Insertion> {
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

    fn insertions_at(&mut self, principal: &str, places: &[String]) -> Vec<Insertion> {
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
    fn unlink(&mut self, id: Uuid) -> Option<Touched<HiddenPair>> {
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

    fn sweep(&mut self, retention: &Retention) -> u64 {
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
        let stale = |pair: &Touched<HiddenPair>| {
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

    fn records(&self, kind: RecordKind) -> Vec<StoredRecord> {
        match kind {
            RecordKind::Handoff => {
                let all = self.handoffs.values();
                all.map(|record| StoredRecord::Handoff(Box::new(record.clone())))
                    .collect()
            }
            RecordKind::Pair => {
                let of = |pair: &Touched<HiddenPair>| StoredRecord::Pair {
                    record: Box::new(pair.value.clone()),
                    used_ms: pair.at_ms,
                };
                self.pairs.values().map(of).collect()
            }
            RecordKind::CutPoint => {
                let of = |point: &Touched<CutPoint>| StoredRecord::CutPoint {
                    record: point.value.clone(),
                    used_ms: point.at_ms,
                };
                self.cut_points.values().map(of).collect()
            }
            RecordKind::Insertion => {
                let of = |insertion: &Touched<Insertion>| StoredRecord::Insertion {
                    record: insertion.value.clone(),
                    used_ms: insertion.at_ms,
                };
                self.insertions.values().map(of).collect()
            }
            RecordKind::ResponseId => {
                let of = |(key, upstream): (&(String, String), &Touched<String>)| StoredRecord::ResponseId {
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
                all.map(|record| StoredRecord::Conversation(record.clone()))
                    .collect()
            }
            RecordKind::Packet => {
                let all = self.packets.values();
                all.map(|record| StoredRecord::Packet(Box::new(record.clone())))
                    .collect()
            }
        }
    }

    fn import(&mut self, record: &StoredRecord) -> Result<bool, StoreError> {
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
                self.insertions.insert(record.id, Touched { value, at_ms });
            }
            StoredRecord::ResponseId { record, used_ms } => {
                let key = (record.principal.clone(), record.shown.clone());
                let (value, at_ms) = (record.upstream.clone(), *used_ms);
                self.response_ids.insert(key, Touched { value, at_ms });
            }
            StoredRecord::Conversation(record) => {
                self.conversations.insert(record.key.clone(), record.clone());
            }
            StoredRecord::Packet(packet) => return self.import_packet(packet),
        }
        Ok(true)
    }

    /// What is stored under the id of a record.
    fn stored(&self, record: &StoredRecord) -> Option<StoredRecord> {
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
                StoredRecord::Conversation(self.conversations.get(&record.key)?.clone())
            }
            StoredRecord::Packet(packet) => {
                StoredRecord::Packet(Box::new(self.packets.get(&packet.handoff)?.clone()))
            }
        })
    }

    fn has(&self, record: &StoredRecord) -> bool {
        self.stored(record).is_some()
    }
}

/// A digest whose comparisons are counted in tests.
#[derive(Eq, Hash)]
struct Compared<'a>(&'a str);

impl PartialEq for Compared<'_> {
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
    use crate::record::Position;

    thread_local! {
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn many_digests_and_cut_points_cost_as_many_comparisons() {
        for n in [100, 1_000, 10_000] {
            let mut inner = Inner::default();
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
