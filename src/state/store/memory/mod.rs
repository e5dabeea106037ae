//! The store in memory, lost at exit: for tests, demos, and setups that write nothing to disk.

mod bulk;
mod inner;

use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use self::inner::{MemoryRecords, Timestamped};
use super::records::{RecordKind, RecordPage, Retention, StoredRecord};
use super::{DocumentFilter, HandoffFilter, Store, StoreError, StoreFuture, now_ms};
use baton_core::record::{
    Conversation, CutPoint, DocumentRecord, Handoff, HandoffId, HandoffStatus, HiddenPair, Insertion,
    Principal, Update, UpdateOutcome,
};

/// All records in maps under one lock, which is never locked across an await.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<MemoryRecords>,
    shared: bool,
}

impl MemoryStore {
    /// A store that several proxies of this process use at the same time.
    pub fn shared() -> Self {
        Self {
            shared: true,
            ..Self::default()
        }
    }

    fn inner(&self) -> MutexGuard<'_, MemoryRecords> {
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
    ) -> StoreFuture<'a, UpdateOutcome> {
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

    fn put_pairs<'a>(
        &'a self,
        pairs: &'a [HiddenPair],
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
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

    fn put_insertion<'a>(
        &'a self,
        insertion: &'a Insertion,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
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

    fn change<'a>(&'a self, update: &'a Update) -> StoreFuture<'a, UpdateOutcome> {
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
        let id = Timestamped {
            value: upstream.to_owned(),
            at_ms: now_ms(),
        };
        let key = (principal.to_owned(), shown.to_owned());
        self.inner().response_ids.insert(key, id);
        done(Ok(()))
    }

    fn put_document<'a>(&'a self, document: &'a DocumentRecord) -> StoreFuture<'a, Vec<HandoffId>> {
        done(self.inner().put_document(document))
    }

    fn documents<'a>(&'a self, filter: &'a DocumentFilter) -> StoreFuture<'a, Vec<DocumentRecord>> {
        done(Ok(self.inner().documents(filter)))
    }

    fn set_document_status<'a>(
        &'a self,
        principal: &'a str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreFuture<'a, Option<Vec<HandoffId>>> {
        let mut inner = self.inner();
        let found = inner
            .documents
            .get(&id)
            .filter(|p| p.principal == principal)
            .cloned();
        let Some(document) = found else {
            return done(Ok(None));
        };
        done(
            inner
                .put_document(&DocumentRecord { status, ..document })
                .map(Some),
        )
    }

    fn archive_documents(&self, before_ms: u64) -> StoreFuture<'_, Vec<(Principal, HandoffId)>> {
        let mut inner = self.inner();
        let old = inner.documents.values_mut().filter(|document| {
            document.status == HandoffStatus::Superseded && document.created_ms < before_ms
        });
        let archived = old.map(|document| {
            document.status = HandoffStatus::Archived;
            (document.principal.clone(), document.handoff)
        });
        done(Ok(archived.collect()))
    }

    fn sweep<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, u64> {
        done(Ok(self.inner().sweep(retention)))
    }

    fn page<'a>(&'a self, kind: RecordKind, _: &'a str) -> StoreFuture<'a, RecordPage> {
        let records = self.inner().records(kind);
        done(Ok(RecordPage {
            records,
            ..RecordPage::default()
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
