//! The store in a server that several proxies share: Redis or Valkey.
//!
//! All keys have one prefix, which is in one slot of a cluster: each write of several records is one script, and
//! atomic. The record of a conversation is written over the version that the writer knows, or the change is made again
//! on the newer one. Reads and writes have connections of their own: a write may wait for a replica or for the server's
//! file, and what is read does not queue after it. Nothing here ends by itself in the server; [`Store::sweep`] deletes.

mod answers;
mod bulk;
mod dial;
mod documents;
mod kinds;
mod link;
mod scripts;
mod settings;
mod shared;

#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../../../../tests/fuzz/checks/resp.rs"]
pub mod fuzzed;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use redis::Pipeline;

use self::answers::{from_json, handoff};
use self::dial::Dialer;
use self::kinds::{ARCHIVED, CONVERSATION, HANDOFF, HEAD, RESPONSE_ID, RedisRecord};
use self::link::{Durable, Link};
use self::scripts::RedisScript;
use self::shared::{RedisCluster, redis_records};
use super::records::{
    Lookup, PlacedKind, PlacedRecord, RecordKind, RecordPage, ResponseId, Retention, StoredRecord,
};
use super::{DocumentFilter, HandoffFilter, Store, StoreError, StoreResult};
use crate::config::StoreConfig;
use baton_core::record::{
    Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal, Update, UpdateOutcome,
};

/// Connections for writes: one may wait for a replica, and what is written meanwhile does not queue after it.
const WRITERS: usize = 4;

/// The Redis store.
pub struct RedisStore {
    shared: Arc<RedisCluster>,
}

impl RedisStore {
    /// The store as the config describes it. Connects with the first call.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub fn of(settings: &StoreConfig) -> StoreResult<Self> {
        let address = settings.address.clone();
        let address = address.ok_or_else(|| StoreError::new("store.url is missing"))?;
        // Braces: a cluster places keys by what is in them.
        let prefix = format!("{{{}}}:", settings.prefix);
        let slot = format!("{prefix}schema");
        let (durability, time) = (settings.durability, settings.timeout);
        let dial = Dialer::new(address, durability, slot.clone(), settings.ca_file.as_deref());
        let dial = Arc::new(dial.map_err(StoreError::new)?);
        let link = || Link::new(Arc::clone(&dial), time);
        Ok(Self {
            shared: Arc::new(RedisCluster {
                prefix,
                slot,
                durability,
                time,
                reader: link(),
                writers: (0..WRITERS).map(|_| link()).collect(),
                next_writer: AtomicUsize::new(0),
            }),
        })
    }
}

#[async_trait]
impl Store for RedisStore {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn shared(&self) -> bool {
        true
    }

    async fn handoff(&self, principal: &str, id: HandoffId) -> StoreResult<Option<Handoff>> {
        let (what, fields) = ("read a handoff", ["r", ARCHIVED, HEAD]);
        let found = self
            .shared
            .records(what, HANDOFF, principal, fields, [id.to_string()])
            .await?;
        let mut found = found.into_iter();
        let read = found
            .next()
            .map(|(_, (_, [record, archived, head]))| handoff([record, archived], head));
        read.transpose()
    }

    async fn handoffs(&self, filter: &HandoffFilter) -> StoreResult<Vec<Handoff>> {
        self.shared.handoffs(filter).await
    }

    async fn archive(&self, principal: &str, id: HandoffId, archived: bool) -> StoreResult<bool> {
        let key = self.shared.key(HANDOFF, &id.to_string());
        let args = [&*key, principal, ARCHIVED, if archived { "1" } else { "0" }];
        let what = "archive a handoff";
        self.shared.run(what, RedisScript::Set, args, Durable::Yes).await
    }

    async fn find(
        &self,
        kind: PlacedKind,
        principal: &str,
        by: Lookup<'_>,
    ) -> StoreResult<Vec<PlacedRecord>> {
        self.shared.placed(kind, principal, by).await
    }

    async fn conversation(&self, key: &str) -> StoreResult<Option<Conversation>> {
        let mut pipe = Pipeline::new();
        pipe.cmd("HGET").arg(self.shared.key(CONVERSATION, key)).arg("r");
        let record: Option<String> = self.shared.query("read a conversation", pipe).await?;
        record.map(|record| from_json(&record)).transpose()
    }

    async fn put(&self, action: &'static str, records: Vec<StoredRecord>) -> StoreResult<()> {
        let records = redis_records(&records)?;
        self.shared.write(action, records, Durable::Yes).await.map(drop)
    }

    async fn put_with(
        &self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &Update,
    ) -> StoreResult<UpdateOutcome> {
        self.shared.update(action, &records, update).await
    }

    async fn response_id(&self, principal: &str, shown: &str) -> StoreResult<Option<String>> {
        let (what, id) = ("read a response id", kinds::response(principal, shown));
        let found = self
            .shared
            .records(what, RESPONSE_ID, principal, ["r"], [id])
            .await?;
        let record = found
            .first()
            .map(|(_, (_, [record]))| from_json::<ResponseId>(record));
        Ok(record.transpose()?.map(|record| record.upstream))
    }

    async fn put_document(&self, document: &DocumentRecord) -> StoreResult<Vec<HandoffId>> {
        self.shared.put_document(document).await
    }

    async fn documents(&self, filter: &DocumentFilter) -> StoreResult<Vec<DocumentRecord>> {
        self.shared.documents(filter).await
    }

    async fn set_document_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreResult<Option<Vec<HandoffId>>> {
        self.shared.set_document_status(principal, id, status).await
    }

    async fn archive_documents(&self, before_ms: u64) -> StoreResult<Vec<(Principal, HandoffId)>> {
        self.shared.archive_documents(before_ms).await
    }

    async fn sweep(&self, retention: &Retention) -> StoreResult<u64> {
        // Their records are deleted after them.
        let kinds = [
            (CONVERSATION, Some(retention.conversations)),
            (PlacedKind::Pair.into(), Some(retention.pairs)),
            (PlacedKind::CutPoint.into(), Some(retention.places)),
            (PlacedKind::Insertion.into(), Some(retention.places)),
            (RESPONSE_ID, Some(retention.response_ids)),
            (HANDOFF, retention.handoffs),
        ];
        let mut gone = 0;
        for (kind, before_ms) in kinds {
            if let Some(before_ms) = before_ms {
                gone += self.shared.sweep_kind(kind, before_ms).await?;
            }
        }
        Ok(gone)
    }

    async fn page(&self, kind: RecordKind, after: &str) -> StoreResult<RecordPage> {
        self.shared.page(kind, after).await
    }

    async fn import(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        self.shared.import(records).await
    }

    async fn has(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        let stored = self.shared.stored(records).await?;
        Ok(stored.iter().flatten().count() as u64)
    }

    async fn ping(&self) -> StoreResult<()> {
        let mut pipe = Pipeline::new();
        pipe.cmd("EXISTS").arg(&self.shared.slot);
        self.shared.all("ask the store", pipe).await.map(drop)
    }

    async fn probe(&self) -> StoreResult<()> {
        let records = vec![RedisRecord::probe()];
        self.shared
            .write("try to write", records, Durable::Yes)
            .await
            .map(drop)
    }

    async fn settings_problem(&self) -> StoreResult<Option<String>> {
        let line = self.shared.writer().line().await?;
        Ok(line.server.fit(self.shared.durability).err())
    }
}
